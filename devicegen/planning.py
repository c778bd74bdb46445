"""The way from a path to a change set, which every verb goes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from devicegen import __version__
from devicegen.change_set import ChangeSet, plan_changes
from devicegen.decisions import Decisions, decide
from devicegen.errors import DevicegenError
from devicegen.facts.repository import RepoFacts, gather_facts
from devicegen.record import Answers, Record, read_record
from devicegen.rendering import render_conftest


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
    texts = {decisions.conftest: render_conftest(decisions, __version__)}
    new_record = Record(__version__, answers, texts, decisions.registry, names=decisions.names)
    change_set = plan_changes(facts.top, texts, decisions, facts.pytest_config, record, new_record)
    return Plan(facts, record, decisions, change_set)
