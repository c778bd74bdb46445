"""Which conftests pytest loads before it parses its options, and from which rootdir.

A model of ``Config._preparse`` of pytest 7.0 to 9.2: ``determine_setup`` and ``locate_config``
(rootdir and ini-file), ``confcutdir``, ``_decide_args`` (testpaths) and
``_set_initial_conftests``; https://docs.pytest.org/en/stable/reference/customize.html. The tests
compare it with four versions of pytest over the table of layouts.

Folders are posix paths relative to the repository's top, "" for the top itself.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from typing import NamedTuple

# What changed at the start of pytest, as the lowest version with the change:
# 7.4: without an ini-file the rootdir cuts off the search for conftests; testpaths count;
# 8.1: a pyproject.toml without a table for pytest marks the rootdir where nothing else does.
VERSIONS = ((7, 0), (7, 4), (8, 1))
ABOVE = ".."  # a folder above the repository's top


class Way(NamedTuple):
    """A way to start pytest: the working folder and what is passed, a file, a folder or nothing.

    ``separate_value`` stands for an option of ours with its value as a word of its own
    (``--gpu-simulate 2``): until the harness is loaded pytest takes that word for a path, and then
    does not look at ``testpaths``.
    """

    folder: str
    argument: str | None = None
    separate_value: bool = False

    def __str__(self) -> str:
        words = ["pytest", *([self.argument] if self.argument is not None else [])]
        command = " ".join(words)
        return f"`{command}` from {self.folder}/" if self.folder else f"`{command}` at the top"


@dataclass(frozen=True)
class Layout:
    """What decides how pytest starts in a repository.

    ``configs`` are the folders with a configuration in force there, ``bare`` those with a
    pyproject.toml that says nothing to pytest, ``setups`` those with a setup.py. ``config_above``
    tells that a folder above the top holds a configuration. ``testpaths`` are the folders that the
    top's testpaths match, and ``confcutdir`` is that of its addopts; both hold where the top's
    configuration is in force.
    """

    configs: frozenset[str] = frozenset()
    bare: frozenset[str] = frozenset()
    setups: frozenset[str] = frozenset()
    config_above: bool = False
    testpaths: tuple[str, ...] = ()
    confcutdir: str | None = None
    conftests: frozenset[str] = frozenset()

    def with_config_at_top(self) -> Layout:
        """Return the layout with a configuration added at the top."""
        return replace(self, configs=self.configs | {""}, config_above=False)

    def rootdir(self, way: Way, version: tuple[int, int]) -> str:
        """Return the rootdir, ``ABOVE`` for one above the top."""
        return self._setup(way, version)[0]

    def loads(self, folder: str, way: Way, version: tuple[int, int]) -> bool:
        """Tell whether pytest loads a conftest in ``folder`` before it parses its options."""
        rootdir, has_config = self._setup(way, version)
        cut: str | None = rootdir
        if not has_config and version < (7, 4):
            cut = None  # every folder up to the file system's root
        if rootdir == "" and has_config and self.confcutdir is not None:
            cut = _joined(way.folder, self.confcutdir)
        return any(
            _is_above(folder, anchor)
            if not is_folder
            else _is_above(folder, anchor) or _is_test_folder_in(folder, anchor)
            for anchor, is_folder in self._anchors(way, version, rootdir)
        ) and not (cut is not None and folder != cut and _is_above(folder, cut))

    def _setup(self, way: Way, version: tuple[int, int]) -> tuple[str, bool]:
        """Return the rootdir, and whether an ini-file is there, as ``determine_setup`` does."""
        start = way.folder if way.argument is None else _folder_of(way.argument)
        above = _upwards(start)
        for folder in above:
            if folder in self.configs:
                return folder, True
        if self.config_above:
            return ABOVE, True
        if version >= (8, 1):
            for folder in above:
                if folder in self.bare:
                    return folder, True
        for folder in above:
            if folder in self.setups:
                return folder, False
        return _common(way.folder, start), False

    def _anchors(
        self, way: Way, version: tuple[int, int], rootdir: str
    ) -> Iterator[tuple[str, bool]]:
        """Yield the folders from which conftests are sought, and whether it is no file's."""
        if way.argument is not None:
            yield _folder_of(way.argument), not _is_file(way.argument)
        elif (
            self.testpaths
            and not way.separate_value
            and version >= (7, 4)
            and way.folder == rootdir == ""
        ):
            for path in self.testpaths:
                yield _folder_of(path), not _is_file(path)
        else:
            yield way.folder, True


def ways_to(tests: Iterable[str]) -> list[Way]:
    """Return the ways to start pytest that must work for these test files.

    At the top with nothing, with each folder above a test and with a test of each folder; and in
    each of these folders with nothing. Tests of one folder are alike.
    """
    one_a_folder: dict[str, str] = {}
    for test in tests:
        one_a_folder.setdefault(posixpath.dirname(test), test)
    folders = sorted({each for folder in one_a_folder for each in _upwards(folder)} - {""})
    ways = [Way(""), Way("", separate_value=True)]
    ways += [Way("", test) for test in one_a_folder.values()]
    ways += [Way(folder) for folder in folders]
    ways += [Way("", folder) for folder in folders]
    return ways


def common_folder(tests: Collection[str]) -> str:
    """Return the deepest folder that holds all of these files."""
    folders = [posixpath.dirname(test) for test in tests]
    return _common(*folders)


def _joined(folder: str, relative: str) -> str:
    """Return where ``relative`` leads from ``folder``, ``ABOVE`` for anything above the top."""
    path = posixpath.normpath(posixpath.join(folder, relative))
    return ABOVE if path.startswith((ABOVE, "/")) else "" if path == "." else path


def _is_file(path: str) -> bool:
    return path.endswith(".py")


def _folder_of(path: str) -> str:
    return posixpath.dirname(path) if _is_file(path) else path


@cache
def _upwards(folder: str) -> tuple[str, ...]:
    """Return a folder and those above it, the top last."""
    return (folder, *_upwards(folder.rpartition("/")[0])) if folder else ("",)


def _is_above(folder: str, other: str) -> bool:
    """Tell whether ``folder`` is ``other`` or above it."""
    if folder == ABOVE:
        return True
    return other != ABOVE and (folder in ("", other) or other.startswith(f"{folder}/"))


def _is_test_folder_in(folder: str, anchor: str) -> bool:
    parent, name = posixpath.split(folder)
    return parent == anchor and fnmatchcase(name, "test*")


def _common(*folders: str) -> str:
    parts: Sequence[str] = folders[0].split("/")
    for other in folders[1:]:
        matching = zip(parts, other.split("/"), strict=False)
        length = next(
            (number for number, (one, two) in enumerate(matching) if one != two),
            min(len(parts), len(other.split("/"))),
        )
        parts = parts[:length]
    return "/".join(parts)
