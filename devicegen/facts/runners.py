"""What starts the tests: tox, nox, Bazel, CI workflows, make files; and with which options."""

from __future__ import annotations

import posixpath
import re
from typing import NamedTuple

from devicegen.facts.pytest_commands import PytestCommand, pytest_commands
from devicegen.facts.source_tree import Location, SourceTree
from devicegen.facts.tox_environments import ToxEnvironment, tox_environments

BAZEL_FILES = frozenset({"BUILD", "BUILD.bazel"})
BAZEL_TOPS = ("MODULE.bazel", "WORKSPACE", "WORKSPACE.bazel")
BAZEL_TEST = re.compile(r"^\s*(?P<macro>\w*py\w*test\w*)\(", re.MULTILINE)
BAZEL_GPU = re.compile(r"requires-gpu\S*|\bgpu\b|\bcuda_py\w*test\b")


class Runners(NamedTuple):
    """Who starts the tests. ``bazel_tests`` are the ``py_test`` rules and macros like it."""

    commands: tuple[PytestCommand, ...]
    tox: tuple[ToxEnvironment, ...]
    bazel: Location | None
    bazel_tests: tuple[Location, ...]
    bazel_gpu: tuple[Location, ...]
    nox: Location | None
    setup_py_test: Location | None


def read_runners(tree: SourceTree) -> Runners:
    """Return what the make files, CI workflows, tox, nox and Bazel files of the tree say."""
    bazel_tests, bazel_gpu = _bazel(tree)
    return Runners(
        commands=tuple(pytest_commands(tree)),
        tox=tox_environments(tree),
        bazel=next((Location(name, 1) for name in BAZEL_TOPS if name in tree.lookup), None),
        bazel_tests=tuple(bazel_tests),
        bazel_gpu=tuple(bazel_gpu),
        nox=Location("noxfile.py", 1) if "noxfile.py" in tree.lookup else None,
        setup_py_test=_setup_py_test(tree),
    )


def _bazel(tree: SourceTree) -> tuple[list[Location], list[Location]]:
    tests: list[Location] = []
    gpu: list[Location] = []
    for path in tree.files:
        if posixpath.basename(path) in BAZEL_FILES:
            text = tree.text(path) or ""
            for found in BAZEL_TEST.finditer(text):
                tests.append(Location(path, text.count("\n", 0, found.start("macro")) + 1))
            gpu += [
                Location(path, number)
                for number, line in enumerate(text.splitlines(), 1)
                if BAZEL_GPU.search(line) and not line.lstrip().startswith("#")
            ]
    return tests, gpu


def _setup_py_test(tree: SourceTree) -> Location | None:
    text = tree.text("setup.py") if "setup.py" in tree.lookup else None
    for number, line in enumerate((text or "").splitlines(), 1):
        if re.search(r"\b(test_loader|test_suite)\s*=|import test as|command\.test\b", line):
            return Location("setup.py", number)
    return None
