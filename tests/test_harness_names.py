"""Names that the project has already: seen, others chosen, said, remembered, and working."""

from __future__ import annotations

from pathlib import Path

import pytest

from devicegen.facts.repository import gather_facts
from devicegen.facts.taken_names import may_take
from devicegen.harness_names import (
    FIXTURES,
    MARKERS,
    OPTION_WORDS,
    PLAIN_MARKERS,
    PLAIN_PREFIXES,
    HarnessNames,
)
from generator import HARNESS, LIBRARY, RECORD, run
from kit import read_tree, write_tree

MARKERS_INI = """
    [pytest]
    markers =
        gpu: needs the machine in the corner
"""
# what the project has -> a line of what is printed, the record's names
TAKEN: dict[str, tuple[dict[str, str], str, dict[str, str]]] = {
    "a fixture": (
        {"conftest.py": "import pytest\n@pytest.fixture\ndef device_scope(): pass\n"},
        "fixture's name      marked_scope  (device_scope is there already (conftest.py:3))",
        {"fixture": "marked_scope"},
    ),
    "a fixture by its name": (
        {
            "conftest.py": "from pytest import fixture\n"
            "@fixture(name='device_scope')\ndef f(): pass\n"
        },
        "fixture's name      marked_scope  (device_scope is there already (conftest.py:3))",
        {"fixture": "marked_scope"},
    ),
    "a parameter": (
        {"tests/test_a.py": "@pytest.mark.parametrize('a, device_scope', [])\ndef test(): pass\n"},
        "fixture's name      marked_scope  (device_scope is there already (tests/test_a.py:1))",
        {"fixture": "marked_scope"},
    ),
    "both fixtures": (
        {
            "tests/test_a.py": "import pytest\n@pytest.fixture\ndef device_scope(): pass\n"
            "@pytest.fixture\nasync def marked_scope(): pass\n"
        },
        "fixture's name      device_entry  (device_scope is there already (tests/test_a.py:3))",
        {"fixture": "device_entry"},
    ),
    "an option": (
        {"conftest.py": "def pytest_addoption(parser):\n    parser.addoption('--gpu-wait')\n"},
        "options' names      --dev-simulate, --dev-require, --dev-wait, --dev-strict, "
        "--workers-per-dev  (--gpu-wait is there already (conftest.py:2))",
        {"option_word": "dev"},
    ),
    "a registered marker": (
        {"pytest.ini": MARKERS_INI},
        "plain markers       on_cpu, on_gpu, on_distributed  (gpu is there already "
        "(pytest.ini:1); --marker-alias gpu=run_on:gpu takes it over)",
        {"plain_prefix": "on_"},
    ),
    "a marker of a hook": (
        {
            "conftest.py": "def pytest_configure(config):\n"
            "    config.addinivalue_line('markers', 'run_on(host): where to run')\n"
        },
        "markers' names      on_dev, in_no_dev_scope  (run_on is there already (conftest.py:2))",
        {"run_on": "on_dev", "no_device_scope": "in_no_dev_scope"},
    ),
    "a marker in use": (
        {"tests/test_a.py": "import pytest\n@pytest.mark.cpu\ndef test_a(): pass\n"},
        "plain markers       on_cpu, on_gpu, on_distributed  (cpu is there already "
        "(tests/test_a.py:2); --marker-alias cpu=run_on:cpu takes it over)",
        {"plain_prefix": "on_"},
    ),
}
FREE = {
    "markers that are ours, in use": "@pytest.mark.run_on(['gpu'])\ndef test_a(): pass\n",
    "an argument": "def test_a(device_scope): pass\n",
    "a function": "def device_scope(): pass\n",
    "a fixture device": "@pytest.fixture\ndef device(): pass\n",
    "another option": "def pytest_addoption(parser):\n    parser.addoption('--gpu')\n",
    "no Python": "def test_a(:\n@pytest.fixture\ndef device_scope(): pass\n",
}


@pytest.mark.parametrize("name", TAKEN)
def test_a_name_that_is_taken_is_not_used_and_that_is_said(tmp_path: Path, name: str) -> None:
    files, line, recorded = TAKEN[name]
    top = write_tree(tmp_path, {**LIBRARY, **files})

    done = run("init", top)

    assert done.code == 0, done.stderr
    assert line in done.stdout.splitlines(), done.stdout
    for key, value in recorded.items():
        assert f'{key} = "{value}"' in (top / RECORD).read_text("utf-8").splitlines()
        assert value in (top / HARNESS).read_text("utf-8")


@pytest.mark.parametrize("files", [{"pytest.ini": MARKERS_INI}, {}])
def test_an_alias_of_a_plain_name_takes_it(tmp_path: Path, files: dict[str, str | bytes]) -> None:
    """It is the project's marker, whether a test has it already or not."""
    top = write_tree(tmp_path, {**LIBRARY, **files})

    done = run("init", top, "--marker-alias=gpu=run_on:gpu")

    line = "plain markers       on_cpu, on_gpu, on_distributed  (gpu is taken over "
    assert f"{line}(--marker-alias))" in done.stdout.splitlines(), done.stdout
    assert 'plain_prefix = "on_"' in (top / RECORD).read_text("utf-8").splitlines()


@pytest.mark.parametrize("name", FREE)
def test_what_takes_no_name(tmp_path: Path, name: str) -> None:
    top = write_tree(tmp_path, {**LIBRARY, "tests/test_a.py": f"import pytest\n{FREE[name]}"})

    done = run("init", top)

    assert done.code == 0, done.stderr
    assert "already" not in done.stdout
    assert "[names]" not in (top / RECORD).read_text("utf-8")


def test_names_stay_whatever_the_project_does_later(tmp_path: Path) -> None:
    """Tests go by them by now; and what devicegen itself wrote takes no name."""
    files, _, _ = TAKEN["a fixture"]
    top = write_tree(tmp_path, {**LIBRARY, **files})
    run("init", top)
    write_tree(top, {"conftest.py": "", "tests/test_a.py": "import pytest\n@pytest.mark.gpu\n"})
    before = read_tree(top)

    assert run("check", top).code == 0
    assert run("upgrade", top).code == 0
    assert read_tree(top) == before


def test_its_own_marker_lines_take_no_name(tmp_path: Path) -> None:
    top = write_tree(tmp_path, LIBRARY)
    run("init", top, "--marker-alias", "slow_gpu=run_on:gpu")
    for name in (HARNESS, RECORD):
        (top / name).unlink()

    done = run("init", top, "--marker-alias", "slow_gpu=run_on:gpu")

    assert done.code == 0, done.stderr
    assert "already" not in done.stdout


def test_whole_words_are_exchanged() -> None:
    names = HarnessNames("marked_scope", "dev", "on_dev", "in_no_dev_scope", "on_")
    text = "device_scope no_device_scope my_device_scope run_on --gpu-wait=1 gpu_wait x--gpu-wait"

    assert names.renamed(text) == (
        "marked_scope in_no_dev_scope my_device_scope on_dev --dev-wait=1 dev_wait x--gpu-wait"
    )
    assert HarnessNames().renamed(text) == text


def test_facts_name_the_first_place(tmp_path: Path) -> None:
    top = write_tree(tmp_path, {**LIBRARY, **TAKEN["a marker of a hook"][0]})

    line, where = gather_facts(top).taken.markers["run_on"]

    assert (line, str(where)) == ("run_on(host): where to run", "conftest.py:2")


def test_tox_is_to_pass_the_names_that_hold(tmp_path: Path) -> None:
    """Also when they are the record's; what passes the usual ones does not do then."""
    write_tree(
        tmp_path,
        {
            **LIBRARY,
            "conftest.py": "def pytest_addoption(parser):\n    parser.addoption('--gpu-wait')\n",
            "tox.ini": "[tox]\nenvlist = py\n[testenv]\ncommands = pytest\npass_env =\n"
            "    CUDA_*\n    *_VISIBLE_DEVICES\n    PYTEST_GPU_*\n    TF_*\n    XLA_FLAGS\n",
        },
    )
    lacks = "PYTEST_DEV_*, PYTEST_WORKERS_PER_DEV"
    said = f"tox.ini:5: tox environment py runs pytest and does not pass {lacks}; add below"
    lines = "\n    PYTEST_DEV_*\n    PYTEST_WORKERS_PER_DEV\n"

    for _ in range(2):
        done = run("init", tmp_path)
        assert said in done.stdout, done
        assert lines in done.stdout, done
    assert f"passes no {lacks}" in " ".join(run("inspect", tmp_path).stdout.split())

    tox = tmp_path / "tox.ini"
    tox.write_text(tox.read_text().replace("    PYTEST_GPU_*\n", lines[1:]))
    again = run("init", tmp_path)
    assert "does not pass PYTEST_GPU_LOCK_DIR; add" in again.stdout, again
    tox.write_text(tox.read_text() + "    PYTEST_GPU_LOCK_DIR\n")
    assert "tox environment" not in run("init", tmp_path).stdout


def test_a_file_with_a_name_to_choose_from_is_looked_into() -> None:
    """The text search that spares the rest from being parsed knows them all."""
    words = [*FIXTURES, *(name for pair in MARKERS for name in pair)]
    words += [f"pytest.mark.{pre}{name}" for pre in PLAIN_PREFIXES for name in PLAIN_MARKERS]
    words += [f'"markers", "{pre}{name}: x"' for pre in PLAIN_PREFIXES for name in PLAIN_MARKERS]
    words += [option for word in OPTION_WORDS for option in HarnessNames(option_word=word).options]

    assert not [word for word in words if not may_take(f"import pytest; {word}".encode())]
    assert not may_take(b"import pytest  # a GPU, a cpu, distributed under a licence\nthe.gpu")
