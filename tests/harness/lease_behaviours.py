"""Which process has which card, and for how long: behaviours of several runs on one machine.

As in ``behaviours.py`` each takes the text of a harness and an interpreter. Runs go on in the
background until they are let go, are killed, or start others; locks are looked at from outside.
No verdict hangs on a time: what has to come first is waited for, up to `LIMIT`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import Any

from harness.behaviours import FAKE_TENSORFLOW, HERE, PROBE
from harness.lease_stress import locked, whole_lines
from kit import clean_environ
from kit.harness import harness_project
from kit.nvidia_smi import StandInNvidiaSmi, cards

UUIDS = [card["uuid"] for card in cards(5)]
LIMIT = 120  # seconds, after which a run is stuck; none takes as long where many run at once
SOON = 30  # the same for what takes a second or two, and is what some mutants never do
TOOLS = {
    **FAKE_TENSORFLOW,
    **PROBE,
    "gpu_log.py": (HERE / "log_of_gpu_tests.py").read_bytes(),
    "hold.py": """
        import os
        import pathlib
        import time

        def until_let_go(longest=600):
            end = time.monotonic() + longest
            while not pathlib.Path(os.environ["GO"]).exists() and time.monotonic() < end:
                time.sleep(0.02)

        def outlive_the_controller():
            # As long as it takes, and not as long as execnet lets a worker: for 5 to 15 s.
            from execnet.gateway_base import WorkerGateway

            terminate = WorkerGateway._terminate_execution

            def terminate_later(self):
                until_let_go()
                terminate(self)

            WorkerGateway._terminate_execution = terminate_later
    """,
}
GPU = {  # a GPU test that holds its card until it is let go
    **TOOLS,
    "test_gpu.py": """
        import pytest
        from gpu_log import note, on_card
        from hold import until_let_go

        note("has")

        @pytest.mark.run_on(["gpu"])
        def test_gpu():
            with on_card("gpu"):
                until_let_go()
    """,
}
CPU = {  # and one that needs none
    **TOOLS,
    "test_cpu.py": """
        from gpu_log import note, on_card
        from hold import until_let_go

        note("has")

        def test_cpu():
            with on_card("cpu"):
                until_let_go()
    """,
}


class Running:
    """A run of pytest in the background."""

    def __init__(self, machine: Machine, name: str, command: list[str], env: dict[str, str]):
        self.machine, self.name = machine, name
        self.go = machine.folder / f"{name}.go"
        self.file = machine.folder / f"{name}.txt"
        changes = {**machine.environ, "GPU_RUN": name, "GO": str(self.go), **env}
        with self.file.open("wb") as file:
            self.process = subprocess.Popen(
                command, cwd=machine.project, env=clean_environ(changes), stdin=subprocess.DEVNULL,
                stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
                # What a shell starts with "&" ignores SIGINT, and so would what is started here.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
            )  # fmt: skip

    @property
    def text(self) -> str:
        return self.file.read_text("utf-8", "replace")

    def entries(self, event: str) -> list[dict[str, Any]]:
        lines = whole_lines(self.machine.log)
        return [e for e in lines if e["run"] == self.name and e["event"] == event]

    def holding(self, event: str = "start", timeout: float = LIMIT) -> Running:
        """Wait until a test of it has begun."""
        self.machine.until(lambda: self.entries(event), self, timeout)
        return self

    def waiting(self) -> Running:
        """Wait until it has said that it waits for a card."""
        self.machine.until(lambda: "waiting" in self.text, self, SOON)
        return self

    def finish(self, timeout: float = LIMIT, *, let_go: bool = True) -> str:
        """Let it go and return what it printed."""
        if let_go:
            self.go.touch()
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} is not done:\n{self.text}") from None
        return self.text

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Machine:
    """Cards, a project with a harness, and a lease folder, for several runs at a time."""

    def __init__(
        self, folder: Path, harness: str, python: Path, files: dict[str, Any], **smi: Any
    ) -> None:
        self.folder, self.python, self.harness = folder, python, harness
        self.project = harness_project(folder / "project", files, harness=harness)
        self.smi = StandInNvidiaSmi(folder / "bin", cards(**smi))
        self.leases = folder / "leases"
        self.log = folder / "gpu.jsonl"
        self.diary = folder / "diary.jsonl"
        for file in (self.log, self.diary, self.smi.folder / "calls.jsonl"):
            file.touch()
            file.chmod(0o666)
        self.runs: list[Running] = []
        self.environ = {
            "PATH": str(self.smi.folder),
            "GPU_LOG": str(self.log),
            "DIARY": str(self.diary),
            "PYTEST_GPU_LOCK_DIR": str(self.leases),
            "PYTEST_GPU_WAIT": "0",
        }

    def start(self, *args: str, prefix: tuple[str, ...] = (), **env: str) -> Running:
        command = [*prefix, str(self.python), "-m", "pytest", "-rA", "-p", "no:cacheprovider",
                   "-p", "probe", *args]  # fmt: skip
        self.runs.append(Running(self, f"run{len(self.runs)}", command, env))
        return self.runs[-1]

    def run(self, *args: str, **more: Any) -> str:
        """Run to the end and return what was printed."""
        return self.start(*args, **more).finish()

    def until(
        self,
        condition: Callable[[], Any],
        run: Running,
        timeout: float = LIMIT,
        *,
        outlived: bool = False,
    ) -> None:
        """Wait for what is to come before the run ends, or after that where it is outlived."""
        end = time.monotonic() + timeout
        while not condition():
            ended = run.process.poll() is not None and not outlived
            assert not ended or condition(), run.text
            assert time.monotonic() < end, run.text
            time.sleep(0.02)

    def until_free(self, run: Running) -> None:
        """Wait until no process has a lease; one may end after the controller of its run."""
        self.until(lambda: not locked(self.leases), run, outlived=True)

    def noted(self, event: str) -> list[dict[str, Any]]:
        return [entry for entry in whole_lines(self.diary) if entry["event"] == event]

    def close(self) -> None:
        for run in self.runs:
            run.go.touch()
            with suppress(ProcessLookupError):
                os.killpg(run.process.pid, signal.SIGKILL)
            run.process.wait()


@contextmanager
def machine(harness: str, python: Path, files: dict[str, Any], **smi: Any) -> Iterator[Machine]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        made = Machine(Path(name), harness, python, files, **smi)
        made.folder.chmod(0o755)
        try:
            yield made
        finally:
            made.close()


def on_a_machine(files: dict[str, Any], **smi: Any) -> Callable[..., Callable[[str, Path], None]]:
    """Give a behaviour its machine."""

    def decorate(behaviour: Callable[[Machine], None]) -> Callable[[str, Path], None]:
        @wraps(behaviour)
        def wrapped(harness: str, python: Path) -> None:
            with machine(harness, python, files, **smi) as made:
                behaviour(made)

        return wrapped

    return decorate


# ---- One run a card ---------------------------------------------------------------------------


@on_a_machine(GPU, count=3)
def a_card_has_one_run_at_a_time(m: Machine) -> None:
    """What is free is taken at once; who has the others is said."""
    first = m.start("-n2").holding()
    second = m.start().holding()
    third = m.run()
    theirs = {entry["card"] for entry in [*first.entries("has"), *second.entries("has")]}

    assert theirs == set(UUIDS[:3]), first.text + second.text
    assert "1 skipped" in third, third
    assert f"leased by pid {first.process.pid}" in third, third
    assert f"leased by pid {second.process.pid}" in third, third
    assert "1 passed in " in first.finish(), first.text
    assert "1 passed in " in second.finish(), second.text
    m.until_free(first)


@on_a_machine(GPU, count=2)
def a_card_is_leased_by_its_uuid(m: Machine) -> None:
    """Two masks that name it differently exclude each other."""
    m.start(CUDA_VISIBLE_DEVICES="1").holding()
    second = m.run(CUDA_VISIBLE_DEVICES=UUIDS[1][:12])

    assert "1 skipped" in second, second
    assert "leased by pid" in second, second


@on_a_machine(GPU, count=1)
def a_run_waits_for_a_card_and_says_so(m: Machine) -> None:
    """With the holder's pid, under ``-q`` and with capture; with workers and without."""
    first = m.start().holding()
    waiting = [m.start("-q", *args, PYTEST_GPU_WAIT="600") for args in ([], ["-n1"])]
    for run in waiting:
        run.waiting()
        assert f"leased by pid {first.process.pid}" in run.text, run.text
        assert run.process.poll() is None, run.text
    first.finish()

    for run in waiting:
        run.go.touch()
    for run in waiting:
        assert "1 passed in " in run.finish(), run.text


QUICK_CLOCK = {
    **GPU,
    "quick_clock.py": """
        import os
        import time

        slept, monotonic = 0, time.monotonic

        def sleep(seconds):
            global slept
            slept += seconds
            if slept > 1000:
                os._exit(70)  # it would wait for ever

        time.sleep, time.monotonic = sleep, lambda: monotonic() + slept
    """,
}


@on_a_machine(QUICK_CLOCK, count=1)
def waiting_is_bounded(m: Machine) -> None:
    """Then GPU tests are skipped, or the run fails as ``--gpu-require`` says."""
    m.start().holding()
    skipped = m.run("-p", "quick_clock", "--gpu-wait=100")
    required = m.start("-p", "quick_clock", "--gpu-wait=100", "--gpu-require=1")

    assert "waiting" in skipped, skipped
    assert "1 skipped" in skipped, skipped
    assert "leased by pid" in required.finish(), required.text
    assert required.process.returncode == 4, required.text


@on_a_machine({**GPU, **CPU}, count=1)
def a_selection_of_cpu_tests_neither_waits_nor_leases(m: Machine) -> None:
    m.start("test_gpu.py").holding()
    waits_not = m.run("-m", "cpu", PYTEST_GPU_WAIT="2")
    assert "1 passed, 1 deselected" in waits_not, waits_not
    assert "waiting" not in waits_not, waits_not
    m.runs[0].finish()

    leases_not = m.start("-m", "cpu and not slow").holding("has")
    assert leases_not.entries("has")[0]["card"] == "-1", leases_not.text
    both = m.run("-m", "cpu and (slow) or(gpu)")
    assert "1 passed, 1 deselected" in both, both


@on_a_machine(GPU, count=2)
def fewer_than_required_are_waited_for(m: Machine) -> None:
    """And what is free is not kept from others meanwhile."""
    first = m.start().holding()
    both = m.start("-n2", "--gpu-require=2", "--gpu-wait=600").waiting()
    for _ in range(10):
        other = m.run()
        if "1 passed in " in other:
            break
    assert "1 passed in " in other, other
    first.finish()

    assert "1 passed in " in both.finish(), both.text


@on_a_machine(GPU, count=1)
def an_interrupt_while_waiting_is_one(m: Machine) -> None:
    """No traceback, and pytest's exit code for it, before there is a session and after."""
    m.start().holding()
    for args in (["--gpu-require=1"], ["--gpu-require=1", "-n1"], []):
        run = m.start(*args, PYTEST_GPU_WAIT="600").waiting()
        os.killpg(run.process.pid, signal.SIGINT)
        text = run.finish(let_go=False)
        assert run.process.returncode == 2, text
        assert "Traceback" not in text, text


@on_a_machine({**GPU, **CPU}, count=1)
def a_run_of_cpu_tests_does_not_wait(m: Machine) -> None:
    """Nobody said so beforehand; collection shows that no test needs a card."""
    m.start("test_gpu.py").holding()
    for args in (["test_cpu.py"], ["test_cpu.py", "-n1"], ["-k", "cpu"]):
        text = m.run(*args, PYTEST_GPU_WAIT="2")
        assert "1 passed" in text, text
        assert "waiting" not in text, text


LATE = {
    **TOOLS,
    "test_gpu.py": """
        import os
        import signal

        import pytest
        from gpu_log import note, on_card
        from hold import until_let_go

        note("has")

        @pytest.mark.run_on(["gpu"])
        def test_gpu():
            with on_card("gpu"):
                until_let_go()

        @pytest.mark.run_on(["gpu"])
        def test_dies():
            os.kill(os.getpid(), signal.SIGKILL)

        @pytest.mark.run_on(["gpu"])
        def test_after():
            note("after")
    """,
}


@on_a_machine(LATE, count=1, memory__free="8192 MiB")
def a_card_that_was_waited_for_is_used_as_any_other(m: Machine) -> None:
    """It is split, it is the test's and nobody else's, and a replacement waits for it anew."""
    first = m.start("-k", "test_gpu").holding()
    late = m.start("-n1", PYTEST_GPU_WAIT="600").waiting()
    assert [entry["card"] for entry in late.entries("has")] == ["-1"], late.text
    m.diary.write_text("")
    first.finish()
    late.holding()
    other = m.run("-k", "test_gpu")

    assert late.entries("start")[0]["card"] == UUIDS[0], late.text
    assert "leased by pid" in other, other
    text = late.finish()
    assert "1 failed, 2 passed" in text, text
    assert late.entries("after")[0]["card"] == UUIDS[0], text
    assert {tuple(entry["limits"]) for entry in m.noted("split")} == {(3584, 3584)}, text
    assert len(m.smi.calls) == 3, text  # once a run
    m.until_free(late)


@on_a_machine(GPU, count=2)
def one_worker_waits_for_all(m: Machine) -> None:
    """A run needs one card to begin; nobody waits for more."""
    holders = [m.start().holding(), m.start().holding()]
    run = m.start("-n2", PYTEST_GPU_WAIT="600").waiting()
    holders[0].finish()
    run.holding(timeout=SOON)

    assert run.text.count("waiting") == 1, run.text
    assert "1 passed" in run.finish(SOON), run.text
    assert holders[1].process.poll() is None


EARLY = {
    **GPU,
    "test_early.py": """
        import tensorflow as tf

        GPUS = tf.config.list_physical_devices("GPU")
    """,
}


@on_a_machine(EARLY, count=1)
def a_framework_that_looked_before_the_card_was_there_is_named(m: Machine) -> None:
    first = m.start("test_gpu.py").holding()
    late = m.start("test_early.py", "test_gpu.py", PYTEST_GPU_WAIT="600").waiting()
    first.finish()
    text = late.finish()

    assert "1 skipped" in text, text
    assert f"GPU {UUIDS[0]} is there, but TensorFlow sees none: " in text, text
    assert "it looked before this run had the card" in text, text


# ---- Taken by another program -----------------------------------------------------------------

TAKEN = {
    **TOOLS,
    "test_gpu.py": """
        import pytest
        from gpu_log import note

        note("has")

        @pytest.mark.run_on(["gpu"])
        @pytest.mark.parametrize("n", range(3))
        def test_gpu(n):
            note("start")
    """,
}


@on_a_machine(TAKEN, count=2)
def a_taken_card_is_replaced(m: Machine) -> None:
    """The worker whose card another program has says so; its replacement gets another one."""
    run = m.start("-n1", FAKE_TAKEN=UUIDS[0])
    text = run.finish()

    assert f"cannot be used: GPU {UUIDS[0]}: CUDA-capable device(s) is/are busy" in text, text
    assert [entry["card"] for entry in run.entries("has")] == UUIDS[:2], text
    assert {entry["card"] for entry in run.entries("start")} == {UUIDS[1]}, text


@on_a_machine(TAKEN, count=1)
def the_last_card_that_is_taken_is_said(m: Machine) -> None:
    """There is no other one: skipped with that reason, or failed under ``--gpu-require``."""
    skipped = m.run("-n1", FAKE_TAKEN=UUIDS[0])
    why = f"{UUIDS[0]} (CUDA-capable device(s) is/are busy or unavailable)"
    assert "3 skipped" in skipped, skipped
    assert why in skipped, skipped
    required = m.run("-n1", "--gpu-require=1", FAKE_TAKEN=UUIDS[0])
    assert "passed" not in required, required
    assert "skipped" not in required, required
    assert why in required, required


AROUND = {
    **TAKEN,
    "test_around.py": """
        import subprocess
        import sys

        import pytest

        @pytest.mark.no_device_scope
        def test_around():
            command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_gpu.py"]
            assert subprocess.run(command).returncode == 1
    """,
}


@on_a_machine(AROUND, count=2)
def a_taken_card_fails_its_tests_where_nobody_can_be_replaced(m: Machine) -> None:
    """Without workers, and in a pytest inside a test."""
    for file, counted in (("test_gpu.py", "= 3 errors in"), ("test_around.py", "= 1 passed in")):
        text = m.run(file, FAKE_TAKEN=UUIDS[0])
        said = f"test_gpu.py::test_gpu[gpu-0]: cannot be used: GPU {UUIDS[0]}: CUDA-capable"
        assert counted in text, text
        assert "= 3 errors in" in text, text
        assert said in text, text
        assert "During handling" not in text, text


TWO_HELD = {
    **TOOLS,
    "test_gpu.py": """
        import pytest
        from gpu_log import on_card
        from hold import until_let_go

        @pytest.mark.run_on(["gpu"])
        @pytest.mark.parametrize("n", range(2))
        def test_gpu(n):
            with on_card(n):
                until_let_go()
    """,
}


@on_a_machine(TWO_HELD, count=3)
def a_run_keeps_its_other_cards_when_one_is_taken(m: Machine) -> None:
    """The search for a third one frees none that a worker of the same run has."""
    run = m.start("-n2", FAKE_TAKEN=UUIDS[0])
    m.until(lambda: len(run.entries("start")) == 2, run)

    assert {entry["card"] for entry in run.entries("start")} == set(UUIDS[1:3]), run.text
    held = {name for name in locked(m.leases) if name.endswith(".card")}
    assert held >= {f"pytest-gpu-{uuid}.card" for uuid in UUIDS[1:3]}, (held, run.text)
    assert "2 passed" in run.finish(), run.text


NO_TENSORFLOW = {
    **{name: text for name, text in TOOLS.items() if not name.startswith("tensorflow")},
    "test_both.py": """
        import pytest
        from gpu_log import note

        def test_cpu(): note("start")

        @pytest.mark.run_on(["gpu"])
        def test_gpu(): pass
    """,
}


@on_a_machine(NO_TENSORFLOW, count=2)
def a_card_without_tensorflow_is_not_taken_for_anothers(m: Machine) -> None:
    """Tests that need none of it run there; those for a GPU say what is missing."""
    for args in ([], ["-n1"]):
        run = m.start(*args)
        text = run.finish()
        assert "1 passed, 1 error in " in text, text
        assert "no TensorFlow: No module named 'tensorflow' (test_both.py::test_gpu" in text, text
        assert [entry["card"] for entry in run.entries("start")] == [UUIDS[0]], text
        assert "cannot be used" not in text, text


MARKED_LATE = {
    **TOOLS,
    "sub/conftest.py": """
        import pytest

        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.no_device_scope)
    """,
    "sub/test_late.py": """
        from gpu_log import note

        def test_late(): note("start")
    """,
}


@on_a_machine(MARKED_LATE, count=1)
def a_test_that_is_marked_after_collection_keeps_its_card(m: Machine) -> None:
    """It runs in no scope where there is a GPU and where there is none, and is reported so."""
    for args, mask, card in (([], "", "none"), ([], "0", "0"), (["-n1"], "0", "0")):
        junit = m.folder / "junit.xml"
        run = m.start("sub", *args, f"--junitxml={junit}", CUDA_VISIBLE_DEVICES=mask)
        text = run.finish()
        assert "1 passed in " in text, text
        assert [entry["card"] for entry in run.entries("start")] == [mask or "-1"], text
        assert '<property name="device" value="none" />' in junit.read_text("utf-8"), text
        assert f'<property name="gpu" value="{card}" />' in junit.read_text("utf-8"), text


# ---- Ends of all kinds ------------------------------------------------------------------------


ORPHANED = {
    **GPU,
    "orphaned.py": """
        import hold

        hold.outlive_the_controller()
    """,
}


@on_a_machine(ORPHANED, count=1)
def a_worker_keeps_the_card_of_a_killed_run(m: Machine) -> None:
    """Workers outlive their controller; their card is free when they are gone."""
    first = m.start("-n1", "-p", "orphaned").holding()
    (worker,) = {entry["pid"] for entry in first.entries("start")}
    first.kill()
    second = m.run()

    assert "1 skipped" in second, second
    assert f"leased by pid {worker}" in second, second
    third = m.start(PYTEST_GPU_WAIT="600").waiting()
    first.go.touch()
    assert "1 passed in " in third.finish(SOON), third.text


ORPHAN = {
    **TOOLS,
    "sub/conftest.py": """
        import os
        from gpu_log import note

        if "PYTEST_XDIST_WORKER" in os.environ:
            note("has")
    """,
    "sub/test_sub.py": "def test_sub(): pass\n",
    "orphan.py": """
        import os
        import signal

        import hold

        if "PYTEST_XDIST_WORKER" in os.environ:
            hold.outlive_the_controller()
            os.kill(os.getppid(), signal.SIGKILL)
            while os.getppid() == int(os.environ["CONTROLLER"]):
                pass
        else:
            os.environ["CONTROLLER"] = str(os.getpid())
    """,
}


@on_a_machine(ORPHAN, count=1)
def a_worker_without_a_run_has_no_card(m: Machine) -> None:
    """Its controller was killed before it joined: the card may be another's."""
    run = m.start("-n1", "sub", PYTEST_PLUGINS="orphan")
    m.until(lambda: run.entries("has"), run, outlived=True)

    assert [entry["card"] for entry in run.entries("has")] == ["-1"], run.text
    assert not m.noted("import"), run.text


INNER = {
    **GPU,
    "test_outer.py": """
        import subprocess
        import sys

        import pytest

        @pytest.mark.run_on(["gpu"])
        def test_outer():
            options = ["-p", "no:cacheprovider", "test_gpu.py"]
            subprocess.run([sys.executable, "-m", "pytest", *options])
    """,
}


@on_a_machine(INNER, count=1)
def a_pytest_inside_a_test_keeps_the_card(m: Machine) -> None:
    """The run that started it is killed, and it goes on."""
    outer = m.start("test_outer.py").holding()
    assert outer.entries("start")[0]["card"] == UUIDS[0], outer.text
    outer.kill()
    other = m.run("test_gpu.py")

    assert "leased by pid" in other, other


INLINE = {
    **CPU,
    "test_gpu.py": """
        import os
        import pytest

        @pytest.mark.no_device_scope
        def test_inner_run():
            before = dict(os.environ)
            assert pytest.main(["-p", "no:cacheprovider", "test_cpu.py"]) == 0
            del before["PYTEST_CURRENT_TEST"]
            os.environ.pop("PYTEST_CURRENT_TEST", None)
            assert dict(os.environ) == before
    """,
}


@on_a_machine(INLINE, count=1)
def a_pytest_inside_a_process_gives_nothing_back(m: Machine) -> None:
    """It needs no card; the test that started it does."""
    run = m.run("test_gpu.py")

    assert "1 passed in " in run, run
    assert m.noted("visible") == [], run


FORKS = {
    **TOOLS,
    "test_gpu.py": """
        import os
        import time

        import pytest
        from gpu_log import on_card
        from hold import until_let_go

        @pytest.mark.run_on(["gpu"])
        def test_gpu():
            short = os.fork()
            if not short:
                os._exit(0)
            os.waitpid(short, 0)
            if not os.fork():
                time.sleep(600)  # it outlives the run, and ends with this machine
                os._exit(0)
            with on_card("gpu"):
                until_let_go()
    """,
}


@on_a_machine(FORKS, count=1)
def a_forked_child_is_no_owner(m: Machine) -> None:
    """Its end frees nothing, and the lease does not wait for it."""
    run = m.start().holding()
    assert len(locked(m.leases)) == 1, run.text
    text = run.finish()

    assert locked(m.leases) == [], text


# ---- Given back -------------------------------------------------------------------------------


@on_a_machine({**GPU, **CPU}, count=1)
def a_card_that_no_item_needs_is_given_back(m: Machine) -> None:
    """After collection; tests and what they start then see no card."""
    for args in ([], ["-n1"]):
        run = m.start("test_cpu.py", *args).holding()
        assert locked(m.leases) == [], run.text  # before the first test begins
        assert run.entries("has")[0]["card"] == UUIDS[0], run.text
        assert run.entries("start")[0]["card"] == "-1", run.text
        other = m.run("test_gpu.py")
        assert "1 passed in " in other, other
        assert "1 passed in " in run.finish(), run.text


NEEDED = {
    **TOOLS,
    "test_free.py": """
        import pytest
        from gpu_log import on_card
        from hold import until_let_go

        @pytest.mark.no_device_scope
        def test_free():
            with on_card("free"):
                until_let_go()
    """,
    "test_up.py": """
        import os
        import sys

        from gpu_log import on_card
        from hold import until_let_go

        if "tensorflow" in sys.modules:
            sys.modules["tensorflow"].config.list_logical_devices()

        def test_cpu():
            with on_card("cpu"):
                until_let_go()
    """,
}


@on_a_machine(NEEDED, count=1)
def a_card_in_use_is_not_given_back(m: Machine) -> None:
    """An item may use it, or TensorFlow's runtime has it."""
    for file in ("test_free.py", "test_up.py"):
        for args in ([], ["-n1"]):
            run = m.start(file, *args).holding()
            assert run.entries("start")[0]["card"] == UUIDS[0], run.text
            other = m.run(file)
            assert locked(m.leases), other
            assert "leased by pid" in other, other
            run.finish()


GIVEN_BACK = {
    **TOOLS,
    "test_cpu.py": """
        import os
        import signal
        from gpu_log import note

        note("has")

        def test_dies(): os.kill(os.getpid(), signal.SIGKILL)
        def test_goes_on(): note("start")
    """,
}


@on_a_machine(GIVEN_BACK, count=1)
def a_replacement_has_no_card_that_was_given_back(m: Machine) -> None:
    run = m.start("-n1")
    text = run.finish()

    assert "1 failed, 1 passed in " in text, text
    assert [entry["card"] for entry in run.entries("has")] == [UUIDS[0], "-1"], text


DIES_AT_ONCE = {
    **TOOLS,
    "sub/conftest.py": """
        import os
        import pathlib
        import signal
        import time

        import pytest

        DIED = pathlib.Path(os.environ["GO"] + ".died")  # a link to its pid
        REPLACED = pathlib.Path(os.environ["GO"] + ".replaced")
        WORKER = os.environ.get("PYTEST_XDIST_WORKER")

        def until(condition):
            end = time.monotonic() + 100
            while not condition() and time.monotonic() < end:
                time.sleep(0.01)

        def is_dead():  # with all its threads, so that it has no file open
            if not DIED.is_symlink():
                return False
            process = pathlib.Path("/proc", os.readlink(DIED))
            try:
                state = (process / "stat").read_text().rpartition(")")[2].split()[0]
                return state in "ZX" and len(os.listdir(process / "task")) == 1
            except OSError:
                return True

        class Controller:  # it is told late that gw0 has collected
            @pytest.hookimpl(tryfirst=True, optionalhook=True)
            def pytest_xdist_node_collection_finished(self, node):
                if node.gateway.id == "gw0":
                    until(is_dead)

        def pytest_configure(config):
            if not WORKER:
                config.pluginmanager.register(Controller())
            if WORKER == "gw2":
                REPLACED.touch()

        def pytest_collection_modifyitems():
            if WORKER == "gw1":  # or xdist would fail, for it would send gw0 its items
                until(REPLACED.exists)

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtestloop(session):
            if WORKER == "gw0":
                DIED.symlink_to(str(os.getpid()))
                os.kill(os.getpid(), signal.SIGKILL)
    """,
    "sub/test_gpu.py": """
        import pytest
        from gpu_log import note

        note("has")

        @pytest.mark.run_on(["gpu"])
        def test_gpu(): pass
    """,
}


@on_a_machine(DIES_AT_ONCE, count=1)
def a_dead_workers_card_is_not_given_back(m: Machine) -> None:
    """It died between its collection and the moment when its controller looks."""
    run = m.start("-n2", "sub")
    text = run.finish()
    has = {entry["worker"]: entry["card"] for entry in run.entries("has")}

    assert has == {"gw0": UUIDS[0], "gw1": "-1", "gw2": UUIDS[0]}, text


# ---- Mapping ----------------------------------------------------------------------------------

DEATHS = {
    **TOOLS,
    "test_gpu.py": """
        import ctypes
        import os
        import pathlib
        import signal
        import time

        import pytest
        from gpu_log import note, on_card

        DEATHS = {
            "sigkill": lambda: os.kill(os.getpid(), signal.SIGKILL),
            "again": lambda: os.kill(os.getpid(), signal.SIGKILL),
            "exit": lambda: os._exit(1),
            "segfault": lambda: ctypes.string_at(0),
        }
        note("has")

        @pytest.mark.run_on(["gpu"])
        @pytest.mark.parametrize("n", range(3))
        def test_before(n):
            with on_card(n): time.sleep(0.02)

        @pytest.mark.run_on(["gpu"])
        @pytest.mark.parametrize("death", DEATHS)
        def test_dies(death):
            note("start")
            DEATHS[death]()

        @pytest.mark.run_on(["gpu"])
        @pytest.mark.parametrize("n", range(3))
        def test_after(n):
            with on_card(n): time.sleep(0.02)
    """,
    "test_idle.py": """
        import json
        import os
        import pathlib
        import signal
        import time

        import pytest
        from gpu_log import note

        note("has")

        def mine(event):
            lines = pathlib.Path(os.environ["GPU_LOG"]).read_text().splitlines(True)
            entries = [json.loads(line) for line in lines if line.endswith("\\n")]
            entries = [e for e in entries if e["run"] == os.environ["GPU_RUN"]]
            return [e["pid"] for e in entries if e["event"] == event]

        def states(pid):  # of its threads: S waits for something, Z has ended
            tasks = pathlib.Path(f"/proc/{pid}/task")
            try:
                stats = [(task / "stat").read_text() for task in tasks.iterdir()]
            except OSError:
                return {"Z"}
            return {stat.rpartition(")")[2].split()[0] for stat in stats}

        def until(condition, times=1):
            end = time.monotonic() + 100
            while times and time.monotonic() < end:
                times -= condition()
                time.sleep(0.02)

        @pytest.mark.run_on(["gpu"])
        def test_kills_the_other_while_it_is_idle():
            (other,) = {*mine("has")} - {os.getpid()}
            until(lambda: len(mine("start")) == 2)  # one waits behind this one
            until(lambda: states(other) == {"S"}, times=10)
            os.kill(other, signal.SIGKILL)
            until(lambda: states(other) == {"Z"})

        @pytest.mark.run_on(["gpu"])
        @pytest.mark.parametrize("n", range(3))
        def test_after(n): note("start")
    """,
}


@on_a_machine(DEATHS, count=2)
def a_replacement_has_the_dead_ones_card(m: Machine) -> None:
    """Killed in a test, in the next one again, or idle; and no two live ones have the same."""
    run = m.start("-n2", "test_gpu.py", "--max-worker-restart=4")
    text = run.finish()
    has = run.entries("has")
    died = {entry["pid"]: entry for entry in run.entries("start")}

    assert "4 failed, 6 passed in " in text, text
    assert len(has) == 6, text  # two, and a replacement for each death
    assert len({entry["pid"] for entry in has}) == 6, text
    live: dict[str, int] = {}
    for entry in has:  # the one that had this card before has died of a test
        before = live.get(entry["card"])
        assert before is None or died[before]["time"] < entry["time"], text
        live[entry["card"]] = entry["pid"]
    assert set(live) == set(UUIDS[:2]), text
    idle = m.start("-n2", "test_idle.py")
    text = idle.finish()
    assert "4 passed in " in text, text
    assert sorted({e["card"] for e in idle.entries("has")}) == sorted(UUIDS[:2]), text


@on_a_machine(CPU, count=2, memory__free="8192 MiB")
def workers_may_share_a_card(m: Machine) -> None:
    """``--workers-per-gpu=2``: cards are filled breadth first, the memory is divided."""
    text = m.run("-n5", "--workers-per-gpu=2", "test_cpu.py")
    limits = {entry["worker"]: entry["limits"] for entry in m.noted("split")}
    masks = {entry["worker"]: entry["mask"] for entry in m.noted("start")}

    a, b = UUIDS[:2]
    assert masks == {None: None, "gw0": a, "gw1": b, "gw2": a, "gw3": b, "gw4": "-1"}, text
    assert limits == {f"gw{n}": [1536, 1536] for n in range(4)}, text


@on_a_machine(CPU, count=2)
def memory_is_not_divided_among_those_who_are_not_there(m: Machine) -> None:
    """Two on two cards have one each, whatever they may; one too small for two is passed over."""
    text = m.run("-n2", "--workers-per-gpu=2", "test_cpu.py")
    assert {tuple(entry["limits"]) for entry in m.noted("split")} == {(3488, 3488)}, text

    m.smi.answer(cards=cards(2, memory__free="4000 MiB"))
    text = m.run("-n2", "--workers-per-gpu=2", "test_cpu.py")
    assert "4000 MiB free of the 4096" in text, text


@on_a_machine(CPU, count=3)
def every_way_to_start_workers_maps_them(m: Machine) -> None:
    """In the order of their start, whatever they are called."""
    ways = {
        "--tx=3*popen --dist=load": ["gw0", "gw1", "gw2"],
        "--tx=popen//id=gw10 --tx=popen//id=alpha --tx=popen//id=2 --dist=load": [
            "gw10", "alpha", "2"
        ],
        "-n9 --maxprocesses=3": ["gw0", "gw1", "gw2"],
    }  # fmt: skip
    for way, names in ways.items():
        m.diary.write_text("")
        text = m.run(*way.split(), "test_cpu.py")
        masks = {entry["worker"]: entry["mask"] for entry in m.noted("start")}
        assert masks == {None: None, **dict(zip(names, UUIDS[:3], strict=True))}, (way, text)


@contextmanager
def socket_server(m: Machine, environ: dict[str, str]) -> Iterator[str]:
    """Run execnet's server on loopback, with an environment of its own, and yield its address."""
    folder = m.folder / "elsewhere"
    folder.mkdir()
    code = """
import os
import sys

from execnet.gateway_base import get_execmodel
from execnet.script import socketserver

socketserver.execmodel = get_execmodel("thread")  # as when it is a script
listening = socketserver.bind_and_listen("127.0.0.1:0", socketserver.execmodel)
print(listening.getsockname()[1], flush=True)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
socketserver.startserver(listening, loop=True)
"""
    with subprocess.Popen(
        [m.python, "-c", code], cwd=folder, env=clean_environ(environ), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
    ) as server:  # fmt: skip
        try:
            assert server.stdout
            yield f"127.0.0.1:{int(server.stdout.readline())}"
        finally:
            os.killpg(server.pid, signal.SIGKILL)


@on_a_machine(GPU, count=1)
def a_worker_elsewhere_has_a_card_of_its_own_machine(m: Machine) -> None:
    """It gets nothing from the controller and leases for itself; its nvidia-smi says what."""
    elsewhere = StandInNvidiaSmi(m.folder / "elsewhere_bin", cards(3)[2:])
    go = str(m.folder / "run0.go")
    environ = {**m.environ, "PATH": str(elsewhere.folder), "GO": go}
    with socket_server(m, environ) as address:
        run = m.start("--dist=load", f"--tx=socket={address}//chdir={m.project}")
        text = run.finish()
    has = whole_lines(m.log)

    assert "1 passed in " in text, text
    assert {entry["card"] for entry in has} == {UUIDS[2]}, text
    assert m.smi.calls == [], text


@on_a_machine(GPU, count=2)
def a_worker_by_way_of_another_leases_for_itself(m: Machine) -> None:
    """``via``: on this machine, under the caller's mask and not under the controller's."""
    far = ["--px=popen//id=proxy", "--tx=popen//via=proxy//id=far"]
    run = m.start("--dist=load", "--tx=popen//id=local", *far, CUDA_VISIBLE_DEVICES="0,1")
    text = run.finish()
    if "unrecognized arguments: --px" in text:  # xdist before 3.3
        return
    has = {entry["worker"]: entry["card"] for entry in run.entries("has")}

    assert has == {"local": "0", "far": "1"}, text
    assert "far has" not in text, text


# ---- Lock files and users ---------------------------------------------------------------------


@on_a_machine(GPU, count=1)
def planted_files_do_no_harm(m: Machine) -> None:
    """No hang, no write, and one word, where a stranger had been at the name of a lock."""
    m.start().finish()
    victim = m.folder / "victim"
    victim.mkdir()
    names = sorted(entry.name for entry in m.leases.iterdir())
    plants: dict[str, Callable[[Path], Any]] = {
        "symlink": lambda path: path.symlink_to(victim),
        "dangling": lambda path: path.symlink_to(m.folder / "made"),
        "fifo": os.mkfifo,
        "file": lambda path: path.write_text("theirs"),
    }
    assert names
    for kind, plant in plants.items():
        for name in (*names, ""):  # "": the folder
            folder = m.folder / f"{kind}{name}"
            if name:
                folder.mkdir()
            plant(folder / name if name else folder)
            text = m.run(PYTEST_GPU_LOCK_DIR=str(folder))
            assert "1 skipped" in text, (kind, name, text)
            assert "no lease: " in text, (kind, name, text)
            assert list(victim.iterdir()) == [], (kind, name)
            assert not (m.folder / "made").exists(), (kind, name)
            if kind == "file":
                assert (folder / name if name else folder).read_text() == "theirs"


# Reads what this interpreter needs wherever it is, and writes nothing that it may not.
NOBODY = ("/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
          "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")  # fmt: skip


@on_a_machine(GPU, count=1)
def users_share_the_leases(m: Machine) -> None:
    """One's umask and home do not matter, and one's logout removes no lock of another."""
    m.run(prefix=("/bin/sh", "-c", 'umask 077; exec "$@"', "sh"))
    theirs = m.start(prefix=NOBODY, HOME="/nonexistent").holding()
    ours = m.run()

    assert theirs.entries("start")[0]["card"] == UUIDS[0], theirs.text
    assert f"leased by pid {theirs.process.pid}" in ours, ours
    for entry in m.leases.iterdir():  # what RemoveIPC of systemd's logind does in /dev/shm
        for inside in entry.iterdir():
            if inside.stat().st_uid == os.getuid():
                inside.rmdir()
        with suppress(OSError):
            entry.rmdir()
    ours = m.run()
    assert "leased by pid" in ours, ours
    assert "1 passed in " in theirs.finish(), theirs.text


def leases_hold_across_private_temporary_folders(harness: str, python: Path) -> None:
    """By default they are in a folder that all processes of the machine share."""
    own = f"GPU-{uuid.uuid4()}"  # no other run on this machine has such a card
    bare = harness.replace('("/.dockerenv", "/run/.containerenv")', "()")  # no container
    with machine(bare, python, GPU, count=1, uuid=own) as m:
        del m.environ["PYTEST_GPU_LOCK_DIR"]
        for name in ("a", "b"):
            (m.folder / name).mkdir()
        m.start(TMPDIR=str(m.folder / "a")).holding()
        other = m.run(TMPDIR=str(m.folder / "b"))
    for entry in Path("/dev/shm").glob(f"*{own}*"):
        for inside in entry.iterdir():
            inside.rmdir()
        entry.rmdir()

    assert "leased by pid" in other, other
    assert "LEASES" not in other, other


def local_exclusion_is_said_loudly(harness: str, python: Path) -> None:
    """Where there is no folder that all share, in one that may be private."""
    with machine(harness.replace('"/dev/shm"', '"/nonexistent"'), python, GPU, count=1) as m:
        del m.environ["PYTEST_GPU_LOCK_DIR"]
        m.environ["TMPDIR"] = str(m.folder)
        m.start().holding()
        other = m.run()

    assert "leased by pid" in other, other
    assert f"LEASES HOLD ONLY AMONG RUNS THAT SHARE {m.folder}" in other, other


def exclusion_within_a_container_is_said(harness: str, python: Path) -> None:
    """Its shared memory is its own, unless it was told where the leases are."""
    with machine(harness.replace("/run/.containerenv", "/etc/passwd"), python, GPU, count=1) as m:
        told = m.start().finish()
        del m.environ["PYTEST_GPU_LOCK_DIR"]
        alone = m.run("-k", "nothing")

    assert "1 passed in " in told, told
    assert "LEASES" not in told, told
    assert "LEASES HOLD ONLY AMONG RUNS IN THIS CONTAINER" in alone, alone


def folders_may_be_reached_through_links(harness: str, python: Path) -> None:
    """The system's own are as the administrator made them: no stranger planted those links."""
    with machine(harness, python, GPU, count=1) as m:
        (m.folder / "real").mkdir()
        (m.folder / "link").symlink_to("real")
        linked = m.harness.replace('"/dev/shm"', f'"{m.folder}/link"')
        (m.project / "conftest.py").write_text(linked)
        del m.environ["PYTEST_GPU_LOCK_DIR"]
        m.start().holding()
        other = m.run()

    assert "leased by pid" in other, other


# Needs two users; elsewhere it and its mutants are left out.
AS_ROOT = (users_share_the_leases,) if os.getuid() == 0 else ()
WITHOUT_XDIST = (
    a_card_is_leased_by_its_uuid,
    waiting_is_bounded,
    a_selection_of_cpu_tests_neither_waits_nor_leases,
    a_framework_that_looked_before_the_card_was_there_is_named,
    a_taken_card_fails_its_tests_where_nobody_can_be_replaced,
    a_pytest_inside_a_test_keeps_the_card,
    a_pytest_inside_a_process_gives_nothing_back,
    *AS_ROOT,
    leases_hold_across_private_temporary_folders,
    local_exclusion_is_said_loudly,
    exclusion_within_a_container_is_said,
    folders_may_be_reached_through_links,
)
LEASE = (
    *WITHOUT_XDIST,
    an_interrupt_while_waiting_is_one,
    a_run_of_cpu_tests_does_not_wait,
    a_card_that_was_waited_for_is_used_as_any_other,
    one_worker_waits_for_all,
    a_taken_card_is_replaced,
    the_last_card_that_is_taken_is_said,
    a_run_keeps_its_other_cards_when_one_is_taken,
    a_card_without_tensorflow_is_not_taken_for_anothers,
    a_test_that_is_marked_after_collection_keeps_its_card,
    a_card_has_one_run_at_a_time,
    a_run_waits_for_a_card_and_says_so,
    fewer_than_required_are_waited_for,
    a_worker_keeps_the_card_of_a_killed_run,
    a_worker_without_a_run_has_no_card,
    a_forked_child_is_no_owner,
    a_card_that_no_item_needs_is_given_back,
    a_replacement_has_no_card_that_was_given_back,
    a_dead_workers_card_is_not_given_back,
    a_worker_elsewhere_has_a_card_of_its_own_machine,
    a_worker_by_way_of_another_leases_for_itself,
    a_card_in_use_is_not_given_back,
    a_replacement_has_the_dead_ones_card,
    workers_may_share_a_card,
    memory_is_not_divided_among_those_who_are_not_there,
    every_way_to_start_workers_maps_them,
    planted_files_do_no_harm,
)
QUICK = (  # a second at most, and the most that can be seen in it
    a_card_is_leased_by_its_uuid,
    a_card_has_one_run_at_a_time,
    a_worker_without_a_run_has_no_card,
    a_taken_card_is_replaced,
)
