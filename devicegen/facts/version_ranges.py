"""Which versions a PEP 440 specifier set admits."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

# Operators that exclude everything older than the version they name.
LOWER_BOUNDS = frozenset({">=", ">", "~=", "==", "==="})
MINORS = 40  # how many minor versions to try where ``!=`` cuts holes
PATCHES = 20


def lowest_admitted(bounds: SpecifierSet) -> tuple[int, int] | None:
    """Return the (major, minor) of the lowest version that ``bounds`` admit.

    None when nothing bounds them from below, or when no version fits. Pre-releases count:
    ``>=2.5.0rc0`` gives (2, 5).
    """
    lower = [version for operator, version in _named(bounds) if operator in LOWER_BOUNDS]
    if not lower:
        return None
    start = max(lower)
    tried = chain([start], _releases_from(start))  # in order, and made only as needed
    first = next((each for each in tried if bounds.contains(each, prereleases=True)), None)
    return None if first is None else (first.major, first.minor)


def admits_major(bounds: SpecifierSet, major: int) -> bool:
    """Say whether ``bounds`` admit any version of ``major``."""
    named = [version for _, version in _named(bounds) if version.major == major]
    tried = chain(named, _releases_from(Version(f"{major}.0")))
    return any(
        version.major == major and bounds.contains(version, prereleases=True) for version in tried
    )


def _named(bounds: SpecifierSet) -> Iterator[tuple[str, Version]]:
    for specifier in bounds:
        try:
            yield specifier.operator, Version(specifier.version.removesuffix(".*"))
        except InvalidVersion:
            continue  # ``===`` compares strings and takes any text


def _releases_from(start: Version) -> Iterator[Version]:
    for minor in range(start.minor, start.minor + MINORS):
        for patch in range(PATCHES):
            yield Version(f"{start.major}.{minor}.{patch}")
    yield Version(f"{start.major + 1}.0.0")
