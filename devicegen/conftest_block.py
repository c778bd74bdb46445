"""The harness as one marked block in a conftest that the project owns.

Module level is shared there, so in the block each hook has a name of its own, which
``hookimpl(specname=...)`` maps to pytest's, and names that the project uses for something else are
renamed. https://pluggy.readthedocs.io/en/stable/#hookspec-name-matching
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from devicegen.errors import DevicegenError
from devicegen.facts.conftests import BLOCK_BEGIN, BLOCK_END, bound_names, decode_python, parse

BEGIN = "# >>> devicegen: renewed by `devicegen upgrade`; keep this line and the last one >>>"
END = "# <<< devicegen <<<"
FUTURE = "from __future__ import annotations\n"
PREFIX = "devices"
LINE_LENGTH = 88
# What a signature may name as it stands, on the oldest Python and wherever it is defined.
PLAIN = frozenset({"None", "Any", "bool", "int", "str", "float", "type", "object"})
# The nodes that have statements or annotations in them.
BRANCHES = (ast.stmt, ast.excepthandler, ast.match_case, ast.arguments, ast.arg)


def find_block(data: bytes) -> tuple[int, int] | None:
    """Return the offsets of the block in a file, with the end of its last line; None for none.

    Raises ``DevicegenError`` where a line that begins or ends it is missing or there twice.
    """
    text = data.decode("latin-1")  # a character a byte; the lines are ASCII
    begins, ends = list(BLOCK_BEGIN.finditer(text)), list(BLOCK_END.finditer(text))
    if not begins and not ends:
        return None
    if len(begins) != 1 or len(ends) != 1 or begins[0].start() > ends[0].start():
        line = text.count("\n", 0, (begins or ends)[0].start()) + 1
        raise DevicegenError(
            f"line {line}: `# >>> devicegen` and `# <<< devicegen` must be there once, in this "
            "order; restore them, or take the block out and run `devicegen init`"
        )
    newline = re.compile(r"\r\n|\n|\r|$").search(text, ends[0].end())
    return begins[0].start(), newline.end() if newline else len(text)


def with_block(data: bytes, block: str) -> bytes:
    """Return a file with ``block`` in place of the one it has, or added at its end.

    No other byte changes; the block takes the line endings of the file, and its encoding. Raises
    ``DevicegenError`` where that has not every character.
    """
    found = find_block(data)
    if found is not None:
        start, end = found
        block = block.replace("\n", _newline(data[start:end]))
        return data[:start] + _encoded(block, data) + data[end:]
    newline = _newline(data)
    text = data.decode("latin-1")
    apart = ""
    if text.startswith("\xef\xbb\xbf") and len(text) == len("\xef\xbb\xbf"):
        apart = "\n"  # the line that begins the block is one of its own
    elif text:
        blank = len(re.findall(r"\r\n|\n|\r", text[len(text.rstrip("\r\n \t\f")) :]))
        apart = "\n" * max(0, 3 - blank)
    return data + _encoded((apart + block).replace("\n", newline), data)


def _encoded(text: str, data: bytes) -> bytes:
    """Encode a part of the file that holds ``data``."""
    encoding = decode_python(data)[1].removesuffix("-sig")
    try:
        return text.encode(encoding)
    except UnicodeEncodeError as error:
        character = text[error.start]
        raise DevicegenError(f"is {encoding}, which has no {character!r} of the block") from error


def block_text(data: bytes, place: tuple[int, int]) -> str:
    r"""Return the text of the block that is at ``place``, with ``\n`` line endings.

    Raises ``ValueError`` where the file is not in the encoding that it names.
    """
    text = data[slice(*place)].decode(decode_python(data)[1].removesuffix("-sig"))
    return text.replace("\r\n", "\n").replace("\r", "\n")


def with_marks_of(other: str, block: str) -> str:
    """Return ``block`` with the first and the last line of ``other``: they are never merged."""
    return "\n".join(
        [other.partition("\n")[0], between_marks(block) + other.rsplit("\n", 2)[1], ""]
    )


def is_block(text: str) -> bool:
    """Tell whether a text that devicegen wrote is a block, not a harness in a file of its own."""
    return BLOCK_BEGIN.match(text) is not None


def between_marks(block: str) -> str:
    """Return what stands in a block between its first and its last line."""
    start = block.index("\n") + 1 if "\n" in block else len(block)
    end = BLOCK_END.search(block, start)
    return block[start : end.start() if end else len(block)]


def _newline(data: bytes) -> str:
    r"""Return the last line ending of a file, ``\n`` where it has none."""
    found = re.findall(rb"\r\n|\n|\r", data)
    return found[-1].decode() if found else "\n"


def make_block(harness: str, owners_text: str) -> str:
    r"""Return the harness as a block for a conftest whose text is ``owners_text``.

    ``owners_text`` may hold an older block, which does not count. Line endings are ``\n``.
    """
    owner = parse(_without_block(owners_text))
    text = _own_hook_names(harness.replace(FUTURE + "\n", "", 1))
    module = ast.parse(text)
    nodes = list(_statements(module))
    renamed = _collisions(module, nodes, owner)
    if renamed:
        text = _rename(text, nodes, renamed)
        nodes = list(_statements(ast.parse(text)))
    if not _has_future_annotations(owner):
        text = _quote_annotations(text, nodes)
    text = re.sub(r"^((?:import|from) .*[^(\n])$", r"\1  # noqa: E402", text, flags=re.MULTILINE)
    return f"{BEGIN}\n{text.rstrip()}\n\n\n{END}\n"


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements and arguments below a node; expressions, most nodes, are left out."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, BRANCHES):
            yield child
            yield from _statements(child)


def _without_block(text: str) -> str:
    found = find_block(text.encode())
    if found is None:
        return text
    data = text.encode()
    return (data[: found[0]] + data[found[1] :]).decode()


# Names


class _Import(NamedTuple):
    """What an import binds a name to."""

    module: str
    name: str | None


def _imports(nodes: Iterable[ast.AST]) -> dict[str, set[_Import]]:
    found: dict[str, set[_Import]] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname or "." not in alias.name:
                    found.setdefault(alias.asname or alias.name, set()).add(
                        _Import(alias.name, None)
                    )
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                found.setdefault(alias.asname or alias.name, set()).add(
                    _Import("." * node.level + (node.module or ""), alias.name)
                )
    return found


def _collisions(
    harness: ast.Module, nodes: Iterable[ast.AST], owner: ast.Module
) -> dict[str, str]:
    """Return the names of the harness that the owner's text uses for something else, and ours.

    ``nodes`` are the statements of the harness.
    """
    theirs_all = list(ast.walk(owner))
    ours, theirs = _imports(nodes), _imports(theirs_all)
    bound = {each.name for each in bound_names(owner) if each.how != "import"}
    used = bound | {node.id for node in theirs_all if isinstance(node, ast.Name)}
    used |= {name for node in theirs_all if isinstance(node, ast.Global) for name in node.names}
    renamed = {}
    for name in dict.fromkeys(each.name for each in bound_names(harness)):
        is_same_import = name in ours and theirs.get(name, set()) <= ours[name]
        if is_same_import and name in theirs and name not in bound:
            continue
        if name in used or name in theirs:
            renamed[name] = _other_name(name, used | set(theirs))
    return renamed


def _other_name(name: str, taken: Iterable[str]) -> str:
    bare = name.lstrip("_")
    prefix = PREFIX.upper() if bare.isupper() else PREFIX.title() if bare[0].isupper() else PREFIX
    new = name[: len(name) - len(bare)] + (
        prefix + bare if bare[0].isupper() and not bare.isupper() else f"{prefix}_{bare}"
    )
    if name.startswith("pytest_"):  # a hook's, by which pytest knows that it is one
        new = f"{name}_"
    while new in taken:
        new = f"{new}_"
    return new


def _rename(text: str, nodes: Iterable[ast.AST], names: Mapping[str, str]) -> str:
    """Rename module-level names of ``text``, whose statements are given."""
    splices = list(_uses(text, nodes, names))
    for start, end, new in reversed(splices):
        text_before = text
        text = text_before[:start] + new + text_before[end:]
    return text


def _uses(
    text: str, nodes: Iterable[ast.AST], names: Mapping[str, str]
) -> Iterator[tuple[int, int, str]]:
    """Yield the offsets of each use of a name, and what goes there.

    A name after a dot is an attribute, and so is one that a class body binds; one before ``=`` in
    brackets is a keyword argument.
    """
    starts = _line_starts(text)
    members = set(_members(nodes))
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    depth = 0
    is_import = False
    for place, token in enumerate(tokens):
        depth += (
            (token.string in "([{") - (token.string in ")]}") if token.type == tokenize.OP else 0
        )
        start = starts[token.start[0] - 1] + token.start[1]
        end = starts[token.end[0] - 1] + token.end[1]
        before = tokens[place - 1].string if place else ""
        after = tokens[place + 1].string if place + 1 < len(tokens) else ""
        if token.type == tokenize.NAME and token.start[1] == 0:
            is_import = token.string in ("import", "from")
        if token.type == tokenize.STRING and re.match(r"[rR]?[fF]", token.string):
            yield from _uses_in_f_string(token.string, start, names)
        elif (
            token.type != tokenize.NAME
            or token.string not in names
            or before == "."
            or token.start in members
        ):
            continue
        elif is_import:
            if before in ("import", ",", "("):
                yield start, end, f"{token.string} as {names[token.string]}"
        elif not (depth and after == "=" and before in ("(", ",")):
            yield start, end, names[token.string]


def _members(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, int]]:
    """Yield line and column of each name that a class body binds: methods and fields."""
    for owner in nodes:
        for node in owner.body if isinstance(owner, ast.ClassDef) else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                word = "def " if isinstance(node, ast.FunctionDef) else "async def "
                yield node.lineno, node.col_offset + len(word)
            elif isinstance(node, ast.AnnAssign):
                yield node.target.lineno, node.target.col_offset
            elif isinstance(node, ast.Assign):
                yield from ((each.lineno, each.col_offset) for each in node.targets)


def _uses_in_f_string(
    literal: str, start: int, names: Mapping[str, str]
) -> Iterator[tuple[int, int, str]]:
    """Yield those in the fields of an f-string, which Python 3.11 has as one token."""
    words = "|".join(map(re.escape, names))
    for field in re.finditer(r"(?<!\{)\{(?!\{)[^{}]*", literal):
        for use in re.finditer(rf"(?<![\w.'\"])(?:{words})(?![\w'\"])", field[0]):
            offset = start + field.start()
            yield offset + use.start(), offset + use.end(), names[use[0]]


def _line_starts(text: str) -> list[int]:
    return [0, *(match.end() for match in re.finditer("\n", text))]


# Annotations


def _has_future_annotations(module: ast.Module) -> bool:
    return any(
        isinstance(node, ast.ImportFrom)
        and node.module == "__future__"
        and any(alias.name == "annotations" for alias in node.names)
        for node in module.body
    )


def _quote_annotations(text: str, nodes: Iterable[ast.AST]) -> str:
    """Quote what must not be evaluated: the owner's file may lack ``from __future__ ...``."""
    starts = _line_starts(text)
    found = []
    for node in nodes:
        annotation = getattr(node, "annotation", None) or getattr(node, "returns", None)
        if isinstance(annotation, ast.expr) and not _is_plain(annotation):
            start = starts[annotation.lineno - 1] + annotation.col_offset
            end = starts[(annotation.end_lineno or 0) - 1] + (annotation.end_col_offset or 0)
            found.append((start, end, annotation))
    for start, end, annotation in sorted(found, key=lambda each: each[0], reverse=True):
        written = text[start:end]
        source = ast.unparse(annotation) if "\n" in written or '"' in written else written
        text = f'{text[:start]}"{source}"{text[end:]}'
    return text


def _is_plain(annotation: ast.expr) -> bool:
    return (isinstance(annotation, ast.Name) and annotation.id in PLAIN) or isinstance(
        annotation, ast.Constant
    )


# Hooks


def _own_hook_names(text: str) -> str:
    """Give each hook a name of its own and say which one it implements."""
    return re.sub(
        r"^(?P<marked>@pytest\.hookimpl\((?P<options>[^)]*)\)(?P<comment>[^\n]*)\n)?"
        r"def pytest_(?P<hook>\w+)\(",
        _own_hook,
        text,
        flags=re.MULTILINE,
    )


def _own_hook(match: re.Match[str]) -> str:
    if "specname=" in (match["options"] or ""):
        return match[0]  # it has a name of its own already
    options = [f'specname="pytest_{match["hook"]}"']
    if match["options"]:
        options.append(" ".join(match["options"].split()).rstrip(","))
    line = f"@pytest.hookimpl({', '.join(options)})"
    if len(line) > LINE_LENGTH:
        line = f"@pytest.hookimpl(\n    {', '.join(options)}\n)"
    comment = (match["comment"] or "").strip()
    if comment and "\n" not in line and len(line) + 2 + len(comment) <= LINE_LENGTH:
        line += f"  {comment}"
    elif comment:
        line = f"{comment}\n{line}"
    return f"{line}\ndef pytest_{PREFIX}_{match['hook']}("
