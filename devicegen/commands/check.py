"""``devicegen check``: is what is committed current and complete? For CI and pre-commit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import typer

from devicegen.change_set import Action, Change
from devicegen.errors import DevicegenError
from devicegen.planning import Plan, make_plan
from devicegen.record import Answers
from devicegen.reporting import print_problems


def check(path: Path) -> int:
    """Say, a line a file, what is out of date, missing or edited; write nothing.

    Returns 0 when all is current, 1 when ``devicegen upgrade`` has something to do.
    """
    plan = make_plan(path, Answers())
    if plan.record is None:
        raise DevicegenError(f"{plan.facts.top}: no record here; run `devicegen init` first")
    print_problems(plan)
    found = list(_findings(plan))
    for line in found:
        typer.echo(line)
    if found:
        return 1
    typer.echo(f"Current: written by devicegen {plan.record.version}.")
    return 0


def _findings(plan: Plan) -> Iterator[str]:
    for change in plan.change_set.changes:
        if change.action is Action.REFUSE:
            yield f"{change.path}: {change.reason}"
        elif change.writes and not change.path.startswith(".devicegen/"):
            yield f"{change.path}: {_lacks(plan, change)}; run `devicegen upgrade`"
    files = [change.path for change in plan.change_set.written]
    if files and all(path.startswith(".devicegen/") for path in files):
        yield f"{files[-1]}: is out of date; run `devicegen upgrade`"


def _lacks(plan: Plan, change: Change) -> str:
    if change.path == plan.decisions.registry:
        return "does not register all markers"
    return "is out of date"
