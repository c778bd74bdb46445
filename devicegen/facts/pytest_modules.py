"""Which files pytest takes for test modules."""

from __future__ import annotations

import glob
import posixpath
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import cache, partial

from devicegen.facts.source_tree import SourceTree

# https://docs.pytest.org/en/stable/reference/reference.html#confval-python_files
PYTHON_FILES = ("test_*.py", "*_test.py")


def list_test_files(
    tree: SourceTree,
    python_files: Sequence[str] = PYTHON_FILES,
    testpaths: Sequence[str] = (),
    norecursedirs: Sequence[str] = (),
    ignored: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return the paths of the test modules that ``pytest`` without arguments would look at.

    ``python_files`` are fnmatch patterns for the name, or for the whole path where a pattern holds
    a slash. ``testpaths`` are globs relative to the top; a file that one names is taken whatever
    its name, and when none matches anything the whole tree is looked at, as pytest does.
    Folders that match ``norecursedirs``, and what is at or below a path of ``ignored``, are left
    out; what ``collect_ignore`` names is not.
    """
    roots = frozenset(roots_of(tree, testpaths) or {"."})
    skips = cache(partial(_is_skipped, norecursedirs=tuple(norecursedirs)))
    return tuple(
        path
        for path in tree.python_files()
        if path in roots
        or (
            _matches(path, python_files)
            and (root := _root_above(path, roots)) is not None
            and not skips(posixpath.dirname(path), root)
            and not _is_below_any(path, ignored)
        )
    )


def _is_skipped(folder: str, root: str, norecursedirs: Sequence[str]) -> bool:
    """Tell whether a folder, or one between it and ``root``, matches, as ``fnmatch_ex`` does."""
    folders = folder.split("/") if folder else []
    start = 0 if root == "." else root.count("/") + 1
    return any(
        _matches("/".join(folders[: length + 1]), norecursedirs)
        for length in range(start, len(folders))
    )


def _is_below_any(path: str, ignored: Sequence[str]) -> bool:
    return any(path == each or path.startswith(f"{each}/") for each in ignored)


def roots_of(tree: SourceTree, testpaths: Iterable[str]) -> list[str]:
    """Return the paths that ``testpaths`` match, relative to the top; "." for the top."""
    found = {
        posixpath.normpath(match.replace("\\", "/"))
        for pattern in testpaths
        for match in glob.iglob(pattern, root_dir=tree.top, recursive=True)  # noqa: PTH207 (as pytest)
    }
    return sorted(found)


def _root_above(path: str, roots: frozenset[str]) -> str | None:
    """Return the outermost of ``roots`` that the path is below."""
    if "." in roots:
        return "."
    parts = path.split("/")
    above = ("/".join(parts[:length]) for length in range(1, len(parts)))
    return next((folder for folder in above if folder in roots), None)


def _matches(path: str, patterns: Iterable[str]) -> bool:
    """Match as pytest's ``fnmatch_ex``: a pattern with a slash may begin anywhere in the path."""
    name = posixpath.basename(path)
    return any(
        fnmatchcase(f"/{path}", f"*/{pattern}") if "/" in pattern else fnmatchcase(name, pattern)
        for pattern in patterns
    )
