"""Which tox environments run pytest, and which variables of the caller they do not pass on.

tox gives an environment only the variables that its configuration names:
https://tox.wiki/en/latest/config.html#pass_env, and of tox 3 ``passenv``,
https://tox.wiki/en/3.28.0/config.html#conf-passenv.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

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


@dataclass(frozen=True)
class ToxEnvironment:
    """An environment that runs pytest, what it does not pass, and the line where it should."""

    where: Location
    name: str
    lacks: tuple[str, ...]


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


def tox_gaps(tree: SourceTree) -> tuple[ToxGap, ...]:
    """Return what the tox configuration at the top lacks; () where there is none."""
    file = read_tox_file(tree)
    return () if file is None else tuple(_gaps(file))


def tox_environments(tree: SourceTree) -> tuple[ToxEnvironment, ...]:
    """Return the environments that run pytest."""
    file = read_tox_file(tree)
    return () if file is None else tuple(_environments(file))


def _environments(file: ToxFile) -> Iterator[ToxEnvironment]:
    for name in file.environments():
        if file.runs_pytest(name):
            passed = [*file.passed(name), *file.given(name)]
            lacks = tuple(needed for needed in NEEDED if not _is_passed(needed, passed))
            _, where, _ = file.addition(file.passes_in(name), lacks)
            yield ToxEnvironment(where, name, lacks)


def _gaps(file: ToxFile) -> Iterator[ToxGap]:
    lacking: dict[str, dict[str, None]] = {}  # section -> names of environments
    missing: dict[str, dict[str, None]] = {}  # section -> variables
    for environment in _environments(file):
        if environment.lacks:
            section = file.passes_in(environment.name)
            lacking.setdefault(section, {})[environment.name] = None
            missing.setdefault(section, {}).update(dict.fromkeys(environment.lacks))
    for section, names in lacking.items():
        wanted = tuple(needed for needed in NEEDED if needed in missing[section])
        place, where, lines = file.addition(section, wanted)
        yield ToxGap(where, place, tuple(names), wanted, lines)


def _is_passed(needed: str, patterns: list[str]) -> bool:
    """Tell whether one of tox's patterns covers a name, or a pattern such as ``TF_*``."""
    return any(fnmatchcase(needed.upper(), pattern.upper()) for pattern in patterns)
