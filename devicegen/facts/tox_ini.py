"""``tox.ini`` and its like, ``setup.cfg`` and ``legacy_tox_ini``, as tox 3 and tox 4 read them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from devicegen.facts.ini_files import IniFile
from devicegen.facts.source_tree import Location
from devicegen.facts.tox_commands import Place, runs_pytest

BASE = "testenv"
REFERENCE = re.compile(r"\{\[([^\]{}]+)\]([\w-]+)\}")
FACTORS = re.compile(r"([\w.!{},-]+?):(?:\s+|$)(.*)")
NEWER = re.compile(r"^(?:env_list|min_version|set_env|pass_env)[ \t]*=", re.MULTILINE)
DEPTH = 10  # of references to one another


class ToxIni:
    """``tox.ini`` and its like, of tox 3 and tox 4."""

    def __init__(self, file: IniFile, offset: int, core: str) -> None:
        self.file, self.offset, self.core = file, offset, core
        self.sections: dict[str, str] = {}  # environment -> its section
        for section in file.sections():
            if section.startswith(f"{BASE}:"):
                for name in _expanded(section.removeprefix(f"{BASE}:")):
                    self.sections.setdefault(name, section)

    def environments(self) -> list[str]:
        """Return the names of all environments, in order."""
        listed = self._value(self.core, "env_list", "envlist") or ""
        names = [name for line in re.split(r"\n", listed) for name in _expanded(line)]
        names = names or self._factors()
        names += [name for name in self.sections if not name.startswith(".")]
        return list(dict.fromkeys(names)) or ["py"]

    def runs_pytest(self, name: str) -> bool:
        """Tell whether one of its commands runs pytest."""
        keys = ("commands_pre",), ("commands",), ("commands_post",)
        return any(runs_pytest(line) for key in keys for line in self._lines(name, *key))

    def passed(self, name: str) -> list[str]:
        """Return the patterns of ``pass_env``: commas count in tox 4, on the key's own line."""
        lines = self._lines(name, "pass_env", "passenv")
        lines = lines[0].split(",") if len(lines) == 1 else lines
        return [word for line in lines for word in line.split()]

    def given(self, name: str) -> list[str]:
        """Return the variables that ``set_env`` sets."""
        lines = self._lines(name, "set_env", "setenv")
        return [line.partition("=")[0].strip() for line in lines if "=" in line]

    def passes_in(self, name: str) -> str:
        """Return the section that its ``pass_env`` is in, or should be."""
        return self._defining(name, "pass_env", "passenv") or BASE

    def addition(self, section: str, variables: Sequence[str]) -> Place:
        """Return where they are to be added, in words and as a line, and the lines."""
        lines = tuple(f"    {name}" for name in variables)
        for key in ("pass_env", "passenv"):
            value = self.file.value(section, key)
            if value is not None and "," in value and "\n" not in value:
                kept = tuple(f"    {name.strip()}" for name in value.split(","))
                place = f"in place of the line `{key} = {value}`"
                return place, self._where(section, key), (f"{key} =", *kept, *lines)
            if value is not None:
                return f"below `{key}` of [{section}]", self._where(section, key), lines
        newer = NEWER.search(self.file.text)
        lines = (f"{'pass_env' if newer else 'passenv'} =", *lines)
        if section in self.file.sections():
            return f"to [{section}]", self._where(section), lines
        return "this section", Location(self.file.path, self.offset + 1), (f"[{section}]", *lines)

    def _factors(self) -> list[str]:
        """Return names that conditions hold for: ``tox -e unit``, for ``unit: pytest``."""
        values = [self.file.value(BASE, key) or "" for key in self.file.keys(BASE)]
        lines = [line.strip() for value in values for line in value.splitlines()]
        found = [match[1] for line in lines if (match := FACTORS.fullmatch(line))]
        return [name for each in found for name in _expanded(each) if "!" not in name]

    def _where(self, section: str, key: str | None = None) -> Location:
        found = self.file.where(section, key) if key else self.file.header(section)
        return Location(found.path, found.line + self.offset)

    def _chain(self, name: str) -> Iterator[str]:
        """Yield the sections that say something of an environment, its own first."""
        section: str | None = self.sections.get(name)
        seen = set()
        while section is not None and section not in seen:
            seen.add(section)
            yield section
            base = (self.file.value(section, "base") or "").strip()
            section = base if base in self.file.sections() else None
        if BASE not in seen:
            yield BASE

    def _defining(self, name: str, *keys: str) -> str | None:
        for section in self._chain(name):
            if self._value(section, *keys) is not None:
                return section
        return None

    def _value(self, section: str, *keys: str) -> str | None:
        found = (self.file.value(section, key) for key in keys)
        return next((value for value in found if value is not None), None)

    def _lines(self, name: str, *keys: str) -> list[str]:
        """Return the lines of a value that hold for an environment."""
        section = self._defining(name, *keys)
        if section is None:
            return []
        text = self._resolved(self._value(section, *keys) or "", DEPTH)
        return [line for raw in text.splitlines() if (line := _if_it_holds(raw.strip(), name))]

    def _resolved(self, text: str, depth: int) -> str:
        def value(match: re.Match[str]) -> str:
            key = match[2]
            spellings = key, key.replace("_", ""), key.replace("env", "_env").lstrip("_")
            return self._resolved(self._value(match[1], *spellings) or "", depth - 1)

        return REFERENCE.sub(value, text) if depth else text


def _expanded(names: str) -> list[str]:
    """Return the names of ``py{311,312}-tf, lint``: braces multiply."""
    parts = re.split(r",(?![^{]*\})", names.partition("#")[0])
    result = []
    for part in (part.strip() for part in parts):
        made = [""]
        for piece in re.findall(r"\{[^{}]*\}|[^{}]+", part):
            if piece.startswith("{"):
                choices = [choice.strip() for choice in piece[1:-1].split(",")]
            else:
                choices = [piece]
            made = [one + choice for one in made[:200] for choice in choices]
        result += [name for name in made if name]
    return result


def _if_it_holds(line: str, name: str) -> str:
    """Return a line without its factors, "" where they are not those of an environment.

    https://tox.wiki/en/latest/config.html#conditional-settings
    """
    if line.startswith("#"):
        return ""
    match = FACTORS.fullmatch(line)
    if not match:
        return line
    own = set(name.split("-"))
    for alternative in _expanded(match[1]):
        factors = alternative.split("-")
        if all((factor.lstrip("!") in own) != factor.startswith("!") for factor in factors):
            return match[2]
    return ""
