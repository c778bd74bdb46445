"""``devicegen upgrade``: newer templates or other answers into what was written before."""

from __future__ import annotations

from pathlib import Path

from devicegen.apply import apply_changes
from devicegen.console import say
from devicegen.planning import make_plan
from devicegen.record import Answers
from devicegen.reporting import (
    print_changes,
    print_diff,
    print_notes,
    print_refused,
    print_runner_lines,
)


def upgrade(path: Path, answers: Answers, *, dry_run: bool, diff: bool) -> int:
    """Render anew and rewrite what differs, where nobody edited it.

    Returns 0 when done, or when there was nothing to do; 2 when refused, with nothing written.
    """
    plan = make_plan(path, answers, needs_record=True)
    changes = plan.change_set
    print_notes(plan)
    if changes.refused:
        print_refused(changes)
        return 2
    if diff:
        print_diff(changes)
    elif changes.written:
        print_changes(changes, dry_run=dry_run)
    if not (diff or dry_run):
        apply_changes(plan.facts.top, changes)
    if not changes.written:
        say("Nothing to do: the harness is current.")
    elif not diff:
        print_runner_lines(plan)
    return 0
