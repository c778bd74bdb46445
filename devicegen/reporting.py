"""What the verbs print."""

from __future__ import annotations

import typer

from devicegen.change_set import ChangeSet
from devicegen.decisions import Decisions
from devicegen.planning import Plan


def print_decisions(decisions: Decisions) -> None:
    """Print every decision with its reason, a line each."""
    width = max(len(decision.subject) for decision in decisions.listed) + 2
    for decision in decisions.listed:
        typer.echo(f"{decision.subject:<{width}}{decision.answer}  ({decision.reason})")


def print_problems(plan: Plan) -> None:
    """Print what could not be read or done, to stderr; none of it stops the run."""
    for line in (*plan.facts.problems, *plan.change_set.notes):
        typer.echo(f"devicegen: note: {line}", err=True)


def print_changes(change_set: ChangeSet) -> None:
    """Print which files are written, a line each."""
    for change in change_set.written:
        typer.echo(f"{change.action.value}  {change.path}")


def print_diff(change_set: ChangeSet) -> None:
    """Print the unified diff of the project's files."""
    for line in change_set.diff():
        typer.echo(line)


def print_refused(change_set: ChangeSet) -> None:
    """Print the files that stand in the way and why, to stderr."""
    for change in change_set.refused:
        typer.echo(f"devicegen: {change.path}: {change.reason}", err=True)
