"""Which command of a tox environment runs pytest."""

from __future__ import annotations

import re

from devicegen.facts.source_tree import Location

PYTEST = re.compile(r"(?<![\w.-])(?:py\.test|pytest)(?![\w.=-])")
INSTALLS = re.compile(r"\b(?:pip|conda|uv|poetry)\b[^|;&]*\b(?:install|add|sync)\b")

# Where lines are to be added: in words, the line, and the lines.
Place = tuple[str, Location, tuple[str, ...]]


def runs_pytest(command: str) -> bool:
    """Tell whether a command line runs pytest, and does not just install it."""
    command = command.lstrip("-! ")  # tox's marks for "may fail"
    return bool(PYTEST.search(command)) and not INSTALLS.search(command)
