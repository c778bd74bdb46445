"""The habits that CONTRIBUTING.md promises, checked in CI."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

from kit import clean_environ

TOP = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))


def read(name: str) -> str:
    return (TOP / name).read_text("utf-8")


@pytest.mark.parametrize(
    "command",
    [
        ["ruff", "check"],
        ["ruff", "format", "--check"],
        pytest.param(["mypy"], marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_source_is_clean(command: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=TOP,
        env=clean_environ(),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_ci_runs_the_test_command_of_the_readme() -> None:
    *preamble, command = read(".ci/run").splitlines()

    assert command in shell_commands(read("README.md"))
    assert command.endswith("pytest")
    assert preamble == [
        "#!/usr/bin/env bash",
        "# The test command of README.md, as it stands there.",
        "set -euo pipefail",
        'cd "$(dirname "$0")/.."',
    ]
    assert os.access(TOP / ".ci/run", os.X_OK)


def test_readme_has_exactly_two_commands() -> None:
    assert len(shell_commands(read("README.md"))) == 2


def shell_commands(markdown: str) -> list[str]:
    """Return the commands of the fenced ``sh`` blocks; a backslash continues a line."""
    blocks = re.findall(r"^```sh\n(.*?)^```", markdown, re.MULTILINE | re.DOTALL)
    return [
        command
        for block in blocks
        for command in re.sub(r"\\\n\s*", "", block).splitlines()
        if command.strip()
    ]


def test_changelog_has_a_section_for_this_version() -> None:
    sections = re.findall(r"^## \[(.+?)\]", read("CHANGELOG.md"), re.MULTILINE)

    assert sections[0] == "Unreleased"
    assert PYPROJECT["project"]["version"] == sections[1]


def test_installed_version_is_that_of_pyproject() -> None:
    assert version("devicegen") == PYPROJECT["project"]["version"]


def test_licence_is_in_full() -> None:
    assert PYPROJECT["project"]["license"] == "Apache-2.0"
    assert "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION" in read("LICENSE")


def test_pre_commit_runs_the_versions_that_the_tests_run() -> None:
    hooks = read(".pre-commit-config.yaml")
    requirements = PYPROJECT["project"]["optional-dependencies"]["test"]
    pinned = [line for line in requirements if re.match(r"(ruff|mypy)==", line)]

    assert len(pinned) == 2
    for tool in pinned:
        name = tool.partition("==")[0]
        assert set(re.findall(rf"\b{name}==[\d.]+", hooks)) == {tool}
    for dependency in PYPROJECT["project"]["dependencies"]:
        assert dependency in hooks
