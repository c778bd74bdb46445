"""Device handling that the project has already: masks, splits, memory growth, maps of workers.

Found in the syntax trees of the few files whose text mentions one of the names; never run.
"""

from __future__ import annotations

import ast
import posixpath
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from devicegen.facts.conftests import owners_text, parse
from devicegen.facts.source_tree import Location, SourceTree

MASKS = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
WORKER = "PYTEST_XDIST_WORKER"
RANKS = (
    "LOCAL_RANK",  # OMPI_COMM_WORLD_LOCAL_RANK, HOROVOD_LOCAL_RANK and torchrun's have it in them
    "LOCALRANKID",
    "SLURM_LOCALID",
    "local_rank",  # horovod.local_rank()
)
SPLITS = ("set_logical_device_configuration", "set_virtual_device_configuration")
# Each name of a statement that is looked for has one of these in it.
WORDS = (
    "VISIBLE_DEVICES",
    "device_configuration",
    "visible_device",
    "set_memory_growth",
)
WORDS_IN_BYTES = tuple(map(str.encode, WORDS))
HIT = re.compile("|".join(WORDS))
Kind = Literal["mask", "switch", "split", "visible", "growth", "map", "rank"]
When = Literal["import", "start", "test"]


class DeviceSetup(NamedTuple):
    """One statement that sets devices up, or reads how they are.

    ``kind``: ``mask`` sets a variable such as CUDA_VISIBLE_DEVICES, ``switch`` reads one, ``map``
    sets it or the visible devices from the xdist worker's id, ``rank`` from a rank, ``visible``,
    ``split`` and ``growth`` are TensorFlow's calls. ``device`` is
    ``CPU``, ``GPU`` or "" where it is not plain. ``when``: ``import`` of the file, ``start`` of a
    run (a hook, an autouse fixture), or in a ``test`` or whatever calls it.
    """

    where: Location
    kind: Kind
    when: When
    device: str
    source: str
    in_test_run: bool  # a conftest, or a file that the package or a conftest imports at its start


def read_device_setups(
    tree: SourceTree, paths: Iterable[str], test_files: Iterable[str]
) -> tuple[DeviceSetup, ...]:
    """Return the device handling in the Python files ``paths``, sorted by place.

    Examples, tools and what only a person runs are left out: only what is in a conftest, a test
    file, or a folder that is a package is read.
    """
    tests = frozenset(test_files)
    beside = frozenset(map(posixpath.dirname, tests)) - _packages_with_sources(tree, tests)
    found: list[DeviceSetup] = []
    imported: frozenset[str] | None = None
    for path in paths:
        text = tree.text(path)
        is_of_tests = path in tests or posixpath.dirname(path) in beside
        if text is None or not (is_of_tests or _counts(tree, path)):
            continue
        try:
            module = parse(text := owners_text(text))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        imported = _imported_by_conftests(tree) if imported is None else imported
        started = _is_started(path, imported)
        setups = _Reader(path, text, module, started).read()
        found += [each for each in setups if started or is_of_tests or _is_early(each)]
    return tuple(sorted(set(found), key=lambda each: (each.where, each.kind)))


def _packages_with_sources(tree: SourceTree, tests: frozenset[str]) -> frozenset[str]:
    """Return the folders that hold tests next to the sources of a package."""
    folders = {posixpath.dirname(test) for test in tests}
    return frozenset(
        folder for folder in folders if not any("test" in part for part in folder.split("/"))
    )


def _counts(tree: SourceTree, path: str) -> bool:
    if posixpath.basename(path) == "conftest.py":
        return True
    return posixpath.join(posixpath.dirname(path), "__init__.py") in tree.lookup


def _is_early(setup: DeviceSetup) -> bool:
    """Tell of a library's statement whether an import of it alone can reach the tests."""
    if setup.when == "import" and posixpath.basename(setup.where.path) == "__init__.py":
        return True
    return setup.when == "import" and setup.kind in ("map", "split", "visible", "growth")


def may_set_devices(data: bytes) -> bool:
    """Tell whether a file's bytes hold a word that each statement here has in it."""
    return any(word in data for word in WORDS_IN_BYTES)


def _is_started(path: str, imported: frozenset[str]) -> bool:
    """Tell whether the file is imported before a test: a conftest, or what conftests import."""
    if posixpath.basename(path) == "conftest.py":
        return True
    module = posixpath.splitext(path)[0].removesuffix("/__init__").replace("/", ".")
    return module.removeprefix("src.").removeprefix("python.") in imported


def _imported_by_conftests(tree: SourceTree) -> frozenset[str]:
    conftests = (path for path in tree.files if posixpath.basename(path) == "conftest.py")
    return frozenset().union(*(_imported(tree, path) for path in conftests))


def _imported(tree: SourceTree, path: str) -> frozenset[str]:
    """Return the modules that a file imports at module level, each with the names from it."""
    try:
        body = parse(tree.text(path) or "").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    names: set[str] = set()
    package = posixpath.dirname(path).replace("/", ".")
    for node in body:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parts, *([node.module] if node.module else [])])
            names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return frozenset(names)


class _Reader:
    def __init__(self, path: str, text: str, module: ast.Module, started: bool) -> None:
        self.path = path
        self.text = re.sub("\r\n?", "\n", text)
        self.lines = self.text.split("\n")  # as Python counts them
        self.hits = [
            self.text.count("\n", 0, each.start()) + 1 for each in HIT.finditer(self.text)
        ]
        self.module = module
        self.started = started
        self.is_conftest = posixpath.basename(path) == "conftest.py"
        self.maps_workers = WORKER in text
        self.called = _called_at_import(module)

    def read(self) -> Iterator[DeviceSetup]:
        for statement in self.module.body:
            yield from self._below([statement], "import", self._source(statement))

    def _source(self, node: ast.AST) -> str:
        first, last = getattr(node, "lineno", 1), getattr(node, "end_lineno", 0) or 0
        return "\n".join(self.lines[first - 1 : last])

    def _has_word(self, node: ast.stmt) -> bool:
        """Tell whether a line of a statement holds one of the words; most do not."""
        decorators: list[ast.expr] = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(each.lineno for each in decorators)])
        place = bisect_left(self.hits, first)
        return place < len(self.hits) and self.hits[place] <= (node.end_lineno or first)

    def _below(self, body: Iterable[ast.AST], when: When, around: str) -> Iterator[DeviceSetup]:
        for node in body:
            if isinstance(node, ast.stmt) and not self._has_word(node):
                continue
            if isinstance(node, ast.If) and "__main__" in self._source(node.test):
                continue
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from self._below(node.body, self._when(node, when), self._source(node))
                continue
            found = self._statement(node, when, around)
            if found is not None:
                yield found
            yield from self._below(ast.iter_child_nodes(node), when, around)

    def _when(self, node: ast.FunctionDef | ast.AsyncFunctionDef, when: When) -> When:
        if node.name in self.called and when == "import":
            return "import"
        if node.name.startswith("pytest_") and self.is_conftest:
            return "start"
        for decorator in node.decorator_list:
            said = ast.unparse(decorator)
            if "fixture" in said and "autouse=True" in said:
                return "start"
        return "test"

    def _statement(self, node: ast.AST, when: When, around: str) -> DeviceSetup | None:
        kind: Kind | None = None
        device = ""
        match node:
            case ast.Assign(targets=[ast.Subscript(slice=ast.Constant(value=str(name)))]) if (
                name in MASKS
            ):
                kind = self._mask(node.value)
            case ast.Assign(targets=[ast.Attribute(attr="visible_device_list")]):
                kind, device = "visible", "GPU"  # of a ConfigProto, TensorFlow 1's
                if any(rank in ast.unparse(node.value) for rank in RANKS):
                    kind = "rank"
            case ast.Call(func=ast.Attribute(attr=attr)) if attr in (
                "setdefault",
                "putenv",
                "setenv",
            ) and _names_a_mask(node):
                kind = self._mask(node.args[-1])
            case ast.Call(func=ast.Attribute(attr=attr)) if attr in SPLITS:
                kind, device = "split", _device(node, around, self.text)
            case ast.Call(func=ast.Attribute(attr="set_memory_growth")):
                kind, device = "growth", _device(node, around, self.text)
            case ast.Call(func=ast.Attribute(attr="set_visible_devices")):
                device = _device(node, around, self.text)
                kind = "map" if self.maps_workers else "visible"
                if any(rank in ast.unparse(node) for rank in RANKS):
                    kind = "rank"
            case ast.Compare(left=ast.Constant(value=str(name)), ops=[ast.In() | ast.NotIn()]) if (
                name in MASKS
            ):
                kind = "switch"
            case ast.Call(func=ast.Attribute(attr="get" | "getenv")) if _names_a_mask(node):
                kind = "switch"
        if kind is None or not isinstance(node, ast.stmt | ast.expr):
            return None
        line = node.lineno
        source = self.lines[line - 1].strip() if line <= len(self.lines) else ""
        return DeviceSetup(
            Location(self.path, line), kind, when, device, source[:120], self.started
        )

    def _mask(self, value: ast.expr) -> Kind:
        said = ast.unparse(value)
        if self.maps_workers and not isinstance(value, ast.Constant):
            return "map"
        return "rank" if any(rank in said for rank in RANKS) else "mask"


def _names_a_mask(call: ast.Call) -> bool:
    return any(isinstance(arg, ast.Constant) and arg.value in MASKS for arg in call.args[:1])


def _device(call: ast.Call, around: str, text: str) -> str:
    """Return which kind of device a call is about, as far as the words beside it tell.

    What its first argument was bound to tells most, then the call, then what it stands in.
    """
    names = [node.id for node in ast.walk(call) if isinstance(node, ast.Name)]
    bound = [
        line
        for name in names
        for line in re.findall(
            rf"^.*\b{re.escape(name)}\b\s*(?:=[^=]|in\b).*$", text, re.MULTILINE
        )
    ]
    for words in ("\n".join(bound), ast.unparse(call), around):
        cpu, gpu = "cpu" in words.lower(), "gpu" in words.lower()
        if "'CPU'" in words.replace('"', "'") and "'GPU'" not in words.replace('"', "'"):
            return "CPU"
        if cpu != gpu:
            return "CPU" if cpu else "GPU"
    return ""


def _called_at_import(module: ast.Module) -> frozenset[str]:
    """Return the functions of a module that its own top level calls."""
    calls = [
        node.value.func
        for node in module.body
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ]
    calls += [
        node.value.func
        for node in module.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
    ]
    return frozenset(call.id for call in calls if isinstance(call, ast.Name))
