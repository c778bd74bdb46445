"""The examples hold what devicegen writes today, and their tests pass with it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kit import read_tree, run_devicegen, run_pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
HARNESS = {"ringnorm": "tests/conftest.py", "tinyaug": "conftest.py"}
# Passed with and without simulated GPUs; the rest are skipped. tf.test.TestCase adds one
# test_session to each of its subclasses, which skips itself.
PASSED = {"ringnorm": (60, 26), "tinyaug": (47, 27)}


@pytest.fixture(params=["ringnorm", pytest.param("tinyaug", marks=pytest.mark.slow)])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def bare(name: str, tmp_path: Path) -> Path:
    """Return a copy of the example as it was before devicegen."""
    copy = tmp_path / name
    shutil.copytree(EXAMPLES / name, copy, ignore=shutil.ignore_patterns("__pycache__", ".*cache"))
    shutil.rmtree(copy / ".devicegen")
    (copy / HARNESS[name]).unlink()
    return copy


def test_is_current(name: str) -> None:
    done = run_devicegen(["check", str(EXAMPLES / name)], EXAMPLES)

    assert done.returncode == 0, done.stdout + done.stderr


def test_init_writes_what_is_committed(name: str, bare: Path, tmp_path: Path) -> None:
    done = run_devicegen(["init", str(bare)], tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    committed = {
        path: data
        for path, data in read_tree(EXAMPLES / name).items()
        if "__pycache__" not in path and "_cache/" not in path
    }
    assert read_tree(bare) == committed


@pytest.mark.slow
@pytest.mark.parametrize("args", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_passes(name: str, each_tensorflow: Path, args: tuple[str, ...], tmp_path: Path) -> None:
    copy = tmp_path / name
    shutil.copytree(EXAMPLES / name, copy)
    simulated, plain = PASSED[name]

    run = run_pytest(each_tensorflow, copy, "--gpu-simulate", "2", *args)
    assert run.returncode == 0, run
    assert run.counts["passed"] == simulated, run

    run = run_pytest(each_tensorflow, copy, *args)
    assert run.returncode == 0, run
    assert run.counts["passed"] == plain, run
