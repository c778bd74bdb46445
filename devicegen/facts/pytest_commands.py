"""The lines of make files, scripts, CI workflows and tox files that start pytest."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import NamedTuple

from devicegen.facts.source_tree import Location, SourceTree
from devicegen.facts.xdist_use import RUNNER_NAMES

PYTEST_COMMAND = re.compile(
    r"(?:(?<![\w./-])|(?<=bin/))(?:py\.test|pytest)(?![\w.-]*=)(?=[\s\"'$]|$)"
)
ADDOPTS = re.compile(r"PYTEST_ADDOPTS\s*[=:]")
# Options with which pytest reads another configuration, or leaves conftests out.
TELLING = ("-c", "--config-file", "--rootdir", "--confcutdir", "--noconftest")
# What starts a process for each rank.
RANK_STARTERS = re.compile(
    r"(?<![\w-])(?:mpirun|mpiexec|orterun|prterun|horovodrun|torchrun|srun|jsrun|aprun"
    r"|torch\.distributed\.(?:run|launch))(?![\w-])"
)
SETTING = re.compile(r"^\s*(?:export\s+)?(\w+)\s*[:?]?[=:]\s*(.*)$", re.MULTILINE)
VARIABLE = re.compile(r"\$(?:\((\w+)\)|\{(\w+)\}|(\w+))")
QUOTED = re.compile(r"\"[^\"]*(?:\"|$)|'[^']*(?:'|$)", re.DOTALL)
NEXT_COMMAND = re.compile(r"&&|\|\||;|\||\n[ \t]*\n|\][\s,]*\[")
TOX_FILES = frozenset({"tox.ini", "tox.toml", "setup.cfg", "pyproject.toml"})
TOX_HEADING = re.compile(r"\[\[?(?:tox|testenv|tool\.tox|tox:tox)\b")
TOX_KEY = re.compile(r"([\w.-]+)\s*[=:]")
TOX_KEYS = ("commands", "setenv", "set_env")
FOLDED = re.compile(r"^(\s*).*:\s*>[+-]?\s*$")


class PytestCommand(NamedTuple):
    """A line that starts pytest; ``telling`` are its options that change what is loaded."""

    where: Location
    line: str
    telling: tuple[str, ...]
    ranks: bool  # under mpirun and the like


def pytest_commands(tree: SourceTree) -> Iterator[PytestCommand]:
    """Yield what starts pytest, in the order of files and lines."""
    for path in tree.files:
        if RUNNER_NAMES.fullmatch(path) or path in TOX_FILES:
            yield from _of_file(path, tree.text(path) or "")


def _of_file(path: str, text: str) -> Iterator[PytestCommand]:
    if not (PYTEST_COMMAND.search(text) or ADDOPTS.search(text)):
        return
    settings = dict(SETTING.findall(text))
    for number, command in _logical_lines(path, text):
        found = PYTEST_COMMAND.search(command) or ADDOPTS.search(command)
        if found and not re.search(r"\bpip3? install\b", command):
            before, after = command[: found.start()], command[found.end() :]
            where = Location(path, number + before.count("\n"))
            shown = " ".join(command.replace("\\\n", " ").split())[:200]
            yield PytestCommand(where, shown, _telling(after), _has_ranks(before, settings))


def _logical_lines(path: str, text: str) -> Iterator[tuple[int, str]]:
    r"""Yield each command with the number of its first line.

    Lines that go on after a backslash, that a YAML ``>`` folds, or that stand in one TOML array,
    are one, with the newlines in it.
    """
    lines = _tox_part(path, text.splitlines())
    begin = 0
    while begin < len(lines):
        end = begin + 1
        fold = FOLDED.match(lines[begin]) if path.endswith((".yml", ".yaml")) else None
        while end < len(lines) and (
            lines[end - 1].rstrip().endswith("\\")
            or (fold and lines[end].startswith(f"{fold[1]} "))
            or (path.endswith(".toml") and _is_open(lines[begin:end]))
        ):
            end += 1
        yield begin + 1, "\n".join(lines[begin:end])
        begin = end


def _tox_part(path: str, lines: list[str]) -> list[str]:
    """Return the lines, blank where they are comments, or in a tox file no commands of tox."""
    inside, key, kept = path in ("tox.ini", "tox.toml"), "", []
    for line in lines:
        if path in TOX_FILES and line.startswith("["):
            inside, key = (inside and path.startswith("tox")) or bool(TOX_HEADING.match(line)), ""
        elif named := TOX_KEY.match(line):
            key = named[1]
        counts = path not in TOX_FILES or (inside and key.startswith(TOX_KEYS))
        kept.append(line if counts and not line.lstrip().startswith(("#", ";")) else "")
    return kept


def _is_open(lines: list[str]) -> bool:
    """Tell whether a TOML array goes on after these lines."""
    bare = QUOTED.sub("", "\n".join(lines))
    return "=" in bare and bare.count("[") > bare.count("]")


def _has_ranks(before: str, settings: dict[str, str]) -> bool:
    """Tell whether what stands before ``pytest`` starts it once for each rank."""
    before = VARIABLE.sub(lambda m: settings.get(m[1] or m[2] or m[3], m[0]), before)
    starters = list(RANK_STARTERS.finditer(before))
    if not starters:
        return False
    between = before[starters[-1].end() :].removeprefix('"').removeprefix("'")
    return NEXT_COMMAND.search(QUOTED.sub("", between)) is None


def _telling(arguments: str) -> tuple[str, ...]:
    try:
        words = shlex.split(arguments, comments=True)
    except ValueError:
        words = arguments.split()
    found = []
    for word, following in zip(words, [*words[1:], ""], strict=False):
        name, equals, _ = word.partition("=")
        if name in TELLING:
            found.append(word if equals or name == "--noconftest" else f"{word} {following}")
        elif word == "-p" and following.startswith("no:"):
            found.append(f"{word} {following}")
    return tuple(found)
