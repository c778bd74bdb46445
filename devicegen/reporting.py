"""What the verbs print."""

from __future__ import annotations

from devicegen.bazel_text import bazel_text
from devicegen.change_set import Action, ChangeSet
from devicegen.console import say, warn
from devicegen.decisions import Decisions
from devicegen.planning import Plan


def print_decisions(decisions: Decisions) -> None:
    """Print every decision with its reason, a line each."""
    width = max(len(decision.subject) for decision in decisions.listed) + 2
    for decision in decisions.listed:
        say(f"{decision.subject:<{width}}{decision.answer}  ({decision.reason})")


def print_notes(plan: Plan) -> None:
    """Print what could not be read or done, to stderr; none of it stops the run."""
    kept = [change for change in plan.change_set.changes if change.action is Action.KEEP]
    edited = [f"{change.path}: {change.reason}" for change in kept if change.reason]
    for line in (*plan.facts.problems, *plan.change_set.notes, *edited):
        warn(f"note: {line}")


def print_changes(change_set: ChangeSet, *, dry_run: bool) -> None:
    """Print which files are written, a line each."""
    for change in change_set.written:
        say(f"{change.action.value}  {change.path}")
    if dry_run:
        say("\nDry run: nothing was written.")


def print_diff(change_set: ChangeSet) -> None:
    """Print the unified diff of the project's files."""
    for line in change_set.diff():
        say(line)


def print_refused(change_set: ChangeSet) -> None:
    """Print the files that stand in the way and why, to stderr."""
    for change in change_set.refused:
        warn(f"{change.path}: {change.reason}")


def print_runner_lines(plan: Plan) -> None:
    """Print what the project's own runners need, which devicegen does not write: exact lines."""
    for gap in plan.facts.tox:
        say(f"\n{gap}")
        for line in gap.lines:
            say(line)
    text = bazel_text(plan.facts, plan.decisions)
    if text and not plan.facts.bazel.exports:
        say(f"\n{text}")
