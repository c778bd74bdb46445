"""Adds marker lines to the pytest configuration in force, and disturbs no byte of it.

An edit is one insertion at a found offset, at times with a comma before it. Both texts are then
read as pytest reads them: all must be equal but for the markers, which must have grown by exactly
the new lines. What does not pass is not an edit.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from devicegen.errors import CannotEdit
from devicegen.facts.pytest_config import (
    BOM,
    INI_OPTIONS,
    PytestConfig,
    marker_name,
    parse_ini,
    parse_toml,
    registered_markers,
)
from devicegen.templates_folder import environment
from devicegen.toml_statements import LAYOUT, Statement, statements, tokens

FOUR_SPACES = "    "
BY_HAND = (
    "add them by hand, or pass --no-config-edit: pytest_configure registers the markers anyway"
)


class _Splice(NamedTuple):
    """Text to insert at an offset; ``comma_at`` is the offset of a comma that it needs before."""

    offset: int
    inserted: str
    comma_at: int | None = None

    def apply(self, text: str) -> str:
        new = text[: self.offset] + self.inserted + text[self.offset :]
        if self.comma_at is None:
            return new
        return new[: self.comma_at] + "," + new[self.comma_at :]


def missing_markers(config: PytestConfig, lines: Sequence[str]) -> tuple[str, ...]:
    """Return those of ``lines`` whose marker the configuration does not register yet.

    A marker is registered when its name is, whatever is said about it: pytest goes by the name
    (https://docs.pytest.org/en/stable/how-to/mark.html#registering-marks).
    """
    return _unregistered(config.markers, lines)


def contains_markers(text: str, config: PytestConfig, lines: Sequence[str]) -> bool:
    """Tell whether ``text``, read as the file of ``config`` is, registers the marker of each line.

    False too where pytest cannot read the text.
    """
    try:
        return not _unregistered(registered_markers(text, config), lines)
    except ValueError:
        return False


def add_markers(text: str, config: PytestConfig, lines: Sequence[str]) -> str:
    """Return ``text`` with those of ``lines`` added whose marker it does not register yet.

    Parameters: ``text`` is the file of ``config`` with its own line endings (read with
    ``newline=""``); a byte order mark may be there or not. ``lines`` are as pytest takes them,
    ``name(arguments): description``. A table or key that is missing is written too.

    Raises ``CannotEdit`` where no file of the repository is in force, pytest cannot read it, or no
    insertion does exactly this and nothing else.
    """
    if config.path is None or config.problem is not None:
        reason = config.problem or "no pytest configuration is in force"
        raise CannotEdit(f"{reason}; the marker lines were not added: {BY_HAND}")
    try:
        wanted = _unregistered(registered_markers(text, config), lines)
    except ValueError as error:
        raise _cannot_edit(config, str(error)) from error
    if not wanted:
        return text
    splices = _toml_splices if config.syntax == "toml" else _ini_splices
    for splice in splices(text, config, wanted):
        new = splice.apply(text)
        if _adds_exactly(text, new, config, wanted):
            return new
    raise _cannot_edit(config, "no place for the marker lines that leaves all else as it is")


def _unregistered(registered: Sequence[str], lines: Sequence[str]) -> tuple[str, ...]:
    known = {marker_name(line) for line in registered}
    by_name = {marker_name(line): line for line in lines}
    return tuple(line for name, line in by_name.items() if name not in known)


def _cannot_edit(config: PytestConfig, reason: str) -> CannotEdit:
    return CannotEdit(f"{config.path}:{config.line}: {reason}; {BY_HAND}")


# Reading back


def _adds_exactly(old: str, new: str, config: PytestConfig, lines: Sequence[str]) -> bool:
    try:
        markers = (*registered_markers(old, config), *lines)
    except ValueError:  # not TOML, not INI, or not what pytest takes
        return False
    return changes_markers_only(old, new, config, markers)


def changes_markers_only(old: str, new: str, config: PytestConfig, markers: Sequence[str]) -> bool:
    """Tell whether ``new`` registers ``markers``, and says all else that ``old`` says."""
    without_markers = _toml_without_markers if config.syntax == "toml" else _ini_without_markers
    try:
        return registered_markers(new, config) == tuple(markers) and (
            without_markers(old, config) == without_markers(new, config)
        )
    except ValueError:
        return False


def _toml_without_markers(text: str, config: PytestConfig) -> str:
    """Return all else that the document says, in its order; as text, since nan equals nothing."""
    document = copy.deepcopy(parse_toml(text))
    table = document
    for name in _table_path(config):
        table = table.setdefault(name, {})  # type: ignore[assignment]
    if isinstance(table, dict):
        table.pop("markers", None)
    return repr(document)


def _ini_without_markers(text: str, config: PytestConfig) -> str:
    sections = {name: dict(values) for name, values in parse_ini(text).sections.items()}
    sections.setdefault(config.table or _new_section(config), {}).pop("markers", None)
    return repr(sections)


def _table_path(config: PytestConfig) -> tuple[str, ...]:
    new_table = INI_OPTIONS if config.path == "pyproject.toml" else "pytest"
    return tuple((config.table or new_table).split("."))


# TOML


def _toml_splices(text: str, config: PytestConfig, lines: Sequence[str]) -> Iterator[_Splice]:
    """Yield the places where the lines may go, the best first."""
    path = _table_path(config)
    found = list(statements(text))
    if key := next((each for each in found if each.path == (*path, "markers")), None):
        yield from _into_value(text, key.value, key, lines)
        return
    body = [each for each in found if _is_in_body(each, path)]
    header = next((each for each in found if each.is_header and each.path == path), None)
    for after in [*body[-1:], header]:
        if after is not None:
            yield _new_key(text, after, path, body, lines)
    for inline in found:
        if not inline.is_header and inline.path == path[: len(inline.path)]:
            value = text[inline.value : inline.end]
            for match in re.finditer(r"\bmarkers[\"']?[ \t]*=[ \t]*(?=\[)", value):
                yield from _into_value(text, inline.value + match.end(), inline, lines)
    if config.table is None:
        yield _new_table(text, path, lines)


def _is_in_body(statement: Statement, path: tuple[str, ...]) -> bool:
    """Tell whether a key is one of the table's, also by a dotted name under a table above it."""
    return (
        not statement.is_header
        and statement.path[: len(path)] == path
        and len(statement.table) <= len(path) < len(statement.path)
    )


def _new_key(
    text: str,
    after: Statement,
    path: tuple[str, ...],
    body: Sequence[Statement],
    lines: Sequence[str],
) -> _Splice:
    indent = "" if after.is_header else _indent_of(text, after.start)
    item_indent = _array_indent(text, body) or indent + FOUR_SPACES
    rendered = _render_toml(
        lines,
        key=".".join((*path[len(after.table) :], "markers")),
        key_indent=indent,
        equals="=" if _has_bare_equals(text, after) else " = ",
        indent=item_indent,
    )
    return _whole_lines(text, _line_end(text, after.end), rendered)


def _new_table(text: str, path: tuple[str, ...], lines: Sequence[str]) -> _Splice:
    rendered = _render_toml(lines, header=".".join(path), key="markers")
    return _whole_lines(text, len(text), _set_apart(text, rendered))


def _into_value(text: str, value: int, key: Statement, lines: Sequence[str]) -> Iterator[_Splice]:
    """Yield the splice into the array or the string that begins at ``value``."""
    if text[value] == "[":
        yield _into_array(text, value, key, lines)
    elif text.startswith(('"""', "'''"), value):
        yield _into_multiline_string(text, key, lines)
    elif text[value] == '"':
        yield _Splice(key.end - 1, "".join("\\n" + _escaped(line) for line in lines))


class _Array(NamedTuple):
    """Offsets in an array: after its bracket, after the last item, its comma, and of the end."""

    inside: int
    item: int | None
    comma: int | None
    end: int
    quote: str

    @property
    def last(self) -> int:
        return self.comma or self.item or self.inside


def _array(text: str, bracket: int) -> _Array:
    depth = 0
    item = comma = None
    quotes = set()
    for token in tokens(text, bracket):
        depth += (token.kind == "open") - (token.kind == "close")
        if depth == 0:
            break
        if token.kind in LAYOUT or token.start == bracket:
            continue
        if token.kind == "comma" and depth == 1:
            comma = token.end
        else:
            item, comma = token.end, None
            quotes.add(text[token.start])
    return _Array(bracket + 1, item, comma, token.start, "'" if quotes == {"'"} else '"')


def _into_array(text: str, bracket: int, key: Statement, lines: Sequence[str]) -> _Splice:
    array = _array(text, bracket)
    tail = text[array.last : array.end]
    indent = _indent_of(text, key.start)
    if array.item is None and tail == "":
        rendered = _render_toml(lines, indent=indent + FOUR_SPACES)
        newline = _newline_at(text, array.end)
        return _Splice(array.end, newline + rendered.replace("\n", newline) + indent)
    if not re.search(r"[\r\n]", text[array.inside : array.end]):
        return _into_one_line(array, lines)
    comma_at = array.item if array.comma is None else None
    rendered = _render_toml(
        lines,
        indent=_item_indent(text, array, key),
        quote=array.quote,
        bare_end=comma_at is not None,
    )
    line_start = _line_start(text, array.end)
    if line_start > array.last and not text[line_start : array.end].strip():
        return _Splice(line_start, rendered.replace("\n", _newline_at(text, line_start)), comma_at)
    newline = _newline_at(text, array.end)
    block = "\n" + rendered.rstrip("\n")
    return _Splice(array.last, block.replace("\n", newline), comma_at)


def _into_one_line(array: _Array, lines: Sequence[str]) -> _Splice:
    rendered = _render_toml(lines, on_one_line=True, quote=array.quote).rstrip("\n")
    if array.item is None:
        return _Splice(array.last, f" {rendered}")
    if array.comma is None:
        return _Splice(array.last, f", {rendered}")
    return _Splice(array.last, f" {rendered},")


def _item_indent(text: str, array: _Array, key: Statement) -> str:
    """Return the indentation of the last item's line, where that is not the key's own line."""
    if array.item is not None and _line_start(text, array.item) > key.start:
        return _indent_of(text, array.item)
    return _indent_of(text, key.start) + FOUR_SPACES


def _into_multiline_string(text: str, key: Statement, lines: Sequence[str]) -> _Splice:
    r"""Add lines to ``\"\"\"``, before the closing quotes or before the line they are alone on."""
    closing = key.end - 3
    content = text[key.value + 3 : closing]
    said = [line for line in content.splitlines()[1:] if line.strip()]
    indent = re.match(r"[ \t]*", said[-1] if said else "")[0]  # type: ignore[index]
    written = lines if text[key.value] == "'" else [_escaped(line) for line in lines]
    newline = _newline_at(text, closing)
    start = _line_start(text, closing)
    if start > key.value and not text[start:closing].strip():
        return _Splice(start, "".join(indent + line + newline for line in written))
    return _Splice(closing, "".join(newline + indent + line for line in written))


def _escaped(line: str) -> str:
    return _render_toml([line], on_one_line=True).rstrip("\n")[1:-1]


def _array_indent(text: str, body: Sequence[Statement]) -> str | None:
    """Return how the table's own arrays of several lines indent their items."""
    for statement in body:
        value = text[statement.value : statement.end]
        if match := re.match(r"\[[ \t]*(?:\r\n|\n|\r)([ \t]+)\S", value):
            return match[1]
    return None


def _has_bare_equals(text: str, statement: Statement) -> bool:
    return text[statement.start : statement.value].endswith("=")


def _render_toml(
    lines: Sequence[str],
    *,
    header: str = "",
    key: str = "",
    key_indent: str = "",
    equals: str = " = ",
    indent: str = FOUR_SPACES,
    quote: str = '"',
    bare_end: bool = False,
    on_one_line: bool = False,
) -> str:
    return (
        environment()
        .get_template("markers.toml.j2")
        .render(
            lines=lines,
            header=header,
            key=key,
            key_indent=key_indent,
            equals=equals,
            indent=indent,
            quote=quote,
            bare_end=bare_end,
            on_one_line=on_one_line,
        )
    )


# INI


def _ini_splices(text: str, config: PytestConfig, lines: Sequence[str]) -> Iterator[_Splice]:
    """Yield the place after the last line of the markers, of the section, or of the file."""
    if config.table is None:
        rendered = _render_ini(lines, header=_new_section(config), new_key=True)
        yield _whole_lines(text, len(text), _set_apart(text, rendered))
        return
    parsed = parse_ini(text)
    physical = text.splitlines(keepends=True)
    key_line = parsed.lineof(config.table, "markers")
    section = _last_line(physical, parsed.lineof(config.table) or 1, _is_in_section)
    style = _ini_indent(physical[(parsed.lineof(config.table) or 1) : section])
    if key_line is None:
        rendered = _render_ini(lines, indent=style or FOUR_SPACES, new_key=True)
        last = section
    else:
        last = _last_line(physical, key_line, _is_continuation)
        own = _ini_indent(physical[last - 1 : last])
        rendered = _render_ini(lines, indent=own or style or FOUR_SPACES)
    yield _whole_lines(text, len("".join(physical[:last])), rendered)


def _last_line(physical: Sequence[str], first: int, belongs: Callable[[str], bool]) -> int:
    """Return the number of the last line with a value in a row of lines that belong together.

    Blank lines and comments end nothing (``iniconfig`` skips them) and are not the last.
    """
    last = first
    for number, line in enumerate(physical[first:], start=first + 1):
        if not line.strip() or line.lstrip()[0] in "#;":
            continue
        if not belongs(line):
            break
        last = number
    return last


def _is_in_section(line: str) -> bool:
    return not line.startswith("[")


def _is_continuation(line: str) -> bool:
    return line[0].isspace()


def _ini_indent(physical: Sequence[str]) -> str:
    """Return the indentation of the last continuation line among these, "" where there is none."""
    for line in reversed(physical):
        if line.strip() and line[0] in " \t" and line.lstrip()[0] not in "#;":
            return line[: len(line) - len(line.lstrip())]
    return ""


def _new_section(config: PytestConfig) -> str:
    return "tool:pytest" if config.path == "setup.cfg" else "pytest"


def _render_ini(
    lines: Sequence[str], *, header: str = "", new_key: bool = False, indent: str = FOUR_SPACES
) -> str:
    return (
        environment()
        .get_template("markers.ini.j2")
        .render(lines=lines, header=header, new_key=new_key, indent=indent)
    )


# Lines of a text, whatever ends them


def _whole_lines(text: str, offset: int, rendered: str) -> _Splice:
    """Insert whole lines at a line's start, or after a last line that nothing ends."""
    newline = _newline_at(text, offset)
    before = text[:offset].removeprefix(BOM)
    if before and before[-1] not in "\r\n":
        rendered = "\n" + rendered.removesuffix("\n")
    return _Splice(offset, rendered.replace("\n", newline))


def _set_apart(text: str, rendered: str) -> str:
    """Put a blank line before a new table, unless nothing or a blank line comes before it."""
    above = text.removeprefix(BOM).splitlines()[-1:]
    return "\n" + rendered if above and above[0].strip() else rendered


def _newline_at(text: str, offset: int) -> str:
    r"""Return what ends the line before ``offset``, else the first line after it, else ``\n``."""
    before = re.findall(r"\r\n|\n|\r", text[:offset])
    after = re.search(r"\r\n|\n|\r", text[offset:])
    return before[-1] if before else after[0] if after else "\n"


def _line_start(text: str, offset: int) -> int:
    return max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1


def _line_end(text: str, offset: int) -> int:
    """Return the offset after the line's end."""
    newline = re.compile(r"\r\n|\n|\r").search(text, offset)
    return newline.end() if newline else len(text)


def _indent_of(text: str, offset: int) -> str:
    match = re.compile(r"[ \t]*").match(text, _line_start(text, offset))
    return match[0] if match else ""
