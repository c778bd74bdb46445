"""Markers of the project's own that stand for the harness's, and other names than the usual.

Without TensorFlow, for the variants of the harness that have them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from harness.behaviours import FAKE_TENSORFLOW, HarnessRun, run_harness

# As TensorFlow Addons writes it; `with_device` and `needs_gpu` are the variant's aliases.
ADDONS = {
    **FAKE_TENSORFLOW,
    "test_addons.py": """
        import pytest
        with_device, needs_gpu = pytest.mark.with_device, pytest.mark.needs_gpu

        class MirroredStrategy: pass

        @with_device(["cpu", "gpu", MirroredStrategy])
        def test_all(device_scope): pass

        @with_device(["no_device"])
        def test_free(device_scope): assert device_scope.kind == "none"

        @with_device(["no_device"])
        @needs_gpu
        def test_free_on_a_gpu(device_scope): assert device_scope.kind == "none"

        @needs_gpu
        def test_needs(device_scope): assert device_scope.kind == "gpu"

        @needs_gpu
        class TestNeeds:
            def test_it(self, device_scope): assert device_scope.kind == "gpu"

            @with_device(["cpu"])
            def test_closer(self, device_scope): assert device_scope.kind == "cpu"

        @with_device(["gpus"])
        def test_typo(): pass

        @with_device()
        def test_nothing(): pass

        @pytest.mark.run_on([MirroredStrategy])
        def test_class_in_run_on(): pass

        def test_unmarked(device_scope): assert device_scope.kind == "cpu"
    """,
}
OF_A_GPU = ["test_all[gpu]", "test_all[distributed]", "test_free_on_a_gpu", "test_needs[gpu]",
            "TestNeeds::test_it[gpu]"]  # fmt: skip
OTHERS = ["test_all[cpu]", "test_free", "TestNeeds::test_closer[cpu]", "test_unmarked"]
WRONG = {"test_typo": "gpus", "test_nothing": "no device", "test_class_in_run_on": "Mirrored"}
OTHER_NAMES = {
    **FAKE_TENSORFLOW,
    # All of the usual names are the project's, and mean something else to it.
    "sub/conftest.py": """
        import pytest

        @pytest.fixture
        def device_scope(): return "the project's"
    """,
    "sub/test_names.py": """
        import pytest

        @pytest.mark.on_dev(["cpu", "gpu"])
        def test_scoped(marked_scope, device_scope):
            assert marked_scope.kind in ("cpu", "gpu")
            assert device_scope == "the project's"

        @pytest.mark.in_no_dev_scope
        def test_free(marked_scope): assert marked_scope.kind == "none"

        @pytest.mark.run_on("the host")
        @pytest.mark.gpu
        def test_theirs(marked_scope): assert marked_scope.kind == "cpu"

        @pytest.mark.on_dev(["gpus"])
        def test_typo(): pass
    """,
}


@cache
def addons_run(harness: str, python: Path, *args: str) -> HarnessRun:
    return run_harness(harness, python, ADDONS, *args)


def aliases_mean_what_they_stand_for(harness: str, python: Path) -> None:
    """With the arguments of the project's marker, strategy classes too, or always the same."""
    run = addons_run(harness, python, "--gpu-simulate=1", "--strict-markers")
    ids = {f"test_addons.py::{name}" for name in (*OF_A_GPU, *OTHERS, *WRONG)}

    assert set(run.outcomes) == ids, run
    for name in (*OF_A_GPU, *OTHERS):
        assert run.outcomes[f"test_addons.py::{name}"] == "passed", (name, str(run))


def wrong_aliases_are_errors(harness: str, python: Path) -> None:
    """They name the marker that is there, and a class is none of run_on's devices."""
    run = addons_run(harness, python, "--gpu-simulate=1", "--strict-markers")

    for name, given in WRONG.items():
        assert run.outcomes.get(f"test_addons.py::{name}") == "error", run
        text = run.pytest.text(f"test_addons.py::{name}")
        assert given in text, text
        assert ("run_on: " if name == "test_class_in_run_on" else "with_device: ") in text, text


def aliases_for_a_gpu_skip_without_one(harness: str, python: Path) -> None:
    """Also one that stands beside another marker."""
    run = addons_run(harness, python)

    for name in OF_A_GPU:
        assert run.outcomes[f"test_addons.py::{name}"] == "skipped", (name, str(run))
    for name in OTHERS:
        assert run.outcomes[f"test_addons.py::{name}"] == "passed", (name, str(run))


def other_names_leave_the_usual_ones_alone(harness: str, python: Path) -> None:
    """Fixture, option, markers and plain markers: the project's own work beside them."""
    args = ("--dev-simulate=1", "-p", "no:warnings")
    run = run_harness(harness, python, OTHER_NAMES, *args)
    env = {"PYTEST_DEV_SIMULATE": "1"}
    codes = (0, 1, 5)  # 5: nothing is selected
    selected = run_harness(harness, python, OTHER_NAMES, "-mon_gpu", env=env, exit_codes=codes)
    theirs = run_harness(harness, python, OTHER_NAMES, "-mgpu", env=env, exit_codes=codes)
    names = {name.rpartition("::")[2]: outcome for name, outcome in run.outcomes.items()}

    assert names == {
        "test_scoped[cpu]": "passed",
        "test_scoped[gpu]": "passed",
        "test_free": "passed",
        "test_theirs": "passed",
        "test_typo": "error",
    }, run
    assert "on_dev: unknown device" in run.pytest.text("sub/test_names.py::test_typo"), run
    assert selected.outcomes == {"sub/test_names.py::test_scoped[gpu]": "passed"}, selected
    assert theirs.outcomes == {"sub/test_names.py::test_theirs": "passed"}, theirs


ALIASED = (
    aliases_mean_what_they_stand_for,
    wrong_aliases_are_errors,
    aliases_for_a_gpu_skip_without_one,
)
RENAMED = (other_names_leave_the_usual_ones_alone,)
