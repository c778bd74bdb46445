"""Many runs on few cards, killed at random: is a card ever held twice, leaked, or a test lost?

    python tests/harness/lease_stress.py --rounds 200      # the full version; with --no-lock, the
                                                           # same with the lock taken out

Each slot runs pytest again and again; a round is one such run, of four workers, under
``--dist each``, so that every worker is given every GPU test. A killer sends SIGKILL to workers
and controllers. What the tests wrote down (``gpu_log.py``) is judged by `violations`, which knows
nothing of locks.
"""

from __future__ import annotations

import argparse
import fcntl
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from kit import clean_environ
from kit.harness import harness_project, render_harness
from kit.nvidia_smi import StandInNvidiaSmi, cards

HERE = Path(__file__).parent
# A replacement that dies before it has collected: xdist's own --dist each ends over it.
XDIST_GAVE_UP = re.compile(r"INTERNALERROR> .*xdist/scheduler/each\.py")
# Some are long, so that orphans of a killed controller are in the middle of one.
TESTS = """
    import random
    import time

    import pytest
    from gpu_log import note, on_card

    LENGTHS = [0.02, 0.02, 0.02, 0.7, 0.02, 0.02]
    note("has")

    @pytest.mark.run_on(["gpu"])
    @pytest.mark.parametrize("n", range(6))
    def test_gpu(n):
        with on_card(n):
            time.sleep(LENGTHS[n])
"""
PROJECT = {
    "test_gpu.py": TESTS,
    "gpu_log.py": (HERE / "log_of_gpu_tests.py").read_bytes(),
    "tensorflow.py": (HERE / "fake_tensorflow.py").read_bytes(),
}
ALL_TESTS = frozenset(range(6))
NO_LOCK = ('    why = _lock(f"{key}.card")\n', '    return ""\n    why = _lock(f"{key}.card")\n')
PACE = 5  # lines that tests write between two kills: a slow machine has no more than a fast one
Entry = dict[str, Any]


@dataclass
class Stress:
    """What a stress did, and what it found."""

    rounds: int = 0
    worker_kills: int = 0
    controller_kills: int = 0
    gpu_tests: int = 0
    judged: int = 0  # rounds in which all GPU tests must have run
    violations: list[str] = field(default_factory=list)  # a card held by two at once
    leaked: list[str] = field(default_factory=list)  # locks that are held when all is over
    lost: list[str] = field(default_factory=list)  # GPU tests that no worker ran; stuck runs

    @property
    def faults(self) -> list[str]:
        return [*self.violations, *self.leaked, *self.lost]

    def __str__(self) -> str:
        return (
            f"{self.rounds} rounds ({self.judged} to be complete), {self.gpu_tests} GPU tests, "
            f"kills: {self.worker_kills} workers, {self.controller_kills} controllers; "
            f"{len(self.violations)} violations, {len(self.leaked)} leaked, {len(self.lost)} lost"
        )


def violations(log: Iterable[Entry], deaths: dict[int, float]) -> Iterator[str]:
    """Yield each pair of processes that had one card at the same time.

    A process has its card from its first word to its last, or to its death where it was killed.
    """
    spans: dict[tuple[str, int], list[float]] = {}
    for entry in log:
        if entry["card"] not in (None, "-1"):
            span = spans.setdefault((entry["card"], entry["pid"]), [entry["time"]] * 2)
            span[1] = entry["time"]
    for (_, pid), span in spans.items():
        span[1] = max(span[1], min(deaths.get(pid, 0), span[1] + 60))
    for one, other in itertools.combinations(sorted(spans), 2):
        (begun, ended), (other_begun, other_ended) = spans[one], spans[other]
        if one[0] == other[0] and begun < other_ended and other_begun < ended:
            yield f"{one[0]}: pid {one[1]} {spans[one]}, pid {other[1]} {spans[other]}"


def whole_lines(log: Path) -> list[Entry]:
    """Return the entries of a file to which processes write; half of a line is none yet."""
    lines = log.read_text("utf-8").splitlines(True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def locked(folder: Path) -> list[str]:
    """Return the entries of a lease folder that some process holds."""
    held = []
    for entry in sorted(folder.iterdir()) if folder.is_dir() else []:
        lock = os.open(entry, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held.append(entry.name)
        finally:
            os.close(lock)
    return held


def workers_of(controller: int) -> list[int]:
    """Return the pids of its execnet workers, not of what it asks the driver with."""
    found = []
    with suppress(OSError):
        for pid in Path(f"/proc/{controller}/task/{controller}/children").read_text().split():
            with suppress(OSError):
                if b"stdin.readline" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(int(pid))
    return found


class Stage:
    """The machine of a stress: its cards, its slots and its killer."""

    def __init__(self, folder: Path, harness: str, python: Path, seed: int) -> None:
        self.project = harness_project(folder / "project", PROJECT, harness=harness)
        self.smi = StandInNvidiaSmi(folder / "bin", cards(3))
        self.python = python
        self.log = folder / "gpu.jsonl"
        self.log.touch()
        self.leases = folder / "leases"
        self.random = random.Random(seed)
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.killed: set[str] = set()  # runs whose controller was
        self.excused: set[str] = set()  # runs of which a worker was killed while it started
        self.deaths: dict[int, float] = {}
        self.result = Stress()
        self.over = threading.Event()
        self.lock = threading.Lock()

    def slot(self, number: int, rounds: int) -> None:
        for turn in range(rounds):
            name = f"{number}.{turn}"
            changes = {
                "PATH": str(self.smi.folder),
                "GPU_LOG": str(self.log),
                "GPU_RUN": name,
                "DIARY": os.devnull,
                "PYTEST_GPU_LOCK_DIR": str(self.leases),
                "PYTEST_GPU_WAIT": "600",
            }
            options = ("-n4", "--dist=each", "-q", "-p", "no:cacheprovider", "--assert=plain")
            output = self.project.parent / f"{name}.txt"
            with output.open("wb") as file:
                run = subprocess.Popen(
                    [self.python, "-m", "pytest", *options],
                    cwd=self.project,
                    env=clean_environ(changes),
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
                with self.lock:
                    self.running[name] = run
                try:
                    run.wait(timeout=900)
                except subprocess.TimeoutExpired:
                    os.killpg(run.pid, signal.SIGKILL)
                    self.result.lost.append(f"{name} is stuck: {output.read_text()[-2000:]}")
                    self.killed.add(name)
                with self.lock:
                    del self.running[name]
                    self.result.rounds += 1

    def killer(self) -> None:
        seen = 0
        while not self.over.wait(self.random.uniform(0.3, 1.3)):
            with self.lock:
                entries = whole_lines(self.log)
                if len(entries) < seen + PACE:
                    continue
                seen = len(entries)
                started = {entry["run"] for entry in entries if entry["event"] == "start"}
                running = sorted(self.running)
                testing = [name for name in running if name in started]
                if testing and self.random.random() < 0.7:
                    running = testing
                if not running:
                    continue
                name = self.random.choice(running)
                pid = self.running[name].pid
                if self.random.random() < 0.75:
                    workers = workers_of(pid)
                    if not workers:
                        continue
                    self.kill(self.random.choice(workers))
                    self.result.worker_kills += 1
                    if name not in started:  # xdist itself gives up, or forgets its items
                        self.excused.add(name)
                elif name not in self.killed:
                    self.killed.add(name)
                    self.kill(pid)
                    self.result.controller_kills += 1

    def kill(self, pid: int) -> None:
        self.deaths[pid] = time.monotonic()
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def judge(self) -> Stress:
        log, result = whole_lines(self.log), self.result
        result.violations += violations(log, self.deaths)
        began, ended = defaultdict(set), defaultdict(set)
        for entry in log:
            if entry["event"] == "end":
                ended[entry["run"]].add(entry["test"])
            elif entry["event"] == "start" and entry["pid"] in self.deaths:
                began[entry["run"]].add(entry["test"])  # xdist does not repeat what it died in
        result.gpu_tests = sum(entry["event"] == "end" for entry in log)
        for file in sorted(self.project.parent.glob("*.txt")):
            missing = ALL_TESTS - ended[file.stem] - began[file.stem]
            if XDIST_GAVE_UP.search(file.read_text("utf-8")):
                self.excused.add(file.stem)
            result.judged += file.stem not in self.killed | self.excused
            if missing and file.stem not in self.killed | self.excused:
                result.lost.append(f"{file.stem}: {missing} {file.read_text()[-900:]}")
        end = time.monotonic() + 120  # orphans live on for 15 s, or what a slow machine takes
        while locked(self.leases) and time.monotonic() < end:
            time.sleep(0.2)
        result.leaked += locked(self.leases)
        return result


def stress(harness: str, python: Path, rounds: int, *, slots: int = 8, seed: int = 0) -> Stress:
    """Run ``rounds`` rounds in ``slots`` slots, and judge what happened."""
    with tempfile.TemporaryDirectory() as name:
        stage = Stage(Path(name), harness, python, seed)
        shares = [len(range(number, rounds, slots)) for number in range(slots)]
        threads = [threading.Thread(target=stage.slot, args=each) for each in enumerate(shares)]
        killer = threading.Thread(target=stage.killer)
        for thread in (*threads, killer):
            thread.start()
        for thread in threads:
            thread.join()
        stage.over.set()
        killer.join()
        return stage.judge()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-lock", action="store_true")
    args = parser.parse_args()
    from kit import environment

    harness = render_harness()
    if args.no_lock:
        assert harness.count(NO_LOCK[0]) == 1
        harness = harness.replace(*NO_LOCK)
    begun = time.monotonic()
    result = stress(harness, environment("pytest-9"), args.rounds, seed=args.seed)
    print(f"seed {args.seed}: {result} ({time.monotonic() - begun:.0f} s)")
    print("\n".join(result.faults[:20]))
    return bool(result.faults)


if __name__ == "__main__":
    sys.exit(main())
