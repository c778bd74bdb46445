"""From layouts and requirements to answers, each with the reason that is printed."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from devicegen.decisions import Decisions, decide
from devicegen.errors import DevicegenError
from devicegen.facts.repository import RepoFacts, gather_facts
from devicegen.record import Answers, Record
from devicegen.rendering import render_conftest
from kit import clean_environ, write_tree

TEST = "import tensorflow\n"
TESTPATHS = "[pytest]\ntestpaths = "

# name -> files, the harness's place
LAYOUTS: dict[str, tuple[dict[str, str], str]] = {
    "src and tests": ({"src/p/a.py": "", "tests/test_a.py": TEST}, "tests/conftest.py"),
    "tests in sub folders": (
        {"tests/unit/test_a.py": TEST, "tests/slow/b_test.py": TEST},
        "tests/conftest.py",
    ),
    "test": ({"test/test_a.py": TEST}, "test/conftest.py"),
    "next to sources": ({"p/a.py": "", "p/a_test.py": TEST}, "conftest.py"),
    "tests inside the package": ({"p/tests/test_a.py": TEST}, "conftest.py"),
    "tests inside src": ({"src/p/tests/test_a.py": TEST}, "conftest.py"),
    "tests beside a top-level test": (
        {"tests/test_a.py": TEST, "test_b.py": TEST},
        "conftest.py",
    ),
    "two test folders": ({"tests/test_a.py": TEST, "test2/test_b.py": TEST}, "conftest.py"),
    "a file only": ({"test_a.py": TEST}, "conftest.py"),
    "tests taken": ({"tests/test_a.py": TEST, "tests/conftest.py": ""}, "conftest.py"),
    "the top taken": ({"tests/test_a.py": TEST, "conftest.py": ""}, "tests/conftest.py"),
    "an inner conftest": (
        {"tests/test_a.py": TEST, "tests/unit/conftest.py": ""},
        "tests/conftest.py",
    ),
    "testpaths": (
        {"pytest.ini": f"{TESTPATHS}tests/unit tests/other\n", "tests/unit/test_a.py": TEST},
        "tests/conftest.py",
    ),
    "testpaths, another name": (
        {"pytest.ini": f"{TESTPATHS}checks\n", "checks/test_a.py": TEST},
        "conftest.py",
    ),
    "testpaths, another name, the top taken": (
        {"pytest.ini": f"{TESTPATHS}checks\n", "checks/test_a.py": TEST, "conftest.py": ""},
        "checks/conftest.py",
    ),
    "testpaths, a pattern, the top taken": (
        {
            "pytest.ini": f"{TESTPATHS}s*/*/tests\n",
            "src/p/tests/test_a.py": TEST,
            "conftest.py": "",
        },
        "src/conftest.py",
    ),
    "testpaths that match nothing": (
        {"pytest.ini": f"{TESTPATHS}gone\n", "tests/test_a.py": TEST},
        "tests/conftest.py",
    ),
    "testpaths, the top": (
        {"pytest.ini": f"{TESTPATHS}.\n", "checks/test_a.py": TEST},
        "conftest.py",
    ),
    "a file of testpaths": (
        {"pytest.ini": f"{TESTPATHS}tests/suite.py\n", "tests/suite.py": TEST},
        "tests/conftest.py",
    ),
}

PROBE = "def pytest_addoption(parser): parser.addoption('--probe', default='here')\n"
ASK_PYTEST = """
import json, os, sys
from _pytest.config import _prepareconfig

def ask(folder, args):
    os.chdir(folder)
    config = _prepareconfig(args, [])
    try:
        return config.getoption("--probe", None)
    finally:
        config._ensure_unconfigure()
        for name in [name for name in sys.modules if name.endswith("conftest")]:
            del sys.modules[name]

print("\\n" + json.dumps([ask(*each) for each in json.loads(sys.argv[1])]))
"""


def facts_of(top: Path, files: dict[str, str]) -> RepoFacts:
    return gather_facts(write_tree(top, {"setup.py": "", **files}))


def decided(
    top: Path,
    files: dict[str, str] | None = None,
    answers: Answers | None = None,
    record: Record | None = None,
) -> Decisions:
    facts = facts_of(top, {"tests/test_a.py": TEST, **(files or {})})
    return decide(facts, answers or Answers(), record)


def said(decisions: Decisions, subject: str) -> tuple[str, str]:
    (found,) = (each for each in decisions.listed if each.subject == subject)
    return found.answer, found.reason


@pytest.mark.parametrize("name", LAYOUTS)
def test_place(tmp_path: Path, name: str) -> None:
    files, place = LAYOUTS[name]

    decisions = decide(facts_of(tmp_path, files), Answers(), None)

    assert decisions.conftest == place
    assert said(decisions, "harness")[0] == place


def test_pytest_loads_each_place_before_it_parses_options(tmp_path: Path) -> None:
    questions: list[tuple[str, list[str]]] = []
    for number, (files, place) in enumerate(LAYOUTS.values()):
        top = write_tree(tmp_path / str(number), {"setup.py": "", **files, place: PROBE})
        test = next(path for path, text in files.items() if text == TEST)
        questions += [(str(top), []), (str(top), [test])]
    command = [sys.executable, "-c", ASK_PYTEST, json.dumps(questions)]

    environ = clean_environ({"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)

    answers = json.loads(done.stdout.splitlines()[-1])
    late = [each for each, answer in zip(questions, answers, strict=True) if answer != "here"]
    assert late == []


def test_the_question_to_pytest_can_be_answered_no(tmp_path: Path) -> None:
    top = write_tree(tmp_path, {"setup.py": "", "p/test_a.py": TEST, "p/conftest.py": PROBE})
    command = [sys.executable, "-c", ASK_PYTEST, json.dumps([(str(top), [])])]

    environ = clean_environ({"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)

    assert json.loads(done.stdout.splitlines()[-1]) == [None]


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (
            {"tests/test_a.py": TEST},
            "the only test file is there, and pytest loads test*/conftest",
        ),
        (
            {"tests/test_a.py": TEST, "tests/test_b.py": ""},
            "all 2 test files are there, and pytest loads test*/conftest.py",
        ),
        (
            {"tests/test_a.py": TEST, "tests/conftest.py": ""},
            "pytest loads the top's conftest at its start; tests/conftest.py is the project's own",
        ),
        (
            {"tests/test_a.py": TEST, "test_b.py": ""},
            "the test files share no folder at the top; pytest loads the top's conftest at its "
            "start",
        ),
        (
            {"pytest.ini": f"{TESTPATHS}p\n", "p/test_a.py": TEST, "conftest.py": ""},
            "the only test file is there, and testpaths (pytest.ini) names it; conftest.py is the "
            "project's own",
        ),
    ],
)
def test_the_reason_of_a_place(tmp_path: Path, files: dict[str, str], reason: str) -> None:
    decisions = decide(facts_of(tmp_path, files), Answers(), None)

    assert said(decisions, "harness")[1].startswith(reason)


@pytest.mark.parametrize(
    ("files", "levels"),
    [
        ({"tests/test_a.py": TEST, "tests/conftest.py": "", "conftest.py": ""},
         "tests/conftest.py, conftest.py"),
        ({"p/test_a.py": TEST, "conftest.py": ""}, "conftest.py"),
        ({"pytest.ini": f"{TESTPATHS}p\n", "p/test_a.py": TEST, "conftest.py": "",
          "p/conftest.py": ""}, "conftest.py, p/conftest.py"),
    ],
)  # fmt: skip
def test_no_place_is_left(tmp_path: Path, files: dict[str, str], levels: str) -> None:
    with pytest.raises(DevicegenError, match=rf"^{levels}: taken by the project, and pytest "):
        decide(facts_of(tmp_path, files), Answers(), None)


def test_the_record_keeps_the_place(tmp_path: Path) -> None:
    files = {"tests/conftest.py": "", "conftest.py": ""}
    kept = Record("0", Answers(), {"p/conftest.py": ""})
    damaged = Record("0", Answers(), {}, None, {"p/conftest.py": "why"})

    for record in (kept, damaged):
        decisions = decided(tmp_path, files, record=record)
        assert said(decisions, "harness") == ("p/conftest.py", "where the record says it is")


@pytest.mark.parametrize("path", ["tests/conftest.py", "conftest.py"])
def test_a_harness_without_a_record_keeps_its_place(tmp_path: Path, path: str) -> None:
    header = '"""Run each test.\n\nWritten by devicegen 0.1 for this repository.\n"""\n'

    decisions = decided(tmp_path, {path: header})

    assert said(decisions, "harness") == (path, "a harness is there already, without a record")


@pytest.mark.parametrize(
    ("requirement", "api", "reason"),
    [
        ("tensorflow>=2.0", "experimental", "TensorFlow 2.0 is admitted (requirements.txt:1); "),
        ("tensorflow>=2.3.1", "experimental", "TensorFlow 2.3 is admitted (requirements.txt:1); "),
        ("tensorflow>=2.4.0rc0", "stable", "TensorFlow 2.4 is admitted (requirements.txt:1); "),
        ("tensorflow>=2.15", "stable", "TensorFlow 2.15 is admitted (requirements.txt:1); "),
        ("tensorflow>=1.15,<3", "experimental", "TensorFlow 1.15 is admitted (requirements.txt:"),
        ("tensorflow", "stable", "no lowest version is stated (requirements.txt:1); "),
        ("tensorflow<2.10", "stable", "no lowest version is stated (requirements.txt:1); "),
        ("numpy", "stable", "no lowest version is stated; "),
    ],
)
def test_names_of_the_logical_device_api(
    tmp_path: Path, requirement: str, api: str, reason: str
) -> None:
    decisions = decided(tmp_path, {"requirements.txt": f"{requirement}\n"})

    assert decisions.logical_device_api == api
    answer, why = said(decisions, "logical-device API")
    assert (
        answer
        == {
            "stable": "tf.config.set_logical_device_configuration",
            "experimental": "tf.config.experimental.set_virtual_device_configuration",
        }[api]
    )
    assert why.startswith(reason)
    text = render_conftest(decisions, "1")
    names = ("set_logical_device_configuration", "experimental.set_virtual_device_configuration")
    assert [name in text for name in names] == [api == "stable", api == "experimental"]


def test_framework_says_where_from(tmp_path: Path) -> None:
    imported = decided(tmp_path / "a")
    required = decided(tmp_path / "b", {"requirements.txt": "x\ntensorflow\n"})

    assert said(imported, "framework") == ("TensorFlow", "imported (tests/test_a.py:1)")
    assert said(required, "framework") == ("TensorFlow", "required (requirements.txt:2)")


@pytest.mark.parametrize(
    ("files", "answer", "said_xdist"),
    [
        ({"requirements.txt": "pytest-xdist\n"}, None, ("mapped", "used (requirements.txt:1)")),
        ({"Makefile": "t:\n\tpytest -n auto\n"}, None, ("mapped", "used (Makefile:2)")),
        (
            {"requirements.txt": "pytest-xdist\n", "Makefile": "t:\n\tpytest -n 2\n"},
            None,
            ("mapped", "used (Makefile:2 and 1 more)"),
        ),
        (
            {},
            None,
            (
                "mapped",
                "not mentioned here, but anyone may pass -n; --no-xdist leaves it out",
            ),
        ),
        ({}, True, ("mapped", "--xdist")),
        ({"requirements.txt": "pytest-xdist\n"}, False, ("left out", "--no-xdist")),
    ],
)
def test_xdist(
    tmp_path: Path, files: dict[str, str], answer: bool | None, said_xdist: tuple[str, str]
) -> None:
    decisions = decided(tmp_path, files, Answers(xdist=answer))

    assert said(decisions, "pytest-xdist") == said_xdist
    assert decisions.xdist == (said_xdist[0] == "mapped")
    assert ("pytest_xdist_setupnodes" in render_conftest(decisions, "1")) == decisions.xdist


@pytest.mark.parametrize(
    ("limit", "decision", "answer"),
    [(None, None, "fitted to the card"), (0, None, "fitted to the card"), (512, 512, "512 MB")],
)
def test_memory_limit(
    tmp_path: Path, limit: int | None, decision: int | None, answer: str
) -> None:
    decisions = decided(tmp_path, answers=Answers(memory_limit_mb=limit))

    assert decisions.memory_limit_mb == decision
    assert said(decisions, "memory limit")[0] == answer
    assert ("--memory-limit-mb 0" in said(decisions, "memory limit")[1]) == (limit == 0)


@pytest.mark.parametrize(
    ("files", "answer", "said_rocm"),
    [
        ({}, None, ("left out", "tensorflow-rocm is not required here; --rocm finds them all the "
                                "same")),
        ({"requirements.txt": "numpy\nTensorFlow_ROCm>=2.14\n"}, None,
         ("found too", "tensorflow-rocm is required (requirements.txt:2)")),
        ({"requirements-amd.txt": "tensorflow-rocm\n", "pyproject.toml": "[project]\nname = 'x'\n"
          "optional-dependencies.amd = ['tensorflow-rocm']\n"}, None,
         ("found too", "tensorflow-rocm is required (pyproject.toml:3 and 1 more)")),
        ({"requirements.txt": "tensorflow-rocm; python_version < '3'\n"}, None,
         ("left out", "tensorflow-rocm is not required here; --rocm finds them all the same")),
        ({"requirements.txt": "tensorflow-rocm\n"}, False, ("left out", "--no-rocm")),
        ({}, True, ("found too", "--rocm")),
    ],
)  # fmt: skip
def test_amd_gpus(
    tmp_path: Path, files: dict[str, str], answer: bool | None, said_rocm: tuple[str, str]
) -> None:
    decisions = decided(tmp_path, files, Answers(rocm=answer))

    assert said(decisions, "AMD GPUs") == said_rocm
    assert decisions.rocm == (said_rocm[0] == "found too")
    assert ("ROCR_VISIBLE_DEVICES" in render_conftest(decisions, "1")) == decisions.rocm


@pytest.mark.parametrize(
    ("requires", "answer", "reason"),
    [
        (None, "3.9 and newer",
         "no floor is stated; the harness is made for Python 3.9 and newer"),
        (">=3.7", "3.7 and newer", "pyproject.toml:3; the syntax of the harness runs there, it is "
                                   "tested from 3.9 on"),
        (">=3.11", "3.11 and newer", "pyproject.toml:3; the harness runs there"),
    ],
)  # fmt: skip
def test_python_floor(tmp_path: Path, requires: str | None, answer: str, reason: str) -> None:
    line = f'requires-python = "{requires}"\n' if requires else ""

    decisions = decided(tmp_path, {"pyproject.toml": f'[project]\nname = "x"\n{line}'})

    assert said(decisions, "Python") == (answer, reason)


@pytest.mark.parametrize(
    ("files", "answers", "registry", "reason"),
    [
        ({}, {}, None, "no pytest configuration is in force; pytest_configure registers the "),
        ({"pyproject.toml": ""}, {}, None, "no pytest configuration is in force; "),
        ({"pytest.ini": ""}, {}, "pytest.ini", "the configuration in force (pytest.ini:1)"),
        (
            {"tox.ini": "[tox]\n[pytest]\n"},
            {},
            "tox.ini",
            "the configuration in force (tox.ini:2)",
        ),
        ({"pytest.ini": "x = 1"}, {}, None, "pytest.ini:1: no section header defined; "),
        ({"pytest.ini": ""}, {"config_edit": False}, None, "--no-config-edit; "),
        ({"pytest.ini": ""}, {"config_edit": True}, "pytest.ini", "the configuration in force "),
    ],
)
def test_registry(
    tmp_path: Path,
    files: dict[str, str],
    answers: dict[str, Any],
    registry: str | None,
    reason: str,
) -> None:
    decisions = decided(tmp_path, files, Answers(**answers))

    assert decisions.registry == registry
    answer, why = said(decisions, "marker registry")
    assert answer == (registry or "in the harness only")
    assert why.startswith(reason)


def test_every_answer_has_a_reason(tmp_path: Path) -> None:
    decisions = decided(tmp_path)

    assert all(each.subject and each.answer and each.reason for each in decisions.listed)
    assert len({each.subject for each in decisions.listed}) == len(decisions.listed) == 11


def test_a_folder_whose_name_is_no_text_is_not_written_to(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, {"tests/test_a.py": TEST})
    odd = replace(facts, test_files=("tests\udcff/test_a.py",))

    assert decide(odd, Answers(), None).conftest == "conftest.py"
