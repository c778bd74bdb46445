"""Names of fixtures, options and markers that the project has already, whatever for."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from devicegen.facts.conftests import BLOCK_BEGIN, BLOCK_END
from devicegen.facts.pytest_config import PytestConfig, marker_name
from devicegen.facts.source_tree import Location, SourceTree

# What a file holds that defines or uses such a name: fixtures and marks are pytest's.
WORDS = (b"pytest", b"addoption", b"addinivalue_line")
PLAIN = rb"(?:on_|at_)?(?:cpu|gpu|distributed)\b"
# The names that a harness may choose from (devicegen/harness_names.py): a file with none of them
# takes none, and is not parsed, which is what takes time. Before each pattern letters of which a
# file with a match holds some, as they are found many times faster.
CANDIDATES = (
    (
        (
            *(b"device_scope", b"marked_scope", b"dev_scope", b"device_entry", b"run_on"),
            *(b"run_at", b"on_dev", b"--gpu-", b"--dev-", b"--tfg-", b"--workers-per-"),
        ),
        re.compile(
            rb"\b(?:device_scope|marked_scope|device_entry|run_on|on_dev|run_at|no_device_scope"
            rb"|in_no_dev_scope|at_no_dev_scope)\b"
            rb"|--(?:gpu|dev|tfg)-\w|--workers-per-"
        ),
    ),
    ((b"mark.",), re.compile(rb"mark\." + PLAIN)),
    ((b"markers",), re.compile(rb"\"\s*" + PLAIN + rb"|'\s*" + PLAIN)),
)


class TakenNames(NamedTuple):
    """Each name, and the first place where it is defined; a marker also where it is used.

    ``fixtures`` holds arguments of ``parametrize`` too. ``markers`` maps a name to the words that
    it is registered with, empty where it is only used, and to the place.
    """

    fixtures: Mapping[str, Location]
    options: Mapping[str, Location]
    markers: Mapping[str, tuple[str, Location]]


def taken_names(tree: SourceTree, config: PytestConfig, paths: Iterable[str]) -> TakenNames:
    """Look through the configuration and the Python files ``paths``, those that may take names."""
    fixtures: dict[str, Location] = {}
    options: dict[str, Location] = {}
    markers: dict[str, tuple[str, Location]] = {}
    for line in config.markers:
        markers[marker_name(line)] = (line, Location(config.path or "", config.line))
    used: dict[str, tuple[str, Location]] = {}
    for path in paths:
        if (module := _parsed(_owners(tree.text(path)))) is None:
            continue
        for kind, name, number in _names(module):
            where = Location(path, number)
            match kind:
                case "fixture":
                    fixtures.setdefault(name, where)
                case "option":
                    options.setdefault(name, where)
                case "marker":
                    markers.setdefault(marker_name(name), (name, where))
                case _:
                    used.setdefault(name, ("", where))
    return TakenNames(fixtures, options, used | markers)


def may_take(data: bytes) -> bool:
    """Tell whether a file's bytes hold a name that a harness may choose from, and a use of any."""
    return any(word in data for word in WORDS) and any(
        any(each in data for each in letters) and pattern.search(data)
        for letters, pattern in CANDIDATES
    )


def _owners(text: str | None) -> str | None:
    """Blank the block of devicegen's that a conftest of the project's may hold."""
    begin = BLOCK_BEGIN.search(text) if text is not None else None
    end = BLOCK_END.search(text, begin.end()) if text is not None and begin else None
    if text is None or begin is None or end is None:
        return text
    block = text[begin.start() : end.end()]
    return text[: begin.start()] + "\n" * block.count("\n") + text[end.end() :]


def _parsed(text: str | None) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of invalid escapes, which are not ours to judge
            return None if text is None else ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _names(module: ast.Module) -> Iterator[tuple[str, str, int]]:
    """Yield kind, name and line of each name that a module defines, or uses as a marker."""
    for node in ast.walk(module):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                for decorator in node.decorator_list:
                    if _called(decorator) in ("fixture", "yield_fixture"):
                        yield "fixture", _given_name(decorator) or node.name, node.lineno
            case ast.Call(args=[ast.Constant(value=str() as names), *_]) if (
                _called(node) == "parametrize"
            ):
                yield from (("fixture", name.strip(), node.lineno) for name in names.split(","))
            case ast.Call(args=[ast.List(elts=elts) | ast.Tuple(elts=elts), *_]) if (
                _called(node) == "parametrize"
            ):
                yield from (("fixture", name, node.lineno) for name in _strings(elts))
            case ast.Call(args=args) if _called(node) in ("addoption", "_addoption"):
                yield from (("option", name, node.lineno) for name in _strings(args))
            case ast.Call(args=[ast.Constant(value="markers"), ast.Constant(value=str() as line)]):
                yield "marker", line, node.lineno
            case ast.Attribute(value=ast.Attribute(value=ast.Name(id="pytest"), attr="mark")):
                yield "used", node.attr, node.lineno


def _called(node: ast.expr) -> str:
    """Return the last name of what is called, or of a decorator that is not called."""
    function = node.func if isinstance(node, ast.Call) else node
    match function:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def _given_name(decorator: ast.expr) -> str:
    keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
    named = [each.value for each in keywords if each.arg == "name"]
    return next(_strings(named), "")


def _strings(nodes: Sequence[ast.expr]) -> Iterator[str]:
    return (
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
