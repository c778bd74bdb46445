"""How the harness sits under engines that spread a suite over machines.

xdist's remote workers are among the behaviours of ``harness/lease_behaviours.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness.behaviours import FAKE_TENSORFLOW, MARKED, run_harness
from harness.lease_behaviours import GPU, Machine, Running, machine
from kit import environment
from kit.harness import render_harness
from kit.nvidia_smi import cards

pytestmark = pytest.mark.slow
SPLITS = {
    "pytest-split": lambda index: ["--splits=2", f"--group={index + 1}"],
    "pytest-shard": lambda index: ["--num-shards=2", f"--shard-id={index}"],
}


@pytest.mark.parametrize("plugin", SPLITS)
def test_each_test_runs_on_one_machine(plugin: str) -> None:
    """One of them has a GPU, the other has none; the ids are the same."""
    harness, python = render_harness(), environment("sharders")
    files = {**MARKED, **FAKE_TENSORFLOW}
    whole = run_harness(harness, python, files)
    ran: Counter[str] = Counter()
    for index, smi in enumerate((cards(1), None)):
        run = run_harness(harness, python, files, *SPLITS[plugin](index), smi=smi)
        assert 0 < len(run.outcomes) < len(whole.outcomes), run
        ran.update(list(run.outcomes))

    assert ran == Counter(list(whole.outcomes))


@contextmanager
def node(**smi: object) -> Iterator[Machine]:
    """Make a node of a cluster: its cards, and the harness in a project."""
    with machine(render_harness(), environment("pytest-9"), GPU, **smi) as made:
        yield made


def task(node: Machine, index: int, **env: str) -> Running:
    """Start what ``srun pytest`` starts: one process a task."""
    slurm = {"SLURM_LOCALID": str(index), "SLURM_PROCID": str(index), "SLURM_NTASKS": "2"}
    slurm["SLURM_GTIDS"] = "0,1"
    return node.start("--gpu-require=1", **slurm, **env)


def test_slurm_gives_each_task_a_card() -> None:
    """``srun --gpus-per-task=1``: CUDA_VISIBLE_DEVICES says which, and that one it is."""
    with node(count=3) as made:
        tasks = [task(made, n, CUDA_VISIBLE_DEVICES=card) for n, card in enumerate(("2", "0"))]
        held = [each.holding().entries("start")[0]["card"] for each in tasks]
        assert held == ["2", "0"]
        assert all("1 passed" in each.finish() for each in tasks)


def test_slurm_gives_all_tasks_of_a_node_the_same_cards() -> None:
    """``srun --gres=gpu:2 --ntasks=2``: each takes that of its SLURM_LOCALID."""
    with node(count=3) as made:
        tasks = [task(made, n, CUDA_VISIBLE_DEVICES="1,2") for n in (1, 0)]
        held = [each.holding().entries("start")[0]["card"] for each in tasks]
        assert held == ["2", "1"]
        assert all("1 passed" in each.finish() for each in tasks)


def test_slurm_gives_a_job_no_card() -> None:
    """It hides all with a name that is no device's; nothing is taken then."""
    with node(count=1) as made:
        run = made.start("--gpu-require=1", CUDA_VISIBLE_DEVICES="NoDevFiles")
        text = run.finish()

        assert run.process.returncode == 4, text
        assert "NoDevFiles" in text
