"""How long suites take, over what no schedule can beat; ours and the ways people use today.

    python tests/benchmarks/scheduling.py [--workers 4] [--cards 2] [--suite NAME ...] [--matmul]

Prints a table for each number of workers. Seconds are from the first test's start to the last
one's end. A busy machine makes all of them longer, so compare within a run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.suites import MATMULS, SUITES, bound, files_of, sized_tests
from kit import environment, run_pytest, write_tree

FAKE_TENSORFLOW = Path(__file__).parents[1] / "harness" / "fake_tensorflow.py"
PEERS = ("ours", "ours, with history", "loadgroup", "two-phase", "load")
# xdist's own loadgroup works with this pytest; with 9.2 it does not.
ENVIRONMENTS = {("loadgroup", False): "pytest-8", ("loadgroup", True): "tf-2.15"}


@dataclass(frozen=True)
class Measured:
    """What a run's log says."""

    span: float  # seconds, from the first start to the last end
    ran: int
    overlaps: int  # pairs of tests that were on one card at the same time
    tests: tuple[tuple[str, float], ...]  # kind and seconds of each, as they came out


def measured(log: Path) -> Measured:
    entries = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    by_card = defaultdict(list)
    for entry in entries:
        if entry["card"] is not None:
            by_card[entry["card"]].append((entry["began"], entry["ended"]))
    overlaps = sum(
        later[0] < earlier[1]
        for times in by_card.values()
        for earlier, later in pairwise(sorted(times))
    )
    span = max(e["ended"] for e in entries) - min(e["began"] for e in entries)
    tests = tuple((entry["kind"], entry["ended"] - entry["began"]) for entry in entries)
    return Measured(span, len(entries), overlaps, tests)


def run_suite(
    tests: Sequence[tuple[str, float]],
    peer: str,
    workers: int,
    cards: int,
    *,
    computes: bool = False,
) -> Measured:
    """Run a suite in one way; "ours, with history" runs it twice and measures the second."""
    name = "ours" if peer.startswith("ours") else peer
    fallback = "tf-2.21" if computes else "pytest-9"
    python = environment(ENVIRONMENTS.get((peer, computes), fallback))
    runs = {
        "ours": [[f"-n{workers}", f"--gpu-simulate={cards}"]],
        "ours, with history": [[f"-n{workers}", f"--gpu-simulate={cards}"]] * 2,
        "loadgroup": [[f"-n{workers}", "--dist=loadgroup"]],
        "two-phase": [[f"-n{cards}", "-mgpu"], [f"-n{workers}", "-mnot gpu"]],
        "load": [[f"-n{workers}"]],
    }[peer]
    with tempfile.TemporaryDirectory() as folder:
        project = write_tree(Path(folder, "project"), files_of(tests, name, computes=computes))
        if not computes:
            (project / "tensorflow.py").write_bytes(FAKE_TENSORFLOW.read_bytes())
        log = Path(folder, "log.jsonl")
        env = {"BENCHMARK_LOG": str(log), "CARDS": str(cards), "DIARY": os.devnull}
        for number, args in enumerate(runs):
            if number and peer.startswith("ours"):
                log.unlink()
            done = run_pytest(python, project, "-q", *args, env=env, timeout=600)
            assert done.returncode == 0, done
        return measured(log)


def table(workers: int, cards: int, suites: Sequence[str], peers: Sequence[str]) -> None:
    print(f"\n{workers} workers, {cards} cards: span over the bound (and seconds)\n")
    print("| suite | bound, s |", " | ".join(peers), "|")
    print("| --- |" + " --- |" * (len(peers) + 1))
    for suite in suites:
        tests = sized_tests(SUITES[suite], suite)
        least = bound(tests, workers, cards)
        cells = []
        for peer in peers:
            result = run_suite(tests, peer, workers, cards)
            skipped = len(tests) - result.ran
            said = f"{result.span / least:.3f} ({result.span:.1f})"
            said += f", {skipped} skipped" if skipped else ""
            said += f", {result.overlaps} OVERLAPS" if result.overlaps else ""
            cells.append(said)
        print(f"| {suite} | {least:.2f} |", " | ".join(cells), "|", flush=True)


def matmuls(peers: Sequence[str]) -> None:
    """Compute, with as many workers as cores; the bound is that of the times that came out."""
    workers = len(os.sched_getaffinity(0))
    tests = sized_tests(MATMULS, "matmuls")
    print(f"\nTensorFlow matrix products, {workers} workers, 1 card: span over the bound\n")
    for peer in peers:
        result = run_suite(tests, peer, workers, 1, computes=True)
        least = bound(result.tests, workers, 1)
        said = f"{result.span / least:.3f} ({result.span:.1f} s), {result.ran} of {len(tests)} ran"
        print(f"- {peer}: {said}, {result.overlaps} overlaps on a card", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--cards", type=int, default=2)
    parser.add_argument("--suite", nargs="*", choices=SUITES, default=list(SUITES))
    parser.add_argument("--peer", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--matmul", action="store_true")
    options = parser.parse_args()
    if options.matmul:
        matmuls(options.peer)
    else:
        table(options.workers, options.cards, options.suite, options.peer)


if __name__ == "__main__":
    main()
