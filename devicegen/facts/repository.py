"""Everything that is known of a repository, with the file and line that each fact came from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from devicegen.errors import DevicegenError
from devicegen.facts.bazel import MAINS, NO_BAZEL, BazelFacts, read_bazel
from devicegen.facts.installation import install_words
from devicegen.facts.pytest_config import PytestConfig, read_pytest_config
from devicegen.facts.pytest_modules import list_test_files
from devicegen.facts.requirements import PythonFloor, read_requirements
from devicegen.facts.source_tree import Location, SourceTree
from devicegen.facts.tensorflow_use import (
    TensorFlowVersions,
    rocm_requirements,
    tensorflow_imports,
    tensorflow_versions,
)
from devicegen.facts.tox_environments import ToxGap, tox_gaps
from devicegen.facts.xdist_use import xdist_mentions

RECORD = ".devicegen/record.toml"
# What marks the top of a project, the strongest first where a folder holds several.
TOP_MARKS = (RECORD, ".git", "pyproject.toml", "setup.py", "setup.cfg")
# The line of its docstring by which a harness is known, whatever version wrote it.
HARNESS_LINE = re.compile(r"^Written by devicegen \S+ for this repository\b", re.MULTILINE)


@dataclass(frozen=True)
class RepoFacts:
    """What the repository's files say. Nothing of the target was imported or run.

    Paths are posix and relative to ``top``. ``top_reason`` says in words why ``top`` is the
    top; ``harnesses`` are those of the ``conftests`` that devicegen wrote; ``problems`` are
    lines about files that could not be read; ``tox`` is what the tox configuration lacks;
    ``installed_by`` are the arguments of ``pip install`` for it and its tests.
    """

    top: Path
    top_reason: str
    pytest_config: PytestConfig
    test_files: tuple[str, ...]
    conftests: tuple[str, ...]
    harnesses: tuple[str, ...]
    tensorflow: TensorFlowVersions
    tensorflow_imports: tuple[Location, ...]
    rocm: tuple[Location, ...]
    xdist: tuple[Location, ...]
    python_floor: PythonFloor
    problems: tuple[str, ...]
    bazel: BazelFacts = NO_BAZEL
    tox: tuple[ToxGap, ...] = ()
    installed_by: tuple[str, ...] = ()


def find_top(path: Path) -> tuple[Path, str]:
    """Return the repository's top for ``path`` and why it is: the nearest folder with a mark.

    A folder with a ``pyproject.toml`` of its own inside a larger repository is a project of its
    own. Raises ``DevicegenError`` where ``path`` is no folder.
    """
    if not path.is_dir():
        what = "is not a folder" if path.exists() else "does not exist"
        raise DevicegenError(f"{path}: {what}; give the folder of a repository")
    start = path.resolve()
    for folder in (start, *start.parents):
        for mark in TOP_MARKS:
            if (folder / mark).exists():
                return folder, f"it holds {mark}"
    return start, "the folder given; no folder above it holds a project file"


def gather_facts(path: Path) -> RepoFacts:
    """Read the repository that ``path`` lies in. Raises ``DevicegenError`` for a bad ``path``."""
    top, top_reason = find_top(path)
    tree = SourceTree.list(top)
    config = read_pytest_config(top)
    requirements = read_requirements(tree)
    conftests = tuple(name for name in tree.files if name.split("/")[-1] == "conftest.py")
    return RepoFacts(
        top=top,
        top_reason=top_reason,
        pytest_config=config,
        test_files=list_test_files(tree, config.python_files, config.testpaths),
        conftests=conftests,
        harnesses=tuple(name for name in conftests if is_harness(tree.text(name) or "")),
        tensorflow=tensorflow_versions(requirements),
        tensorflow_imports=tensorflow_imports(tree),
        rocm=rocm_requirements(requirements),
        xdist=xdist_mentions(tree, requirements),
        python_floor=requirements.python,
        problems=_problems(config, requirements.problems),
        bazel=read_bazel(tree, _mains_of_ours(tree)),
        tox=tox_gaps(tree),
        installed_by=install_words(tree, requirements),
    )


def is_harness(text: str) -> bool:
    """Tell whether devicegen wrote this file, by the line in its docstring that says so."""
    return HARNESS_LINE.search(text) is not None


def _mains_of_ours(tree: SourceTree) -> Iterator[str]:
    for path in tree.python_files():
        if path.split("/")[-1] in MAINS and is_harness(tree.text(path) or ""):
            yield path


def _problems(config: PytestConfig, others: tuple[str, ...]) -> tuple[str, ...]:
    """Add why no configuration can be used, unless that file and line are named already."""
    if config.path is not None or config.problem is None:
        return others
    place = config.problem.split(": ")[0]
    return others if any(line.startswith(place) for line in others) else (config.problem, *others)
