"""What the harness does, each promise one function that runs real pytest and asserts.

A behaviour takes the text of a harness and an interpreter, so that the same function is a test of
the harness as it is (``test_behaviours.py``) and the judge of one that was damaged on purpose
(``test_mutants.py``). It raises ``AssertionError`` where the promise is broken and ``BrokenRun``
where pytest itself did not get through, for a harness that cannot even run proves nothing.

These need no TensorFlow. A process without a card never imports it; for those with one, a
stand-in package writes down what it was asked (``fake_tensorflow.py``). Behaviours about
placement are in ``placement_behaviours.py``.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kit.harness import harness_project
from kit.nvidia_smi import Card, StandInNvidiaSmi, cards, recorded_cards
from kit.runs import PytestRun, run_pytest

HERE = Path(__file__).parent
PROBE = {"probe.py": (HERE / "probe.py").read_bytes()}
FAKE_TENSORFLOW = {"tensorflow.py": (HERE / "fake_tensorflow.py").read_bytes()}
# No cache to write, no assertions to rewrite: it is quicker.
PLUGINS = ("-p", "probe", "-p", "no:cacheprovider", "--assert=plain")
PASSED_OR_FAILED = (0, 1)  # pytest's exit codes of a run that got through
ONE_TEST = {"test_one.py": "def test_one(): pass\n"}


class BrokenRun(Exception):
    """The run did not get as far as the tests, so nothing can be said about a behaviour."""


@dataclass(frozen=True)
class HarnessRun:
    """A run of pytest under a harness, and what its processes wrote down."""

    pytest: PytestRun
    diary: tuple[dict[str, Any], ...]  # of probe.py and fake_tensorflow.py, in order
    smi_calls: int

    def noted(self, event: str) -> dict[str | None, dict[str, Any]]:
        """Return worker id -> what it noted; None stands for the controller or only process."""
        return {entry["worker"]: entry for entry in self.diary if entry["event"] == event}

    @property
    def outcomes(self) -> dict[str, str]:
        return self.pytest.outcomes

    @property
    def collected(self) -> list[str]:
        """Return the node ids that ``--collect-only -q`` printed, in order."""
        return [line for line in self.pytest.stdout.splitlines() if "::" in line]

    def __str__(self) -> str:
        return f"{self.pytest}\n" + "\n".join(map(str, self.diary))


def run_harness(
    harness: str,
    python: Path,
    files: Mapping[str, str | bytes],
    *args: str,
    smi: list[Card] | None = None,
    env: Mapping[str, str] | None = None,
    conftest: str = "conftest.py",
    exit_codes: Collection[int] = PASSED_OR_FAILED,
) -> HarnessRun:
    """Run pytest in a project of ``files`` under ``harness``, with a probe in each process.

    On PATH there is nothing, or a stand-in nvidia-smi that lists the cards ``smi``. Raises
    ``BrokenRun`` where the exit code is not one of ``exit_codes``.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = StandInNvidiaSmi(folder / "bin", smi) if smi else None
        project = harness_project(
            folder / "project", {**PROBE, **files}, harness=harness, conftest=conftest
        )
        diary = folder / "diary.jsonl"
        diary.touch()
        path = str(folder / ("bin" if program else "nothing"))
        leases = {"PYTEST_GPU_LOCK_DIR": str(folder / "leases"), "PYTEST_GPU_WAIT": "0"}
        environ = {"DIARY": str(diary), "PATH": path, **leases, **(env or {})}
        run = run_pytest(python, project, *PLUGINS, *args, env=environ)
        entries = tuple(map(json.loads, diary.read_text("utf-8").splitlines()))
        result = HarnessRun(run, entries, len(program.calls) if program else 0)
    if run.returncode not in exit_codes:
        raise BrokenRun(str(result))
    return result


# ---- Markers and ids -------------------------------------------------------------------------

MARKED = {
    "test_functions.py": """
        import pytest
        run_on = pytest.mark.run_on

        def test_unmarked(): pass

        @run_on(["gpu", "cpu"])
        def test_order(): pass

        @run_on(["cpu"])
        @pytest.mark.parametrize("flag", [True])
        @pytest.mark.parametrize("size", [3, 4])
        def test_parameters(size, flag): pass

        @pytest.fixture(params=["a", "b"])
        def letter(request): return request.param

        @run_on(["distributed strategy"])
        def test_fixture(letter): pass

        @run_on("cpu")
        def test_string(): pass

        @run_on("distributed", "cpu")
        def test_arguments(): pass

        @pytest.mark.no_device_scope
        def test_free(): pass
    """,
    "test_levels.py": """
        import pytest
        run_on = pytest.mark.run_on
        pytestmark = run_on(["gpu"])

        def test_module(): pass

        @run_on(["cpu"])
        def test_function(): pass

        @run_on(["distributed"])
        class TestMarked:
            def test_class(self): pass

            @run_on(["cpu"])
            def test_method(self): pass

            @pytest.mark.no_device_scope
            def test_free(self): pass

        class TestUnmarked:
            def test_class(self): pass
    """,
    "test_inheritance.py": """
        import pytest

        @pytest.mark.run_on(["gpu"])
        class Base:
            def test_it(self): pass

        class TestInherits(Base): pass

        @pytest.mark.filterwarnings("default")
        class TestInheritsToo(Base): pass

        @pytest.mark.run_on(["cpu"])
        class TestOverrides(Base): pass

        class TestGrandchild(TestOverrides): pass

        on_gpu = pytest.mark.run_on(["gpu"])

        @on_gpu
        class Other: pass

        @on_gpu
        class TestAsOneBase(TestOverrides, Other): pass
    """,
    "test_cases.py": """
        import unittest
        import pytest
        run_on = pytest.mark.run_on

        class Cases(unittest.TestCase):
            @classmethod
            def setUpClass(cls): cls.made = getattr(cls, "made", 0) + 1

            def setUp(self): self.ready = True

            @run_on(["cpu", "gpu"])
            def test_marked(self):
                assert self.ready and self.made == 1
                assert self.id().endswith("test_marked")

            def test_unmarked(self): assert self.ready

        @run_on(["distributed"])
        class MarkedCases(unittest.TestCase):
            def test_inherits(self): pass
    """,
}
IDS = {
    "test_functions.py": [
        "test_unmarked",
        "test_order[gpu]",
        "test_order[cpu]",
        "test_parameters[cpu-3-True]",
        "test_parameters[cpu-4-True]",
        "test_fixture[distributed-a]",
        "test_fixture[distributed-b]",
        "test_string[cpu]",
        "test_arguments[distributed]",
        "test_arguments[cpu]",
        "test_free",
    ],
    "test_levels.py": [
        "test_module[gpu]",
        "test_function[cpu]",
        "TestMarked::test_class[distributed]",
        "TestMarked::test_method[cpu]",
        "TestMarked::test_free",
        "TestUnmarked::test_class[gpu]",
    ],
    "test_inheritance.py": [
        "TestInherits::test_it[gpu]",
        "TestInheritsToo::test_it[gpu]",
        "TestOverrides::test_it[cpu]",
        "TestGrandchild::test_it[cpu]",
        "TestAsOneBase::test_it[gpu]",
    ],
    "test_cases.py": [
        "Cases::test_marked[cpu]",
        "Cases::test_marked[gpu]",
        "Cases::test_unmarked",
        "MarkedCases::test_inherits[distributed]",
    ],
}
ALL_IDS = [f"{module}::{name}" for module in sorted(IDS) for name in IDS[module]]
WRONG = {
    "test_wrong.py": """
        import pytest
        run_on = pytest.mark.run_on

        @run_on(["gpus"])
        def test_typo(): pass

        @run_on(["cpu", "gpus"])
        def test_half_typo(): pass

        @run_on([])
        def test_empty(): pass

        @run_on(["cpu", "distributed", "distributed strategy"])
        def test_twice(): pass

        @run_on()
        def test_no_argument(): pass

        @run_on(devices=["cpu"])
        def test_keyword(): pass

        @run_on(3)
        def test_number(): pass

        @pytest.mark.no_device_scope
        @run_on(["cpu"])
        def test_both(): pass

        @pytest.mark.no_device_scope("cpu")
        def test_free_with_argument(): pass

        @pytest.mark.gpu
        def test_plain(): pass

        @pytest.mark.gpu
        class TestPlain:
            @run_on(["cpu"])
            def test_it(self): pass

        @run_on(["cpu"])
        def test_right(): pass
    """,
    "test_wrong_case.py": """
        import unittest
        import pytest

        class Case(unittest.TestCase):
            @pytest.mark.run_on(["cuda"])
            def test_typo(self): pass
    """,
}
GIVEN = {  # what the message must say was given
    "test_wrong.py::test_typo": "gpus",
    "test_wrong.py::test_half_typo": "gpus",
    "test_wrong.py::test_empty": "no device",
    "test_wrong.py::test_twice": "twice",
    "test_wrong.py::test_no_argument": "no device",
    "test_wrong.py::test_keyword": "devices",
    "test_wrong.py::test_number": "3",
    "test_wrong.py::test_both": "no_device_scope",
    "test_wrong.py::test_free_with_argument": "cpu",
    "test_wrong.py::test_plain": "gpu only selects",
    "test_wrong.py::TestPlain::test_it": "gpu only selects",
    "test_wrong_case.py::Case::test_typo": "cuda",
}

OTHERWISE = {  # what is allowed where not all of run_on's devices are
    "test_wrong.py::test_both": "keep one",
    "test_wrong.py::test_free_with_argument": "nothing",
    "test_wrong.py::test_plain": "run_on",
    "test_wrong.py::TestPlain::test_it": "run_on",
}


@cache
def marked_run(harness: str, python: Path) -> HarnessRun:
    """Run the marked tests on a machine without a GPU, where TensorFlow could be imported."""
    return run_harness(harness, python, {**MARKED, **FAKE_TENSORFLOW}, "--strict-markers")


def ids_of(run: HarnessRun, module: str) -> list[str]:
    pairs = (nodeid.split("::", 1) for nodeid in run.outcomes)
    return [name for path, name in pairs if path == module]


def each_listed_device_is_an_item(harness: str, python: Path) -> None:
    """Ids begin with the device, in the order given; unmarked tests keep theirs."""
    run = marked_run(harness, python)

    assert ids_of(run, "test_functions.py") == IDS["test_functions.py"], run


def closest_marker_wins(harness: str, python: Path) -> None:
    """Function over class over module."""
    run = marked_run(harness, python)

    assert ids_of(run, "test_levels.py") == IDS["test_levels.py"], run


def class_markers_are_inherited(harness: str, python: Path) -> None:
    """A class has the marker of its base unless it has one of its own."""
    run = marked_run(harness, python)

    assert ids_of(run, "test_inheritance.py") == IDS["test_inheritance.py"], run


def a_class_that_pytest_refuses_is_one_error(harness: str, python: Path) -> None:
    """By name, as without the harness; the other tests run."""
    tests = """
        import pytest

        class TestRefused:
            pytestmark = (pytest.mark.slow,)
            def test_it(self): pass

        def test_other(): pass
    """
    args = ("--continue-on-collection-errors",)
    run = run_harness(harness, python, {"test_it.py": tests}, *args, exit_codes=(1, 3))

    assert run.outcomes.get("test_it.py::test_other") == "passed", run


def test_cases_have_an_item_per_device(harness: str, python: Path) -> None:
    """Methods of a TestCase are multiplied too, and run as themselves."""
    run = marked_run(harness, python)

    assert ids_of(run, "test_cases.py") == IDS["test_cases.py"], run
    assert run.outcomes["test_cases.py::Cases::test_marked[cpu]"] == "passed", run
    assert run.outcomes["test_cases.py::Cases::test_unmarked"] == "passed", run


def gpu_tests_are_skipped_with_a_reason(harness: str, python: Path) -> None:
    """Without a GPU just the tests that need one are skipped, and say what was looked for."""
    run = marked_run(harness, python)

    for nodeid in ALL_IDS:
        needs_gpu = re.search(r"\[(gpu|distributed)", nodeid)
        assert run.outcomes[nodeid] == ("skipped" if needs_gpu else "passed"), (nodeid, str(run))
        if needs_gpu:
            assert "GPU" in run.pytest.text(nodeid), run
            assert "nvidia-smi" in run.pytest.text(nodeid), run


def ids_are_the_same_with_a_gpu(harness: str, python: Path) -> None:
    """What is collected does not depend on the machine, and every id can be pasted."""
    run = run_harness(
        harness,
        python,
        MARKED,
        "--collect-only",
        "-q",
        "--gpu-simulate=1",
        *ALL_IDS,
        exit_codes=(0, 4),  # 4: an id is not found
    )

    assert run.collected == ALL_IDS, run
    names = "test_cases.py::Cases::test_marked[gpu]", "test_cases.py::Cases"
    both = run_harness(harness, python, MARKED, "--collect-only", *names, exit_codes=(0, 2))
    assert both.pytest.returncode == 0, both  # pytest 7 collects the class twice


def plain_marks_select(harness: str, python: Path) -> None:
    """``-m gpu`` selects what runs on a GPU, TestCase methods too."""
    kinds = {
        "gpu": [nodeid for nodeid in ALL_IDS if "[gpu" in nodeid],
        "not (gpu or cpu or distributed)": [nodeid for nodeid in ALL_IDS if "free" in nodeid],
    }
    for expression, expected in kinds.items():
        args = ("--collect-only", "-q", "-m", expression)
        run = run_harness(harness, python, MARKED, *args, exit_codes=(0, 5))  # 5: none is selected
        assert run.collected == expected, run


@cache
def wrong_run(harness: str, python: Path) -> HarnessRun:
    return run_harness(harness, python, WRONG)


def wrong_markers_are_errors(harness: str, python: Path) -> None:
    """Each names its test, what was given and what is allowed; its id is plain; others run."""
    run = wrong_run(harness, python)

    assert run.outcomes == {
        **dict.fromkeys(GIVEN, "error"),
        "test_wrong.py::test_right[cpu]": "passed",
    }, run
    for nodeid, given in GIVEN.items():
        assert nodeid in run.pytest.text(nodeid), (nodeid, str(run))
        assert given in run.pytest.text(nodeid).replace(nodeid, ""), (nodeid, str(run))
        allowed = OTHERWISE.get(nodeid, "distributed")
        assert allowed in run.pytest.text(nodeid), (nodeid, str(run))


def wrong_markers_are_errors_with_workers_too(harness: str, python: Path) -> None:
    """The same outcomes and the same words; a collection error would differ."""
    alone = wrong_run(harness, python)
    run = run_harness(harness, python, WRONG, "-n2")

    assert run.outcomes == alone.outcomes, run
    for nodeid in GIVEN:
        assert alone.pytest.text(nodeid) in run.pytest.text(nodeid), (nodeid, str(run))


# ---- Processes, masks, cards -----------------------------------------------------------------

# Five files, so that every worker of three is given one under --dist load and loadfile alike.
FILES = {f"test_{n}.py": f"def test_{n}(): pass\n" for n in range(6)}


@cache
def mapped_run(harness: str, python: Path) -> HarnessRun:
    """Run three workers on a machine with two cards."""
    return run_harness(
        harness, python, {**FILES, **FAKE_TENSORFLOW}, "-n3", smi=cards(2, memory__free="5120 MiB")
    )


@cache
def auto_run(harness: str, python: Path) -> HarnessRun:
    """Run ``-n auto``, which xdist takes to be one worker, on a machine with three cards."""
    env = {"PYTEST_XDIST_AUTO_NUM_WORKERS": "1"}
    return run_harness(
        harness, python, {**FILES, **FAKE_TENSORFLOW}, "-nauto", smi=cards(3), env=env
    )


def masks(run: HarnessRun, event: str = "start") -> dict[str | None, str | None]:
    return {worker: entry["mask"] for worker, entry in run.noted(event).items()}


def each_worker_has_its_own_card(harness: str, python: Path) -> None:
    """The mask is there before pytest; the first workers get a card each, the others none."""
    first, second = (card["uuid"] for card in cards(2))
    run = mapped_run(harness, python)

    assert masks(run) == {None: None, "gw0": first, "gw1": second, "gw2": "-1"}, run
    assert masks(run, "end")["gw2"] == "-1", run


def controller_sees_no_card(harness: str, python: Path) -> None:
    run = mapped_run(harness, python)

    assert masks(run, "end")[None] == "-1", run


def tensorflow_is_imported_only_with_a_card(harness: str, python: Path) -> None:
    """Neither the controller nor a worker without a card imports it; the others do at once."""
    run = mapped_run(harness, python)
    alone = marked_run(harness, python)
    at_end = {worker: entry["tensorflow"] for worker, entry in run.noted("end").items()}

    assert set(run.noted("import")) == {"gw0", "gw1"}, run
    assert at_end == {None: False, "gw0": True, "gw1": True, "gw2": False}, run
    assert not alone.noted("import"), alone


def mask_is_set_when_tensorflow_is_imported(harness: str, python: Path) -> None:
    first, second = (card["uuid"] for card in cards(2))
    run = mapped_run(harness, python)

    assert masks(run, "import") == {"gw0": first, "gw1": second}, run


def each_card_is_split_in_two(harness: str, python: Path) -> None:
    """Two logical devices, each with half of what is free after the reserve."""
    run = mapped_run(harness, python)
    splits = [entry for entry in run.diary if entry["event"] == "split"]

    assert len(splits) == 2, run
    for split in splits:
        assert split["device"] == "/physical_device:GPU:0", run
        assert split["limits"] == [2048, 2048], run


def gpus_are_asked_for_once(harness: str, python: Path) -> None:
    run = auto_run(harness, python)

    assert run.smi_calls == 1, run


def mapping_is_printed(harness: str, python: Path) -> None:
    """On one line, under ``-q`` too; with workers and without."""
    first, second = (card["uuid"] for card in cards(2))
    run = mapped_run(harness, python)
    alone = run_harness(harness, python, ONE_TEST, "-q")
    lines = device_lines(run)

    assert len(lines) == 1, run
    for part in (f"gw0 has {first}", f"gw1 has {second}", "no GPU for gw2", "nvidia-smi"):
        assert part in lines[0], (part, str(run))
    assert len(device_lines(alone)) == 1, alone
    assert "nvidia-smi" in device_lines(alone)[0], alone


def device_lines(run: HarnessRun) -> list[str]:
    return [line for line in run.pytest.stdout.splitlines() if line.startswith("devices:")]


def threads(run: HarnessRun) -> dict[str | None, tuple[str | None, str | None]]:
    noted = run.noted("start").items()
    return {worker: (entry["intraop"], entry["interop"]) for worker, entry in noted}


def workers_share_the_cores(harness: str, python: Path) -> None:
    share = str(max(1, len(os.sched_getaffinity(0)) // 3))
    run = mapped_run(harness, python)

    shared = (share, share)
    assert threads(run) == {None: (None, None), "gw0": shared, "gw1": shared, "gw2": shared}, run


def thread_counts_of_the_caller_stay(harness: str, python: Path) -> None:
    run = run_harness(harness, python, FILES, "-n2", env={"TF_NUM_INTRAOP_THREADS": "7"})

    for worker in ("gw0", "gw1"):
        intraop, interop = threads(run)[worker]
        assert intraop == "7", run
        assert interop is not None, run


def mapping_does_not_read_worker_names(harness: str, python: Path) -> None:
    """Workers of any name get the cards in the order in which they are started."""
    first, second = (card["uuid"] for card in cards(2))
    workers = ("--dist=load", "--tx=popen//id=gw1", "--tx=popen//id=alpha")
    run = run_harness(harness, python, {**FILES, **FAKE_TENSORFLOW}, *workers, smi=cards(2))

    assert masks(run) == {None: None, "gw1": first, "alpha": second}, run


def there_is_a_worker_for_each_card(harness: str, python: Path) -> None:
    """``-n auto`` starts at least as many workers as there are cards."""
    run = auto_run(harness, python)

    assert set(run.noted("start")) == {None, "gw0", "gw1", "gw2"}, run


def mask_of_the_caller_bounds_the_cards(harness: str, python: Path) -> None:
    """Workers get the cards that it names, in its order, and are not numbered from 0."""
    uuids = [card["uuid"] for card in cards(4)]
    env = {"CUDA_VISIBLE_DEVICES": "3, 1"}
    run = run_harness(harness, python, {**FILES, **FAKE_TENSORFLOW}, "-n3", smi=cards(4), env=env)
    seen = masks(run)

    assert seen["gw0"] in ("3", uuids[3]), run
    assert seen["gw1"] in ("1", uuids[1]), run
    assert seen["gw2"] == "-1", run


def mask_ends_at_the_first_entry_that_names_no_card(harness: str, python: Path) -> None:
    """Also: a uuid may be cut short, and a mask that hides all is said to."""
    uuids = [card["uuid"] for card in cards(4)]
    project = {**ONE_TEST, **FAKE_TENSORFLOW}
    mask = f"{uuids[2][:10]},9,0"
    run = run_harness(
        harness, python, {**FILES, **FAKE_TENSORFLOW}, "-n2", smi=cards(4),
        env={"CUDA_VISIBLE_DEVICES": mask},
    )  # fmt: skip
    gpu_test = "import pytest\n@pytest.mark.run_on(['gpu'])\ndef test_gpu(): pass\n"
    hidden = run_harness(
        harness, python, {**project, "test_gpu.py": gpu_test}, smi=cards(1),
        env={"CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip

    assert masks(run)["gw0"] in (mask[:10], uuids[2]), run
    assert masks(run)["gw1"] == "-1", run
    assert hidden.outcomes["test_gpu.py::test_gpu[gpu]"] == "skipped", hidden
    assert "CUDA_VISIBLE_DEVICES" in hidden.pytest.text("test_gpu.py::test_gpu[gpu]"), hidden


def simulated_cards_are_counted(harness: str, python: Path) -> None:
    """``--gpu-simulate 2``: two workers of three own one, on three logical CPUs; no mask."""
    run = run_harness(
        harness, python, {**FILES, **FAKE_TENSORFLOW}, "-n3", "--gpu-simulate=2", smi=cards(1)
    )
    splits = {e["worker"]: (e["device"], e["limits"]) for e in run.diary if e["event"] == "split"}

    three = ("/physical_device:CPU:0", [None, None, None])
    assert splits == {"gw0": three, "gw1": three}, run
    assert masks(run) == {None: None, "gw0": "-1", "gw1": "-1", "gw2": "-1"}, run
    assert run.smi_calls == 0, run


def simulation_can_be_asked_for_in_the_environment(harness: str, python: Path) -> None:
    """The option wins over the variable; what is no number is a usage error."""
    project = {**ONE_TEST, **FAKE_TENSORFLOW}
    env = {"PYTEST_GPU_SIMULATE": "1"}
    run = run_harness(harness, python, project, env=env)
    none = run_harness(harness, python, project, "--gpu-simulate=0", env=env)
    wrong = run_harness(harness, python, project, "--gpu-simulate=two", exit_codes=(0, 4))

    assert run.noted("split"), run
    assert not none.noted("split"), none
    assert wrong.pytest.returncode == 4, wrong
    assert "two" in wrong.pytest.stderr, wrong


def gpus_are_not_asked_for_without_tests_to_run(harness: str, python: Path) -> None:
    """Nor is TensorFlow imported then."""
    project = {**ONE_TEST, **FAKE_TENSORFLOW}
    for args in (["--collect-only"], ["--help"], ["--version"], ["--markers"]):
        run = run_harness(harness, python, project, *args, smi=cards(2))
        assert run.smi_calls == 0, (args, str(run))
        assert not run.noted("import"), (args, str(run))


def markers_are_registered(harness: str, python: Path) -> None:
    run = run_harness(harness, python, ONE_TEST, "--markers")

    for name in ("run_on(", "no_device_scope:", "cpu:", "gpu:", "distributed:"):
        assert f"@pytest.mark.{name}" in run.pytest.stdout, run


def hidden_device_scope_is_an_error(harness: str, python: Path) -> None:
    """A project's own fixture of that name keeps the scope away: that is no silent pass."""
    test = """
        import pytest

        @pytest.fixture
        def device_scope(): pass

        @pytest.mark.run_on(["gpu"])
        def test_gpu(): pass

        def test_unmarked(): pass
    """
    project = {"test_hidden.py": test, **FAKE_TENSORFLOW}
    run = run_harness(harness, python, project, "--gpu-simulate=1")

    assert run.outcomes["test_hidden.py::test_gpu[gpu]"] in ("failed", "error"), run
    assert "device_scope" in run.pytest.text("test_hidden.py::test_gpu[gpu]"), run
    assert run.outcomes["test_hidden.py::test_unmarked"] == "passed", run


def halves_of_a_real_card_are_asked_for(harness: str, python: Path) -> None:
    """`gpu` asks for the first; the strategy for both, joined by something else than NCCL."""
    test = """
        import pytest

        @pytest.mark.run_on(["cpu", "gpu", "distributed"])
        def test_it(device_scope): assert not device_scope.simulated
    """
    run = run_harness(harness, python, {"test_it.py": test, **FAKE_TENSORFLOW}, smi=cards(1))
    asked = [entry["name"] for entry in run.diary if entry["event"] == "device"]

    assert run.pytest.counts == {"passed": 3}, run
    between = "/device:CPU:0"
    assert asked == [between, "/device:CPU:0", between, "/device:GPU:0", between, "", between], run
    strategy = run.noted("strategy")[None]
    assert strategy["devices"] == ["/device:GPU:0", "/device:GPU:1"], run
    assert strategy["ops"] == "ReductionToOneDevice", run


def framework_that_sees_no_card_is_named(harness: str, python: Path) -> None:
    """The driver lists a card and TensorFlow does not: the reason says so."""
    test = "import pytest\n@pytest.mark.run_on(['gpu'])\ndef test_gpu(): pass\n"
    run = run_harness(
        harness, python, {"test_gpu.py": test, **FAKE_TENSORFLOW}, smi=cards(1),
        env={"FAKE_GPUS": "0"},
    )  # fmt: skip

    assert run.outcomes == {"test_gpu.py::test_gpu[gpu]": "skipped"}, run
    assert "TensorFlow" in run.pytest.text("test_gpu.py::test_gpu[gpu]"), run


def unknown_free_memory_is_no_obstacle(harness: str, python: Path) -> None:
    """A card that says ``[N/A]`` for its memory is used, with a limit above nothing."""
    project = {**ONE_TEST, **FAKE_TENSORFLOW}
    run = run_harness(harness, python, project, smi=recorded_cards("unified_memory"))
    (split,) = [entry for entry in run.diary if entry["event"] == "split"]

    assert len(split["limits"]) == 2, run
    assert min(split["limits"]) > 0, run


def pytest_inside_a_test_shares_its_card(harness: str, python: Path) -> None:
    """It maps nothing again, with workers of its own or without."""
    inner = "def test_inner(): pass\n"
    outer = """
        import subprocess
        import sys

        import pytest

        @pytest.mark.no_device_scope
        def test_outer():
            for workers in ([], ["-n1"]):
                command = [sys.executable, "-m", "pytest", "-p", "probe", "inner.py", *workers]
                subprocess.run(command, check=True)
    """
    project = {"test_outer.py": outer, "inner.py": inner, **FAKE_TENSORFLOW}
    run = run_harness(harness, python, project, smi=cards(1))
    seen = [entry["mask"] for entry in run.diary if entry["event"] == "import"]

    assert run.outcomes == {"test_outer.py::test_outer": "passed"}, run
    assert seen == [cards(1)[0]["uuid"]] * len(seen), run
    assert len(seen) >= 2, run
    assert run.smi_calls == 1, run


def a_harness_without_xdist_says_so(harness: str, python: Path) -> None:
    """Its variant maps no workers; ``-n`` would make them share cards, so it is refused."""
    run = run_harness(harness, python, ONE_TEST, "-n2", exit_codes=(0, 4))

    assert run.pytest.returncode == 4, run
    assert "xdist" in run.pytest.stderr, run


def a_harness_without_split_says_so(harness: str, python: Path) -> None:
    """A whole card is one device: enough for a GPU test, an error for one with a strategy."""
    files = {
        **FAKE_TENSORFLOW,
        "test_whole.py": """
            import pytest

            @pytest.mark.run_on(["gpu", "distributed"])
            def test_it(): pass
        """,
    }
    run = run_harness(harness, python, files, smi=cards(1))
    text = run.pytest.text("test_whole.py::test_it[distributed]")

    assert run.outcomes["test_whole.py::test_it[gpu]"] == "passed", run
    assert run.outcomes["test_whole.py::test_it[distributed]"] == "error", run
    for word in ("/device:GPU:1", "not split", "run_on(['gpu'])", "upgrade --split"):
        assert word in text, text


# ---- Faults of today --------------------------------------------------------------------------

ONE_GPU_TEST = {
    "test_gpu.py": """
        import pytest

        @pytest.mark.run_on(["gpu"])
        def test_gpu(): pass
    """
}


def auto_with_pdb_runs_in_one_process(harness: str, python: Path) -> None:
    """xdist takes ``-n auto --pdb`` to mean no workers: the process has its card."""
    project = {**ONE_GPU_TEST, **FAKE_TENSORFLOW}
    run = run_harness(harness, python, project, "-nauto", "--pdb", "--gpu-simulate=1")

    assert run.outcomes == {"test_gpu.py::test_gpu[gpu]": "passed"}, run


def auto_may_be_no_workers(harness: str, python: Path) -> None:
    """The reason of a skip is the missing GPU, whoever counted the workers."""
    env = {"PYTEST_XDIST_AUTO_NUM_WORKERS": "0"}
    run = run_harness(harness, python, ONE_GPU_TEST, "-nauto", env=env)

    assert "nvidia-smi" in run.pytest.text("test_gpu.py::test_gpu[gpu]"), run


def marker_that_comes_too_late_is_an_error(harness: str, python: Path) -> None:
    """A project's hook marks an item after it was collected: no silent pass on the CPU."""
    files = {
        "sub/conftest.py": """
            import pytest

            def pytest_collection_modifyitems(items):
                for item in items:
                    item.add_marker(pytest.mark.run_on(["gpu"]))
        """,
        "sub/test_late.py": "def test_late(): pass\n",
    }
    run = run_harness(harness, python, {**files, **FAKE_TENSORFLOW}, "--gpu-simulate=1")

    assert run.outcomes["sub/test_late.py::test_late"] in ("error", "failed"), run


def unlisted_gpus_get_no_test(harness: str, python: Path) -> None:
    """TensorFlow sees a GPU though nvidia-smi is missing: an unmarked test is on the CPU."""
    test = "import tensorflow\ndef test_unmarked(): pass\n"
    env = {"FAKE_GPUS": "1"}
    run = run_harness(harness, python, {"test_cpu.py": test, **FAKE_TENSORFLOW}, env=env)

    asked = [entry["name"] for entry in run.diary if entry["event"] == "device"]
    assert asked == ["/device:CPU:0", ""], run


def project_imports_stay_the_projects(harness: str, python: Path) -> None:
    """A conftest that imports TensorFlow does so everywhere; the harness, only with a card."""
    project = {**FILES, **FAKE_TENSORFLOW, "sub/conftest.py": "import tensorflow\n"}
    project["sub/test_sub.py"] = "def test_sub(): pass\n"
    run = run_harness(harness, python, project, "-n3", "sub", smi=cards(2))
    importers = {worker: entry["by"] for worker, entry in run.noted("import").items()}

    theirs = {None: "sub/conftest.py", "gw2": "sub/conftest.py"}
    assert importers == {**theirs, "gw0": "conftest.py", "gw1": "conftest.py"}, run


WITHOUT_WORKERS = (
    each_listed_device_is_an_item,
    closest_marker_wins,
    class_markers_are_inherited,
    a_class_that_pytest_refuses_is_one_error,
    test_cases_have_an_item_per_device,
    gpu_tests_are_skipped_with_a_reason,
    ids_are_the_same_with_a_gpu,
    plain_marks_select,
    wrong_markers_are_errors,
    simulation_can_be_asked_for_in_the_environment,
    gpus_are_not_asked_for_without_tests_to_run,
    markers_are_registered,
    hidden_device_scope_is_an_error,
    halves_of_a_real_card_are_asked_for,
    framework_that_sees_no_card_is_named,
    unknown_free_memory_is_no_obstacle,
    marker_that_comes_too_late_is_an_error,
    unlisted_gpus_get_no_test,
)
WITH_WORKERS = (
    wrong_markers_are_errors_with_workers_too,
    auto_with_pdb_runs_in_one_process,
    auto_may_be_no_workers,
    project_imports_stay_the_projects,
    pytest_inside_a_test_shares_its_card,
    each_worker_has_its_own_card,
    controller_sees_no_card,
    tensorflow_is_imported_only_with_a_card,
    mask_is_set_when_tensorflow_is_imported,
    each_card_is_split_in_two,
    gpus_are_asked_for_once,
    mapping_is_printed,
    workers_share_the_cores,
    thread_counts_of_the_caller_stay,
    mapping_does_not_read_worker_names,
    there_is_a_worker_for_each_card,
    mask_of_the_caller_bounds_the_cards,
    mask_ends_at_the_first_entry_that_names_no_card,
    simulated_cards_are_counted,
)
WITHOUT_TENSORFLOW = (*WITHOUT_WORKERS, *WITH_WORKERS)
