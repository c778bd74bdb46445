"""``tox.toml``, and ``[tool.tox]`` of ``pyproject.toml``: tox 4.21 and newer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeGuard

from devicegen.facts.source_tree import Location
from devicegen.facts.tox_commands import Place, runs_pytest
from devicegen.toml_statements import find_statement, line_of

BASE = "env_run_base"
DEPTH = 10  # of references to one another


class ToxToml:
    """``tox.toml``, and ``[tool.tox]`` of ``pyproject.toml``: tox 4.21 and newer."""

    def __init__(
        self, path: str, text: str, table: Mapping[str, object], prefix: tuple[str, ...]
    ) -> None:
        self.path, self.text, self.table, self.prefix = path, text, table, prefix

    def environments(self) -> list[str]:
        """Return the names of all environments, in order."""
        listed = self.table.get("env_list")
        names = [name for name in listed if isinstance(name, str)] if is_list(listed) else []
        return list(dict.fromkeys([*names, *table_of(self.table, "env")])) or ["py"]

    def runs_pytest(self, name: str) -> bool:
        """Tell whether one of its commands runs pytest."""
        for key in ("commands_pre", "commands", "commands_post"):
            commands = self._value(name, key)
            for command in commands if is_list(commands) else ():
                if runs_pytest(" ".join(strings(command))):
                    return True
        return False

    def passed(self, name: str) -> list[str]:
        """Return the patterns of ``pass_env``."""
        return list(self._patterns(self._value(name, "pass_env"), DEPTH))

    def given(self, name: str) -> list[str]:
        """Return the variables that ``set_env`` sets."""
        given = self._value(name, "set_env")
        return list(given) if isinstance(given, dict) else []

    def passes_in(self, name: str) -> str:
        """Return the section that its ``pass_env`` is in, or should be."""
        return next((s for s in self._chain(name) if "pass_env" in self._section(s)), BASE)

    def addition(self, section: str, variables: Sequence[str]) -> Place:
        """Return where they are to be added, in words and as a line, and the lines."""
        path = (*self.prefix, *section.split(".", 1))
        lines = tuple(f'    "{name}",' for name in variables)
        shown = ".".join((*self.prefix, section))
        if "pass_env" in self._section(section):
            return f"to `pass_env` of [{shown}]", self._where((*path, "pass_env")), lines
        lines = ("pass_env = [", *lines, "]")
        if self._section(section):
            return f"to [{shown}]", self._where(path), lines
        return "this table", self._where(self.prefix), (f"[{shown}]", *lines)

    def _where(self, path: tuple[str, ...]) -> Location:
        found = find_statement(self.text, path)
        return Location(self.path, line_of(self.text, found.start) if found else 1)

    def _section(self, section: str) -> Mapping[str, object]:
        table = self.table
        for key in section.split(".", 1):
            table = table_of(table, key)
        return table

    def _chain(self, name: str) -> Iterator[str]:
        own = f"env.{name}"
        yield own
        base = self._section(own).get("base", [BASE])
        yield from (str(each) for each in base) if is_list(base) else (BASE,)

    def _value(self, name: str, key: str) -> object:
        found = (self._section(section).get(key) for section in self._chain(name))
        return next((value for value in found if value is not None), None)

    def _patterns(self, value: object, depth: int) -> Iterator[str]:
        """Yield the strings of a list, and of the lists that it refers to."""
        for each in value if is_list(value) else ():
            if isinstance(each, str):
                yield each
            elif isinstance(each, dict) and depth and is_list(path := each.get("of")):
                referred: object = self.table
                for key in path[len(self.prefix) :] if path[:1] == ["tool"] else path:
                    referred = referred.get(str(key)) if isinstance(referred, dict) else None
                yield from self._patterns(referred, depth - 1)


def table_of(table: Mapping[str, object], key: str) -> Mapping[str, object]:
    """Return the table below a key; an empty one where there is none."""
    value = table.get(key)
    return value if isinstance(value, dict) else {}


def is_list(value: object) -> TypeGuard[list[object]]:
    """Tell whether a value is an array."""
    return isinstance(value, list)


def strings(value: object) -> Iterator[str]:
    """Yield all strings in nested lists and tables: the words of a command."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from strings(each)
