"""Which files pytest takes for test modules."""

from __future__ import annotations

import glob
import posixpath
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from devicegen.facts.source_tree import SourceTree

# https://docs.pytest.org/en/stable/reference/reference.html#confval-python_files
PYTHON_FILES = ("test_*.py", "*_test.py")


def list_test_files(
    tree: SourceTree,
    python_files: Sequence[str] = PYTHON_FILES,
    testpaths: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return the paths of the test modules that ``pytest`` without arguments would look at.

    ``python_files`` are fnmatch patterns for the name, or for the whole path where a pattern holds
    a slash. ``testpaths`` are globs relative to the top; a file that one names is taken whatever
    its name, and when none matches anything the whole tree is looked at, as pytest does. Nothing
    else is left out: not by ``norecursedirs``, not by ``collect_ignore``.
    """
    roots = _roots(tree, testpaths)
    return tuple(
        path
        for path in tree.python_files()
        if path in roots or (_below(path, roots) and _matches(path, python_files))
    )


def _roots(tree: SourceTree, testpaths: Iterable[str]) -> frozenset[str]:
    found = {
        posixpath.normpath(match.replace("\\", "/"))
        for pattern in testpaths
        for match in glob.iglob(pattern, root_dir=tree.top, recursive=True)  # noqa: PTH207 (as pytest)
    }
    return frozenset(found or {"."})


def _below(path: str, roots: frozenset[str]) -> bool:
    if "." in roots:
        return True
    parts = path.split("/")
    return any("/".join(parts[:length]) in roots for length in range(1, len(parts)))


def _matches(path: str, patterns: Iterable[str]) -> bool:
    """Match as pytest's ``fnmatch_ex``: a pattern with a slash may begin anywhere in the path."""
    name = posixpath.basename(path)
    return any(
        fnmatchcase(f"/{path}", f"*/{pattern}") if "/" in pattern else fnmatchcase(name, pattern)
        for pattern in patterns
    )
