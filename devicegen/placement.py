"""Where the harness goes: a level that pytest loads before it parses its options.

Right means: however pytest is started (``ways_to``), with every version that the project admits,
the conftest at that level is an initial conftest. A level of our own is better than a conftest
that we share, one inside the tests better than the top, and no new ini-file better than one.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from devicegen.conftest_block import is_block
from devicegen.errors import DevicegenError
from devicegen.facts.pytest_config import PytestConfig
from devicegen.facts.pytest_startup import VERSIONS, Layout, Way, common_folder, ways_to
from devicegen.facts.repository import RepoFacts
from devicegen.record import Record

HARNESS = "conftest.py"


@dataclass(frozen=True)
class Place:
    """Where the harness goes and why.

    ``shared`` means a block in a conftest that the project owns. ``config`` is the pytest
    configuration that is to be in force: ``adds_config`` tells that it is not yet, and
    ``config_reason`` why it must be. ``notes`` are ways that the harness does not reach.
    """

    path: str
    reason: str
    shared: bool
    config: PytestConfig
    adds_config: bool = False
    config_reason: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Level:
    """A folder that may hold the harness; ``rank`` sorts the best first."""

    folder: str
    rank: int
    reason: str
    obstacle: str | None = None

    @property
    def path(self) -> str:
        return posixpath.join(self.folder, HARNESS)


def find_place(
    facts: RepoFacts, record: Record | None, wanted: str | None, *, config_edit: bool
) -> Place:
    """Choose the level, and the pytest configuration where it takes one to make a level right.

    An earlier ``record`` keeps its place, ``wanted`` is ``--conftest``. Raises ``DevicegenError``
    where no level is right, and says which command is not reached and why.
    """
    main, notes = _own_tests(facts)
    if record and record.harness:
        return _recorded(facts, record, wanted, main, notes, config_edit)
    _refuse_ejected(facts)
    levels = _levels(facts, main)
    if wanted is not None:
        levels = [_wanted(levels, wanted)]
    ours = {each.path for each in facts.described if each.owner != "project"}
    here = [level for level in levels if level.path in ours]
    if len(here) > 1:
        paths = " and ".join(level.path for level in here)
        raise DevicegenError(f"{paths} hold a harness each, which stops pytest; delete one")
    if here:
        why = "a harness is there already, without a record"
        return _place(facts, here[0], why, main, notes, config_edit)
    _refuse_noconftest(facts)
    _refuse_second_harness(facts, levels)
    found = [each for each in _choices(facts, levels, main) if not each.missed]
    right = [each for each in found if not each.level.obstacle]
    if not right:
        raise DevicegenError(_nowhere(_choices(facts, levels, main)))
    best = min(right, key=lambda each: each.rank)
    level = best.level
    unusable = [each.level for each in found if each.level.obstacle and each.rank < best.rank]
    reason = "; ".join([level.reason, *_taken(facts, found, best)])
    return _place(facts, level, reason, main, (*notes, *map(_why_not, unusable)), config_edit)


class _Choice(NamedTuple):
    """A level as things are, or with a configuration added; ``missed`` do not load it in time."""

    level: _Level
    rank: int
    missed: tuple[Way, ...]


def _choices(facts: RepoFacts, levels: Sequence[_Level], main: Sequence[str]) -> list[_Choice]:
    layouts = [(facts.layout, 0)]
    if facts.pytest_config.problem is None and not facts.pytest_config.is_in_force:
        # A new table in a file that is there is less than a shared conftest, a new file is more.
        cost = 5 if facts.files_at_top & {"pyproject.toml", "setup.cfg", "tox.ini"} else 15
        layouts.append((facts.layout.with_config_at_top(), cost))
    versions = _versions(facts)
    return [
        _Choice(level, level.rank + cost, tuple(_missed(layout, level.folder, main, versions)))
        for layout, cost in layouts
        for level in levels
    ]


def _place(
    facts: RepoFacts,
    level: _Level,
    reason: str,
    main: Sequence[str],
    notes: Sequence[str],
    config_edit: bool,
) -> Place:
    """Say which configuration goes with a level."""
    shared = level.path in facts.owned_conftests
    missed = _missed(facts.layout, level.folder, main, _versions(facts))
    config = facts.pytest_config
    if not missed or config.is_in_force or config.problem is not None:
        return Place(level.path, reason, shared, config, notes=tuple(notes))
    added = new_config(facts)
    why = f"none is in force, and without one {missed[0]} does not load {level.path}"
    if not config_edit:
        note = f"--no-config-edit: {why}; add a pytest configuration at the top by hand"
        return Place(level.path, reason, shared, config, notes=(*notes, note))
    why += "; it makes this folder the rootdir for everyone"
    return Place(level.path, reason, shared, added, True, why, tuple(notes))


def new_config(facts: RepoFacts) -> PytestConfig:
    """Return where a pytest configuration is added: a file that is there, else a pytest.ini."""
    there = facts.files_at_top
    if "pyproject.toml" in there:
        return replace(PytestConfig(), path="pyproject.toml", syntax="toml")
    if "setup.cfg" in there:
        return replace(PytestConfig(), path="setup.cfg", syntax="ini")
    if "tox.ini" in there:
        return replace(PytestConfig(), path="tox.ini", syntax="ini")
    return replace(PytestConfig(), path="pytest.ini", syntax="ini")


def _recorded(
    facts: RepoFacts,
    record: Record,
    wanted: str | None,
    main: Sequence[str],
    notes: Sequence[str],
    config_edit: bool,
) -> Place:
    path = record.harness or record.paths[0]
    if wanted not in (None, path):
        raise DevicegenError(
            f"--conftest {wanted}: the record says that the harness is {path}; delete "
            ".devicegen/ and that harness first"
        )
    level = _Level(posixpath.dirname(path), 0, "")
    place = _place(facts, level, "where the record says it is", main, notes, config_edit)
    written = record.pristine.get(path)
    on_disk = facts.owned_conftests.get(path)
    shared = is_block(written) if written else on_disk is not None and on_disk.owner == "both"
    return replace(place, shared=shared)


def _versions(facts: RepoFacts) -> list[tuple[int, int]]:
    """Return the kinds of pytest that the project admits."""
    floor = facts.pytest_floor
    newer = [version for version in VERSIONS if floor is not None and version <= floor]
    return [version for version in VERSIONS if not newer or version >= newer[-1]]


def _own_tests(facts: RepoFacts) -> tuple[list[str], tuple[str, ...]]:
    """Return the tests whose rootdir is the top, and a note for each project below it.

    A configuration below the top makes its folder the rootdir of ``pytest FILE``, and cuts off
    the conftests above; nothing at the top changes that.
    """
    layout = facts.layout.with_config_at_top()
    projects: dict[str, list[str]] = {}
    for test in facts.test_files:
        projects.setdefault(layout.rootdir(Way("", test), VERSIONS[-1]), []).append(test)
    main = projects.pop("", [])
    if not main:
        named = [f"`devicegen init {_quoted(facts, folder)}`" for folder in projects]
        commands = ", ".join(named[:3]) + (f" and {len(named) - 3} more" if named[3:] else "")
        raise DevicegenError(
            f"{facts.top}: every test belongs to a folder with a pytest configuration of its "
            f"own, where pytest takes no conftest of the top; run {commands} instead"
        )
    notes = tuple(
        f"{folder}/ holds a pytest configuration, so `pytest {tests[0]}` loads no conftest above "
        "it; these tests get device scopes only with the others"
        for folder, tests in projects.items()
    )
    return main, notes


def _quoted(facts: RepoFacts, folder: str) -> str:
    return shlex.quote((facts.given / folder).as_posix())


def _levels(facts: RepoFacts, main: Sequence[str]) -> list[_Level]:
    """Return every folder that holds all tests, ranked."""
    folder = common_folder(main)
    folders = [folder]
    while folder:
        folder = posixpath.dirname(folder)
        folders.append(folder)
    printable = [each for each in folders if each.isprintable()]
    return sorted((_level(facts, each, main) for each in printable), key=lambda each: each.rank)


def _level(facts: RepoFacts, folder: str, main: Sequence[str]) -> _Level:
    path = posixpath.join(folder, HARNESS)
    owned = facts.owned_conftests.get(path)
    obstacle = owned.obstacle if owned else facts.hidden_conftests.get(path)
    reason = _level_reason(facts, folder, main)
    if owned:
        reason += f"; a block in the project's own {path}"
    harm = None if owned else facts.harms.get(folder)
    rank = 10 * bool(owned) + 20 * bool(harm) + (0 if folder else 2)
    if harm and not owned:
        reason += f"; {harm}"
    return _Level(folder, rank + folder.count("/"), reason, obstacle)


def _level_reason(facts: RepoFacts, folder: str, main: Sequence[str]) -> str:
    count = len(main)
    tests = "the only test file is there" if count == 1 else f"all {count} test files are there"
    if not folder:
        top = "pytest loads the top's conftest at its start"
        shared = common_folder(main)
        return top if shared else f"the test files share no folder at the top; {top}"
    if folder.startswith("test") and "/" not in folder:
        return f"{tests}, and pytest loads test*/conftest.py"
    return f"{tests}, and pytest loads it at its start"


def _taken(facts: RepoFacts, found: Sequence[_Choice], best: _Choice) -> list[str]:
    """Say of the levels that are not taken why, where a reader would ask."""
    words = []
    for other in {each.level.folder: each.level for each in found}.values():
        if other.folder == best.level.folder:
            continue
        if other.path in facts.owned_conftests:
            words.append(f"{other.path} is the project's own")
        elif other.folder in facts.harms:
            words.append(facts.harms[other.folder])
    return words


def _why_not(level: _Level) -> str:
    return f"{level.path} {level.obstacle}, so nothing is added to it"


def _wanted(levels: Sequence[_Level], wanted: str) -> _Level:
    path = posixpath.normpath(wanted)
    found = next((level for level in levels if level.path == path), None)
    if found is None:
        allowed = ", ".join(level.path for level in levels)
        raise DevicegenError(
            f"--conftest {wanted}: that is no conftest.py of a folder that holds all tests; these "
            f"are: {allowed}"
        )
    return replace(found, reason="--conftest")


def _missed(
    layout: Layout, folder: str, tests: Sequence[str], versions: Sequence[tuple[int, int]]
) -> list[Way]:
    """Return the ways to start pytest that do not load a conftest in ``folder`` in time."""
    return [
        way
        for way in ways_to(tests)
        if not all(layout.loads(folder, way, version) for version in versions)
    ]


def _refuse_noconftest(facts: RepoFacts) -> None:
    config = facts.pytest_config
    if "--noconftest" in config.addopts:
        raise DevicegenError(
            f"{config.path}:{config.line}: addopts hold --noconftest, with which pytest loads no "
            "harness; remove it first"
        )


def _refuse_ejected(facts: RepoFacts) -> None:
    """Refuse to write beside a harness that the project has taken over."""
    for conftest in facts.described:
        folder = posixpath.dirname(conftest.path)
        inside = [
            test for test in facts.test_files if test.startswith(f"{folder}/" * bool(folder))
        ]
        if conftest.ejected is not None and inside:
            raise DevicegenError(
                f"{conftest.path}:{conftest.ejected}: a harness without devicegen's header is "
                "here, as `devicegen eject` leaves it: it is the project's own, and works without "
                "devicegen, which does not write a second one beside it. To let devicegen look "
                "after it again, take the harness out of this file and run `devicegen init`; "
                "edits of yours in it have to be made anew"
            )


def _refuse_second_harness(facts: RepoFacts, levels: Sequence[_Level]) -> None:
    """Refuse where a run would load two: the second adds the options again, which is fatal."""
    ours = {level.path for level in levels}
    for conftest in facts.described:
        folder = posixpath.dirname(conftest.path)
        below = [test for test in facts.test_files if test.startswith(f"{folder}/")]
        if conftest.owner != "project" and conftest.path not in ours and below:
            raise DevicegenError(
                f"{conftest.path}: is a harness already, and `pytest` at the top would load it "
                "and a second one, which stops pytest; delete it, or keep its tests out of "
                "testpaths"
            )
    if facts.harness_above is not None:
        raise DevicegenError(
            f"{facts.harness_above}: a harness is there already, for tests that hold those of "
            f"{facts.top}; with a second one here `pytest` there would stop"
        )


def _nowhere(choices: Sequence[_Choice]) -> str:
    said = {}
    for each in choices:
        if each.missed:
            said[each.level.path] = f"is not loaded in time by {each.missed[0]}"
        elif each.level.obstacle:
            said[each.level.path] = each.level.obstacle
    words = "; ".join(f"{path} {why}" for path, why in said.items())
    return f"no place for the harness: {words}; free one of them, or name another with --conftest"
