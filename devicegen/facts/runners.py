"""What starts the tests: tox, nox, Bazel, CI workflows, make files; and with which options."""

from __future__ import annotations

import posixpath
import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass

from devicegen.facts.ini_files import read_ini
from devicegen.facts.requirement_record import Findings
from devicegen.facts.source_tree import Location, SourceTree
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
# What the harness reads; tox hides it from tests unless it is passed.
NEEDED_VARIABLES = ("CUDA_VISIBLE_DEVICES", "PYTEST_GPU_SIMULATE")


@dataclass(frozen=True)
class PytestCommand:
    """A line that starts pytest; ``telling`` are its options that change what is loaded."""

    where: Location
    line: str
    telling: tuple[str, ...]
    ranks: bool  # under mpirun and the like


@dataclass(frozen=True)
class ToxEnvironment:
    """A tox environment that runs pytest; ``lacks`` are the variables that it does not pass."""

    where: Location
    name: str
    lacks: tuple[str, ...]


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
        tox=tuple(_tox(tree)),
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


def _tox(tree: SourceTree) -> Iterator[ToxEnvironment]:
    findings = Findings(tree)
    file = read_ini(findings, "tox.ini")
    for section in file.sections() if file else []:
        if file is None or not section.startswith("testenv"):
            continue
        commands = file.value(section, "commands") or ""
        if PYTEST_COMMAND.search(commands):
            passed = " ".join(
                file.value(each, key) or ""
                for each in (section, "testenv")
                for key in ("passenv", "pass_env")
            )
            yield _environment(file.where(section, "commands"), section, passed)
    for path, keys in (("tox.toml", ()), ("pyproject.toml", ("tool", "tox"))):
        yield from _tox_toml(tree, path, keys)


def _tox_toml(tree: SourceTree, path: str, keys: tuple[str, ...]) -> Iterator[ToxEnvironment]:
    text = tree.text(path) if path in tree.lookup else None
    if text is None or (keys and "tool.tox" not in text):
        return
    try:
        table: object = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return
    for key in keys:
        table = table.get(key, {}) if isinstance(table, dict) else {}
    if not isinstance(table, dict):
        return
    base = table.get("env_run_base", {})
    environments = {"env_run_base": base, **(table.get("env") or {})}
    for name, environment in environments.items():
        if isinstance(environment, dict) and "pytest" in str(environment.get("commands", "")):
            passed = f"{environment.get('pass_env', '')} {base.get('pass_env', '')}"
            line = text.count("\n", 0, max(text.find("commands"), 0)) + 1
            yield _environment(Location(path, line), str(name), passed)


def _environment(where: Location, name: str, passed: str) -> ToxEnvironment:
    patterns = [word.strip("'\"[],") for word in re.split(r"[\s,]+", passed) if word]
    lacks = tuple(
        variable
        for variable in NEEDED_VARIABLES
        if not any(re.fullmatch(_regex(pattern), variable) for pattern in patterns)
    )
    return ToxEnvironment(where, name, lacks)


def _regex(pattern: str) -> str:
    return ".*".join(map(re.escape, pattern.split("*")))


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
