"""Where the tables and keys of a TOML text are: offsets, which ``tomllib`` does not give.

A locator only: values are read by ``tomllib``, and who edits at an offset found here reads the
result back.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import NamedTuple

# https://toml.io/en/v1.0.0: a multi-line string may end in up to five quotes.
_TOKEN = re.compile(
    r'''(?P<string>"""(?:\\.|[^\\])*?"{3,5}|\'{3}.*?\'{3,5}|"(?:\\.|[^"\\\r\n])*"|'[^'\r\n]*')'''
    r"|(?P<comment>\#[^\r\n]*)|(?P<newline>\r\n|\n|\r)|(?P<space>[ \t]+)"
    r"|(?P<open>[\[{])|(?P<close>[\]}])|(?P<comma>,)|(?P<equals>=)"
    r"|(?P<word>[^\s\"'#\[\]{},=]+)|(?P<other>.)",
    re.DOTALL,
)
LAYOUT = frozenset({"comment", "newline", "space"})


class Statement(NamedTuple):
    """A table header or a key with its value.

    ``path`` is the full path from the document's top, ``table`` the path of the header it stands
    under (for a header: its own). ``start``, ``value`` and ``end`` are offsets: of the first
    character, of the value's first, and after the last (a header's ``value`` is its ``end``).
    """

    path: tuple[str, ...]
    table: tuple[str, ...]
    is_header: bool
    start: int
    value: int
    end: int


class Token(NamedTuple):
    """A token: its kind, the offsets of its first character and after its last."""

    kind: str
    start: int
    end: int


def tokens(text: str, start: int = 0) -> Iterator[Token]:
    """Yield the tokens of a TOML text from ``start`` on, which must not be inside one."""
    for match in _TOKEN.finditer(text, start):
        yield Token(str(match.lastgroup), match.start(), match.end())


def statements(text: str) -> Iterator[Statement]:
    """Yield the headers and keys of a valid TOML text in their order."""
    table: tuple[str, ...] = ()
    for line in _logical_lines(text):
        if (found := _statement(text, line, table)).is_header:
            table = found.table
        yield found


def find_statement(text: str, path: tuple[str, ...]) -> Statement | None:
    """Return the key or header of exactly this path, or the first statement below it."""
    found = [each for each in statements(text) if each.path[: len(path)] == path]
    exact = [each for each in found if each.path == path]
    return next(iter(exact or found), None)


def line_of(text: str, offset: int) -> int:
    """Return the line of an offset, counted from 1."""
    return len(re.findall(r"\r\n|\n|\r", text[:offset])) + 1


def _logical_lines(text: str) -> Iterator[list[Token]]:
    """Yield the significant tokens of each statement: brackets hold lines together."""
    depth = 0
    line: list[Token] = []
    for token in tokens(text):
        if token.kind not in LAYOUT:
            depth += (token.kind == "open") - (token.kind == "close")
            line.append(token)
        elif token.kind == "newline" and depth == 0 and line:
            yield line
            line = []
    if line:
        yield line


def _statement(text: str, line: list[Token], table: tuple[str, ...]) -> Statement:
    start, end = line[0].start, line[-1].end
    equals = next((place for place, token in enumerate(line) if token.kind == "equals"), None)
    if equals is None:
        header = _names(text[start:end])
        return Statement(header, header, True, start, end, end)
    names = _names(text[start : line[equals].start] + "= 0")
    return Statement(table + names, table, False, start, line[equals + 1].start, end)


def _names(statement: str) -> tuple[str, ...]:
    """Return the keys of a header or of ``key = 0``, unquoted by ``tomllib`` itself."""
    names = []
    inside: object = tomllib.loads(statement)
    while inside:
        if isinstance(inside, list):
            inside = inside[0]  # [[an array of tables]]
        elif isinstance(inside, dict):
            ((name, inside),) = inside.items()
            names.append(name)
    return tuple(names)
