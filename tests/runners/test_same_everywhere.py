"""The example suite under each runner, with the same generated files: the same table of results.

Each is the real tool; TensorFlow is real too, its GPUs are simulated.
"""

from __future__ import annotations

from pathlib import Path
from subprocess import CompletedProcess

import pytest

from devicegen.facts.source_tree import SourceTree
from devicegen.facts.tox_environments import tox_gaps
from devicegen.facts.tox_files import read_tox_file
from facts.tox_cases import add_lines
from kit import environment
from kit.bazel import Workspace
from kit.processes import run_process
from kit.runs import PLUGIN, PytestRun, read_reports
from runners.example_suite import SUITE, TABLE
from runners.projects import add_build_texts, initialised

pytestmark = pytest.mark.slow
PYTHON = "tf-2.21"
# What the kit needs to watch a run, and the interpreter that has TensorFlow.
WATCHED = ("KIT_REPORTS", "PYTEST_PLUGINS", "PYTHONPATH", "SUITE_PYTHON")
RUNNERS = {
    "tox.ini": f"""
        [tox]
        skipsdist = true
        envlist = all,gpu,rest

        [testenv]
        skip_install = true
        allowlist_externals = *
        passenv =
            {(chr(10) + " " * 12).join(WATCHED)}
        commands =
            all: {{env:SUITE_PYTHON}} -m pytest
            gpu: {{env:SUITE_PYTHON}} -m pytest -m "gpu or distributed"
            rest: {{env:SUITE_PYTHON}} -m pytest -m "not gpu and not distributed"
    """,
    "noxfile.py": """
        import os

        import nox

        @nox.session
        def tests(session):
            session.run(os.environ["SUITE_PYTHON"], "-m", "pytest", external=True)
    """,
    "BUILD": """
        py_test(
            name = "suite",
            srcs = glob(["tests/test_*.py"]) + ["shapes.py", "pytest_main.py"],
            main = "pytest_main.py",
            legacy_create_init = 0,
            deps = [":conftest"],
            shard_count = 2,
        )
    """,
}


class Project:
    """The example in a Bazel workspace, with tox and nox files, initialised."""

    def __init__(self, bazel: Workspace) -> None:
        self.bazel, self.top = bazel, bazel.top / "example"
        self.python, self.tools = environment(PYTHON), environment("runners")
        printed = initialised(self.top, {**SUITE, **RUNNERS})
        add_build_texts(self.top, printed)
        add_lines(self.top, tox_gaps(read_tox_file(SourceTree.list(self.top))))
        self.generated = {
            name: (self.top / name).read_bytes() for name in ("conftest.py", "pytest_main.py")
        }
        self.reports = bazel.folder / "reports" / "reports.jsonl"
        self.reports.parent.mkdir()
        self.environ = {
            "KIT_REPORTS": str(self.reports),
            "PYTEST_PLUGINS": "kit_reports",
            "PYTHONPATH": str(PLUGIN),
            "SUITE_PYTHON": str(self.python),
            "PYTEST_GPU_SIMULATE": "2",
        }

    def run(self, *command: str | Path) -> CompletedProcess[str]:
        return run_process(command, self.top, env=self.environ)

    def run_bazel(self) -> CompletedProcess[str]:
        env = [f"--test_env={name}={value}" for name, value in self.environ.items()]
        writable = f"--sandbox_writable_path={self.reports.parent}"
        return self.bazel.test(self.python, "//example:suite", *env, writable)

    def table(self) -> dict[str, tuple[str | None, str]]:
        """Return node id -> device and outcome, of what was run since it was last asked for."""
        reports = read_reports(self.reports)
        self.reports.write_text("")
        outcomes = PytestRun(0, "", "", reports).outcomes
        devices = {report.nodeid: dict(report.properties).get("device") for report in reports}
        starts = [report.nodeid for report in reports if report.when == "setup"]
        assert len(starts) == len(set(starts)), "an item has run twice"
        return {nodeid: (devices[nodeid], outcome) for nodeid, outcome in outcomes.items()}


@pytest.fixture(scope="module")
def project(bazel: Workspace) -> Project:
    return Project(bazel)


COMMANDS = {
    "pytest": ["{python}", "-m", "pytest"],
    "pytest -n": ["{python}", "-m", "pytest", "-n2"],
    "tox": ["{tools}", "-m", "tox", "-e", "all"],
    "tox -p": ["{tools}", "-m", "tox", "-e", "gpu,rest", "-p"],
    "nox": ["{tools}", "-m", "nox"],
}


@pytest.mark.parametrize("runner", [*COMMANDS, "bazel"])
def test_same_table(project: Project, runner: str) -> None:
    if runner == "bazel":
        done = project.run_bazel()
    else:
        words = {"python": project.python, "tools": project.tools}
        done = project.run(*(word.format(**words) for word in COMMANDS[runner]))
    said = done.stdout + done.stderr

    assert done.returncode not in (0, 2), said  # some fail, and are not lost on the way
    assert project.table() == TABLE, said
    for name, text in project.generated.items():
        assert (project.top / name).read_bytes() == text
