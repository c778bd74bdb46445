"""Whether anything here runs pytest, and what runs the tests where nothing does."""

from __future__ import annotations

import re
from collections.abc import Iterable

from devicegen.facts.pytest_commands import pytest_commands
from devicegen.facts.pytest_config import PytestConfig
from devicegen.facts.requirement_record import Requirements
from devicegen.facts.runners import read_runners
from devicegen.facts.source_tree import Location, SourceTree

TEST_MAIN = re.compile(rb"\b(?:test|absltest|unittest|googletest)\.main\(")
MENTIONED = re.compile(rb"^[ \t]*(?:import|from)[ \t]+pytest\b", re.MULTILINE)


def pytest_use(
    tree: SourceTree, config: PytestConfig, requirements: Requirements, test_files: Iterable[str]
) -> Location | None:
    """Return the first sign that pytest runs the tests, None where there is none."""
    if config.is_in_force and config.path is not None:
        return Location(config.path, config.line)
    for fact in requirements.named("pytest", "pytest-xdist", "pytest-cov"):
        return fact.where
    for path in test_files:
        data = tree.data(path)
        if data is not None and b"pytest" in data and (found := MENTIONED.search(data)):
            return Location(path, data.count(b"\n", 0, found.start()) + 1)
    for path in tree.files:
        if path.rsplit("/", 1)[-1] == "conftest.py":
            return Location(path, 1)
    return next((command.where for command in pytest_commands(tree)), None)


def other_test_runner(tree: SourceTree, test_files: Iterable[str]) -> str | None:
    """Say in words how the tests are run without pytest; None where nothing tells.

    Test files that all end in a ``main()`` of unittest or absl are run as programs.
    """
    runners = read_runners(tree)
    if runners.bazel_tests:
        first, count = runners.bazel_tests[0], len(runners.bazel_tests)
        return f"by Bazel ({first}, {count} test rule{'s' if count > 1 else ''})"
    if runners.setup_py_test is not None:
        return f"by a test command of setup.py ({runners.setup_py_test})"
    paths = list(test_files)
    if paths and all(TEST_MAIN.search(tree.data(path) or b"") for path in paths):
        return f"each as a program of its own ({paths[0]} ends in a main())"
    return None
