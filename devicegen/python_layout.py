"""Takes a formatter's work back: gives unedited statements the layout that they had."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from devicegen.python_code import NOT_PYTHON, meaning_of, parsed

INDENT = "    "  # of what devicegen writes
_BLANKS = re.compile(r"[ \t\f]*")


class _Line(NamedTuple):
    """A logical line (https://docs.python.org/3/reference/lexical_analysis.html#line-structure).

    ``lines`` are its physical lines, those of comments and blank ones above it too; ``said`` is
    what it says, layout aside, and ``comments`` are its comments. ``fixed`` holds the indices of
    those lines that begin inside a string. ``indents`` maps the indentations in force to depths.
    """

    lines: tuple[str, ...]
    depth: int
    said: str
    comments: tuple[str, ...]
    imports: frozenset[str]
    fixed: frozenset[int]
    indents: tuple[str, ...]

    @property
    def key(self) -> tuple[int, str, tuple[str, ...]]:
        return self.depth, self.said, self.comments


def lines_of(text: str) -> list[str]:
    r"""Split after each ``\n``, as Python's own reader does, and nowhere else."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def laid_out_as(text: str, *examples: str) -> str:
    """Return ``text`` with each logical line laid out as in the first example that has it.

    A logical line counts as the same when it says the same at the same depth, with the same
    comments. The others keep their lines and get the indentation of their depth. Imports that
    stand together come in the order of the first example. Where a text is no Python, ``text``
    comes back as it is.
    """
    try:
        logical = _logical_lines(text)
        known = [_logical_lines(example) for example in examples]
    except NOT_PYTHON:
        return text
    ordered = _with_ordered_imports(logical, known[0])
    matcher = SequenceMatcher(
        None, [line.key for line in known[0]], [line.key for line in ordered], autojunk=False
    )
    aligned = {
        block.b + n: known[0][block.a + n]
        for block in matcher.get_matching_blocks()
        for n in range(block.size)
    }
    elsewhere = {line.key: line for example in reversed(known) for line in example}
    return "".join(
        piece
        for number, line in enumerate(ordered)
        for piece in _laid_out(line, aligned.get(number) or elsewhere.get(line.key))
    )


def top_level_statements(text: str) -> list[list[str]]:
    """Return the lines of each statement of the top level, comments above it included."""
    statements: list[list[str]] = []
    is_open = False
    for line in _logical_lines(text):
        if is_open or (line.depth and statements) or _continues(line.said):
            statements[-1] += line.lines
        else:
            statements.append(list(line.lines))
        is_open = line.said.startswith("@")
    return statements


def _continues(said: str) -> bool:
    return re.match(r"(elif|else|except|finally)\b", said) is not None


def _laid_out(line: _Line, example: _Line | None) -> Sequence[str]:
    if example is not None:
        return example.lines
    if line.indents == tuple(INDENT * n for n in range(len(line.indents))):
        return line.lines
    return [
        piece if number in line.fixed else _indented(piece, line)
        for number, piece in enumerate(line.lines)
    ]


def _indented(piece: str, line: _Line) -> str:
    """Change the part of a physical line's indentation that says how deep it is."""
    blanks = _BLANKS.match(piece)[0]  # type: ignore[index]
    for depth, indent in reversed(list(enumerate(line.indents))):
        if blanks.startswith(indent):
            return INDENT * depth + piece[len(indent) :]
    return piece


@lru_cache(maxsize=4)
def _logical_lines(text: str) -> tuple[_Line, ...]:
    """Return all logical lines; what follows the last is one more. Raises ``NOT_PYTHON``."""
    parsed(text)
    physical = lines_of(text)
    found = []
    first = 0
    indents = [""]
    tokens: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.INDENT:
            indents.append(token.string)
        elif token.type == tokenize.DEDENT:
            indents.pop()
        elif token.type == tokenize.NEWLINE:
            last = token.start[0]
            found.append(_line(physical[first:last], first, tokens, indents))
            first, tokens = last, []
        else:
            tokens.append(token)
    if first < len(physical):
        found.append(_line(physical[first:], first, tokens, indents))
    return tuple(found)


def _line(
    lines: list[str], first: int, tokens: Sequence[tokenize.TokenInfo], indents: Sequence[str]
) -> _Line:
    comments = sorted(
        token.string.lstrip("#").strip() for token in tokens if token.type == tokenize.COMMENT
    )
    code = [
        token
        for token in tokens
        if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.ENDMARKER)
    ]
    fixed = {
        row - 1 - first
        for token in code
        for row in range(token.start[0] + 1, token.end[0] + 1)
        if token.string and token.type != tokenize.OP
    }
    source = ""
    if code:
        (row, column), (end_row, end_column) = code[0].start, code[-1].end
        pieces = lines[row - 1 - first : end_row - first]
        pieces[-1] = pieces[-1][:end_column]
        source = (
            "".join([pieces[0][column:], *pieces[1:]]) if len(pieces) > 1 else (pieces[0][column:])
        )
    said, imports = meaning_of(source)
    return _Line(
        tuple(lines),
        len(indents) - 1,
        said,
        tuple(comments),
        imports,
        frozenset(fixed),
        tuple(indents),
    )


# Imports that stand together, which a sorter puts in another order and splits or joins


def _with_ordered_imports(lines: Sequence[_Line], example: Sequence[_Line]) -> Sequence[_Line]:
    runs = [run for is_run, run in _runs(example) if is_run]
    ordered: list[_Line] = []
    for is_run, run in _runs(lines):
        names = _names(run)
        best = max(runs, key=lambda each: len(_names(each) & names), default=[])
        is_sorted = is_run and _names(best) & names and run[0].depth == best[0].depth
        ordered += _ordered(run, best) if is_sorted else run
    return ordered


def _runs(lines: Sequence[_Line]) -> Iterator[tuple[bool, list[_Line]]]:
    for key, run in groupby(lines, lambda line: line.depth if line.imports else None):
        yield key is not None, list(run)


def _names(run: Sequence[_Line]) -> frozenset[str]:
    return frozenset().union(*(line.imports for line in run))


def _ordered(run: list[_Line], example: list[_Line]) -> list[_Line]:
    """Put imports as the example has them, and those that it has not where they stood."""
    names = _names(run)
    said = {line.imports: line for line in run}
    whole = [said.get(line.imports, line) for line in example if line.imports <= names]
    covered = _names(whole)
    if any(line.comments and line not in whole for line in run if line.imports & covered):
        return run  # a comment would be lost
    out = list(whole)
    place = 0
    for line in run:
        if line.imports <= covered:
            after = next(
                (n for n, each in enumerate(out, 1) if each.imports & line.imports), place
            )
            place = max(place, after)
        elif line.imports & covered:
            return run  # it names more than the example's: which part is new is not ours to say
        else:
            out.insert(place, line)
            place += 1
    return out
