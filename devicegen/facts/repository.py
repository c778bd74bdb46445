"""Everything that is known of a repository, with the file and line that each fact came from."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from packaging.specifiers import SpecifierSet

from devicegen.errors import DevicegenError
from devicegen.facts.bazel import MAINS, NO_BAZEL, BazelFacts, read_bazel
from devicegen.facts.conftests import HARNESS_LINE, Conftest, read_conftests
from devicegen.facts.container_tests import container_tests, other_tests
from devicegen.facts.device_setup import WORDS_IN_BYTES as DEVICE_WORDS
from devicegen.facts.device_setup import DeviceSetup, may_set_devices, read_device_setups
from devicegen.facts.frameworks import (
    Framework,
    read_frameworks,
    required_beside,
    required_instead,
)
from devicegen.facts.import_path import harms_of_new_conftests
from devicegen.facts.installation import install_words
from devicegen.facts.pytest_config import (
    PytestConfig,
    folders_with_config,
    read_pytest_config,
)
from devicegen.facts.pytest_modules import list_test_files, roots_of
from devicegen.facts.pytest_startup import Layout
from devicegen.facts.pytest_use import other_test_runner, pytest_use
from devicegen.facts.requirements import PythonFloor, Requirements, read_requirements
from devicegen.facts.source_tree import Location, SourceTree
from devicegen.facts.taken_names import WORDS as NAMING_WORDS
from devicegen.facts.taken_names import TakenNames, may_take, taken_names
from devicegen.facts.tensorflow_use import (
    TensorFlowVersions,
    rocm_requirements,
    scan_python,
    tensorflow_versions,
)
from devicegen.facts.tox_files import ToxFile, read_tox_file
from devicegen.facts.version_ranges import lowest_admitted
from devicegen.facts.xdist_use import xdist_mentions

RECORD = ".devicegen/record.toml"
# What marks the top of a project, the strongest first where a folder holds several.
TOP_MARKS = (RECORD, ".git", "pyproject.toml", "setup.py", "setup.cfg")
PYTEST_MARKS = ("pytest.ini", "pytest.toml", ".pytest.ini", ".pytest.toml", "tox.ini")


@dataclass(frozen=True)
class RepoFacts:
    """What the repository's files say. Nothing of the target was imported or run.

    Paths are posix and relative to ``top``. ``top_reason`` says in words why ``top`` is the
    top; ``harnesses`` are those of the ``conftests`` that devicegen wrote, ``described`` says
    more of each, ``hidden_conftests`` are on disk but not in the tree, and why; ``harness_above``
    is the record of a harness whose runs include these tests. ``layout`` is what decides how
    pytest starts, ``harms`` the folders where a new conftest would break imports, ``pytest_floor``
    the oldest pytest asked for. ``device_setups`` is how the project handles devices itself.
    ``other_frameworks`` are sought where TensorFlow is not used, ``beside_tensorflow`` are those
    that are required too, ``other_test_runner`` says in
    words what runs the tests where no ``pytest_use`` was found. ``container_tests`` is where each
    test file drives containers, where all do; ``other_tests`` are those of other languages, where
    there are none of Python.
    ``problems`` are lines about files that could not be read, ``unread`` those of them behind
    which a requirement may hide; ``tox`` is what the tox
    configuration lacks; ``installed_by`` are the arguments of ``pip install`` for it and its
    tests.
    """

    top: Path
    top_reason: str
    pytest_config: PytestConfig
    test_files: tuple[str, ...]
    conftests: tuple[str, ...]
    harnesses: tuple[str, ...]
    described: tuple[Conftest, ...]
    hidden_conftests: Mapping[str, str] = field(repr=False)
    harness_above: str | None
    layout: Layout
    files_at_top: frozenset[str]
    harms: Mapping[str, str] = field(repr=False)
    pytest_floor: tuple[int, int] | None
    tensorflow: TensorFlowVersions
    tensorflow_imports: tuple[Location, ...]
    rocm: tuple[Location, ...]
    device_setups: tuple[DeviceSetup, ...]
    other_frameworks: tuple[Framework, ...]
    beside_tensorflow: tuple[tuple[str, Location], ...]
    instead_of_tensorflow: tuple[str, Location] | None
    pytest_use: Location | None
    other_test_runner: str | None
    container_tests: tuple[Location, ...]
    other_tests: tuple[tuple[str, Location, int], ...]
    xdist: tuple[Location, ...]
    python_floor: PythonFloor
    taken: TakenNames
    problems: tuple[str, ...]
    unread: tuple[str, ...] = ()
    bazel: BazelFacts = NO_BAZEL
    tox: ToxFile | None = None
    installed_by: tuple[str, ...] = ()

    @property
    def owned_conftests(self) -> dict[str, Conftest]:
        """The conftests that the project wrote, with and without our block."""
        return {each.path: each for each in self.described if each.owner != "devicegen"}

    @property
    def given(self) -> Path:
        """The top as a person in the working folder would type it."""
        try:
            return Path(os.path.relpath(self.top))
        except ValueError:  # another drive
            return self.top


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
        # A pytest configuration makes a rootdir; it counts for the folder that is named only.
        for mark in (*TOP_MARKS, *(PYTEST_MARKS if folder == start else ())):
            if (folder / mark).exists():
                return folder, f"it holds {mark}"
    return start, "the folder given; no folder above it holds a project file"


def gather_facts(path: Path) -> RepoFacts:
    """Read the repository that ``path`` lies in. Raises ``DevicegenError`` for a bad ``path``."""
    top, top_reason = find_top(path)
    tree = SourceTree.list(top)
    config = read_pytest_config(top)
    requirements = read_requirements(tree)
    described = read_conftests(tree)
    test_files = list_test_files(
        tree,
        config.python_files,
        config.testpaths,
        config.norecursedirs,
        [posixpath.normpath(each) for each in config.options("--ignore")],
    )
    conftests = tuple(each.path for each in described)
    harnesses = tuple(each.path for each in described if each.owner == "devicegen")
    folders = _folders_above(test_files)
    versions = tensorflow_versions(requirements)
    use = pytest_use(tree, config, requirements, test_files)
    imports, (device_files, naming) = scan_python(
        tree, (*DEVICE_WORDS, *NAMING_WORDS), may_set_devices, may_take
    )
    return RepoFacts(
        top=top,
        top_reason=top_reason,
        pytest_config=config,
        test_files=test_files,
        conftests=conftests,
        harnesses=harnesses,
        described=described,
        hidden_conftests=_hidden(top, folders, conftests),
        harness_above=_harness_above(top, test_files),
        layout=_layout(tree, config, folders, conftests),
        files_at_top=frozenset(name for name in tree.files if "/" not in name),
        harms=harms_of_new_conftests(tree, config, test_files, folders),
        pytest_floor=_pytest_floor(config, requirements),
        tensorflow=versions,
        tensorflow_imports=imports,
        rocm=rocm_requirements(requirements),
        device_setups=read_device_setups(tree, device_files, test_files),
        other_frameworks=() if versions.where or imports else read_frameworks(tree, requirements),
        beside_tensorflow=required_beside(requirements),
        instead_of_tensorflow=required_instead(requirements),
        pytest_use=use,
        other_test_runner=None if use else other_test_runner(tree, test_files),
        container_tests=container_tests(tree, test_files, imports),
        other_tests=() if test_files else other_tests(tree),
        xdist=xdist_mentions(tree, requirements),
        python_floor=requirements.python,
        taken=taken_names(tree, config, (path for path in naming if path not in harnesses)),
        problems=_problems(config, requirements.problems),
        unread=requirements.unread,
        bazel=read_bazel(tree, _mains_of_ours(tree)),
        tox=read_tox_file(tree),
        installed_by=install_words(tree, requirements),
    )


def _layout(
    tree: SourceTree,
    config: PytestConfig,
    folders: set[str],
    conftests: tuple[str, ...],
) -> Layout:
    configs, bare = folders_with_config(tree.top, folders)
    testpaths = roots_of(tree, config.testpaths) if config.is_in_force else ()
    return Layout(
        configs=frozenset(configs),
        bare=frozenset(bare),
        setups=frozenset(each for each in folders if (tree.top / each / "setup.py").is_file()),
        config_above=config.path is None and config.is_above,
        testpaths=tuple("" if path == "." else path for path in testpaths),
        confcutdir=next(reversed(config.options("--confcutdir")), None),
        conftests=frozenset(map(posixpath.dirname, conftests)),
    )


def _folders_above(paths: tuple[str, ...]) -> set[str]:
    """Return the folders of ``paths`` and all above them, up to the top, which is ""."""
    found = {""} if paths else set()
    for path in paths:
        while (path := posixpath.dirname(path)) not in found:
            found.add(path)
    return found


def _hidden(top: Path, folders: set[str], conftests: tuple[str, ...]) -> dict[str, str]:
    """Find conftests on disk that git ignores; writing over one would lose it."""
    paths = {posixpath.join(folder, "conftest.py") for folder in folders} - set(conftests)
    return {path: _what_is_there(top / path) for path in paths if os.path.lexists(top / path)}


def _what_is_there(file: Path) -> str:
    if file.is_symlink():
        return f"is a symbolic link to {file.readlink()}"
    return "is there, and git ignores it" if file.is_file() else "is no regular file"


def _harness_above(top: Path, test_files: tuple[str, ...]) -> str | None:
    """Return the record of a harness above ``top`` in whose runs these tests would be too."""
    for folder in () if (top / ".git").exists() else top.parents:
        if (folder / RECORD).is_file():
            testpaths = read_pytest_config(folder).testpaths
            tree = SourceTree(folder, ())
            roots = [folder / each for each in roots_of(tree, testpaths)] or [folder]
            if any((top / test).is_relative_to(root) for test in test_files for root in roots):
                return str(folder / RECORD)
        if (folder / ".git").exists():
            break
    return None


def _pytest_floor(config: PytestConfig, requirements: Requirements) -> tuple[int, int] | None:
    """Return the oldest pytest that every place that states one admits, None where none does."""
    if config.syntax == "toml" and config.table in ("pytest", "tool.pytest"):
        return (9, 0)  # native TOML: read since pytest 9
    stated = [fact.specifier for fact in requirements.named("pytest") if fact.specifier]
    lowest = [lowest_admitted(SpecifierSet(each)) for each in stated]
    known = [version for version in lowest if version is not None]
    return min(known) if known and len(known) == len(lowest) else config.minversion


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
