"""``devicegen diff``: what an upgrade would change."""

from __future__ import annotations

from pathlib import Path

from devicegen.planning import make_plan
from devicegen.record import Answers
from devicegen.reporting import print_conflicts, print_diff, print_notes, print_refused


def diff(path: Path) -> int:
    """Print a unified diff of the project's files, conflicts included; write nothing.

    Returns 0 when it is empty, 1 when it is not, 2 when an upgrade would be refused.
    """
    plan = make_plan(path, Answers(), needs_record=True)
    changes = plan.change_set
    print_notes(plan)
    if changes.refused:
        print_refused(changes)
        return 2
    print_diff(changes)
    print_conflicts(changes)
    return 1 if changes.of_the_project else 0
