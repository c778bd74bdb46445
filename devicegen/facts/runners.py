"""What starts the tests: tox, nox, Bazel, CI workflows, make files; and with which options."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from devicegen.facts.source_tree import Location, SourceTree
from devicegen.facts.tox_environments import ToxEnvironment, tox_environments
from devicegen.facts.xdist_use import RUNNER_NAMES

PYTEST_COMMAND = re.compile(r"(?<![\w./-])(?:py\.test|pytest)(?![\w.-]*=)(?=[\s\"'$]|$)")
ADDOPTS = re.compile(r"PYTEST_ADDOPTS\s*[=:]")
BAZEL_FILES = frozenset({"BUILD", "BUILD.bazel"})
BAZEL_TOPS = ("MODULE.bazel", "WORKSPACE", "WORKSPACE.bazel")
BAZEL_TEST = re.compile(r"^\s*(?P<macro>\w*py\w*test\w*)\(", re.MULTILINE)
BAZEL_GPU = re.compile(r"requires-gpu\S*|\bgpu\b|\bcuda_py\w*test\b")
# Options with which pytest reads another configuration, or leaves conftests out.
TELLING = ("-c", "--config-file", "--rootdir", "--confcutdir", "--noconftest")
RANK_STARTERS = re.compile(r"\b(mpirun|mpiexec|horovodrun|torchrun|srun)\b")


@dataclass(frozen=True)
class PytestCommand:
    """A line that starts pytest; ``telling`` are its options that change what is loaded."""

    where: Location
    line: str
    telling: tuple[str, ...]
    ranks: bool  # under mpirun and the like


@dataclass(frozen=True)
class Runners:
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
        commands=tuple(_commands(tree)),
        tox=tox_environments(tree),
        bazel=next((Location(name, 1) for name in BAZEL_TOPS if name in tree.lookup), None),
        bazel_tests=tuple(bazel_tests),
        bazel_gpu=tuple(bazel_gpu),
        nox=Location("noxfile.py", 1) if "noxfile.py" in tree.lookup else None,
        setup_py_test=_setup_py_test(tree),
    )


def _commands(tree: SourceTree) -> Iterator[PytestCommand]:
    for path in tree.files:
        if not (RUNNER_NAMES.fullmatch(path) or path in ("tox.ini", "tox.toml")):
            continue
        for number, line in enumerate((tree.text(path) or "").splitlines(), 1):
            stripped = line.strip()
            found = PYTEST_COMMAND.search(line) or ADDOPTS.search(line)
            if not found or stripped.startswith(("#", ";")) or "pip install" in line:
                continue
            where = Location(path, number)
            ranks = RANK_STARTERS.search(line[: found.start()]) is not None
            yield PytestCommand(where, stripped[:200], _telling(line[found.end() :]), ranks)


def _telling(arguments: str) -> tuple[str, ...]:
    try:
        words = shlex.split(arguments, comments=True)
    except ValueError:
        words = arguments.split()
    found = []
    for word, following in zip(words, [*words[1:], ""], strict=False):
        name, equals, _ = word.partition("=")
        if name in TELLING:
            found.append(word if equals or name == "--noconftest" else f"{word} {following}")
        elif word == "-p" and following.startswith("no:"):
            found.append(f"{word} {following}")
    return tuple(found)


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
