"""Which worker runs which test, and in what order: behaviours under real pytest and xdist.

As in ``behaviours.py`` each takes the text of a harness and an interpreter. Cards are simulated,
and TensorFlow is the stand-in. Nothing depends on how fast the machine is: where a test has to
wait for another it does so through files.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path

from harness.behaviours import (
    FAKE_TENSORFLOW,
    PASSED_OR_FAILED,
    BrokenRun,
    HarnessRun,
    run_harness,
)
from kit.harness import harness_project
from kit.runs import PytestRun, run_pytest

MODES = ("load", "worksteal", "loadscope", "loadfile", "loadgroup")
CARDS = ("gw0", "gw1")  # of --gpu-simulate=2
Durations = dict[str, dict[str, float]]  # as kept: device -> node id -> seconds


def run(
    harness: str,
    python: Path,
    files: Mapping[str, str | bytes],
    *args: str,
    cards: int = 2,
    exit_codes: Collection[int] = PASSED_OR_FAILED,
) -> HarnessRun:
    """Run ``files`` on simulated cards."""
    project, simulate = {**files, **FAKE_TENSORFLOW}, f"--gpu-simulate={cards}"
    return run_harness(harness, python, project, simulate, *args, exit_codes=exit_codes)


def modes(python: Path) -> tuple[str, ...]:
    """Return the distributions that the environment's xdist knows: worksteal is of 3.2."""
    return tuple(mode for mode in MODES if mode != "worksteal" or is_newer(python, "[01]"))


def is_newer(python: Path, minor: str) -> bool:
    """Return whether the environment's xdist is none of 3.x, for x in the pattern ``minor``."""
    return not any(python.parents[1].glob(f"lib/*/site-packages/pytest_xdist-3.{minor}.*"))


def workers_of(run: HarnessRun, kind: str) -> set[str | None]:
    """Return the workers that ran items of a kind."""
    reports = run.pytest.reports
    return {r.worker for r in reports if dict(r.properties).get("device") == kind}


def order_on(run: HarnessRun, worker: str) -> list[str]:
    """Return the node ids that a worker ran, in order."""
    reports = [r for r in run.pytest.reports if r.when == "setup" and r.worker == worker]
    return [report.nodeid for report in reports]


# ---- Who runs what ---------------------------------------------------------------------------

MIXED = {
    f"test_{name}.py": """
        import time
        import pytest

        @pytest.mark.parametrize("n", range(8))
        def test_plain(n): time.sleep(0.01)

        @pytest.mark.run_on(["gpu", "distributed"])
        @pytest.mark.parametrize("n", range(3))
        def test_card(n): time.sleep(0.01)

        @pytest.mark.no_device_scope
        def test_free(): time.sleep(0.01)

        @pytest.mark.xdist_group("some")
        @pytest.mark.run_on(["cpu", "gpu"])
        def test_group(): time.sleep(0.01)
    """
    for name in "abc"
}


def tests_for_a_card_reach_a_card(harness: str, python: Path) -> None:
    """Under each distribution: all pass, none is skipped, on the workers that have a card."""
    for mode in modes(python):
        mixed = run(harness, python, MIXED, "-n4", f"--dist={mode}")
        assert mixed.pytest.counts == {"passed": 51}, (mode, str(mixed))
        for kind in ("gpu", "distributed", "none"):
            assert workers_of(mixed, kind) <= set(CARDS), (mode, kind, str(mixed))


def tests_for_a_card_come_first(harness: str, python: Path) -> None:
    """On each worker with one: distributed, gpu, then what is for the CPU; these, everywhere."""
    mixed = run(harness, python, {"test_a.py": MIXED["test_a.py"]}, "-n3", cards=1)
    order = order_on(mixed, "gw0")
    kinds = [re.search(r"\[(distributed|gpu)|free", nodeid) for nodeid in order]
    ranks = ["cpu" if not kind else kind[1] or "none" for kind in kinds]

    assert ranks == sorted(ranks, key=("distributed", "gpu", "none", "cpu").index), mixed
    assert ranks.count("distributed") == 3, mixed
    assert workers_of(mixed, "cpu") >= {"gw1", "gw2"}, mixed


def workers_with_a_card_help(harness: str, python: Path) -> None:
    """With a card and nothing left for it, a worker takes what is for the CPU."""
    wait = """
        import pathlib
        import time
        import pytest

        @pytest.mark.run_on(["gpu"])
        def test_gpu(): pass

        @pytest.mark.parametrize("n", range(6))
        def test_cpu(n, worker_id):
            pathlib.Path(worker_id).touch()
            end = time.monotonic() + 20
            alone = pathlib.Path("alone")
            while not all(map(pathlib.Path.exists, map(pathlib.Path, ["gw0", "gw1"]))):
                if alone.exists() or time.monotonic() > end:
                    alone.touch()
                    pytest.fail("one worker runs them all")
                time.sleep(0.01)
    """
    both = run(harness, python, {"test_wait.py": wait}, "-n2", cards=1)

    assert both.pytest.counts == {"passed": 7}, both


def a_parameter_called_gpu_is_no_device(harness: str, python: Path) -> None:
    """A user's own id ``test_p[gpu]`` may run anywhere; one that is marked is told from it."""
    test = """
        import time
        import pytest

        @pytest.mark.parametrize("p", ["gpu", "gpu-1", "distributed", "gpu-2", "gpu-3"])
        def test_p(p): time.sleep(0.02)

        @pytest.mark.run_on(["gpu"])
        def test_marked(): time.sleep(0.2)
    """
    own = run(harness, python, {"test_own.py": test}, "-n2", cards=1)

    assert own.pytest.workers["test_own.py::test_marked[gpu]"] == "gw0", own
    assert own.pytest.workers["test_own.py::test_p[gpu]"] == "gw1", own
    assert all("\\0" not in nodeid and "\0" not in nodeid for nodeid in own.outcomes), own


SCOPES = {
    "test_x.py": """
        import time
        import pytest
        run_on = pytest.mark.run_on

        class TestA:
            def test_1(self): time.sleep(0.02)
            def test_2(self): time.sleep(0.02)
            def test_3(self): time.sleep(0.02)

        class TestB:
            def test_1(self): time.sleep(0.02)
            @run_on(["cpu", "gpu"])
            @pytest.mark.parametrize("p", ["a::b", "c::d"])
            def test_2(self, p): time.sleep(0.02)

        def test_1(): time.sleep(0.02)
        @pytest.mark.xdist_group("one")
        def test_2(): time.sleep(0.02)
    """,
    "test_y.py": """
        import time
        import pytest
        one = pytest.mark.xdist_group(name="one")

        @one
        def test_1(): time.sleep(0.02)
        def test_2(): time.sleep(0.02)
        @one
        @pytest.mark.run_on(["gpu"])
        def test_3(): time.sleep(0.02)
        def test_4(): time.sleep(0.02)
    """,
}


def scopes_stay_whole(harness: str, python: Path) -> None:
    """All of a class, file or group is on one worker; with a test for a card, on one with one."""
    units = {
        "loadscope": lambda nodeid: nodeid.partition("[")[0].rpartition("::")[0],
        "loadfile": lambda nodeid: nodeid.partition("::")[0],
        "loadgroup": lambda nodeid: (
            "one" if re.search(r"x.py::test_2|y.py::test_[13]", nodeid) else nodeid
        ),
    }
    for mode, unit_of in units.items():
        scopes = run(harness, python, SCOPES, "-n3", f"--dist={mode}", cards=1)
        assert scopes.pytest.counts == {"passed": 14}, (mode, str(scopes))
        homes: dict[str, set[str | None]] = {}
        for nodeid, worker in scopes.pytest.workers.items():
            homes.setdefault(unit_of(nodeid), set()).add(worker)
        assert all(len(workers) == 1 for workers in homes.values()), (mode, homes, str(scopes))
        if mode != "loadfile":  # both files have a test for the one card
            assert len({worker for (worker,) in homes.values()}) > 1, (mode, homes)


def other_distributions_are_left_to_xdist(harness: str, python: Path) -> None:
    """``each`` runs every test on every worker; ``no`` and ``-n0`` run them here."""
    each = run(harness, python, {"test_a.py": "def test_a(): pass\n"}, "-n2", "--dist=each")
    here = run(harness, python, {"test_a.py": "def test_a(): pass\n"}, "-n0")

    assert each.pytest.starts == {"test_a.py::test_a": 2}, each
    assert here.pytest.workers == {"test_a.py::test_a": None}, here


# ---- Workers that die ------------------------------------------------------------------------

CRASH = {
    "test_crash.py": """
        import os
        import time
        import pytest
        run_on = pytest.mark.run_on

        @run_on(["distributed"])
        def test_crash(): os._exit(1)

        @run_on(["gpu"])
        @pytest.mark.parametrize("n", range(6))
        def test_gpu(n): pass

        @pytest.mark.parametrize("n", range(6))
        def test_cpu(n): time.sleep(0.01)
    """
}
CRASHED = "test_crash.py::test_crash[distributed]"
OTHERS = [f"test_crash.py::test_gpu[gpu-{n}]" for n in range(6)]
OTHERS += [f"test_crash.py::test_cpu[{n}]" for n in range(6)]


def a_crash_loses_no_test(harness: str, python: Path) -> None:
    """The only worker with a card dies: its replacement runs what is left, each test once."""
    for workers in ("-n1", "-n3"):
        crash = run(harness, python, CRASH, workers, cards=1)
        expected = {CRASHED: "failed", **dict.fromkeys(OTHERS, "passed")}
        assert crash.outcomes == expected, crash
        assert [crash.pytest.starts[nodeid] for nodeid in OTHERS] == [1] * 12, crash
        gpu = {crash.pytest.workers[nodeid] for nodeid in OTHERS[:6]}
        assert len(gpu) == 1, crash
        assert gpu < {"gw1", "gw3"}, crash


def without_a_card_left_tests_fail_by_name(harness: str, python: Path) -> None:
    """No restart is allowed: what was left is failed, each test with the reason, and it ends."""
    for workers in ("-n1", "-n3"):
        crash = run(harness, python, CRASH, workers, "--max-worker-restart=0", cards=1)
        assert set(crash.outcomes) == {CRASHED, *OTHERS}, crash
        for nodeid in OTHERS[:6]:
            assert crash.outcomes[nodeid] == "failed", crash
            assert "needs a GPU" in crash.pytest.text(nodeid), crash
        for nodeid in OTHERS[6:]:
            if crash.outcomes[nodeid] != "passed":
                assert "no worker" in crash.pytest.text(nodeid), crash
        assert crash.pytest.returncode == 1, crash


# ---- Order -----------------------------------------------------------------------------------

FIXTURES = {
    f"test_{name}.py": """
        import pathlib
        import time
        import pytest

        @pytest.fixture(scope="module")
        def expensive():
            with pathlib.Path("set_ups.txt").open("a") as file:
                file.write(f"{__name__}\\n")

        @pytest.mark.run_on(["cpu", "gpu"])
        @pytest.mark.parametrize("n", range(8))
        def test_it(n, expensive): time.sleep(0.01)
    """
    for name in "abcdefgh"
}
# The last test of a run to end says how often the fixture was set up.
COUNTED = {
    **FIXTURES,
    "conftest_count.py": """
        import pathlib

        def pytest_sessionfinish(session):
            if not hasattr(session.config, "workerinput"):
                text = pathlib.Path("set_ups.txt").read_text()
                print(f"SET UP {len(text.splitlines())} TIMES")
    """,
}


def neighbours_stay_together(harness: str, python: Path) -> None:
    """A module's fixture is set up little more often than there are modules and devices."""
    ours = set_ups(run(harness, python, COUNTED, "-n4", "-p", "conftest_count"))
    # 8 modules, on the CPU and on a card: 16; a unit that is shared adds one.
    assert 16 <= ours <= 16 + 2 * 4, ours


def set_ups(run: HarnessRun) -> int:
    found = re.search(r"SET UP (\d+) TIMES", run.pytest.stdout)
    assert found, run
    return int(found[1])


class Project:
    """A project that is run more than once, with pytest's cache."""

    def __init__(self, folder: str, harness: str, python: Path, files: Mapping[str, str]) -> None:
        self.python, self.diary = python, Path(folder, "diary.jsonl")
        everything = {**FAKE_TENSORFLOW, **files}
        self.root = harness_project(Path(folder, "project"), everything, harness=harness)

    def run(self, *args: str, cards: int = 1) -> PytestRun:
        env = {"DIARY": str(self.diary), "PATH": str(self.root / "nothing")}
        simulate = f"--gpu-simulate={cards}"
        run = run_pytest(self.python, self.root, "--assert=plain", simulate, *args, env=env)
        if run.returncode not in (*PASSED_OR_FAILED, 2):  # 2: stopped by -x
            raise BrokenRun(str(run))
        return run


def ran(run: PytestRun) -> list[str]:
    """Return the names of the tests that were begun, in order, without their file."""
    return [r.nodeid.partition("::")[2] for r in run.reports if r.when == "setup"]


ORDERED = {
    "test_a.py": """
        import os
        import pytest

        def test_1(): pass
        def test_2(): pass
        def test_3(): assert os.path.exists("fixed")
        def test_4(): pass
    """,
    "test_b.py": """
        import os
        import pytest

        def test_5(): pass
        @pytest.mark.run_on(["gpu"])
        def test_6(): pass
        def test_7(): assert os.path.exists("fixed")
        @pytest.mark.run_on(["gpu"])
        def test_8(): assert os.path.exists("fixed")
    """,
}


def failed_first_goes_after_the_device(harness: str, python: Path) -> None:
    """``--ff``: what is for a card is first; then, in each part, what failed; then the rest."""
    with tempfile.TemporaryDirectory() as folder:
        project = Project(folder, harness, python, ORDERED)
        first = project.run("-n1")
        again = project.run("-n1", "--ff")

    expected = ["test_6[gpu]", "test_8[gpu]", *(f"test_{n}" for n in (1, 2, 3, 4, 5, 7))]
    assert ran(first) == expected, first
    expected = ["test_8[gpu]", "test_6[gpu]", *(f"test_{n}" for n in (3, 7, 1, 2, 4, 5))]
    assert ran(again) == expected, again


def last_failed_and_stepwise_select(harness: str, python: Path) -> None:
    """``--lf`` runs what failed; ``--sw`` stops at a failure and goes on from there."""
    with tempfile.TemporaryDirectory() as folder:
        project = Project(folder, harness, python, ORDERED)
        project.run("-n2")
        again = project.run("-n2", "--lf")
        stopped = project.run("-n1", "--sw")
        (project.root / "fixed").touch()
        went_on = project.run("-n1", "--sw")

    assert set(ran(again)) == {"test_3", "test_7", "test_8[gpu]"}, again
    assert ran(stopped)[:2] == ["test_6[gpu]", "test_8[gpu]"], stopped
    assert went_on.returncode == 0, went_on
    if is_newer(python, "[0-5]"):  # workers of older ones do not stop by themselves
        assert len(ran(stopped)) == 2, stopped
        assert ran(went_on) == ["test_8[gpu]"], went_on


def max_fail_stops(harness: str, python: Path) -> None:
    """``-x`` and ``--maxfail`` end the run, and what was not run is no failure."""
    tests = "import pytest, time\n@pytest.mark.parametrize('n', range(60))\n"
    tests += "def test_it(n):\n    time.sleep(0.05)\n    assert n == 0\n"
    file = [["-x", "--dist=loadfile"]] if is_newer(python, "[0-5]") else []  # see --sw above
    for args in (["-x"], ["--maxfail=2"], *file):
        stopped = run(harness, python, {"test_x.py": tests}, "-n2", *args, exit_codes=(1, 2))
        failed = stopped.pytest.counts["failed"]
        assert 1 <= failed <= 8, (args, str(stopped))
        assert "no worker" not in stopped.pytest.stdout, (args, str(stopped))


# ---- Ids that differ ---------------------------------------------------------------------------


def ids_that_differ_are_explained(harness: str, python: Path) -> None:
    """Parameters that depend on the card: which test, and which worker collected what."""
    test = """
        import os
        import pytest

        has_gpu = os.environ["PYTEST_XDIST_WORKER"] == "gw0"

        @pytest.mark.parametrize("size", [1, 2, 1000] if has_gpu else [1, 2])
        def test_size(size): pass
    """
    differ = run(harness, python, {"test_size.py": test}, "-n2", cards=1)

    assert differ.pytest.returncode == 1, differ
    (second,) = differ.outcomes  # the one that comes second
    said = differ.pytest.text(second)
    for part in ("gw0 (simulated-0)", "gw1 (no GPU)", "only gw0", "test_size.py::test_size[1000]"):
        assert part in said, (part, str(differ))
    assert "test_size[1]" not in said, differ
    assert second in ("gw0", "gw1"), differ


def an_order_that_differs_is_explained(harness: str, python: Path) -> None:
    order = """
        import os

        def pytest_collection_modifyitems(items):
            if os.environ["PYTEST_XDIST_WORKER"] == "gw1":
                items.reverse()
    """
    tests = "def test_a(): pass\ndef test_b(): pass\n"
    differ = run(harness, python, {"test_a.py": tests, "order.py": order}, "-n2", "-p", "order")

    assert differ.pytest.returncode == 1, differ
    (second,) = differ.outcomes
    assert "Only their order differs" in differ.pytest.text(second), differ


def a_replacement_that_differs_ends(harness: str, python: Path) -> None:
    """It collects other tests than the worker it replaces: that is said, and nothing hangs."""
    test = """
        import os
        import pathlib
        import pytest

        again = pathlib.Path("crashed").exists()

        def test_crash():
            pathlib.Path("crashed").touch()
            os._exit(1)

        @pytest.mark.parametrize("n", range(6))
        def test_n(n): pass

        if again:
            def test_new(): pass
    """
    differ = run(harness, python, {"test_n.py": test}, "-n1")

    assert "only gw1" in differ.pytest.text("gw1"), differ
    for n in range(6):
        assert differ.outcomes[f"test_n.py::test_n[{n}]"] == "failed", differ
        assert "no worker" in differ.pytest.text(f"test_n.py::test_n[{n}]"), differ


# ---- Other versions of xdist -----------------------------------------------------------------

# What a later xdist may be like, for a controller that has imported ours.
FUTURE = """
    import pytest
    import xdist.dsession
    import xdist.workermanage

    CHANGE = {change!r}

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(session):
        if hasattr(session.config, "workerinput"):
            return
        if CHANGE == "node":  # a call of ours that is gone
            controller = xdist.workermanage.WorkerController
            controller.send_some = controller.send_runtest_some
            del controller.send_runtest_some
            from xdist.scheduler import load
            def send(self, node, num):
                taken, self.pending[:num] = self.pending[:num], []
                if taken:
                    self.node2pending[node].extend(taken)
                    node.send_some(taken)
            load.LoadScheduling._send_tests = send
        class Scheduling(getattr(xdist.dsession, "Scheduling", object)):
            pass
        if CHANGE == "method":  # one of theirs that is new
            Scheduling.rebalance = lambda self: None
        if CHANGE == "parameter":
            Scheduling.mark_test_complete = lambda self, node, item_index, duration, outcome: None
        xdist.dsession.Scheduling = Scheduling
"""


def another_xdist_is_left_to_itself(harness: str, python: Path) -> None:
    """With a warning, and without a crash."""
    tests = {"test_a.py": "def test_a(): pass\ndef test_b(): pass\n"}
    for change in ("node", "method", "parameter", ""):
        future = {"future.py": FUTURE.replace("{change!r}", repr(change))}
        files = {**tests, **future}
        other = run(harness, python, files, "-n2", "-p", "future", exit_codes=(0, 1, 3))
        assert other.pytest.counts == {"passed": 2}, (change, str(other))
        assert ("WARNING" in other.pytest.stdout) == bool(change), (change, str(other))


UNLABELLED = """
    import pytest

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(session):
        for plugin in session.config.pluginmanager.get_plugins():
            if type(plugin).__name__ == "WorkerInteractor":
                type(plugin).__name__ = "Interactor"
"""


def tests_without_a_label_go_to_cards(harness: str, python: Path) -> None:
    """Where a worker's ids come as they are: all of them, for none may be skipped."""
    files = {**MIXED, "unlabelled.py": UNLABELLED}
    mixed = run(harness, python, files, "-n4", "-p", "unlabelled")

    assert mixed.pytest.counts == {"passed": 51}, mixed
    for kind in ("gpu", "distributed"):
        assert workers_of(mixed, kind) <= set(CARDS), (kind, str(mixed))


def own_strategies_are_for_a_card(harness: str, python: Path) -> None:
    """A strategy of any name is as the one that is always there, with labels and without."""
    always = '    "distributed": lambda'
    own = '    "own-pair": lambda tf, devices: tf.distribute.MirroredStrategy(devices, None),\n'
    assert harness.count(always) == 1
    harness = harness.replace(always, own + always)
    files = {name: text.replace('"distributed"', '"own-pair"') for name, text in MIXED.items()}
    for args in ((), ("-p", "unlabelled")):
        mixed = run(harness, python, {**files, "unlabelled.py": UNLABELLED}, "-n4", *args)
        assert mixed.pytest.counts == {"passed": 51}, (args, str(mixed))
        assert workers_of(mixed, "own-pair") <= set(CARDS), (args, str(mixed))


# ---- Other plugins ---------------------------------------------------------------------------

FLAKY = {
    "test_flaky.py": """
        import os
        import pathlib
        import pytest

        @pytest.mark.run_on(["gpu"])
        @pytest.mark.flaky(reruns=2)
        def test_flaky():
            tries = pathlib.Path("tries.txt")
            with tries.open("a") as file:
                file.write("x")
            assert len(tries.read_text()) == 3

        @pytest.mark.run_on(["cpu", "gpu"])
        @pytest.mark.parametrize("n", range(5))
        def test_it(n): pass

        @pytest.mark.run_on(["gpu"])
        @pytest.mark.flaky(reruns=2)
        def test_crashes_once(request):
            crashed = pathlib.Path("crashed.txt")
            if not crashed.exists():
                crashed.touch()
                # rerunfailures tells its controller, and awaits no answer. To a question it
                # does, on the same connection: what was told before has arrived then.
                request.config.failures_db.get_test_failures("anything")
                os._exit(1)
    """
}


def reruns_are_reruns(harness: str, python: Path) -> None:
    """pytest-rerunfailures: of a failure, on the same worker; of a crash, on the replacement."""
    flaky = run(harness, python, FLAKY, "-n2", cards=1)

    assert flaky.pytest.returncode == 0, flaky
    reports = [(r.nodeid.partition("::")[2], r.outcome, r.worker) for r in flaky.pytest.reports]
    assert {name for name, outcome, _ in reports if outcome == "rerun"} == {
        "test_crashes_once[gpu]",
        "test_flaky[gpu]",
    }, flaky
    assert {worker for name, _, worker in reports if name == "test_crashes_once[gpu]"} == {
        "gw0",
        "gw2",
    }, flaky
    assert workers_of(flaky, "gpu") <= {"gw0", "gw2"}, flaky


def a_random_order_is_kept(harness: str, python: Path) -> None:
    """pytest-randomly: on one worker, what is for a card and then the rest, each as shuffled."""
    tests = "import pytest\n" + "".join(
        f"@pytest.mark.run_on(['cpu', 'gpu'])\ndef test_{n}(): pass\n" for n in range(12)
    )
    seed = "--randomly-seed=1"
    alone = run(harness, python, {"test_r.py": tests}, "-n0", seed)
    worker = run(harness, python, {"test_r.py": tests}, "-n1", seed)
    shuffled = list(alone.outcomes)

    assert shuffled != sorted(shuffled), alone
    of_kind = {
        kind: [nodeid for nodeid in shuffled if f"[{kind}]" in nodeid] for kind in ("gpu", "cpu")
    }
    assert order_on(worker, "gw0") == of_kind["gpu"] + of_kind["cpu"], worker


# ---- Durations of the last run ---------------------------------------------------------------

UNEVEN = {
    "test_a.py": """
        import os
        import time
        import pytest

        def test_1(): pass
        def test_2(): time.sleep(0.1)
        def test_3(): pass
    """,
    "test_b.py": """
        import os
        import time
        import pytest
        run_on = pytest.mark.run_on

        def test_4(): time.sleep(0.1)
        @run_on(["gpu"])
        def test_5(): pass
        @run_on(["gpu"])
        def test_6(): time.sleep(0.1)
        def test_7(): assert os.path.exists("fixed")
    """,
}
# Seconds as if measured, so that an order is no matter of noise. Those less than a 40th of it all
# are shorter the earlier they are collected.
SHORT = {"test_5[gpu]": 0.001, "test_1": 0.002, "test_3": 0.003, "test_7": 0.004}
GIVEN = {"test_2": 0.4, "test_4": 0.8, "test_6[gpu]": 0.3, **SHORT}


class TimedProject(Project):
    """A project whose tests are known to take what a test says."""

    @property
    def kept(self) -> Path:
        return self.root / ".pytest_cache/v/devices/durations"

    def durations(self) -> Durations:
        tables: Durations = json.loads(self.kept.read_text("utf-8"))
        return tables

    def give(self, seconds: Mapping[str, float]) -> None:
        """Change what was measured of tests, which are named without their file."""
        tables = self.durations()
        left = dict(seconds)
        for table in tables.values():
            for nodeid in table:
                table[nodeid] = left.pop(nodeid.partition("::")[2], table[nodeid])
        if left:
            raise BrokenRun(f"nothing was kept of {list(left)}: {tables}")
        self.kept.write_text(json.dumps(tables), "utf-8")


def took(run: PytestRun, nodeid: str) -> float:
    """Return how many seconds pytest says a test took, with its set-up and tear-down."""
    return sum(report.duration for report in run.reports if report.nodeid == nodeid)


def long_tests_go_first_the_next_time(harness: str, python: Path) -> None:
    """Among those for a card, and among the others; the short ones stay as they are."""
    with tempfile.TemporaryDirectory() as folder:
        project = TimedProject(folder, harness, python, UNEVEN)
        first = project.run("-n1")
        project.give(GIVEN)
        second = project.run("-n1")

    gpu, *short = SHORT
    assert ran(first) == [gpu, "test_6[gpu]", *(f"test_{n}" for n in (1, 2, 3, 4, 7))], first
    assert ran(second) == ["test_6[gpu]", gpu, "test_4", "test_2", *short], second


def what_was_asked_for_goes_before_what_took_long(harness: str, python: Path) -> None:
    """``--ff``: what failed is first, as without durations."""
    with tempfile.TemporaryDirectory() as folder:
        project = TimedProject(folder, harness, python, UNEVEN)
        project.run("-n1")
        project.give(GIVEN)
        second = project.run("-n1", "--ff")

    expected = ["test_5[gpu]", "test_6[gpu]", "test_7", *(f"test_{n}" for n in (1, 2, 3, 4))]
    assert ran(second) == expected, second


def durations_are_kept_by_device(harness: str, python: Path) -> None:
    """In pytest's cache, with workers and without; of what is not run they stay."""
    long_ago = 999.0  # nothing takes as long
    with tempfile.TemporaryDirectory() as folder:
        project = TimedProject(folder, harness, python, UNEVEN)
        first = project.run("-n0")
        before = project.durations()
        project.give(dict.fromkeys(GIVEN, long_ago))
        second = project.run("-n2", "test_a.py")
        after = project.durations()
        project.run("-n1", "-p", "no:cacheprovider")
        assert project.durations() == after, before

    in_a = [f"test_a.py::test_{n}" for n in (1, 2, 3)]
    in_b = [f"test_b.py::test_{n}" for n in (4, 7)]
    on_card = [f"test_b.py::test_{n}[gpu]" for n in (5, 6)]
    measured = {"cpu": [*in_a, *in_b], "gpu": [], "simulated": on_card}
    assert {device: sorted(table) for device, table in before.items()} == measured, before
    for table in before.values():
        for nodeid, seconds in table.items():
            assert abs(seconds - took(first, nodeid)) < 0.001, (nodeid, before, str(first))
    for nodeid in in_a:
        assert abs(after["cpu"][nodeid] - took(second, nodeid)) < 0.001, (after, str(second))
    rest = {**after["cpu"], **after["simulated"]}
    assert [rest.get(nodeid) for nodeid in (*in_b, *on_card)] == [long_ago] * 4, after


WITH_DURATIONS = (
    long_tests_go_first_the_next_time,
    what_was_asked_for_goes_before_what_took_long,
    durations_are_kept_by_device,
)
WITH_XDIST = (
    tests_for_a_card_reach_a_card,
    tests_for_a_card_come_first,
    workers_with_a_card_help,
    a_parameter_called_gpu_is_no_device,
    scopes_stay_whole,
    other_distributions_are_left_to_xdist,
    a_crash_loses_no_test,
    without_a_card_left_tests_fail_by_name,
    neighbours_stay_together,
    failed_first_goes_after_the_device,
    last_failed_and_stepwise_select,
    max_fail_stops,
    ids_that_differ_are_explained,
    an_order_that_differs_is_explained,
    a_replacement_that_differs_ends,
    another_xdist_is_left_to_itself,
    tests_without_a_label_go_to_cards,
    own_strategies_are_for_a_card,
)
WITH_PLUGINS = (reruns_are_reruns, a_random_order_is_kept)
SCHEDULING = (*WITH_XDIST, *WITH_PLUGINS, *WITH_DURATIONS)
