"""Runs of a target's pytest, with what every item did as pytest itself reported it."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from kit.processes import LIMIT, run_process

PLUGIN = Path(__file__).parent / "plugin"


@dataclass(frozen=True)
class ItemReport:
    """One report of one item, as it reached the process that prints (the controller)."""

    nodeid: str
    when: str  # "setup", "call", "teardown", "collect"; "???" after a worker's crash (xdist)
    outcome: str  # "passed", "failed", "skipped"
    text: str  # the failure, or the reason of a skip
    worker: str | None  # "gw0"; None without xdist
    keywords: frozenset[str]  # names of the item, its parents and its marks
    properties: tuple[tuple[str, Any], ...]  # user_properties, in order
    xfail: bool
    duration: float  # seconds


@dataclass(frozen=True)
class PytestRun:
    """A finished run: its exit code, its output and its reports in order of arrival."""

    returncode: int
    stdout: str
    stderr: str
    reports: tuple[ItemReport, ...]

    @cached_property
    def outcomes(self) -> dict[str, str]:
        """Node id -> "passed", "skipped", "xfailed", "xpassed", "failed" or "error".

        An item is an error when anything but its call failed, as in pytest's own summary; a
        module that could not be collected is one too. Where reports differ the worst one counts.
        """
        result: dict[str, str] = {}
        for report in self.reports:
            before = result.get(report.nodeid, "passed")
            result[report.nodeid] = max(before, _outcome(report), key=_WORSE.index)
        return result

    @cached_property
    def counts(self) -> Counter[str]:
        """Outcome -> number of node ids with it."""
        return Counter(self.outcomes.values())

    @cached_property
    def starts(self) -> Counter[str]:
        """Node id -> how often its setup was reported: 1 each, unless it was run again."""
        return Counter(report.nodeid for report in self.reports if report.when == "setup")

    @cached_property
    def workers(self) -> dict[str, str | None]:
        """Node id -> worker that ran it last; None without xdist."""
        ran = (report for report in self.reports if report.when != "collect")
        return {report.nodeid: report.worker for report in ran}

    def text(self, nodeid: str) -> str:
        """Return what was reported in words about one item: failures, reasons of skips."""
        return "\n".join(r.text for r in self.reports if r.nodeid == nodeid and r.text)

    def __str__(self) -> str:
        """Return what a person needs when an assertion about this run fails."""
        return f"exit code {self.returncode}\n{self.stdout}\n{self.stderr}"


_WORSE = ("passed", "skipped", "xfailed", "xpassed", "failed", "error")


def _outcome(report: ItemReport) -> str:
    if report.xfail and report.outcome != "failed":
        return "xfailed" if report.outcome == "skipped" else "xpassed"
    if report.outcome == "failed" and report.when in ("setup", "teardown", "collect"):
        return "error"
    return report.outcome


def run_pytest(
    python: Path | str,
    cwd: Path,
    *args: str | Path,
    env: Mapping[str, str] | None = None,
    timeout: float = LIMIT,
) -> PytestRun:
    """Run ``python -m pytest ARGS`` in ``cwd`` and collect its reports.

    The environment is clean (see ``clean_environ``), then changed by ``env``. The cache plugin is
    left on and writes to ``cwd``. Raises ``TimeoutError`` after ``timeout`` seconds.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "reports.jsonl")
        file.touch()
        changes = {"PYTHONPATH": str(PLUGIN), "KIT_REPORTS": str(file), **(env or {})}
        done = run_process(
            [python, "-m", "pytest", "-p", "kit_reports", *args], cwd, env=changes, timeout=timeout
        )
        reports = read_reports(file)
    return PytestRun(done.returncode, done.stdout, done.stderr, reports)


def read_reports(file: Path) -> tuple[ItemReport, ...]:
    """Return what the kit's plugin has written to a file, of one run or of several."""
    return parse_reports(file.read_text("utf-8"))


def parse_reports(text: str) -> tuple[ItemReport, ...]:
    """Return the reports that the plugin wrote, in order."""
    return tuple(map(_parse, text.splitlines()))


def _parse(line: str) -> ItemReport:
    fields = json.loads(line)
    fields["keywords"] = frozenset(fields["keywords"])
    fields["properties"] = tuple((name, value) for name, value in fields["properties"])
    return ItemReport(**fields)
