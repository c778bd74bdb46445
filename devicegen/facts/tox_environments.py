"""Which tox environments run pytest, and which variables of the caller they do not pass on.

tox gives an environment only the variables that its configuration names:
https://tox.wiki/en/latest/config.html#pass_env, and of tox 3 ``passenv``,
https://tox.wiki/en/3.28.0/config.html#conf-passenv.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import NamedTuple

from devicegen.facts.source_tree import Location, SourceTree
from devicegen.facts.tox_files import ToxFile, read_tox_file

# What says which GPUs there are and how to use them; LD_LIBRARY_PATH is passed by tox itself
# (3.28 and 4.67, for environments with a Python).
NEEDED = (
    "CUDA_DEVICE_ORDER",
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "PYTEST_GPU_*",
    "PYTEST_WORKERS_PER_GPU",
    "ROCR_VISIBLE_DEVICES",
    "TF_*",
    "XLA_FLAGS",
)


class ToxEnvironment(NamedTuple):
    """An environment that runs pytest, the patterns that it passes, and the line where it does."""

    where: Location
    name: str
    passed: tuple[str, ...]

    def lacks(self, needed: Sequence[str] = NEEDED) -> tuple[str, ...]:
        """Return which variables, or patterns such as ``TF_*``, it does not pass."""
        return tuple(name for name in needed if not _is_passed(name, self.passed))


@dataclass(frozen=True)
class ToxGap:
    """A place of the tox configuration where variables have to be added.

    ``environments`` run pytest without all of ``missing``. ``lines`` are the exact lines to add,
    and ``place`` says in words where they go; ``where`` is the line of that place.
    """

    where: Location
    place: str
    environments: tuple[str, ...]
    missing: tuple[str, ...]
    lines: tuple[str, ...] = field(repr=False)

    def __str__(self) -> str:
        names = ", ".join(self.environments)
        return (
            f"{self.where}: tox environment {names} runs pytest and does not pass "
            f"{', '.join(self.missing)}; add {self.place}:"
        )


def tox_gaps(file: ToxFile | None, needed: Sequence[str] = NEEDED) -> tuple[ToxGap, ...]:
    """Return what the tox configuration lacks of the variables ``needed``."""
    return () if file is None else tuple(_gaps(file, needed))


def tox_environments(tree: SourceTree) -> tuple[ToxEnvironment, ...]:
    """Return the environments that run pytest."""
    file = read_tox_file(tree)
    return () if file is None else tuple(_environments(file))


def _environments(file: ToxFile) -> Iterator[ToxEnvironment]:
    for name in file.environments():
        if file.runs_pytest(name):
            passed = [*file.passed(name), *file.given(name)]
            _, where, _ = file.addition(file.passes_in(name), NEEDED)
            yield ToxEnvironment(where, name, tuple(passed))


def _gaps(file: ToxFile, needed: Sequence[str]) -> Iterator[ToxGap]:
    lacking: dict[str, dict[str, None]] = {}  # section -> names of environments
    missing: dict[str, dict[str, None]] = {}  # section -> variables
    for environment in _environments(file):
        lacks = environment.lacks(needed)
        if lacks:
            section = file.passes_in(environment.name)
            lacking.setdefault(section, {})[environment.name] = None
            missing.setdefault(section, {}).update(dict.fromkeys(lacks))
    for section, names in lacking.items():
        wanted = tuple(name for name in needed if name in missing[section])
        place, where, lines = file.addition(section, wanted)
        yield ToxGap(where, place, tuple(names), wanted, lines)


def _is_passed(needed: str, patterns: Sequence[str]) -> bool:
    """Tell whether one of tox's patterns covers a name, or a pattern such as ``TF_*``."""
    return any(fnmatchcase(needed.upper(), pattern.upper()) for pattern in patterns)
