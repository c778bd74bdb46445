"""What the harness adds to a test: CPU time of 10,000 empty ones with it, over that without.

    python tests/benchmarks/overhead.py [--rounds 3] [--tests 10000] [--tensorflow]

CPU seconds of all processes, because those of a clock on the wall depend on what else runs. Of
each the least of the rounds counts, so not the first, in which Python compiles all. With
``--tensorflow``: microseconds a test in its scope.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from kit import clean_environ, environment, write_tree
from kit.harness import render_harness

TESTS_A_FILE = 200


def cpu_seconds(python: Path, folder: Path, *args: str) -> float:
    """Return user and system time of a run of pytest and its workers."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *args]
    changes = {"PATH": str(folder / "nothing"), "PYTHONDONTWRITEBYTECODE": ""}
    environ = clean_environ(changes)
    done = subprocess.run(
        command, cwd=folder, env=environ, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def least_seconds(
    python: Path, tests: str, count: int, rounds: int, ways: dict[str, tuple[str, list[str]]]
) -> dict[str, float]:
    """Return name -> seconds; a way is the text of a conftest, or "", and arguments."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    files = {f"test_{n}.py": tests for n in range(count // TESTS_A_FILE)}
    with tempfile.TemporaryDirectory() as name:
        for way, (conftest, _) in ways.items():  # each keeps its own bytecode
            tree = {"pytest.ini": "[pytest]\n", **files, "conftest.py": conftest}
            write_tree(Path(name, way), tree)
        for _ in range(rounds):
            for way, (_, args) in ways.items():
                seconds[way].append(cpu_seconds(python, Path(name, way), *args))
    return {way: min(each) for way, each in seconds.items()}


def empty_tests(head: str = "", decorator: str = "") -> str:
    lines = [f"{decorator}def test_{n}(): pass\n" for n in range(TESTS_A_FILE)]
    return head + "".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tests", type=int, default=10_000)
    parser.add_argument("--tensorflow", action="store_true")
    options = parser.parse_args()
    count, rounds = options.tests, options.rounds
    if not options.tensorflow:
        for workers in ("-n0", "-n4"):
            ways = {"without": ("", [workers]), "with": (render_harness(), [workers])}
            took = least_seconds(environment("pytest-9"), empty_tests(), count, rounds, ways)
            ratio = took["with"] / took["without"]
            said = f"{took['without']:.2f} s without, {took['with']:.2f} s with: {ratio:.3f}"
            print(f"{count} empty tests, {workers}: {said}", flush=True)
        return
    head = "import pytest\nimport tensorflow\n"
    mark = '@pytest.mark.run_on(["{}"])\n'
    plain = "import pytest\n\ndef pytest_configure(config):\n"
    plain += "    config.addinivalue_line('markers', 'run_on(devices)')\n"
    for kind in ("cpu", "gpu", "distributed"):
        tests = empty_tests(head, mark.format(kind))
        ways = {"without": (plain, []), "with": (render_harness(), ["--gpu-simulate=1"])}
        took = least_seconds(environment("tf-2.21"), tests, count, rounds, ways)
        each = (took["with"] - took["without"]) / count * 1e6
        print(f"{count} empty {kind} tests in their scope: {each:.0f} us each", flush=True)


if __name__ == "__main__":
    assert os.sched_getaffinity(0)
    main()
