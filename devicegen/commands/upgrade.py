"""``devicegen upgrade``: newer templates or other answers into what was written before."""

from __future__ import annotations

from pathlib import Path

import typer

from devicegen.apply import apply_changes
from devicegen.errors import DevicegenError
from devicegen.planning import make_plan
from devicegen.record import Answers
from devicegen.reporting import print_changes, print_diff, print_problems, print_refused


def upgrade(path: Path, answers: Answers, *, dry_run: bool, diff: bool) -> int:
    """Render anew and rewrite what differs, where nobody edited it.

    Returns 0 when done, or when there was nothing to do; 2 when refused, with nothing written.
    """
    plan = make_plan(path, answers)
    if plan.record is None:
        raise DevicegenError(f"{plan.facts.top}: no record here; run `devicegen init` first")
    changes = plan.change_set
    print_problems(plan)
    if changes.refused:
        print_refused(changes)
        return 2
    if not changes.written:
        typer.echo("Nothing to do: the harness is current.")
        return 0
    if diff:
        print_diff(changes)
    else:
        print_changes(changes)
    if not (diff or dry_run):
        apply_changes(plan.facts.top, changes)
    return 0
