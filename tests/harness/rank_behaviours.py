"""Which rank has which card, where a launcher starts one pytest a rank: behaviours.

Each rank is a process with the variables that its launcher sets, started at the same time as the
others. Machines, runs and locks are those of ``lease_behaviours.py``.
"""

from __future__ import annotations

import re
from typing import Any

from harness.lease_behaviours import CPU, GPU, UUIDS, Machine, Running, on_a_machine

# The variable that a launcher sets to the rank -> the one that it sets to their number.
LAUNCHERS = {
    "OMPI_COMM_WORLD_LOCAL_RANK": "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALRANKID": "MPI_LOCALNRANKS",
    "MV2_COMM_WORLD_LOCAL_RANK": "MV2_COMM_WORLD_LOCAL_SIZE",
    "PMI_LOCAL_RANK": "PMI_LOCAL_SIZE",
    "HOROVOD_LOCAL_RANK": "HOROVOD_LOCAL_SIZE",
    "LOCAL_RANK": "LOCAL_WORLD_SIZE",
}


def slurm(rank: int, of: int, first: int = 0) -> dict[str, str]:
    """Return what ``srun`` sets on a node whose first task has the number ``first`` in its job."""
    tasks = ",".join(str(first + task) for task in range(of))
    numbers = {"SLURM_LOCALID": rank, "SLURM_PROCID": first + rank, "SLURM_NTASKS": 4}
    return {**{name: str(n) for name, n in numbers.items()}, "SLURM_GTIDS": tasks}


def mpi(rank: int, of: int) -> dict[str, str]:
    return {"OMPI_COMM_WORLD_LOCAL_RANK": str(rank), "OMPI_COMM_WORLD_LOCAL_SIZE": str(of)}


def card_of(run: Running) -> Any:
    """Return the card of a run without workers."""
    cards = {entry["card"] for entry in run.holding("has").entries("has")}
    assert len(cards) == 1, run.text
    return cards.pop()


def apart(m: Machine, given: list[dict[str, str]], *args: str) -> list[Running]:
    """Start a run for each environment, all at once, with leases of their own."""
    folders = [str(m.folder / f"leases{number}") for number in range(len(given))]
    return [
        m.start(*args, **env, PYTEST_GPU_LOCK_DIR=folder)
        for env, folder in zip(given, folders, strict=True)
    ]


@on_a_machine(GPU, count=3)
def each_rank_has_the_card_of_its_rank(m: Machine) -> None:
    """Whoever comes first; with a mask it is a card of the mask's. The header says why."""
    ranks = [m.start(**mpi(rank, 3)) for rank in (2, 0, 1)]
    assert [card_of(run) for run in ranks] == [UUIDS[2], UUIDS[0], UUIDS[1]], ranks[0].text
    for run in ranks:
        assert "1 passed" in run.finish(), run.text
    said = "rank 2 of 3 (OMPI_COMM_WORLD_LOCAL_RANK) has 1 of 3 GPUs; "
    assert f"has {UUIDS[2]} [{said}" in ranks[0].text, ranks[0].text

    masked = m.start(**mpi(1, 2), CUDA_VISIBLE_DEVICES="2,0")
    assert card_of(masked) == "0", masked.text


@on_a_machine(GPU, count=2)
def every_launcher_is_known(m: Machine) -> None:
    """By what it sets, or by the rank alone where that says that there are others."""
    given = [{rank: "1", of: "2"} for rank, of in LAUNCHERS.items()]
    given += [slurm(1, 2), slurm(1, 2, first=2)]
    given += [{name: "1"} for name in (*LAUNCHERS, "SLURM_LOCALID")]
    runs = apart(m, given, "-q")
    for run, env in zip(runs, given, strict=True):
        assert card_of(run) == UUIDS[1], (env, run.text)
        run.go.touch()
        assert f"rank 1 of 2 ({next(iter(env))})" in run.finish(), run.text


@on_a_machine(CPU, count=2)
def one_rank_is_no_rank(m: Machine) -> None:
    """As in Slurm's batch script, whose job has more tasks: its workers get all cards.

    Where launchers are one in another, the one with several ranks counts.
    """
    alone = [slurm(0, 1), {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}, {"SLURM_LOCALID": ""}]
    alone += [{"LOCAL_RANK": "none", "LOCAL_WORLD_SIZE": "2"}]
    runs = apart(m, alone, "-n2", "test_cpu.py")
    for run, env in zip(runs, alone, strict=True):
        text = run.finish()
        assert {entry["card"] for entry in run.entries("has")} == {*UUIDS[:2]}, (env, text)
        assert "rank" not in text, text

    inner = m.start(**mpi(0, 1), **slurm(1, 2))
    assert card_of(inner) == UUIDS[1], inner.text


@on_a_machine(GPU, count=2)
def ranks_with_a_mask_each_share_no_card(m: Machine) -> None:
    """As of ``srun --gpus-per-task=1``. With one mask for both, the second is an error."""
    own = [m.start(**slurm(rank, 2), CUDA_VISIBLE_DEVICES=str(1 - rank)) for rank in (0, 1)]
    assert [card_of(run) for run in own] == ["1", "0"], own[0].text
    for run in own:
        assert "1 passed" in run.finish(), run.text

    first = m.start(**mpi(0, 2), CUDA_VISIBLE_DEVICES="1").holding()
    text = m.run(**mpi(1, 2), CUDA_VISIBLE_DEVICES="1", PYTEST_GPU_WAIT="2")
    assert "1 error" in text, text
    assert "waiting" not in text, text
    assert f"leased by pid {first.process.pid}" in text, text
    assert "1 passed" in first.finish(), first.text


@on_a_machine({**GPU, **CPU}, count=2)
def more_ranks_than_cards_are_an_error_in_each(m: Machine) -> None:
    """Of each GPU test, by name, so that no rank waits in it for another; CPU tests run."""
    ranks = [m.start(*args, **mpi(rank, 3)) for rank in (0, 2) for args in ([], ["-n2"])]
    for run in ranks:
        text = run.finish()
        assert "1 passed, 1 error" in text, text
        said = r"needs a GPU: .*rank [02] of 3 .*has 0 of 2 GPUs, too few for all.*test_gpu\[gpu\]"
        assert re.search(said, text), text
    required = m.start("--gpu-require=1", **mpi(0, 3))
    assert "rank 0 of 3" in required.finish(), required.text
    assert required.process.returncode == 4, required.text
    assert "1 passed, 1 deselected" in m.run("-m", "cpu", **mpi(0, 3))
    assert "2 passed" in m.run("--gpu-simulate=1", **mpi(1, 2))


@on_a_machine(CPU, count=4)
def workers_of_a_rank_have_its_share(m: Machine) -> None:
    """Every second of four cards, the card of its rank first."""
    ranks = [m.start("-n3", "test_cpu.py", **mpi(rank, 2)) for rank in (0, 1)]
    for rank, run in enumerate(ranks):
        run.holding("has")
        text = run.finish()
        cards = {entry["worker"]: entry["card"] for entry in run.entries("has")}
        assert cards == {"gw0": UUIDS[rank], "gw1": UUIDS[rank + 2], "gw2": "-1"}, text


@on_a_machine(GPU, count=2)
def a_rank_waits_for_its_own_card(m: Machine) -> None:
    """Another run has it; the other card is another rank's."""
    first = m.start(CUDA_VISIBLE_DEVICES="1").holding()
    rank = m.start(**mpi(1, 2), PYTEST_GPU_WAIT="600").waiting()
    first.finish()

    assert "1 passed" in rank.finish(), rank.text
    assert [entry["card"] for entry in rank.entries("start")] == [UUIDS[1]], rank.text


RANKED = (
    each_rank_has_the_card_of_its_rank,
    every_launcher_is_known,
    one_rank_is_no_rank,
    ranks_with_a_mask_each_share_no_card,
    more_ranks_than_cards_are_an_error_in_each,
    workers_of_a_rank_have_its_share,
    a_rank_waits_for_its_own_card,
)
