"""How long ``init --dry-run`` takes, beside ``copier copy`` of a template of one file.

    python tests/benchmarks/dry_run.py REPOSITORY ... [--rounds 10]

Both from environments of their own, compiled, by turns. Wall time and CPU time of the process and
its children, in seconds: the least and the median of the rounds. The first round does not count.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.peers import PEERS, TOP
from kit import clean_environ, write_tree
from kit.environments import make_environment


def seconds(command: list[str | Path]) -> tuple[float, float]:
    """Return wall and CPU seconds of a run, which may end in a refusal."""
    environ = clean_environ({"PYTHONDONTWRITEBYTECODE": ""})
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode in (0, 2), done.stderr
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repository", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=10)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for tool, requirements in (("devicegen", [TOP]), ("copier", PEERS["copier"])):
            make_environment(folder / tool, list(requirements))
        write_tree(
            folder / "template", {"copier.yml": "_subdirectory: t\n", "t/a.py.jinja": "x\n"}
        )
        copy = folder / "copy"
        ways: dict[str, list[str | Path]] = {
            "copier copy": [
                *(folder / "copier/bin/copier", "copy", "-q", "--defaults"),
                *(folder / "template", copy),
            ],
            **{
                repository.name: [
                    *(folder / "devicegen/bin/devicegen", "init", "--dry-run"),
                    repository.resolve(),
                ]
                for repository in given.repository
            },
        }
        found: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        for _ in range(given.rounds + 1):
            for way, command in ways.items():
                shutil.rmtree(copy, ignore_errors=True)
                found[way].append(seconds(command))
    for way, measured in found.items():
        wall, cpu = zip(*measured[1:], strict=True)
        print(
            f"{way:40} wall {min(wall):.3f} {statistics.median(wall):.3f}"
            f"  CPU {min(cpu):.3f} {statistics.median(cpu):.3f}"
        )


if __name__ == "__main__":
    main()
