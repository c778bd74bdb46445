"""Many runs of one pytest, each in a process that is forked off one that has imported it.

A fresh interpreter spends most of a small run on imports. Here only pytest-xdist's workers pay for
that; a run's own process is as fresh as any: nothing of the project is loaded in the parent.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kit.processes import LIMIT, run_process
from kit.runs import PLUGIN, PytestRun, parse_reports

SERVER = Path(__file__).parent / "plugin" / "kit_forks.py"


@dataclass(frozen=True)
class Job:
    """One run: where, and with which arguments."""

    cwd: Path
    args: tuple[str, ...] = ()


def run_forked(
    python: Path,
    jobs: Sequence[Job],
    *,
    path: Sequence[Path] = (),
    env: Mapping[str, str] | None = None,
    timeout: float = LIMIT,
) -> list[PytestRun]:
    """Run ``pytest`` with ``python`` for each of ``jobs`` and return the runs in order.

    ``path`` are folders put first on the ``sys.path`` of every process.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asked = [{"cwd": str(job.cwd), "args": ["-p", "kit_reports", *job.args]} for job in jobs]
        (folder / "jobs.json").write_text(json.dumps(asked), "utf-8")
        places = ":".join(map(str, (*path, PLUGIN)))
        changes = {"PYTHONPATH": places, "KIT_REPORTS": "", **(env or {})}
        done = run_process([python, SERVER, folder], folder, env=changes, timeout=timeout)
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)
        codes = json.loads((folder / "codes.json").read_text("utf-8"))
        return [
            PytestRun(
                code,
                (folder / f"{number}.out").read_text("utf-8", "replace"),
                "",
                parse_reports((folder / f"{number}.jsonl").read_text("utf-8")),
            )
            for number, code in enumerate(codes)
        ]
