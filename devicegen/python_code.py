"""Compares Python files by what the code says, not by how a formatter laid it out."""

from __future__ import annotations

import ast
import inspect
import io
import tokenize


def says_the_same(one: str, other: str) -> bool:
    """Tell whether two Python texts hold the same code and the same comments.

    Layout, quotes, line length, trailing commas, brackets that change nothing, line endings and
    the order of imports that stand together do not count. Text that is not Python is compared
    as it is.
    """
    if one == other:
        return True
    try:
        return _meaning(one) == _meaning(other)
    except (SyntaxError, ValueError, tokenize.TokenError):
        return False


def _meaning(text: str) -> tuple[str, tuple[str, ...]]:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        for _, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                value[:] = _with_sorted_imports(value)
                _clean_docstring(value[0])
    return ast.dump(tree), _comments(text)


def _with_sorted_imports(body: list[ast.stmt]) -> list[ast.stmt]:
    ordered: list[ast.stmt] = []
    run: list[ast.stmt] = []
    for statement in body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            statement.names.sort(key=lambda alias: (alias.name, alias.asname or ""))
            run.append(statement)
            continue
        ordered += [*sorted(run, key=ast.dump), statement]
        run = []
    return [*ordered, *sorted(run, key=ast.dump)]


def _clean_docstring(statement: ast.stmt) -> None:
    """Bring a docstring to the form that pydoc shows: formatters indent and trim it."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        text = statement.value.value
        if isinstance(text, str):
            lines = inspect.cleandoc(text).splitlines()
            statement.value.value = "\n".join(line.rstrip() for line in lines).strip()


def _comments(text: str) -> tuple[str, ...]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return tuple(
        token.string.lstrip("#").strip() for token in tokens if token.type == tokenize.COMMENT
    )
