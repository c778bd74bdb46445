"""``devicegen init``: the first time."""

from __future__ import annotations

from pathlib import Path

import typer

from devicegen.apply import apply_changes
from devicegen.planning import make_plan
from devicegen.record import Answers
from devicegen.reporting import (
    print_changes,
    print_decisions,
    print_diff,
    print_problems,
    print_refused,
)


def init(path: Path, answers: Answers, *, dry_run: bool, diff: bool) -> int:
    """Write the harness, the marker registry and the record into the repository at ``path``.

    Returns 0 when done, or when there was nothing to do; 2 when refused, with nothing written.
    """
    plan = make_plan(path, answers)
    changes = plan.change_set
    print_problems(plan)
    if diff:
        print_diff(changes)
    else:
        print_decisions(plan.decisions)
        typer.echo()
    if changes.refused:
        print_refused(changes)
        return 2
    if not changes.written:
        typer.echo("Nothing to do: the harness is here and current.")
        return 0
    if plan.record is not None:
        typer.echo(
            "devicegen: the harness is here, written by devicegen "
            f"{plan.record.version}, and there are changes for it: run `devicegen upgrade`",
            err=True,
        )
        return 2
    if not diff:
        print_changes(changes)
    if diff or dry_run:
        return 0
    apply_changes(plan.facts.top, changes)
    typer.echo("\nDone. Commit these files, then try: pytest --gpu-simulate 2")
    return 0
