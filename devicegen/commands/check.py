"""``devicegen check``: is what is committed current and complete? For CI and pre-commit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from devicegen import __version__
from devicegen.change_set import Change
from devicegen.console import say
from devicegen.planning import Plan, make_plan
from devicegen.record import FOLDER, Answers
from devicegen.reporting import print_notes


def check(path: Path) -> int:
    """Say, a line a file, what is out of date, missing or edited; write nothing.

    Returns 0 when all is current, 1 when ``devicegen upgrade`` has something to do.
    """
    plan = make_plan(path, Answers(), needs_record=True)
    print_notes(plan)
    found = list(_findings(plan))
    for line in found:
        say(line)
    if found:
        return 1
    say(f"Current: written by devicegen {__version__}.")
    return 0


def _findings(plan: Plan) -> Iterator[str]:
    refused, written = plan.change_set.refused, plan.change_set.written
    for change in refused:
        yield f"{change.path}: {change.reason}"
    of_the_project = [change for change in written if not change.path.startswith(f"{FOLDER}/")]
    of_the_record = () if refused else written[-1:]
    for change in of_the_project or of_the_record:
        yield f"{change.path}: {_lacks(plan, change)}; run `devicegen upgrade`"


def _lacks(plan: Plan, change: Change) -> str:
    if change.path == plan.decisions.registry:
        return "does not register all markers"
    return "is out of date"
