"""What the verbs print."""

from __future__ import annotations

import shlex
from pathlib import Path

from devicegen.bazel_text import bazel_text
from devicegen.change import Action
from devicegen.change_set import ChangeSet
from devicegen.competing import keyword_notes
from devicegen.console import paint, say, warn
from devicegen.decisions import Decisions
from devicegen.facts.tox_environments import tox_gaps
from devicegen.git_state import NoAnswer, are_committed, uncommitted
from devicegen.harness_names import needed_variables
from devicegen.planning import Plan
from devicegen.record import Answers


def print_decisions(decisions: Decisions) -> None:
    """Print every decision with its reason, a line each."""
    width = max(len(decision.subject) for decision in decisions.listed) + 2
    for decision in decisions.listed:
        say(f"{decision.subject:<{width}}{decision.answer}  ({decision.reason})")


def print_changed_answers(plan: Plan) -> None:
    """Print each answer of the record that another one replaces, a line each."""
    now, earlier = vars(plan.answers), vars(plan.record.answers if plan.record else Answers())
    for name in now:
        if now[name] != earlier[name]:
            say(f"{name}: {_in_words(earlier[name])} -> {_in_words(now[name])}")


def _in_words(answer: bool | int | str | tuple[str, ...] | None) -> str:
    match answer:
        case None:
            return "not given"
        case bool():
            return "yes" if answer else "no"
        case tuple():
            return ", ".join(answer)
    return str(answer)


def print_notes(plan: Plan) -> None:
    """Print what could not be read or done, to stderr; none of it stops the run."""
    kept = [change for change in plan.change_set.changes if change.action is Action.KEEP]
    edited = [f"{change.path}: {change.reason}" for change in kept if change.reason]
    for line in (*plan.facts.problems, *plan.decisions.notes, *plan.change_set.notes, *edited):
        warn(f"note: {line}")


def print_changes(change_set: ChangeSet, *, dry_run: bool) -> None:
    """Print which files are written, a line each."""
    for change in change_set.written:
        say(f"{change.action.value}  {change.path}")
    if dry_run:
        say("\nDry run: nothing was written.")


def print_diff(change_set: ChangeSet) -> None:
    """Print the unified diff of the project's files, in colour on a terminal."""
    for line in change_set.diff():
        say(paint(line, _colour(line)))


def _colour(line: str) -> str | None:
    if line.startswith(("--- ", "+++ ")):
        return "bold"
    return {"@": "cyan", "-": "red", "+": "green"}.get(line[:1])


def print_refused(change_set: ChangeSet) -> None:
    """Print the files that stand in the way and why, to stderr."""
    for change in change_set.refused:
        warn(f"{change.path}: {change.reason}")


def print_conflicts(change_set: ChangeSet) -> None:
    """Print each place that somebody has to resolve, to stderr."""
    for change in change_set.conflicts:
        for line in change.conflicts:
            warn(
                f"{change.path}:{line}: conflict: changed here and by devicegen; resolve it, "
                "then run `devicegen upgrade` again"
            )


def way_back(plan: Plan) -> str | None:
    """Return the command that takes back an upgrade; None where git could not give all back.

    It is to be called before anything is written.
    """
    changes = plan.change_set.written
    changed = [each.path for each in changes if each.before is not None]
    added = [each.path for each in changes if each.before is None]
    if not are_committed(plan.facts.top, changed):
        return None
    given = str(plan.facts.given)
    git = ["git"] if given == "." else ["git", "-C", given]
    commands = [shlex.join([*git, "checkout", "--", *changed])]
    if added:
        commands.append(shlex.join([*git, "clean", "-f", "--", *added]))
    return " && ".join(commands)


def refuse_uncommitted(top: Path, change_set: ChangeSet, *, allow_dirty: bool) -> bool:
    """Print which files git could not give back once they are written; tell whether to stop.

    A file that holds nothing but what devicegen wrote is none of them; where there is a
    repository and git does not answer, each of the others is.
    """
    unedited = {
        each.change.path for each in change_set.owned if not (each.is_edited or each.is_shared)
    }
    written = [change.path for change in change_set.of_the_project if change.before is not None]
    paths = [path for path in written if path not in unedited]
    said = {}
    try:
        for path in uncommitted(top, paths):
            said[path] = "has uncommitted changes", "commit or stash them first"
    except NoAnswer as error:
        reason = f"git does not say whether there are uncommitted changes: {error}"
        said = {", ".join(paths): (reason, "mend that first")}
    for where, (reason, remedy) in said.items():
        warn(f"{where}: {reason}{'' if allow_dirty else f'; {remedy}, or pass --allow-dirty'}")
    return bool(said) and not allow_dirty


def print_runner_lines(plan: Plan) -> None:
    """Print what the project's own files need, which devicegen does not write: exact lines."""
    for line in keyword_notes(plan.facts.described, plan.decisions.names):
        say(f"\n{line}")
    for gap in tox_gaps(plan.facts.tox, needed_variables(plan.decisions.names)):
        say(f"\n{gap}")
        for line in gap.lines:
            say(line)
    text = bazel_text(plan.facts, plan.decisions)
    if text and not plan.facts.bazel.exports:
        say(f"\n{text}")
