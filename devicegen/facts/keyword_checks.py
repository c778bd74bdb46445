"""Conditions on pytest's keywords that an id of ours meets: ``"gpu" in item.keywords``.

pytest puts the id of a test's parameters among its keywords, so ``test_x[gpu]`` has ``gpu`` there,
as a test with such a marker has (``keywords={callspec.id: True}``, in ``_pytest/python.py``).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

# The ids that the harness gives, whatever its markers are called; the last two with --strategy.
IDS = ("cpu", "gpu", "distributed", "one_device", "central_storage")
COLLECTIONS = ("dict", "frozenset", "list", "set", "sorted", "tuple")


class KeywordCheck(NamedTuple):
    """A place that asks for the keyword ``name``; ``item`` is whose, as it is written there."""

    name: str
    line: int
    source: str
    item: str


def keyword_checks(module: ast.Module, text: str) -> Iterator[KeywordCheck]:
    """Yield each place of ``text`` that asks whether an item's keywords hold an id, in order."""
    values, owners = _strings(module), _keywords(module)
    found: list[tuple[int, int, KeywordCheck]] = []
    for node in ast.walk(module):
        match node:
            case ast.Compare(left=asked, ops=[ast.In() | ast.NotIn()], comparators=[held]):
                pass
            case ast.Call(func=ast.Attribute(value=held, attr="get"), args=[asked, *_]):
                pass
            case ast.Subscript(value=held, slice=asked, ctx=ast.Load()):
                pass
            case _:
                continue
        item = _owner(held, owners)
        for name in _named(asked, values) if item else ():
            if name in IDS:
                source = ast.get_source_segment(text, node) or ast.unparse(node)
                check = KeywordCheck(name, node.lineno, " ".join(source.split()), item)
                found.append((node.lineno, node.col_offset, check))
    yield from (check for *_, check in sorted(found, key=lambda each: each[:2]))


def _owner(node: ast.expr, owners: dict[str, str]) -> str:
    """Return whose keywords an expression is, empty where it is none's."""
    match node:
        case ast.Attribute(value=item, attr="keywords"):
            return ast.unparse(item)
        case ast.Call(func=ast.Attribute(value=inner, attr="keys"), args=[]):
            return _owner(inner, owners)
        case ast.Call(func=ast.Name(id=name), args=[inner]) if name in COLLECTIONS:
            return _owner(inner, owners)
        case ast.Name(id=name):
            return owners.get(name, "")
    return ""


def _keywords(module: ast.Module) -> dict[str, str]:
    """Return the names that are bound to an item's keywords wherever they are bound."""
    found: dict[str, str] = {}
    others: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    item = _owner(node.value, {})
                    found.update({target.id: item} if item else {})
                    others.update(() if item else (target.id,))
    return {name: item for name, item in found.items() if name not in others}


def _strings(module: ast.Module) -> dict[str, list[str]]:
    """Return the strings that a name may be, where literals say so: ``for name in ("gpu",)``."""
    found: dict[str, list[str]] = {}
    for node in ast.walk(module):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str() as text)):
                found.setdefault(name, []).append(text)
            case (
                ast.For(target=ast.Name(id=name), iter=several)
                | ast.comprehension(target=ast.Name(id=name), iter=several)
            ) if isinstance(several, ast.List | ast.Set | ast.Tuple):
                listed = [each for one in several.elts for each in _named(one, {})]
                found.setdefault(name, []).extend(listed)
    return found


def _named(node: ast.expr, values: dict[str, list[str]]) -> list[str]:
    match node:
        case ast.Constant(value=str() as text):
            return [text]
        case ast.Name(id=name):
            return list(dict.fromkeys(values.get(name, ())))
    return []
