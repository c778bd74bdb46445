"""The record of what a repository says it needs, and the collector its readers fill."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from packaging.markers import InvalidMarker, Marker
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from devicegen.facts.source_tree import Location, SourceTree
from devicegen.facts.version_ranges import lowest_admitted

# Longer is no requirement; bounds what a hostile file can make the parsers do.
MAX_ENTRY = 1000
NAMES_TENSORFLOW = re.compile(r"tensorflow|tf[-_.]nightly", re.IGNORECASE)


class RequirementFact(NamedTuple):
    """One requirement as one file states it.

    ``name`` is canonical (PEP 503), ``specifier`` a PEP 440 specifier set or ``""`` where no
    version is stated (or it is computed), ``marker`` a PEP 508 marker or ``""``. ``group`` says
    for what: ``dependencies``, ``extra:NAME``, ``tests_require``, ``group:NAME`` (PEP 735,
    poetry), ``tox:SECTION``, ``requirements:PATH``, ``constraints:PATH``, ``conda:PATH``, or
    ``literal`` for a text in a ``setup.py`` that computes what it passes to ``setup()``.
    """

    name: str
    specifier: str
    marker: str
    group: str
    where: Location


class PythonFloor(NamedTuple):
    """The oldest Python that the package metadata admits: (major, minor); None when unbounded."""

    version: tuple[int, int] | None
    where: Location | None


class Requirements(NamedTuple):
    """Every requirement found, the Python floor, and one line for each thing that was not read.

    ``unread`` are those of the ``problems`` behind which any requirement may hide.
    """

    all: tuple[RequirementFact, ...]
    python: PythonFloor
    problems: tuple[str, ...]
    unread: tuple[str, ...] = ()

    def named(self, *names: str) -> tuple[RequirementFact, ...]:
        """Return the facts about any of ``names``, whatever their spelling (PEP 503)."""
        wanted = {canonicalize_name(name) for name in names}
        return tuple(fact for fact in self.all if fact.name in wanted)


@dataclass
class Findings:
    """What the readers fill in, one file after the other."""

    tree: SourceTree
    facts: list[RequirementFact] = field(default_factory=list)
    floors: list[PythonFloor] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    # Requirements files that metadata or tox name, with the group their lines belong to.
    named_files: list[tuple[str, str, Location]] = field(default_factory=list)

    def text(self, path: str) -> str | None:
        """Return the text of ``path``; None, and a problem line, where it cannot be read."""
        text = self.tree.text(path)
        if text is None:
            reason = "not read: a link, larger than 2 MB, or not UTF-8"
            self.broken(Location(path, 1), reason)
        return text

    def problem(self, where: Location, reason: str) -> None:
        """Note in one line what was not understood, and where."""
        self.problems.append(f"{where}: {' '.join(reason.split())}")

    def broken(self, where: Location, reason: str) -> None:
        """Note a file, or an entry, of which nothing is known now, TensorFlow or not."""
        self.problem(where, reason)
        self.unread.append(self.problems[-1])

    def add(self, entry: str, group: str, where: Location, marker: str = "") -> None:
        """Note the requirement ``entry`` (PEP 508); one that is none becomes a problem."""
        try:
            if len(entry) > MAX_ENTRY:
                raise InvalidRequirement
            requirement = Requirement(entry)
            stated = str(requirement.marker) if requirement.marker else ""
            needed = str(Marker(marker)) if marker else ""
        except (InvalidRequirement, InvalidMarker, RecursionError):
            note = self.broken if NAMES_TENSORFLOW.search(entry) else self.problem
            note(where, f"not a requirement: {_shortened(entry)}")
            return
        both = f"({stated}) and ({needed})" if stated and needed else stated or needed
        name = canonicalize_name(requirement.name)
        self.facts.append(RequirementFact(name, str(requirement.specifier), both, group, where))

    def floor(self, specifier: str, where: Location) -> None:
        """Note ``requires-python`` as a file states it (PEP 440)."""
        try:
            bounds = SpecifierSet(specifier[:MAX_ENTRY])
        except InvalidSpecifier:
            self.problem(where, f"not a version specifier: {_shortened(specifier)}")
            return
        self.floors.append(PythonFloor(lowest_admitted(bounds), where))


def line_at(text: str, offset: int) -> int:
    """Return the line, counted from 1, of a character offset."""
    return text.count("\n", 0, offset) + 1


def without_comment(line: str) -> str:
    """Return ``line`` up to a ``#`` at its beginning or after white space."""
    return re.split(r"(?:^|\s)#", line, maxsplit=1)[0]


def lines_of(text: str, head: Iterable[str], patterns: Iterable[str]) -> Iterator[int]:
    """Yield the line of each of ``patterns``, each sought after the one before, below ``head``.

    A pattern that is not found is given the line of the one before.
    """
    offset = 0
    for pattern in head:
        found = re.compile(pattern, re.MULTILINE).search(text, offset)
        offset = found.end() if found else offset
    line = line_at(text, offset)
    for pattern in patterns:
        found = re.compile(pattern, re.MULTILINE).search(text, offset)
        if found:
            line += text.count("\n", offset, found.end())
            offset = found.end()
        yield line


def line_of(text: str, *patterns: str) -> int:
    """Return the line of the last of ``patterns`` that is found, each after the one before."""
    return next(lines_of(text, patterns, (r"",)))


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
