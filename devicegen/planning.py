"""The way from a path to a change set, which every verb goes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from devicegen import __version__
from devicegen.change_set import ChangeSet, plan_changes
from devicegen.decisions import Decisions, decide
from devicegen.errors import DevicegenError
from devicegen.facts.repository import RepoFacts, gather_facts
from devicegen.record import Answers, Record, pristine_path, read_record
from devicegen.rendering import render_texts


@dataclass(frozen=True)
class Plan:
    """Facts, decisions and what they change; ``record`` is that of an earlier run."""

    facts: RepoFacts
    record: Record | None
    decisions: Decisions
    change_set: ChangeSet


def make_plan(path: Path, answers: Answers, *, needs_record: bool = False) -> Plan:
    """Go from facts to a change set; write nothing.

    ``answers`` are the command line's; those of the record are used where none is given. Raises
    ``DevicegenError`` where there is no way, also for a missing record that the verb needs.
    """
    facts = gather_facts(path)
    record = read_record(facts.top, __version__)
    if record is None and needs_record:
        raise DevicegenError(f"{facts.top}: no record here; run `devicegen init` first")
    if record is not None:
        answers = answers.merged_with(record.answers)
    decisions = decide(facts, answers, record)
    texts = render_texts(decisions, __version__)
    new_record = Record(__version__, answers, texts, decisions.registry)
    change_set = plan_changes(facts.top, texts, decisions, facts.pytest_config, record, new_record)
    notes = (*_left_over(record, texts), *change_set.notes)
    return Plan(facts, record, decisions, replace(change_set, notes=notes))


def _left_over(record: Record | None, texts: dict[str, str]) -> Iterator[str]:
    for path in record.paths if record is not None else ():
        if path not in texts:
            yield f"{path}: is not needed any more; delete it, and {pristine_path(path)}"
