"""``devicegen upgrade``: newer templates or other answers into what was written before."""

from __future__ import annotations

from pathlib import Path

from devicegen import __version__
from devicegen.apply import apply_changes
from devicegen.change_set import ChangeSet
from devicegen.console import say, warn
from devicegen.migration_notes import notes_since
from devicegen.planning import Plan, make_plan
from devicegen.record import Answers
from devicegen.reporting import (
    print_changed_answers,
    print_changes,
    print_conflicts,
    print_diff,
    print_notes,
    print_refused,
    print_runner_lines,
    refuse_uncommitted,
    way_back,
)


def upgrade(
    path: Path,
    answers: Answers,
    *,
    dry_run: bool = False,
    diff: bool = False,
    restore: bool = False,
    allow_dirty: bool = False,
) -> int:
    """Render anew and merge what is new into what is here.

    Returns 0 when done, or when there was nothing to do; 2 when refused, with nothing written; 3
    when conflicts are to be resolved (``dry_run`` and ``diff`` say so beforehand).
    """
    writes = not (dry_run or diff)
    plan = make_plan(path, answers, needs_record=True, writes=writes, restore=restore)
    changes = plan.change_set
    print_notes(plan)
    if changes.refused:
        print_refused(changes)
        return 2
    if refuse_uncommitted(plan.facts.top, changes, allow_dirty=allow_dirty) and writes:
        return 2
    back = way_back(plan) if writes and changes.conflicts else None
    if diff:
        print_diff(changes)
    elif changes.written:
        print_changed_answers(plan)
        print_changes(changes, dry_run=dry_run)
    if writes:
        apply_changes(plan.facts.top, changes)
    _print_migration_notes(plan)
    if not changes.written:
        say(_nothing(changes))
    elif not diff:
        print_runner_lines(plan)
    print_conflicts(changes)
    if back:
        warn(f"to go back to what was there before: {back}")
    return 3 if changes.conflicts else 0


def _print_migration_notes(plan: Plan) -> None:
    if plan.record is not None and plan.change_set.written:
        for version, note in notes_since(plan.record.version, __version__):
            warn(f"note: since {version}: {note}")


def _nothing(changes: ChangeSet) -> str:
    if all(each.is_clean for each in changes.owned):
        return "Nothing to do: the harness is current."
    return "Nothing was written."
