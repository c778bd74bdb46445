"""Names of the harness that the project uses for something else: ours give way, and say so."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from devicegen.facts.pytest_config import marker_name
from devicegen.facts.repository import RepoFacts
from devicegen.record import Record

# What the harness calls it, and what it is called where the project has that name.
OTHER_NAMES = {
    "run_on": "run_on_devices",
    "no_device_scope": "no_tf_device_scope",
    "device_scope": "tf_device_scope",
}
DEVICE_MARKS = ("cpu", "gpu", "distributed")


def choose_names(
    facts: RepoFacts, record: Record | None, markers: Iterable[str]
) -> dict[str, str]:
    """Return those of our names that are taken, each with the one that is used instead.

    ``markers`` are the lines that we register. What an earlier ``record`` wrote stays.
    """
    if record is not None and record.pristine:
        written = "\n".join(record.pristine.values())
        return {ours: other for ours, other in OTHER_NAMES.items() if _word(other).search(written)}
    own = set(markers)
    taken = {marker_name(line) for line in facts.pytest_config.markers if line not in own}
    taken |= {fixture.name for each in facts.described for fixture in each.fixtures}
    return {ours: other for ours, other in OTHER_NAMES.items() if ours in taken}


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Return a text with whole words replaced; a longer name that holds one is another word."""
    for ours, other in names.items():
        text = _word(ours).sub(other, text)
    return text


def notes_about_marks(facts: RepoFacts, markers: Iterable[str]) -> list[str]:
    """Return a line for each plain device mark that the project registers for its own use."""
    own, config = set(markers), facts.pytest_config
    return [
        f"{config.path}:{config.line}: registers the marker {marker_name(line)} for something of "
        "its own; every item also gets a plain mark of its device, so `-m "
        f"{marker_name(line)}` selects both"
        for line in config.markers
        if line not in own and marker_name(line) in DEVICE_MARKS
    ]


def _word(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-]){name}(?!\w)")
