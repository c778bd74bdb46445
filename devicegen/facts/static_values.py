"""The values that a Python module's literals have, found without running it."""

from __future__ import annotations

import ast
from typing import NamedTuple, TypeAlias


class Text(NamedTuple):
    """A string whose value is known, and the line where it is written."""

    text: str
    line: int


class Unknown(NamedTuple):
    """Something computed; ``prefix`` is how the string begins, where that much is known."""

    line: int
    prefix: str = ""


Value: TypeAlias = "Text | Unknown | list[Value] | dict[str, Value]"


class ModuleValues:
    """The names that a module binds outside functions and classes, in the order it binds them.

    Strings, lists, tuples, sets and dicts of literals, ``+`` and ``+=`` of them, ``*`` and ``**``
    inside them, ``dict(...)``, and f-strings of names that are known. Of the branches of an ``if``
    or ``try`` the last binding counts. Everything else is Unknown.
    """

    def __init__(self, module: ast.Module) -> None:
        self._names: dict[str, Value] = {}
        self._bind_all(module.body)

    def evaluate(self, node: ast.expr) -> Value:
        """Return the value of an expression as far as the literals tell it."""
        value: Value = Unknown(node.lineno)
        match node:
            case ast.Constant(value=str() as text):
                value = Text(text, node.lineno)
            case ast.Name() if node.id in self._names:
                value = self._names[node.id]
            case ast.List() | ast.Tuple() | ast.Set():
                value = self._list(node.elts)
            case ast.Dict():
                value = self._dict(node)
            case ast.BinOp(op=ast.Add()):
                value = _joined(self.evaluate(node.left), self.evaluate(node.right))
            case ast.JoinedStr():
                value = self._f_string(node)
            case ast.Call(func=ast.Name(id="dict"), args=[]):
                named = {each.arg: each.value for each in node.keywords if each.arg}
                value = {name: self.evaluate(inner) for name, inner in named.items()}
            case ast.Call(
                func=ast.Attribute(value=ast.Constant(value=str() as text), attr="format")
            ):
                value = Unknown(node.lineno, text.partition("{")[0])
            case ast.BinOp(op=ast.Mod(), left=ast.Constant(value=str() as text)):
                value = Unknown(node.lineno, text.partition("%")[0])
        return value

    def _bind_all(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            match statement:
                case ast.Assign(targets=targets, value=value):
                    for target in targets:
                        self._bind(target, value)
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self._bind(target, value)
                case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value):
                    before = self._names.get(name, Unknown(statement.lineno))
                    self._names[name] = _joined(before, self.evaluate(value))
                case ast.If() | ast.Try() | ast.With() | ast.For() | ast.While():
                    for branch in ("body", "handlers", "orelse", "finalbody"):
                        self._bind_all(getattr(statement, branch, []))
                case ast.ExceptHandler():
                    self._bind_all(statement.body)

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._names[target.id] = self.evaluate(value)

    def _list(self, elements: list[ast.expr]) -> list[Value]:
        values: list[Value] = []
        for element in elements:
            if isinstance(element, ast.Starred):
                inner = self.evaluate(element.value)
                values.extend(inner if isinstance(inner, list) else [Unknown(element.lineno)])
            else:
                values.append(self.evaluate(element))
        return values

    def _dict(self, node: ast.Dict) -> dict[str, Value]:
        values: dict[str, Value] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            known = self.evaluate(value)
            if key is None:
                values.update(known if isinstance(known, dict) else {})
            elif isinstance(name := self.evaluate(key), Text):
                values[name.text] = known
        return values

    def _f_string(self, node: ast.JoinedStr) -> Value:
        text = ""
        for part in node.values:
            plain = isinstance(part, ast.Constant) or (
                isinstance(part, ast.FormattedValue) and part.format_spec is None
            )
            inner = part.value if isinstance(part, ast.FormattedValue) else part
            value = self.evaluate(inner)
            if not (plain and isinstance(value, Text)):
                return Unknown(node.lineno, text)
            text += value.text
        return Text(text, node.lineno)


def _joined(left: Value, right: Value) -> Value:
    if isinstance(left, Text) and isinstance(right, Text):
        return Text(left.text + right.text, left.line)
    if isinstance(left, Text) and isinstance(right, Unknown):
        return Unknown(left.line, left.text)
    if isinstance(left, list) or isinstance(right, list):
        # ``known_list + something()``: what is known stays known.
        return [*_as_list(left), *_as_list(right)]
    return left if isinstance(left, Unknown) else Unknown(_line(right))


def _as_list(value: Value) -> list[Value]:
    return value if isinstance(value, list) else [value]


def _line(value: Value) -> int:
    return value.line if isinstance(value, Text | Unknown) else 1
