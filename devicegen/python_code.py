"""Compares Python files by what the code says, not by how a formatter laid it out."""

from __future__ import annotations

import ast
import inspect
import io
import re
import tokenize
import warnings
from bisect import bisect
from collections.abc import Iterable, Iterator
from functools import lru_cache

# What the compiler and the tokenizer raise for a text that is none.
NOT_PYTHON = (SyntaxError, ValueError, tokenize.TokenError, RecursionError, MemoryError)


def says_the_same(one: str, other: str) -> bool:
    """Tell whether two Python texts hold the same code and the same comments.

    Layout, quotes, line length, trailing commas, brackets that change nothing, line endings, the
    order of imports that stand together and how many names one of them holds do not count. A
    comment may move within its statement only. Text that is not Python is compared as it is, but
    for its line endings.
    """
    if one.replace("\r\n", "\n") == other.replace("\r\n", "\n"):
        return True
    try:
        return _meaning(one) == _meaning(other)
    except NOT_PYTHON:
        return False


def is_python(text: str) -> bool:
    """Tell whether Python can compile the text; nothing of it is run."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "", "exec", dont_inherit=True)
    except NOT_PYTHON:
        return False
    return True


def parsed(text: str) -> ast.AST:
    """Return the normal form of the text's tree. Raises one of ``NOT_PYTHON``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of invalid escapes, which are not ours to judge
        tree: ast.AST = _Normalizer().visit(ast.parse(text))
        return tree


@lru_cache(maxsize=16)
def _meaning(text: str) -> tuple[str, list[tuple[int, str]]]:
    tree = parsed(text)
    return ast.dump(tree), sorted(_comments(text, tree))


# What makes a statement of the first line of one, or of a line that continues one.
_FRAMES = (
    ("", ""),
    ("", " pass"),
    ("if x: pass\n", " pass"),
    ("try: pass\n", " pass"),
    ("match x:\n ", " pass"),
    ("", "\ndef x(): pass"),
)


@lru_cache(maxsize=4096)
def meaning_of(line: str) -> tuple[str, frozenset[str]]:
    """Return what a logical line says, layout aside, and which names it imports, "" for none.

    ``line`` has no indentation and no comment after it; it may be the first line of a compound
    statement, an ``else:`` and the like, or a decorator.
    """
    for before, after in _FRAMES:
        try:
            tree = parsed(f"{before}{line}{after}\n")
        except NOT_PYTHON:
            continue
        body = tree.body if isinstance(tree, ast.Module) else []
        is_import = bool(body) and all(
            isinstance(each, ast.Import | ast.ImportFrom) for each in body
        )
        names = frozenset(ast.dump(each) for each in body) if is_import else frozenset()
        word = re.match(r"@|\w*", line)[0] if before or line.startswith("@") else ""  # type: ignore[index]
        return f"{word} {ast.dump(tree)}", names
    return line, frozenset()


class _Normalizer(ast.NodeTransformer):
    """Takes out of a tree what formatters and import sorters change."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for _, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                value[:] = _with_sorted_imports(value)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        node.kind = None  # u"" is ""
        return node

    def visit_Delete(self, node: ast.Delete) -> ast.AST:
        node.targets = list(_flat(node.targets))  # ``del (a, b)`` is ``del a, b``
        return self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        """Bring a docstring to the form that pydoc shows: formatters indent and trim it."""
        self.generic_visit(node)
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines = inspect.cleandoc(node.value.value).splitlines()
            node.value.value = "\n".join(line.rstrip() for line in lines).strip()
        return node


def _flat(targets: Iterable[ast.expr]) -> Iterator[ast.expr]:
    for target in targets:
        if isinstance(target, ast.Tuple):
            yield from _flat(target.elts)
        else:
            yield target


def _with_sorted_imports(body: list[ast.stmt]) -> list[ast.stmt]:
    """Sort imports that stand together, each name in a statement of its own."""
    ordered: list[ast.stmt] = []
    run: dict[str, ast.stmt] = {}
    for statement in body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            run |= {ast.dump(single): single for single in _single_imports(statement)}
        else:
            ordered += [*(run[key] for key in sorted(run)), statement]
            run = {}
    return ordered + [run[key] for key in sorted(run)]


def _single_imports(statement: ast.Import | ast.ImportFrom) -> Iterator[ast.stmt]:
    for alias in statement.names:
        single = (
            ast.Import([alias])
            if isinstance(statement, ast.Import)
            else ast.ImportFrom(statement.module, [alias], statement.level)
        )
        yield ast.copy_location(single, statement)


def _comments(text: str, tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield each comment with the number of the statement that it is in or before."""
    inside: dict[int, int] = {}  # lines of simple statements
    headers: dict[int, int] = {}  # lines of ``if`` and the like, up to their body
    starts: dict[int, int] = {}
    for number, statement in _numbered(_statements(tree)):
        body = getattr(statement, "body", None)
        end = body[0].lineno if body else (statement.end_lineno or statement.lineno) + 1
        lines = headers if body else inside
        lines |= dict.fromkeys(range(statement.lineno, end), number)
        starts.setdefault(statement.lineno, number)
    in_order = sorted(starts)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            line, column = token.start
            following = in_order[bisect(in_order, line) :]
            owner = starts[following[0]] if following else -1
            if token.line[:column].strip():
                owner = headers.get(line, owner)
            yield inside.get(line, owner), token.string.lstrip("#").strip()


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        yield from _statements(child)


def _numbered(statements: Iterable[ast.stmt]) -> Iterator[tuple[int, ast.stmt]]:
    """Number statements; imports that stand together, which may be sorted, have one number."""
    number = 0
    was_import = False
    for statement in statements:
        is_import = isinstance(statement, (ast.Import, ast.ImportFrom))
        number += not (is_import and was_import)
        was_import = is_import
        yield number, statement
