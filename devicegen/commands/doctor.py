"""``devicegen doctor``: is the harness really active, and what stands in the way?"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from devicegen import __version__
from devicegen.competing import EARLY, WORDS, keyword_notes
from devicegen.console import say
from devicegen.facts.details import gather_details
from devicegen.facts.repository import RepoFacts, gather_facts
from devicegen.facts.runners import Runners
from devicegen.facts.source_tree import Location
from devicegen.harness_names import HarnessNames, needed_variables
from devicegen.leases import held_leases, lease_folder
from devicegen.record import read_record
from devicegen.target_pytest import TargetAnswer, ask_collection, ask_mapping, find_python

SHOWN = 10
# Without these the harness has no workers to map, or nowhere to say what it does.
NEEDED_PLUGINS = ("no:xdist", "no:terminal")


def doctor(path: Path, *, python: str | None, workers: int) -> int:
    """Collect the tests with the target's own pytest, run none, and report on the harness.

    Returns 0 when it is active and every item has its device, 1 when not.
    """
    facts = gather_facts(path)
    interpreter, why = find_python(facts.top, python)
    record = read_record(facts.top, __version__)
    answer = ask_collection(interpreter, facts.top, record)
    runners = gather_details(facts.top, ()).runners
    needed = needed_variables(record.names if record else HarnessNames())
    say(f"python       {interpreter}  ({why})")
    problems = list(_problems(facts, answer))
    for line in _report(facts, answer):
        say(line)
    for line in _leases(facts.top):  # before the mapping, which leases for a moment
        say(f"leases       {line}")
    if _is_active(answer):
        for line in ask_mapping(interpreter, facts.top, workers if answer.xdist else 0):
            say(f"mapping      {line}{f'  (-n {workers})' if answer.xdist else ''}")
    obstacles = list(_obstacles(facts, runners, answer, needed))
    obstacles += keyword_notes(facts.described, record.names if record else HarnessNames())
    for line in obstacles:
        say(f"in the way   {line}")
    for line in problems:
        say(f"wrong        {line}")
    if not problems:
        say("The harness is active.")
    elif _is_active(answer) and len(problems) == len(_uncollected(answer)):
        say("The harness is active, but not all tests can be collected.")
    return 1 if problems else 0


def _is_active(answer: TargetAnswer) -> bool:
    return len(answer.harnesses) == 1 and bool(answer.options)


def _report(facts: RepoFacts, answer: TargetAnswer) -> Iterator[str]:
    if answer.pytest:
        yield f"pytest       {answer.pytest} on Python {answer.python}, rootdir {answer.rootdir}"
        yield f"configured   {answer.inifile or 'no configuration in force'}"
    ejected = [each.path for each in facts.described if each.ejected]
    for harness in answer.harnesses:
        shown = _shown(facts, harness)
        whose = ", the project's own since `devicegen eject`" if shown in ejected else ""
        yield f"harness      {shown}, loaded before options are parsed{whose}"
    if answer.options:
        names = ", ".join("--" + name.replace("_", "-") for name in answer.options)
        yield f"options      known: {names}"
    if answer.items:
        counts = ", ".join(f"{count} {kind}" for kind, count in answer.items.items())
        yield f"items        {counts}"


def _leases(top: Path) -> list[str]:
    folder = lease_folder(os.environ, top)
    held = [str(lease) for lease in held_leases(folder)]
    return held or [f"no GPU is leased by another run ({folder})"]


def _problems(facts: RepoFacts, answer: TargetAnswer) -> Iterator[str]:
    written = _harnesses(facts)
    if uncollected := _uncollected(answer):
        yield from uncollected
    elif answer.failure:
        yield f"pytest stops (exit code {answer.exit_code}): {answer.failure}"
    if not answer.harnesses and not written:
        yield f"there is no harness in {facts.top}; run `devicegen init`"
    elif not answer.harnesses and answer.pytest:
        yield f"{written[0]} is not loaded before pytest parses its options"
    elif len(answer.harnesses) > 1:
        yield f"two harnesses in one run: {', '.join(_shown(facts, h) for h in answer.harnesses)}"
    elif answer.harnesses and not answer.options:
        yield "the harness's options are not known"
    if answer.harnesses and answer.unscoped:
        count = len(answer.unscoped)
        yield f"{count} item{'s' * (count > 1)} without a device: {_some(answer.unscoped)}"
    if answer.shadowed:
        places = dict.fromkeys(_shown(facts, file) for _, file in answer.shadowed)
        yield (
            f"another fixture device_scope hides the harness's in {len(answer.shadowed)} items: "
            f"{', '.join(places)}"
        )


def _uncollected(answer: TargetAnswer) -> list[str]:
    """Return a line for each error that kept tests from being collected, the frequent first."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path, reason in ((path or "the top", reason) for path, reason in answer.uncollected):
        if path not in places[reason]:
            places[reason].append(path)
    return [
        f"{_some(tuple(paths), 2)}: not collected: {reason[:200]}"
        for reason, paths in sorted(places.items(), key=lambda each: -len(each[1]))
    ]


def _harnesses(facts: RepoFacts) -> list[str]:
    """Return the conftests that hold a harness, also one that was ejected."""
    return [each.path for each in facts.described if each.owner != "project" or each.ejected]


def _obstacles(
    facts: RepoFacts, runners: Runners, answer: TargetAnswer, needed: Sequence[str]
) -> Iterator[str]:
    ejected = [each.path for each in facts.described if each.ejected]
    for setup in facts.device_setups:
        if setup.where.path in ejected:
            continue
        if setup.when in EARLY and setup.in_test_run and setup.kind in WORDS:
            yield f"{setup.where}: {WORDS[setup.kind]} (`{setup.source}`)"
    for name in facts.pytest_config.options("-p"):
        if name in NEEDED_PLUGINS:
            yield f"{facts.pytest_config.path}: addopts hold -p {name}"
    tox: defaultdict[tuple[Location, tuple[str, ...]], list[str]] = defaultdict(list)
    for environment in runners.tox:
        if lacks := environment.lacks(needed):
            tox[environment.where, tuple(lacks)].append(environment.name)
    for (where, variables), names in tox.items():
        verb = "pass" if len(names) > 1 else "passes"
        yield f"{where}: {_some(tuple(names), 3)} {verb} no {', '.join(variables)}; add pass_env"
    for command in runners.commands:
        for option in command.telling:
            yield f"{command.where}: starts pytest with {option}"
    if answer.pytest and not answer.xdist:
        yield "pytest-xdist is not installed there: one process, one GPU"


def _shown(facts: RepoFacts, file: str) -> str:
    top = os.path.realpath(facts.top)
    return os.path.relpath(file, top) if file.startswith(f"{top}{os.sep}") else file


def _some(names: tuple[str, ...], shown: int = SHOWN) -> str:
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more
