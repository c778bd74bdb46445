"""``devicegen check``: is what is committed current and complete? For CI and pre-commit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from devicegen import __version__
from devicegen.change import Action, Change
from devicegen.console import say, warn
from devicegen.owned_file import Owned
from devicegen.planning import Plan, make_plan
from devicegen.record import FOLDER, Answers, pending_path

OK, NOTE, FAIL = "ok", "note", "FAIL"


class Finding(NamedTuple):
    """One line of the answer: how it is, where, and what was found there."""

    status: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.status:<6}{self.where}: {self.text}"


def check(path: Path, *, strict: bool = False) -> int:
    """Say, a line a question, whether the files are current, complete and unedited; write nothing.

    Returns 0 when nothing fails, 1 when something does: ``devicegen upgrade`` has something to
    do, or a person has. With ``strict`` an edit fails too.
    """
    plan = make_plan(path, Answers(), needs_record=True)
    for problem in (*plan.facts.problems, *plan.change_set.notes):
        warn(f"note: {problem}")
    found = list(_findings(plan, strict=strict))
    for finding in found:
        say(str(finding))
    if any(finding.status == FAIL for finding in found):
        return 1
    say(f"Current: written by devicegen {__version__}.")
    return 0


def _findings(plan: Plan, *, strict: bool) -> Iterator[Finding]:
    for owned in plan.change_set.owned:
        yield from _of_our_file(owned, plan, strict=strict)
    if not plan.change_set.refused:
        yield from _of_the_registry(plan)
        yield from _of_the_record(plan)


def _of_our_file(owned: Owned, plan: Plan, *, strict: bool) -> Iterator[Finding]:
    change = owned.change
    if change.action is Action.REFUSE and change.conflicts:
        for line in change.conflicts:
            yield Finding(FAIL, f"{change.path}:{line}", "conflict markers; resolve them")
    elif change.action is Action.REFUSE or owned.is_deleted:
        yield Finding(FAIL, change.path, change.reason)
    else:
        yield _currency(owned, plan)
        if owned.is_edited:
            text = "edited since devicegen wrote it; an upgrade keeps that"
            yield Finding(FAIL if strict else NOTE, change.path, text)
        else:
            yield Finding(OK, change.path, "unedited")
        yield Finding(OK, change.path, "no conflict markers")


def _currency(owned: Owned, plan: Plan) -> Finding:
    change = owned.change
    if change.conflicts:
        number = len(change.conflicts)
        text = f"out of date; `devicegen upgrade` will leave {number} conflict{'s'[: number > 1]}"
        return Finding(FAIL, change.path, text)
    if change.writes:
        return Finding(FAIL, change.path, "out of date; run `devicegen upgrade`")
    if plan.record is not None and change.path in plan.record.pending:
        text = "conflicts are resolved; run `devicegen upgrade` to record that"
        return Finding(FAIL, change.path, text)
    return Finding(OK, change.path, "current")


def _of_the_registry(plan: Plan) -> Iterator[Finding]:
    registry = plan.decisions.registry
    if registry is None:
        yield Finding(OK, plan.decisions.conftest, "registers all markers, and no other file does")
        return
    for change in plan.change_set.changes:
        if change.path == registry and change.writes:
            text = "does not register all markers; run `devicegen upgrade`"
            yield Finding(FAIL, registry, text)
        elif change.path == registry:
            yield Finding(OK, registry, "registers all markers")


def _of_the_record(plan: Plan) -> Iterator[Finding]:
    """Yield what is wrong with the record, where that was not said of another file."""
    left = [each for each in plan.change_set.written if _is_left_over(each, plan)]
    for change in left:
        yield Finding(NOTE, change.path, "left by a conflict that was given up; delete it")
    written = [change for change in plan.change_set.written if change not in left]
    is_said = plan.record is not None and plan.record.pending
    if written and not is_said and all(change.path.startswith(f"{FOLDER}/") for change in written):
        yield Finding(FAIL, written[-1].path, "out of date; run `devicegen upgrade`")


def _is_left_over(change: Change, plan: Plan) -> bool:
    """Tell whether a text waits for a merge that the record knows nothing of."""
    is_known = plan.record is not None and any(
        pending_path(path) == change.path for path in plan.record.pending
    )
    return change.action is Action.DELETE and change.path.endswith(".pending") and not is_known
