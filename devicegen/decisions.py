"""From facts to decisions: every answer, with its reason in words."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Literal

from devicegen.errors import DevicegenError
from devicegen.facts.bazel import MAINS
from devicegen.facts.pytest_config import ALWAYS_IN_FORCE
from devicegen.facts.repository import RepoFacts
from devicegen.facts.source_tree import Location
from devicegen.record import HARNESS, Answers, Record

# The lowest Python that the harness is made for; its syntax runs on older ones too.
HARNESS_PYTHON = (3, 9)
# TensorFlow 2.4 moved the logical-device names out of tf.config.experimental; the old names are
# still there in 2.21: https://www.tensorflow.org/api_docs/python/tf/config
STABLE_SINCE = (2, 4)

MARKERS = (
    "run_on(devices): once per listed device: 'cpu', 'gpu', 'distributed strategy'",
    "no_device_scope: runs in no device scope; the test handles devices itself",
    "cpu: runs on the CPU (each such test has this mark, to select with -m)",
    "gpu: runs on a GPU (each such test has this mark, to select with -m)",
    "distributed: runs in a strategy (each such test has this mark, to select with -m)",
)


@dataclass(frozen=True)
class Decision:
    """One answer as a person reads it: what was decided on, the answer, and why."""

    subject: str
    answer: str
    reason: str


@dataclass(frozen=True)
class Decisions:
    """Every answer that rendering and writing need; ``listed`` holds them with their reasons.

    ``registry`` is the configuration file that the marker lines go into, None for none; ``main``
    is the ``py_test`` main of a Bazel repository, None where there is no need of one.
    """

    conftest: str
    registry: str | None
    logical_device_api: Literal["stable", "experimental"]
    xdist: bool
    memory_limit_mb: int | None
    rocm: bool
    listed: tuple[Decision, ...]
    main: str | None = None


def decide(facts: RepoFacts, answers: Answers, record: Record | None) -> Decisions:
    """Decide everything that ``init`` and ``upgrade`` need.

    ``answers`` are the command line's; an earlier ``record`` keeps its place. Raises
    ``DevicegenError`` where the harness is of no use or has no place in this repository.
    """
    _refuse_without_tensorflow(facts)
    conftest, conftest_why = _place(facts, record)
    registry, registry_why = _registry(facts, answers)
    api, api_why = _logical_device_api(facts)
    xdist, xdist_why = _xdist(facts, answers)
    limit, limit_why = _memory_limit(answers)
    rocm, rocm_why = _rocm(facts, answers)
    main, bazel = _bazel(facts, answers, conftest, record)
    return Decisions(
        conftest=conftest,
        registry=registry,
        logical_device_api=api,
        xdist=xdist,
        memory_limit_mb=limit,
        rocm=rocm,
        main=main,
        listed=(
            Decision("repository top", str(facts.top), facts.top_reason),
            Decision("framework", "TensorFlow", _tensorflow_why(facts)),
            Decision("harness", conftest, conftest_why),
            Decision("marker registry", registry or "in the harness only", registry_why),
            Decision("logical-device API", _api_names(api), api_why),
            Decision("pytest-xdist", "mapped" if xdist else "left out", xdist_why),
            Decision("memory limit", f"{limit} MB" if limit else "fitted to the card", limit_why),
            Decision("AMD GPUs", "found too" if rocm else "left out", rocm_why),
            *bazel,
            Decision("Python", _python(facts), _python_why(facts)),
        ),
    )


def _refuse_without_tensorflow(facts: RepoFacts) -> None:
    versions = facts.tensorflow
    if not versions.where and not facts.tensorflow_imports:
        raise DevicegenError(
            f"{facts.top}: TensorFlow is neither required nor imported here; devicegen writes "
            "harnesses for TensorFlow only so far"
        )
    if versions.where and not versions.admits_2x:
        raise DevicegenError(
            f"{versions.where[0]}: the requirement admits no TensorFlow 2; the harness needs "
            "TensorFlow 2, so raise the requirement first"
        )
    if not facts.test_files:
        patterns = ", ".join(facts.pytest_config.python_files)
        raise DevicegenError(
            f"{facts.top}: no test file ({patterns}) here; write a first test, then run "
            "`devicegen init` again"
        )


def _place(facts: RepoFacts, record: Record | None) -> tuple[str, str]:
    """Choose a level where pytest loads the harness before it parses options.

    That holds for the top; for a folder that is named ``test*`` at the top; and, under ``pytest``
    without arguments, for one that holds a testpath:
    https://docs.pytest.org/en/stable/how-to/writing_plugins.html (discovery order at startup)
    """
    if record and record.harness:
        return record.harness, "where the record says it is"
    levels = _levels(facts)
    for path in levels:
        if path in facts.harnesses:
            return path, "a harness is there already, without a record"
    taken = set(facts.conftests)
    for path, reason in levels.items():
        if path not in taken:
            owned = [other for other in levels if other in taken]
            others = f"; {' and '.join(owned)} is the project's own" if owned else ""
            return path, f"{reason}{others}"
    raise DevicegenError(
        f"{', '.join(levels)}: taken by the project, and pytest loads no other level in time; "
        "move a conftest away first (adding to an existing one is not supported yet)"
    )


def _levels(facts: RepoFacts) -> dict[str, str]:
    """Return the conftests that pytest loads in time, the best first, and why."""
    folder = _common_folder(facts)
    count = len(facts.test_files)
    tests = "the only test file is there" if count == 1 else f"all {count} test files are there"
    top = {"conftest.py": "pytest loads the top's conftest at its start"}
    if folder is None:
        return {"conftest.py": f"the test files share no folder at the top; {top['conftest.py']}"}
    if folder.startswith("test"):
        return {f"{folder}/conftest.py": f"{tests}, and pytest loads test*/conftest.py"} | top
    config = facts.pytest_config
    roots = [PurePosixPath(path).parts[:1] for path in config.testpaths]
    if any(root and fnmatchcase(folder, root[0]) for root in roots):
        return top | {f"{folder}/conftest.py": f"{tests}, and testpaths ({config.path}) names it"}
    return top


def _common_folder(facts: RepoFacts) -> str | None:
    """Return the one top-level folder that holds all tests."""
    folders = {name.split("/")[0] for name in facts.test_files}
    folder = folders.pop()
    if folders or folder in facts.test_files or not folder.isprintable():
        return None
    return folder


def _registry(facts: RepoFacts, answers: Answers) -> tuple[str | None, str]:
    config = facts.pytest_config
    if answers.config_edit is False:
        return None, "--no-config-edit; pytest_configure registers the markers"
    if config.path is None or (config.table is None and config.path not in ALWAYS_IN_FORCE):
        why = config.problem or "no pytest configuration is in force"
        return None, f"{why}; pytest_configure registers the markers"
    return config.path, f"the configuration in force ({config.path}:{config.line})"


def _api_names(api: str) -> str:
    if api == "stable":
        return "tf.config.set_logical_device_configuration"
    return "tf.config.experimental.set_virtual_device_configuration"


def _logical_device_api(facts: RepoFacts) -> tuple[Literal["stable", "experimental"], str]:
    lowest = facts.tensorflow.lowest
    where = _places(facts.tensorflow.where)
    if lowest is None:
        return "stable", f"no lowest version is stated{where}; the names hold since TensorFlow 2.4"
    said = f"TensorFlow {lowest[0]}.{lowest[1]} is admitted{where}"
    if lowest >= STABLE_SINCE:
        return "stable", f"{said}; the names hold since 2.4"
    return "experimental", f"{said}; these names hold from 2.0 on, the newer ones only from 2.4 on"


def _xdist(facts: RepoFacts, answers: Answers) -> tuple[bool, str]:
    if answers.xdist is not None:
        return answers.xdist, "--xdist" if answers.xdist else "--no-xdist"
    if facts.xdist:
        return True, f"used{_places(facts.xdist)}"
    return True, "not mentioned here, but anyone may pass -n; --no-xdist leaves it out"


def _memory_limit(answers: Answers) -> tuple[int | None, str]:
    if answers.memory_limit_mb:
        return answers.memory_limit_mb, "--memory-limit-mb, for each of a card's two halves"
    given = "--memory-limit-mb 0: " if answers.memory_limit_mb == 0 else ""
    return None, f"{given}half of its free memory for each half; --memory-limit-mb sets a number"


def _rocm(facts: RepoFacts, answers: Answers) -> tuple[bool, str]:
    if answers.rocm is not None:
        return answers.rocm, "--rocm" if answers.rocm else "--no-rocm"
    if facts.rocm:
        return True, f"tensorflow-rocm is required{_places(facts.rocm)}"
    return False, "tensorflow-rocm is not required here; --rocm finds them all the same"


def _bazel(
    facts: RepoFacts, answers: Answers, conftest: str, record: Record | None
) -> tuple[str | None, tuple[Decision, ...]]:
    """Return the path of the ``py_test`` main, beside the harness, and what is said of it."""
    found = _places(facts.bazel.py_tests)
    if answers.bazel is False:
        return None, (Decision("Bazel", "left out", f"--no-bazel{found}"),)
    if not answers.bazel and not found:
        return None, ()
    folder = conftest.removesuffix(HARNESS)
    owned = set(facts.bazel.own_mains) - set(record.paths if record else ())
    main = next(folder + name for name in MAINS if folder + name not in owned)
    why = "--bazel" if answers.bazel else f"py_test is used{found}"
    others = f"; {folder}{MAINS[0]} is the project's own" if folder + MAINS[0] in owned else ""
    return main, (Decision("Bazel", main, f"{why}{others}"),)


def _python(facts: RepoFacts) -> str:
    floor = facts.python_floor.version
    return f"{floor[0]}.{floor[1]} and newer" if floor else "3.9 and newer"


def _python_why(facts: RepoFacts) -> str:
    floor, where = facts.python_floor.version, facts.python_floor.where
    if floor is None:
        return "no floor is stated; the harness is made for Python 3.9 and newer"
    said = f"{where}" if where else "stated"
    if floor < HARNESS_PYTHON:
        return f"{said}; the syntax of the harness runs there, it is tested from 3.9 on"
    return f"{said}; the harness runs there"


def _tensorflow_why(facts: RepoFacts) -> str:
    if facts.tensorflow.where:
        return f"required{_places(facts.tensorflow.where)}"
    return f"imported{_places(facts.tensorflow_imports)}"


def _places(where: tuple[Location, ...]) -> str:
    if not where:
        return ""
    more = f" and {len(where) - 1} more" if len(where) > 1 else ""
    return f" ({where[0]}{more})"
