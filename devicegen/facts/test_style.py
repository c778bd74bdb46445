"""How the tests are written, and which of them look as if they wanted a GPU."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from devicegen.facts.conftests import parse
from devicegen.facts.source_tree import Location, SourceTree

GPU_WORDS = re.compile(
    r"(?<![a-z])(?:needs?_?gpu|requires?_?gpu|gpu_?only|skip_?if_?no_?gpu|run_?on_?gpu|on_?gpu"
    r"|run_gpu_only|is_gpu_available|list_physical_devices\(['\"]GPU|with_device\(|cuda(?!_visible))",
    re.IGNORECASE,
)
DEVICE_CALL = re.compile(r"""device\(\s*f?["'][^"']*gpu""", re.IGNORECASE)
STRATEGY = re.compile(r"\b(MirroredStrategy|tf\.distribute\.\w*Strategy|distribute_scope)\b")
CANDIDATE = re.compile(rb"gpu|cuda|Strategy|with_device|distribute_scope", re.IGNORECASE)
OUR_MARKS = ("run_on", "no_device_scope")


class LooksLikeGpu(NamedTuple):
    """A test that asks for a GPU or a strategy by other means than a marker of ours."""

    where: Location
    name: str
    why: str


@dataclass
class TestStyle:
    """Counts of test functions and of TestCase classes, of mains, and the GPU-like tests."""

    __test__ = False  # pytest's own collector would take the name for a test's

    functions: int = 0
    test_cases: int = 0
    tensorflow_test_cases: int = 0
    mains: int = 0
    pytest_imports: int = 0
    marked: int = 0
    gpu_like: list[LooksLikeGpu] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)


def read_test_style(
    tree: SourceTree, test_files: Iterable[str], marks: Sequence[str] = OUR_MARKS
) -> TestStyle:
    """Read every test file, as far as the tests go; ``marks`` are the harness's markers."""
    style = TestStyle()
    for path in test_files:
        data = tree.data(path)
        text = tree.text(path)
        if data is None or text is None:
            style.unreadable.append(path)
            continue
        try:
            module = parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            style.unreadable.append(path)
            continue
        _count(style, module, text, marks)
        if CANDIDATE.search(data):
            style.gpu_like += _gpu_like(path, module, text, marks)
    return style


def _count(style: TestStyle, module: ast.Module, text: str, marks: Sequence[str]) -> None:
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            style.functions += node.name.startswith("test")
        elif isinstance(node, ast.ClassDef):
            bases = " ".join(ast.unparse(base) for base in node.bases)
            style.tensorflow_test_cases += "tf.test.TestCase" in bases
            style.test_cases += "TestCase" in bases
    style.mains += bool(
        re.search(r"\b(test|absltest|unittest|googletest|app)\.(main|run)\(", text)
    )
    style.pytest_imports += "import pytest" in text
    style.marked += _is_marked(text, marks)


def _gpu_like(
    path: str, module: ast.Module, text: str, names: Sequence[str]
) -> Iterator[LooksLikeGpu]:
    lines = text.splitlines()
    inherited = _marks(module.body, lines, names)
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            decorators = _decorators(node, lines)
            marks = inherited or _marks(node.body, lines, names) or _is_marked(decorators, names)
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) and not marks:
                    found = _test(path, inner, lines, f"{node.name}::", decorators, names)
                    yield from found
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not inherited:
            yield from _test(path, node, lines, "", "", names)


def _test(
    path: str,
    node: ast.FunctionDef | ast.AsyncFunctionDef,
    lines: list[str],
    prefix: str,
    around: str,
    names: Sequence[str],
) -> Iterator[LooksLikeGpu]:
    if not node.name.startswith("test"):
        return
    decorators = _decorators(node, lines)
    body = "\n".join(lines[node.body[0].lineno - 1 : node.end_lineno])
    if _is_marked(decorators, names):
        return
    why = ""
    if found := GPU_WORDS.search(decorators) or GPU_WORDS.search(around):
        why = f"decorated with {found[0]}"
    elif found := DEVICE_CALL.search(body) or GPU_WORDS.search(body):
        why = f"says {found[0].strip()}"
    elif found := STRATEGY.search(f"{decorators}\n{body}"):
        why = f"uses {found[0]}"
    elif re.search(r"(?<![a-z])gpus?(?![a-z])", node.name.replace("_", " "), re.IGNORECASE):
        why = "its name says gpu"
    if why:
        yield LooksLikeGpu(Location(path, node.lineno), f"{prefix}{node.name}", why)


def _decorators(node: ast.stmt, lines: list[str]) -> str:
    decorators = getattr(node, "decorator_list", [])
    return "\n".join("\n".join(lines[each.lineno - 1 : each.end_lineno]) for each in decorators)


def _is_marked(text: str, names: Sequence[str]) -> bool:
    return any(f"mark.{name}" in text for name in names)


def _marks(body: list[ast.stmt], lines: list[str], names: Sequence[str]) -> bool:
    """Tell whether a module or class says ``pytestmark`` with a marker of ours."""
    return any(
        isinstance(node, ast.Assign)
        and any(
            isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets
        )
        and _is_marked("\n".join(lines[node.lineno - 1 : node.end_lineno]), names)
        for node in body
    )
