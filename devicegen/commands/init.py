"""``devicegen init``: the first time."""

from __future__ import annotations

from pathlib import Path

from devicegen.apply import apply_changes
from devicegen.ci_text import ci_text
from devicegen.console import say, warn
from devicegen.decisions import NOTHING_ASKED, Asked
from devicegen.git_state import NoAnswer, uncommitted
from devicegen.planning import Plan, make_plan
from devicegen.record import Answers
from devicegen.reporting import (
    print_changes,
    print_decisions,
    print_diff,
    print_notes,
    print_refused,
    print_runner_lines,
)


def init(
    path: Path, answers: Answers, asked: Asked = NOTHING_ASKED, *, dry_run: bool, diff: bool
) -> int:
    """Write the harness, the marker registry and the record into the repository at ``path``.

    Returns 0 when done, or when there was nothing to do; 2 when refused, with nothing written.
    """
    plan = make_plan(path, answers, asked, writes=not (dry_run or diff))
    changes = plan.change_set
    print_notes(plan)
    if diff:
        print_diff(changes)
    else:
        print_decisions(plan.decisions)
        say()
    if changes.refused:
        print_refused(changes)
        return 2
    if any(each.is_deleted for each in changes.owned):
        return 2  # deleted, which was noted
    if plan.record is not None and changes.written:
        warn(
            f"the harness is here, written by devicegen {plan.record.version}, and there are "
            "changes for it; run `devicegen upgrade`"
        )
        return 2
    updated = [change.path for change in changes.of_the_project if change.before is not None]
    try:
        for name in uncommitted(plan.facts.top, updated, tracked=True):
            warn(f"note: {name}: has uncommitted changes; what is written there adds to them")
    except NoAnswer as said:
        reason = f"git does not say whether there are uncommitted changes: {said}"
        warn(f"note: {', '.join(updated)}: {reason}")
    if not diff and changes.written:
        print_changes(changes, dry_run=dry_run)
    if not (diff or dry_run):
        apply_changes(plan.facts.top, changes)
    if not changes.written:
        say("Nothing to do: the harness is here and current.")
    elif not (diff or dry_run):
        say(f"\nDone. Commit these files, then try: {_first_run(plan)}")
    if not diff:
        print_runner_lines(plan)
    return 0


def _first_run(plan: Plan) -> str:
    """Return a command that works on any machine, with workers where the project has xdist."""
    workers = " -n 2" if plan.decisions.xdist and plan.facts.xdist else ""
    return f"pytest{workers} {plan.decisions.names.options[0]} 2"


def print_ci_snippet(path: Path, answers: Answers, asked: Asked = NOTHING_ASKED) -> int:
    """Print a workflow for the repository at ``path``, before or after ``init``; return 0."""
    plan = make_plan(path, answers, asked)
    say(ci_text(plan.facts, plan.decisions))
    return 0
