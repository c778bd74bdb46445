"""``setup.cfg`` and ``tox.ini`` as setuptools and tox read them, with each value's line."""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterator
from typing import NamedTuple

from devicegen.facts.requirement_record import Findings, line_of, lines_of, without_comment
from devicegen.facts.source_tree import Location


class IniFile(NamedTuple):
    """A parsed ini-file and its text."""

    path: str
    text: str
    parser: configparser.RawConfigParser

    def sections(self) -> list[str]:
        """Return the names of the sections, in order."""
        return self.parser.sections()

    def keys(self, section: str) -> list[str]:
        """Return the keys of a section; none where there is no such section."""
        return list(self.parser[section]) if self.parser.has_section(section) else []

    def value(self, section: str, key: str) -> str | None:
        """Return a value as it stands; None where there is none."""
        if not self.parser.has_option(section, key):
            return None
        return self.parser.get(section, key)

    def where(self, section: str, key: str) -> Location:
        """Return the line of a key."""
        return Location(self.path, line_of(self.text, *_head(section, key)))

    def header(self, section: str) -> Location:
        """Return the line of a section's header."""
        return Location(self.path, line_of(self.text, rf"^\[{re.escape(section)}\]"))

    def entries(self, section: str, key: str) -> Iterator[tuple[str, Location]]:
        """Yield each line of a value without its comment, and where it is."""
        written = (self.value(section, key) or "").splitlines()
        entries = [entry for line in written if (entry := without_comment(line).strip())]
        patterns = (rf"(?:^|[=:])[ \t]*{re.escape(entry)}" for entry in entries)
        for entry, line in zip(
            entries, lines_of(self.text, _head(section, key, before=True), patterns), strict=True
        ):
            yield entry, Location(self.path, line)


def _head(section: str, key: str, before: bool = False) -> tuple[str, str]:
    """Match a section and a key in it; with ``before``, up to the sign that begins the value."""
    sign = "(?=[:=])" if before else "[:=]"
    return rf"^\[{re.escape(section)}\]", rf"^{re.escape(key)}[ \t]*{sign}"


def read_ini(findings: Findings, path: str) -> IniFile | None:
    """Return the ini-file at ``path``; None where there is none, or a broken one."""
    if path not in findings.tree.files:
        return None
    text = findings.text(path)
    if text is None:
        return None
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        parser.read_string(text, path)
    except configparser.Error as error:
        # A missing header has a line, lines that do not parse are listed.
        listed: list[tuple[int, str]] = getattr(error, "errors", [])
        line = listed[0][0] if listed else getattr(error, "lineno", 1)
        findings.broken(Location(path, line), "not an ini-file")
        return None
    return IniFile(path, text, parser)


def parse_ini(path: str, text: str) -> IniFile | None:
    """Return ``text`` as the ini-file ``path``, keys as they are spelled; None where broken."""
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        parser.read_string(text, path)
    except configparser.Error:
        return None
    return IniFile(path, text, parser)
