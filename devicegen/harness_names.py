"""The names that a harness goes by: the usual ones, or others where the project has those.

Those to choose from are as long as the usual ones, so that no line of the harness grows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from devicegen.errors import DevicegenError
from devicegen.facts.taken_names import TakenNames
from devicegen.facts.tox_environments import NEEDED

T = TypeVar("T")

FIXTURES = ("device_scope", "marked_scope", "device_entry")
OPTIONS = ("gpu-simulate", "gpu-require", "gpu-wait", "gpu-strict", "workers-per-gpu")
OPTION_WORDS = ("gpu", "dev", "tfg")
MARKERS = (
    ("run_on", "no_device_scope"),
    ("on_dev", "in_no_dev_scope"),
    ("run_at", "at_no_dev_scope"),
)
PLAIN_MARKERS = ("cpu", "gpu", "distributed")
PLAIN_PREFIXES = ("", "on_", "at_")
ALIAS = "--marker-alias"


@dataclass(frozen=True)
class HarnessNames:
    """The fixture, what options have for "gpu", the two markers, what begins the plain ones."""

    fixture: str = FIXTURES[0]
    option_word: str = OPTION_WORDS[0]
    run_on: str = MARKERS[0][0]
    no_device_scope: str = MARKERS[0][1]
    plain_prefix: str = PLAIN_PREFIXES[0]

    @property
    def options(self) -> tuple[str, ...]:
        """The options, each with its dashes."""
        return tuple(f"--{name.replace('gpu', self.option_word)}" for name in OPTIONS)

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that stand for the options, in the same order."""
        return tuple(f"PYTEST_{_attribute(option).upper()}" for option in self.options)

    def renamed(self, text: str) -> str:
        """Return a rendered text with the usual names exchanged for these, as whole words.

        The plain markers are left to the templates, for ``gpu`` is a word in its own right.
        """
        usual = HarnessNames()
        pairs = [
            (usual.fixture, self.fixture),
            (usual.run_on, self.run_on),
            (usual.no_device_scope, self.no_device_scope),
        ]
        for old, new in zip(usual.options, self.options, strict=True):
            pairs += [(old, new), (_attribute(old), _attribute(new))]
        for old, new in pairs:
            if old != new:
                text = re.sub(rf"(?<![\w-]){re.escape(old)}(?![\w-])", new, text)
        return text


def needed_variables(names: HarnessNames) -> tuple[str, ...]:
    """Return which variables of the caller a run needs, in order, patterns as tox has them."""
    usual, word = HarnessNames(), names.option_word.upper()
    if names.option_word == usual.option_word:
        return NEEDED
    others = [name for name in NEEDED if not name.startswith("PYTEST_")]
    return tuple(sorted([*others, "PYTEST_GPU_LOCK_DIR", f"PYTEST_{word}_*", names.variables[-1]]))


def choose_names(
    taken: TakenNames, marker_lines: Sequence[str], aliases: Sequence[str] = ()
) -> tuple[HarnessNames, Mapping[str, tuple[str, str]]]:
    """Choose names that are free; return for others than the usual, by subject, names and why.

    ``marker_lines`` are as devicegen writes them: a marker that is registered in just those words
    is ours, and so are ``run_on`` and ``no_device_scope`` where they are used and not registered.
    ``aliases`` are markers of the project's, be they in use yet or not.
    """
    foreign: dict[str, object] = {
        name: where
        for name, (line, where) in taken.markers.items()
        if line not in marker_lines and (line or name not in MARKERS[0])
    }
    foreign.update(dict.fromkeys(aliases, ALIAS))
    run_on, no_device_scope = _free(MARKERS, lambda pair: pair, foreign)
    names = HarnessNames(
        _free(FIXTURES, lambda name: (name,), taken.fixtures),
        _free(OPTION_WORDS, lambda word: HarnessNames(option_word=word).options, taken.options),
        run_on,
        no_device_scope,
        _free(PLAIN_PREFIXES, _plain, foreign),
    )
    _refuse_clash(names, aliases)
    usual = HarnessNames()
    plain = _plain(names.plain_prefix)
    changes = {
        "fixture's name": ([usual.fixture], [names.fixture], taken.fixtures),
        "options' names": (usual.options, names.options, taken.options),
        "markers' names": (MARKERS[0], [run_on, no_device_scope], foreign),
        "plain markers": (PLAIN_MARKERS, plain, foreign),
    }
    said = {}
    for subject, (all_old, new, there) in changes.items():
        old = next((name for name in all_old if name in there), None)
        if old is not None:
            hint = (
                f"; --marker-alias {old}=run_on:{old} takes it over"
                if there is foreign and old in PLAIN_MARKERS and old not in aliases
                else ""
            )
            how = "taken over" if there is foreign and old in aliases else "there already"
            said[subject] = ", ".join(new), f"{old} is {how} ({there[old]}){hint}"
    return names, said


def without_aliases(
    names: HarnessNames, aliases: Sequence[str]
) -> tuple[HarnessNames, Mapping[str, tuple[str, str]]]:
    """Keep ``names`` but for the plain markers, where one of them is an alias from now on."""
    clash = next((each for each in _plain(names.plain_prefix) if each in aliases), None)
    if clash is None:
        _refuse_clash(names, aliases)
        return names, {}
    names = replace(names, plain_prefix=_free(PLAIN_PREFIXES, _plain, aliases))
    _refuse_clash(names, aliases)
    words = ", ".join(_plain(names.plain_prefix)), f"{clash} is taken over ({ALIAS})"
    return names, {"plain markers": words}


def _refuse_clash(names: HarnessNames, aliases: Sequence[str]) -> None:
    """Raise ``DevicegenError`` where the harness has one name for two things."""
    for name in (names.run_on, names.no_device_scope, *_plain(names.plain_prefix)):
        if name in aliases:
            raise DevicegenError(
                f"{ALIAS} {name}: the harness itself goes by that name here; give another marker"
            )


def _plain(prefix: str) -> list[str]:
    return [prefix + name for name in PLAIN_MARKERS]


def _free(
    candidates: Sequence[T], names: Callable[[T], Iterable[str]], taken: Container[str]
) -> T:
    """Return the first candidate none of whose names is taken; the last where all have one."""
    free = (each for each in candidates if not any(name in taken for name in names(each)))
    return next(free, candidates[-1])


def _attribute(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")
