"""Where the repository runs Python tests under Bazel."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from devicegen.facts.source_tree import Location, SourceTree

BUILD_NAMES = ("BUILD.bazel", "BUILD")  # the first wins where a folder holds both
WORKSPACE_NAMES = ("MODULE.bazel", "REPO.bazel", "WORKSPACE.bazel", "WORKSPACE")
MAIN = "pytest_main.py"
# What our main is called: the first of these that is not the project's own file.
MAINS = (MAIN, f"device_{MAIN}")
# py_test itself and the macros that projects put around it: tf_py_test, pytype_strict_test.
PY_TEST = re.compile(r"^[ \t\[]*\w*py(?:test|type)?_(?:\w+_)?test[ \t]*\(", re.MULTILINE)
LOAD = re.compile(r"^load\(\s*\"([^\"]+)\"[^)]*?\"py_test\"[^)]*\)", re.MULTILINE)

EXPORTS = re.compile(rf"exports_files\([^)]*{re.escape(MAIN)}")
LOADS_LIBRARY = re.compile(r"^load\([^)]*\"py_library\"[^)]*\)", re.MULTILINE)


class BazelFacts(NamedTuple):
    """What the BUILD files say.

    ``py_tests`` are the first Python test rule of each BUILD file, ``build_files`` all of them.
    ``load`` is the label that ``py_test`` is loaded from, "" where it is Bazel's own. ``prefix``
    is the path from Bazel's workspace to the repository's top, "" where they are the same, else
    with a slash at its end. ``loads_library`` are the BUILD files that load ``py_library``;
    ``own_mains`` are files of the project under a name of ``MAINS``;
    ``exports`` are the BUILD files that export such a file.
    """

    py_tests: tuple[Location, ...] = ()
    build_files: tuple[str, ...] = ()
    load: str = ""
    prefix: str = ""
    loads_library: tuple[str, ...] = ()
    own_mains: tuple[str, ...] = ()
    exports: tuple[str, ...] = ()

    def build_file(self, path: str) -> str:
        """Return the BUILD file of the package that ``path`` lies in.

        Where no folder above it has one, that which should be made beside it.
        """
        folder = posixpath.dirname(path)
        while True:
            for name in BUILD_NAMES:
                if posixpath.join(folder, name) in self.build_files:
                    return posixpath.join(folder, name)
            if not folder:
                return posixpath.join(posixpath.dirname(path), BUILD_NAMES[0])
            folder = posixpath.dirname(folder)

    def label(self, path: str) -> str:
        """Return the label of a file: ``//package:path``."""
        package = posixpath.dirname(self.build_file(path))
        name = path.removeprefix(f"{package}/") if package else path
        return f"//{(self.prefix + package).rstrip('/')}:{name}"


NO_BAZEL = BazelFacts()


def read_bazel(tree: SourceTree, ours: Iterable[str]) -> BazelFacts:
    """Read the BUILD files as text. ``ours`` are paths of mains that devicegen wrote."""
    build_files = tuple(path for path in tree.files if posixpath.basename(path) in BUILD_NAMES)
    texts = {path: tree.text(path) or "" for path in build_files}
    found = {path: match for path, text in texts.items() if (match := PY_TEST.search(text))}
    loads = [match[1] for text in texts.values() if (match := LOAD.search(text))]
    mains = {path for path in tree.files if posixpath.basename(path) in MAINS}
    return BazelFacts(
        py_tests=tuple(
            Location(path, texts[path].count("\n", 0, match.start()) + 1)
            for path, match in found.items()
        ),
        build_files=build_files,
        load=loads[0] if loads else "",
        prefix=_prefix(tree.top),
        loads_library=tuple(p for p, text in texts.items() if LOADS_LIBRARY.search(text)),
        own_mains=tuple(sorted(mains - set(ours))),
        exports=tuple(path for path, text in texts.items() if EXPORTS.search(text)),
    )


def _prefix(top: Path) -> str:
    for folder in (top, *top.parents):
        if any((folder / name).is_file() for name in WORKSPACE_NAMES):
            return f"{top.relative_to(folder).as_posix()}/".removeprefix("./")
    return ""
