"""From layouts and requirements to answers, each with the reason that is printed."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from devicegen.decisions import Asked, Decisions, decide
from devicegen.errors import DevicegenError
from devicegen.facts.repository import RepoFacts, gather_facts
from devicegen.record import Answers, Record
from devicegen.rendering import render_conftest
from kit import clean_environ, write_tree
from kit.harness import render_harness

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
        "conftest.py",
    ),
    "testpaths, a pattern, the top taken": (
        {
            "pytest.ini": f"{TESTPATHS}s*/*/tests\n",
            "src/p/tests/test_a.py": TEST,
            "conftest.py": "",
        },
        "conftest.py",
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
            "pytest loads the top's conftest at its start; a block in the project's own conf",
        ),
    ],
)
def test_the_reason_of_a_place(tmp_path: Path, files: dict[str, str], reason: str) -> None:
    decisions = decide(facts_of(tmp_path, files), Answers(), None)

    assert said(decisions, "harness")[1].startswith(reason)


@pytest.mark.parametrize(
    ("files", "place"),
    [
        ({"tests/test_a.py": TEST, "tests/conftest.py": "", "conftest.py": ""},
         "tests/conftest.py"),
        ({"p/test_a.py": TEST, "conftest.py": ""}, "conftest.py"),
        ({"pytest.ini": f"{TESTPATHS}p\n", "p/test_a.py": TEST, "conftest.py": "",
          "p/conftest.py": ""}, "conftest.py"),
    ],
)  # fmt: skip
def test_where_no_level_is_free_one_is_shared(
    tmp_path: Path, files: dict[str, str], place: str
) -> None:
    decisions = decide(facts_of(tmp_path, files), Answers(), None)

    assert decisions.conftest == place
    assert decisions.shared


SPLIT = "one = tf.config.list_physical_devices('GPU')[0]\n"
SPLIT += "tf.config.set_logical_device_configuration(one, [])\n"
MAP = "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = os.environ['PYTEST_XDIST_WORKER'][2:]\n"
JAX = """[project]
name = "a"
dependencies = ["jax"]
optional-dependencies.tests = ["tensorflow"]
"""
REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "no level": (
        {"pytest.ini": "[pytest]\naddopts = --confcutdir=p/tests\n", "p/tests/test_a.py": TEST},
        "no place for the harness: p/conftest.py is not loaded in time by `pytest` at the top; "
        "p/tests/conftest.py is not loaded in time by `pytest` at the top; conftest.py is not",
    ),
    "--noconftest": (
        {"pytest.ini": "[pytest]\naddopts = --noconftest\n", "p/test_a.py": TEST},
        "pytest.ini:1: addopts hold --noconftest, with which pytest loads no harness",
    ),
    "generated and a link": (
        {"p/test_a.py": TEST, "conftest.py": "# generated by make, DO NOT EDIT\n"},
        "no place for the harness: p/conftest.py is not loaded in time by `pytest` at the top; "
        "conftest.py is generated, as line 1 says; free one of them, or name another with --conf",
    ),
    "not Python": (
        {"p/test_a.py": TEST, "conftest.py": "def (:\n"},
        "no place for the harness: p/conftest.py is not loaded in time by `pytest` at the top; "
        "conftest.py is no Python that can be parsed (line 1); free",
    ),
    "projects of their own": (
        {"a/pytest.ini": "", "a/test_a.py": TEST, "b/c/tox.ini": "[pytest]\n",
         "b/c/d/test_b.py": TEST},
        "{top}: every test belongs to a folder with a pytest configuration of its own, where "
        "pytest takes no conftest of the top; run `devicegen init {given}/a`, `devicegen init "
        "{given}/b/c` instead",
    ),
    "a map of its own": (
        {"p/test_a.py": TEST, "p/conftest.py": MAP},
        "p/conftest.py:2: gives pytest-xdist's workers their GPUs (`os.environ['CUDA_VISIBLE_",
    ),
    "a map in a helper": (
        {"p/__init__.py": "", "p/utils.py": MAP, "p/test_a.py": TEST,
         "p/conftest.py": "from p.utils import x\n"},
        "p/utils.py:2: gives pytest-xdist's workers their GPUs (",
    ),
    "hides the GPUs": (
        {"p/test_a.py": TEST, "conftest.py": "import os\n"
         "def pytest_configure(config): os.environ['CUDA_VISIBLE_DEVICES'] = '-1'\n"},
        "conftest.py:2: sets which GPUs a process sees (",
    ),
    "a map of ranks": (
        {"p/test_a.py": TEST, "conftest.py": "import tensorflow as tf\nimport horovod as hvd\n"
         "g = tf.config.list_physical_devices('GPU')\n"
         "tf.config.set_visible_devices(g[hvd.local_rank()], 'GPU')\n"},
        "conftest.py:4: gives each rank its GPU (`tf.config.set_visible_devices(g[hvd.local_rank(",
    ),
    "a mask by the rank": (
        {"p/test_a.py": TEST, "conftest.py": "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = "
         "os.environ['MPI_LOCALRANKID']\n"},
        "conftest.py:2: gives each rank its GPU (`os.environ['CUDA_VISIBLE_DEVICES'] = ",
    ),
    "PyTorch": (
        {"p/test_a.py": "import torch\n"},
        "{top}: TensorFlow is neither required nor imported here, PyTorch is (p/test_a.py:1); ",
    ),
    "examples only": (
        {"p/test_a.py": "", "examples/a.py": TEST, "docs/b.py": TEST},
        "docs/b.py:1: TensorFlow is imported in examples and documents only",
    ),
    "a harness only": (
        {"p/test_a.py": "import torch\n", "p/conftest.py": render_harness()},
        "{top}: TensorFlow is neither required nor imported here, but by devicegen's harness in "
        "p/conftest.py, which has no use then, PyTorch is (p/test_a.py:1); ",
    ),
    "JAX, and TensorFlow in a test": (
        {"pyproject.toml": JAX, "p/test_a.py": TEST, "p/test_b.py": "", "p/test_c.py": ""},
        "pyproject.toml:3: the project runs on JAX; TensorFlow is required for development only "
        "(pyproject.toml:4), and 1 of 3 test files imports it. A harness would give the others no",
    ),
    "containers": (
        {"a.py": TEST, "p/test_a.py": "import docker\n", "p/conftest.py": "",
         "p/test_b.py": "import os\nimport subprocess\nrun(['docker', 'ps'])\n"},
        "p/test_a.py:1: all 2 test files drive containers or a cluster, and none imports TensorFl",
    ),
    "containers of a fixture": (
        {"a.py": TEST, "p/test_a.py": "def test_a(served): pass\n",
         "p/conftest.py": "import os\nos.system('kubectl apply -f x.yaml')\n"},
        "p/conftest.py:2: the only test file drives containers or a cluster, and none imports Ten",
    ),
    "no Python test": (
        {"a.py": TEST, "tests/a.bats": "", "tests/b.bats": "", "docker-compose.test.yml": "",
         "docker-compose.yml": "",
         "tests/pod.yaml": "kind: Pod\n", "tests/run.sh": "", "tests/data.yaml": "a: 1\n"},
        "{top}: no test file (test_*.py, *_test.py) here; its tests are run by bats (tests/a.bats "
        "and 1 more), shell scripts (tests/run.sh), docker-compose (docker-compose.test.yml), "
        "Kubernetes (tests/pod.yaml), where pytest has no part, and so a harness neither: ",
    ),
    "Bazel only": (
        {"p/a_test.py": TEST, "p/BUILD": "# x\npy_test(name = 'a')\ncuda_py_test(name = 'b')\n"},
        "{top}: nothing here runs pytest, without which a harness does nothing; the 1 test files "
        "are run by Bazel (p/BUILD:2, 2 test rules)",
    ),
    "mains only": (
        {"p/a_test.py": f"{TEST}if __name__ == '__main__':\n  tf.test.main()\n"},
        "{top}: nothing here runs pytest, without which a harness does nothing; the 1 test files "
        "are run each as a program of its own (p/a_test.py ends in a main())",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "files",
    [
        {"p/test_a.py": f"{TEST}import docker\n"},
        {"p/test_a.py": "import docker\n", "p/test_b.py": "import lib\n", "lib.py": TEST},
        {"p/test_a.py": "import lib\n", "lib.py": TEST, "p/conftest.py": "import docker\n"},
        {"p/test_a.py": "'a docker image'\n", "lib.py": TEST},
        {"p/test_a.py": TEST, "pyproject.toml": JAX},
        {"p/test_a.py": "", "lib.py": TEST, "pyproject.toml": JAX.replace("tests", "tf")},
    ],
    ids=[
        "TensorFlow beside",
        "one of two",
        "a fixture, and the library",
        "a word",
        "JAX, and most tests of TensorFlow",
        "JAX, or TensorFlow",
    ],
)
def test_what_is_tested_here_too_is_no_reason_to_refuse(
    tmp_path: Path, files: dict[str, str]
) -> None:
    facts = gather_facts(write_tree(tmp_path, {".git/HEAD": "", "pytest.ini": "", **files}))

    assert decide(facts, Answers(), None).conftest


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_what_and_where(tmp_path: Path, name: str) -> None:
    files, message = REFUSED[name]
    facts = gather_facts(write_tree(tmp_path, {".git/HEAD": "", **files}))

    with pytest.raises(DevicegenError) as refusal:
        decide(facts, Answers(), None)

    assert str(refusal.value).startswith(message.format(top=facts.top, given=facts.given))


@pytest.mark.parametrize(
    ("files", "split"),
    [
        ({}, True),
        ({"conftest.py": f"{TEST}{SPLIT}"}, False),
        ({"conftest.py": f"{TEST}def pytest_configure():\n    {SPLIT.splitlines()[1]}\n"}, False),
        (
            {"tests/test_b.py": f"{TEST}tf.config.experimental.set_memory_growth(gpu, True)\n"},
            False,
        ),
        ({"tests/test_b.py": f"{TEST}def test_x():\n    {SPLIT.splitlines()[1]}\n"}, True),
        ({"conftest.py": f"{TEST}{SPLIT.replace('GPU', 'CPU')}"}, True),
        ({"tools/x.py": f"{TEST}{SPLIT}"}, True),
    ],
    ids=["none", "conftest", "hook", "growth", "in a test", "the CPU", "a script"],
)
def test_a_split_of_the_project_is_left_to_it(
    tmp_path: Path, files: dict[str, str], split: bool
) -> None:
    decisions = decided(tmp_path, files)

    assert decisions.split == split
    assert ("split in two" in said(decisions, "GPUs")[0]) == split
    assert ("sets its card up itself" in render_conftest(decisions, "1")) != split
    assert decided(tmp_path, files, Answers(split=True)).split


def test_ranks_that_a_test_gives_their_gpus_are_noted(tmp_path: Path) -> None:
    ranked = "config.gpu_options.visible_device_list = str(hvd.local_rank())\n"
    decisions = decided(tmp_path, {"p/test_a.py": f"{TEST}def test_a():\n    {ranked}"})

    assert decisions.split
    noted = [note for note in decisions.notes if "a rank sees its own GPU alone" in note]
    assert len(noted) == 1, decisions.notes
    assert noted[0].startswith("p/test_a.py:3: gives each rank its GPU (`config.gpu_options.")


def test_the_record_of_a_device_setup_is_no_refusal(tmp_path: Path) -> None:
    files = {"tests/conftest.py": MAP}
    record = Record("0", Answers(), {"tests/conftest.py": ""})
    facts = facts_of(tmp_path, {"tests/test_a.py": TEST, **files})

    decide(facts, Answers(), record)
    decide(facts, Answers(), None, Asked(keep_device_setup=True))
    with pytest.raises(DevicegenError, match="gives pytest-xdist's workers"):
        decide(facts, Answers(), None)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("p/conftest.py", "--conftest p/conftest.py: that is no conftest.py of a folder that hol"),
        ("tests/unit/conftest.py", "no place for the harness: tests/unit/conftest.py is not load"),
    ],
)
def test_a_place_that_is_asked_for_is_checked(tmp_path: Path, place: str, message: str) -> None:
    facts = facts_of(tmp_path, {"tests/unit/test_a.py": TEST})

    with pytest.raises(DevicegenError) as refusal:
        decide(facts, Answers(), None, Asked(conftest=place))

    assert str(refusal.value).startswith(message)


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
    ("xdist", "durations", "answer", "reason"),
    [
        (None, None, "not kept", "not asked for; --durations-history"),
        (None, False, "not kept", "--no-durations-history; --durations-history"),
        (True, True, "kept", "--durations-history: in pytest's cache"),
        (False, True, "not kept", "pytest-xdist, which is left out"),
    ],
)
def test_durations_history(
    tmp_path: Path, xdist: bool | None, durations: bool | None, answer: str, reason: str
) -> None:
    answers = Answers(xdist=xdist, durations_history=durations)
    decisions = decided(tmp_path, answers=answers)

    assert said(decisions, "durations")[0] == answer
    assert reason in said(decisions, "durations")[1]
    assert decisions.durations_history == (answer == "kept")
    assert ("class TimedScheduling" in render_conftest(decisions, "1")) == (answer == "kept")


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
    assert len({each.subject for each in decisions.listed}) == len(decisions.listed) == 13


def test_a_folder_whose_name_is_no_text_is_not_written_to(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, {"tests/test_a.py": TEST})
    odd = replace(facts, test_files=("tests\udcff/test_a.py",))

    assert decide(odd, Answers(), None).conftest == "conftest.py"
