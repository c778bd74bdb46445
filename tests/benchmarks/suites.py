"""Synthetic suites of known durations, written for the harness and for each of its peers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from kit.harness import render_harness

HERE_IS_RUN = """
import contextlib
import json
import os
import time

import pytest

def note(kind, card, began):
    worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
    line = dict(kind=kind, card=card, worker=worker, began=began, ended=time.monotonic())
    with open(os.environ["BENCHMARK_LOG"], "a") as file:
        file.write(json.dumps(line) + "\\n")

def run(kind, seconds):
    began = time.monotonic()  # of all processes alike, on Linux
    work(seconds)
    note(kind, card() if kind != "cpu" else None, began)
"""
SLEEP = "\ndef work(seconds):\n    time.sleep(seconds)\n"
# Not called with a time but with how many products of two matrices are to be made.
MULTIPLY = """
import tensorflow as tf

def work(products):
    product = tf.random.uniform((320, 320))
    for _ in range(products):
        product = tf.nn.l2_normalize(product @ product)
    product.numpy()
"""
OURS = """
run_on = pytest.mark.run_on
cpu, gpu, distributed = lambda f: f, run_on(["gpu"]), run_on(["distributed"])

def card():
    return json.loads(os.environ["PYTEST_GPU_ASSIGNED"])["card"]
"""
PEERS = """
cpu, gpu, distributed = lambda f: f, pytest.mark.gpu, pytest.mark.gpu

def card():
    return os.environ.get("BENCHMARK_CARD", os.environ.get("PYTEST_XDIST_WORKER"))
"""
# What people write today: a worker's number is its card's, and the others skip.
SKIPPING = """
import os
import pytest

def pytest_configure(config):
    config.addinivalue_line("markers", "gpu: needs a GPU")

@pytest.fixture(autouse=True)
def card(request):
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
    if request.node.get_closest_marker("gpu") and worker >= int(os.environ["CARDS"]):
        pytest.skip("no GPU for this worker")
"""
# As many groups as cards; what is in a group is never run at the same time.
GROUPING = """
import os
import pytest

def pytest_configure(config):
    config.addinivalue_line("markers", "gpu: needs a GPU")

@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    on_cards = [item for item in items if item.get_closest_marker("gpu")]
    for number, item in enumerate(on_cards):
        group = f"card-{number % int(os.environ['CARDS'])}"
        item.group = group
        item.add_marker(pytest.mark.xdist_group(group))

def pytest_runtest_setup(item):
    os.environ["BENCHMARK_CARD"] = getattr(item, "group", "")
"""
CONFTESTS = {"load": SKIPPING, "two-phase": SKIPPING, "loadgroup": GROUPING}


@dataclass(frozen=True)
class Work:
    """``count`` tests of a kind; each of ``seconds``, or of a time between the two ends."""

    kind: str  # "cpu", "gpu", "distributed"
    seconds: float | tuple[float, float]
    count: int


SUITES: dict[str, tuple[Work, ...]] = {
    "many short": (Work("gpu", 0.1, 80), Work("cpu", 0.1, 280)),
    "many short, uneven": (Work("gpu", (0.05, 0.15), 80), Work("cpu", (0.05, 0.15), 280)),
    "few long": (Work("gpu", (0.8, 2), 8), Work("cpu", (0.8, 2), 20)),
    "mixed": (Work("gpu", 0.2, 80), Work("gpu", 1.5, 4), Work("cpu", 0.1, 120), Work("cpu", 2, 2)),
    "one giant": (Work("gpu", 0.1, 30), Work("cpu", 0.1, 170), Work("cpu", 8, 1)),
    "GPU-heavy": (Work("gpu", 0.2, 60), Work("distributed", 0.5, 16), Work("cpu", 0.1, 40)),
    "CPU-heavy": (Work("gpu", 0.2, 10), Work("cpu", 0.1, 360)),
}
MATMULS = (Work("gpu", (300, 500), 30), Work("cpu", (300, 500), 50))  # products, not seconds
TESTS_A_FILE = 12


def sized_tests(works: Sequence[Work], seed: str) -> list[tuple[str, float]]:
    """Return kind and seconds of each test, shuffled, the same each time."""
    chance = random.Random(seed)
    tests = []
    for work in works:
        ends = work.seconds if isinstance(work.seconds, tuple) else (work.seconds, work.seconds)
        tests += [(work.kind, chance.uniform(*ends)) for _ in range(work.count)]
    chance.shuffle(tests)
    return tests


def files_of(
    tests: Sequence[tuple[str, float]], peer: str, *, computes: bool = False
) -> dict[str, str]:
    """Return the files of a project for "ours" or one of its peers."""
    ours = peer == "ours"
    body = (OURS if ours else PEERS) + (MULTIPLY if computes else SLEEP)
    files = {"suite.py": f"{HERE_IS_RUN[1:]}{body}", "pytest.ini": "[pytest]\n"}
    number = "int({})" if computes else "{:.4f}"
    for first in range(0, len(tests), TESTS_A_FILE):
        lines = ["from suite import cpu, distributed, gpu, run\n"]
        for index, (kind, seconds) in enumerate(tests[first : first + TESTS_A_FILE], first):
            amount = number.format(seconds)
            lines.append(f"\n@{kind}\ndef test_{index}(): run({kind!r}, {amount})\n")
        files[f"test_{first // TESTS_A_FILE}.py"] = "".join(lines)
    files["conftest.py"] = render_harness(durations_history=True) if ours else CONFTESTS[peer][1:]
    return files


def bound(tests: Sequence[tuple[str, float]], workers: int, cards: int) -> float:
    """Return what no schedule can be shorter than, in seconds."""
    on_cards = sum(seconds for kind, seconds in tests if kind != "cpu")
    whole = sum(seconds for _, seconds in tests)
    return max(on_cards / cards, whole / workers, *(seconds for _, seconds in tests))
