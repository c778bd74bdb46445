"""The tox configuration at a repository's top, in whichever syntax: what tox would read.

tox takes the first of ``tox.ini``, ``setup.cfg`` (``[tox:tox]``), ``pyproject.toml``
(``legacy_tox_ini``, then ``[tool.tox]``) and ``tox.toml``:
https://tox.wiki/en/latest/config.html#discovery-and-file-types
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from devicegen.facts.ini_files import parse_ini
from devicegen.facts.source_tree import SourceTree
from devicegen.facts.tox_commands import Place
from devicegen.facts.tox_ini import ToxIni
from devicegen.facts.tox_toml import ToxToml, table_of
from devicegen.toml_statements import find_statement, line_of


class ToxFile(Protocol):
    """What is asked of a configuration, by the name of an environment."""

    def environments(self) -> list[str]:
        """Return the names of all environments, in order."""

    def runs_pytest(self, name: str) -> bool:
        """Tell whether one of its commands runs pytest."""

    def passed(self, name: str) -> list[str]:
        """Return the patterns of ``pass_env``."""

    def given(self, name: str) -> list[str]:
        """Return the variables that ``set_env`` sets."""

    def passes_in(self, name: str) -> str:
        """Return the section that its ``pass_env`` is in, or should be."""

    def addition(self, section: str, variables: Sequence[str]) -> Place:
        """Return where they are to be added, in words and as a line, and the lines."""


def read_tox_file(tree: SourceTree) -> ToxFile | None:
    """Return the configuration that tox reads; None where there is none, or a broken one."""
    return next(filter(None, _found(tree)), None)


def _found(tree: SourceTree) -> Iterator[ToxFile | None]:
    texts = {name: tree.text(name) for name in tree.files if "/" not in name}
    ini, cfg = texts.get("tox.ini"), texts.get("setup.cfg")
    if ini is not None:
        yield _ini("tox.ini", ini)
    if cfg is not None and "[tox:tox]" in cfg:
        yield _ini("setup.cfg", cfg, core="tox:tox")
    project = _loads(texts.get("pyproject.toml"))
    table = table_of(table_of(project, "tool"), "tox")
    text = texts.get("pyproject.toml") or ""
    if isinstance(legacy := table.get("legacy_tox_ini"), str):
        statement = find_statement(text, ("tool", "tox", "legacy_tox_ini"))
        first = line_of(text, statement.value if statement else 0)
        # The text begins on the line after the quotes, if only they are on theirs.
        opening = text[statement.value :][3:4] if statement else ""
        yield _ini("pyproject.toml", legacy, first + (opening in "\r\n") - 1)
    if table and "legacy_tox_ini" not in table:
        yield ToxToml("pyproject.toml", text, table, ("tool", "tox"))
    if (own := _loads(texts.get("tox.toml"))) or "tox.toml" in texts:
        yield ToxToml("tox.toml", texts.get("tox.toml") or "", own, ())


def _ini(path: str, text: str, offset: int = 0, core: str = "tox") -> ToxIni | None:
    parsed = parse_ini(path, text)
    return None if parsed is None else ToxIni(parsed, offset, core)


def _loads(text: str | None) -> Mapping[str, object]:
    try:
        return tomllib.loads(text or "")
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}
