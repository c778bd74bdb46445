"""The way from a path to a change set, which every verb goes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from devicegen import __version__
from devicegen.change_set import ChangeSet, plan_changes
from devicegen.conftest_block import find_block, make_block
from devicegen.decisions import NOTHING_ASKED, Asked, Decision, Decisions, decide
from devicegen.disk import on_disk
from devicegen.errors import DevicegenError
from devicegen.facts.conftests import decode_python
from devicegen.facts.marker_mentions import unknown_markers
from devicegen.facts.repository import RepoFacts, find_top, gather_facts
from devicegen.facts.source_tree import SourceTree
from devicegen.journal import clear, refuse_unfinished
from devicegen.moved import follow_moved
from devicegen.record import Answers, Record, read_record
from devicegen.rendering import render_texts
from devicegen.template_overrides import (
    Overrides,
    as_recorded,
    changed_since,
    read_overrides,
    render_overridden,
)


@dataclass(frozen=True)
class Plan:
    """Facts, decisions and what they change; ``record`` is that of an earlier run.

    ``answers`` are those that hold from now on.
    """

    facts: RepoFacts
    answers: Answers
    record: Record | None
    decisions: Decisions
    change_set: ChangeSet


def make_plan(
    path: Path,
    answers: Answers,
    asked: Asked = NOTHING_ASKED,
    *,
    needs_record: bool = False,
    writes: bool = False,
    restore: bool = False,
) -> Plan:
    """Go from facts to a change set; write nothing.

    ``answers`` are the command line's; those of the record are used where none is given, and
    ``asked`` is what holds for this call only.
    ``writes`` tells that the change set will be applied: what a run that died has left is put
    back first, and otherwise refused. ``restore`` brings back what the user deleted. Raises
    ``DevicegenError`` where there is no way, also for a missing record that the verb needs.
    """
    top, _ = find_top(path)
    recovered = clear(top) if writes else refuse_unfinished(top)
    facts = gather_facts(path)
    record = read_record(facts.top, __version__)
    notes = [recovered] if recovered else []
    has_new_aliases = answers.marker_aliases is not None
    if record is None and needs_record:
        raise DevicegenError(f"{facts.top}: no record here; run `devicegen init` first")
    if answers.templates:
        answers = replace(answers, templates=as_recorded(Path(answers.templates), facts.top))
    answers = answers.merged_with(record.answers if record is not None else Answers())
    if record is not None:
        record, moved = follow_moved(record, facts)
        notes += moved
    decisions = decide(facts, answers, record, asked)
    if has_new_aliases:
        notes += _unknown_aliases(facts, decisions)
    texts, overrides = _render(decisions, answers, facts.top)
    if overrides is not None:
        listed = (*decisions.listed, _overrides_in_words(overrides))
        decisions = replace(decisions, listed=listed)
        notes += changed_since(overrides, record.overrides if record is not None else {})
    if decisions.shared:
        conftest = decisions.conftest
        texts[conftest] = _as_block(texts[conftest], facts.top, conftest)
    hashes = overrides.hashes() if overrides is not None else {}
    new_record = Record(
        __version__,
        answers,
        texts,
        decisions.registry,
        overrides=hashes,
        names=decisions.names,
    )
    change_set = plan_changes(
        facts.top, texts, decisions, decisions.config, record, new_record, restore=restore
    )
    notes += _left_over(record, texts)
    change_set = replace(change_set, notes=(*notes, *change_set.notes))
    return Plan(facts, answers, record, decisions, change_set)


def _render(
    decisions: Decisions, answers: Answers, top: Path
) -> tuple[dict[str, str], Overrides | None]:
    if answers.templates is None:
        return render_texts(decisions, __version__), None
    overrides = read_overrides(answers.templates, top)
    return render_overridden(decisions, overrides), overrides


def _unknown_aliases(facts: RepoFacts, decisions: Decisions) -> Iterator[str]:
    names = [alias.name for alias in decisions.aliases]
    for name in unknown_markers(SourceTree.list(facts.top), facts.pytest_config, names):
        yield (
            f"--marker-alias {name}: no marker of that name is used or registered here; is it "
            "spelled as in the tests?"
        )


def _left_over(record: Record | None, texts: dict[str, str]) -> Iterator[str]:
    """Yield a line for each file of an earlier run that is not written any more."""
    for path in record.paths if record is not None else ():
        if path not in texts:
            yield f"{path}: is not needed any more; delete it"


def _overrides_in_words(overrides: Overrides) -> Decision:
    return Decision("templates", overrides.shown, f"instead of {', '.join(overrides.names)}")


def _as_block(text: str, top: Path, path: str) -> str:
    """Make a block of the harness that fits into the conftest at ``path``."""
    data, _ = on_disk(top, path)
    try:
        find_block(data or b"")
    except DevicegenError:
        return make_block(text, "")  # nothing is written there, and the change set says why
    try:
        return make_block(text, decode_python(data or b"")[0])
    except (DevicegenError, SyntaxError, ValueError) as error:
        raise DevicegenError(f"{path}: {error}") from error
