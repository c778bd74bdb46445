"""Whether the repository uses TensorFlow, and which versions its requirements admit."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import product
from typing import NamedTuple

from packaging.markers import Marker
from packaging.specifiers import SpecifierSet

from devicegen.facts.conftests import owners_data
from devicegen.facts.requirement_record import RequirementFact, Requirements
from devicegen.facts.source_tree import Location, SourceTree
from devicegen.facts.version_ranges import admits_major, lowest_admitted

# https://www.tensorflow.org/install/pip, and the packages that vendors publish.
TENSORFLOW_DISTRIBUTIONS = (
    "tensorflow",
    "tensorflow-cpu",
    "tensorflow-cpu-aws",
    "tensorflow-gpu",
    "tensorflow-intel",
    "tensorflow-macos",
    "tensorflow-rocm",
    "tf-nightly",
    "tf-nightly-cpu",
    "tf-nightly-gpu",
)
# Of a line that begins with it. The newline, and no "^", lets Python look for lines only.
IMPORT = re.compile(rb"\n[ \t]*(?:import|from)[ \t]+tensorflow\b")
FOR_DEVELOPMENT = re.compile(
    r"(?<![a-z])(tests?|testing|dev|develop|ci|lint|docs?|build)(?![a-z])"
)
# Where a marker may hold: (sys_platform, platform_system, os_name, platform_machine).
PLATFORMS = (
    ("linux", "Linux", "posix", "x86_64"),
    ("linux", "Linux", "posix", "aarch64"),
    ("darwin", "Darwin", "posix", "arm64"),
    ("darwin", "Darwin", "posix", "x86_64"),
    ("win32", "Windows", "nt", "AMD64"),
)
HARNESS_FLOOR = (3, 9)
NEWEST_MINOR = 15


class TensorFlowVersions(NamedTuple):
    """Which TensorFlow the requirements admit.

    ``lowest`` is (major, minor), None when unbounded or when no version fits; ``admits_2x`` is
    true when any 2.x fits, also when no version is stated. ``where`` are the requirements this
    was read from, or those that name TensorFlow without a version; empty when none names it.
    """

    lowest: tuple[int, int] | None
    admits_2x: bool
    where: tuple[Location, ...]


def tensorflow_versions(requirements: Requirements) -> TensorFlowVersions:
    """Return the versions of TensorFlow that ``requirements`` admit.

    The strongest kind of requirement that states a version decides alone: run-time dependencies;
    then top-level requirements files and conda environments; then extras and texts in a computed
    setup.py; then test and development extras, groups, tox and files; then constraints. A bare
    name states no version, so the next kind is asked.

    Within one kind, lines of the same list for the same distribution and marker hold together
    (pip installs what fits all): they are intersected. Different distributions, markers, extras
    or files are alternatives, of which the lowest counts: it is the oldest that the generated
    code must run on. Lines whose marker holds on no platform with a Python that both the project
    and the harness (3.9) run on are left out.
    """
    facts = [
        fact
        for fact in requirements.named(*TENSORFLOW_DISTRIBUTIONS)
        if _can_hold(fact, requirements.python.version)
    ]
    stated = [fact for fact in facts if fact.specifier]
    if not stated:
        return TensorFlowVersions(None, True, _places(facts))
    strongest = min(map(_rank, stated))
    deciding = [fact for fact in stated if _rank(fact) == strongest]
    ranges = list(_alternatives(deciding))
    lowest = [lowest_admitted(bounds) for bounds in ranges]
    known = [version for version in lowest if version is not None]
    unbounded = any(
        low is None and _fits(bounds) for low, bounds in zip(lowest, ranges, strict=True)
    )
    return TensorFlowVersions(
        None if unbounded or not known else min(known),
        any(admits_major(bounds, 2) for bounds in ranges),
        _places(deciding),
    )


def rocm_requirements(requirements: Requirements) -> tuple[Location, ...]:
    """Return where ``tensorflow-rocm``, AMD's build, is required, on a platform that can be."""
    facts = requirements.named("tensorflow-rocm")
    return _places(fact for fact in facts if _can_hold(fact, requirements.python.version))


def scan_python(
    tree: SourceTree, words: Iterable[bytes], *sought: Callable[[bytes], bool]
) -> tuple[tuple[Location, ...], list[list[str]]]:
    """Read each Python file, as bytes: where TensorFlow is imported, and what else is sought.

    For each file that imports TensorFlow the line of its first import: a text search for lines
    that begin with ``import tensorflow`` or ``from tensorflow``, so one in a docstring counts too;
    what devicegen wrote does not. For each function of ``sought`` the files whose bytes it takes;
    each of them holds one of ``words``.
    """
    imports = []
    taken: list[list[str]] = [[] for _ in sought]

    def seek(path: str, data: bytes) -> None:
        for takes, paths in zip(sought, taken, strict=True):
            if takes(data):
                paths.append(path)

    candidates = tree.searched(words)
    for path in tree.python_files():
        if (data := tree.data(path)) is not None:
            if line := _first_import(data):
                imports.append(Location(path, line))
            if candidates is None:
                seek(path, data)
    for path in candidates() if candidates else ():
        if (data := tree.data(path)) is not None:
            seek(path, data)
    return tuple(imports), taken


def _first_import(data: bytes) -> int | None:
    if b" tensorflow" not in data and b"\ttensorflow" not in data:
        return None
    text = b"\n" + data
    found = IMPORT.search(text)
    if found and b"devicegen" in text[: found.start()]:  # ours may be around it
        found = IMPORT.search(text := b"\n" + owners_data(data))
    return text.count(b"\n", 0, found.start() + 1) if found else None


def is_for_development(fact: RequirementFact) -> bool:
    """Tell whether a requirement is of the tests, documents and the like only."""
    return _rank(fact) >= 3


def _rank(fact: RequirementFact) -> int:
    kind, _, name = fact.group.partition(":")
    match kind:
        case "dependencies":
            return 0
        case "constraints":
            return 4
        case "requirements" | "conda":
            return 3 if FOR_DEVELOPMENT.search(name) else 1
        case "extra" | "literal":
            return 3 if FOR_DEVELOPMENT.search(name) else 2
    return 3


def _alternatives(facts: list[RequirementFact]) -> Iterator[SpecifierSet]:
    together: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
    for fact in facts:
        together[fact.name, fact.group, fact.marker].append(fact.specifier)
    return (SpecifierSet(",".join(specifiers)) for specifiers in together.values())


def _fits(bounds: SpecifierSet) -> bool:
    return admits_major(bounds, 1) or admits_major(bounds, 2)


def _can_hold(fact: RequirementFact, floor: tuple[int, int] | None) -> bool:
    if not fact.marker:
        return True
    extra = fact.group.removeprefix("extra:") if fact.group.startswith("extra:") else ""
    return _marker_can_hold(fact.marker, extra, max(floor or HARNESS_FLOOR, HARNESS_FLOOR))


@cache
def _marker_can_hold(marker: str, extra: str, floor: tuple[int, int]) -> bool:
    parsed = Marker(marker)
    for platform, minor in product(PLATFORMS, range(floor[1], max(NEWEST_MINOR, floor[1]) + 1)):
        sys_platform, system, os_name, machine = platform
        environment = {
            "sys_platform": sys_platform,
            "platform_system": system,
            "os_name": os_name,
            "platform_machine": machine,
            "python_version": f"3.{minor}",
            "python_full_version": f"3.{minor}.0",
            "extra": extra,
        }
        if parsed.evaluate(environment):
            return True
    return False


def _places(facts: Iterable[RequirementFact]) -> tuple[Location, ...]:
    return tuple(dict.fromkeys(fact.where for fact in facts))
