"""What the harness makes of a machine's cards, asked of real pytest among stand-ins.

The stand-ins are ``kit.nvidia_smi`` and ``kit.libcuda``; behaviours are explained in
``behaviours.py``.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.behaviours import (
    FAKE_TENSORFLOW,
    FILES,
    ONE_GPU_TEST,
    HarnessRun,
    device_lines,
    masks,
    run_harness,
)
from kit.libcuda import StandInDriver
from kit.nvidia_smi import Card, Instance, StandInNvidiaSmi, cards, mig_machine, recorded_cards

MASK = "CUDA_VISIBLE_DEVICES"
UUIDS = [card["uuid"] for card in cards(4)]
# Four cards; CUDA's own order, fastest first, is the reverse of the order by place.
FOUR = [{**card, "speed": str(speed)} for speed, card in enumerate(cards(4))]
BY_SPEED = UUIDS[::-1]
PROJECT = {**FILES, **ONE_GPU_TEST, **FAKE_TENSORFLOW}  # one GPU test: no lease is given back
# Where one source hangs the others have to answer in that time, too.
ASK_SECONDS = ("ASK_SECONDS = 30", "ASK_SECONDS = 5")


@dataclass(frozen=True)
class MachineRun:
    """A run on a machine of stand-ins: what it saw, and how often it asked."""

    run: HarnessRun
    smi_calls: list[list[str]]
    driver_calls: list[str]

    @property
    def masks(self) -> list[str | None]:
        """Return the masks of the workers, in order."""
        seen = masks(self.run)
        return [mask for worker, mask in sorted(seen.items(), key=str) if worker]

    @property
    def header(self) -> str:
        (line,) = device_lines(self.run)
        return line

    @property
    def shown(self) -> list[str]:
        """Return the names of all cards that a run of one process found, in its order."""
        return re.findall(r"(?:has|idle:|,) ([^\s,;\]]+)", self.header.partition(" [")[0])

    @property
    def limits(self) -> list[list[int]]:
        return [entry["limits"] for entry in self.run.diary if entry["event"] == "split"]

    def __str__(self) -> str:
        return f"{self.run}\n{self.smi_calls}\n{self.driver_calls}"


@contextmanager
def driver_files(uuids: list[str]) -> Iterator[str]:
    """Make the files that the kernel module shows of each card; give their folder."""
    with tempfile.TemporaryDirectory() as folder:
        for bus, uuid in enumerate(uuids):
            file = Path(folder, f"0000:{bus:02}:00.0", "information")
            file.parent.mkdir()
            file.write_text(f"Model: \t\t NVIDIA A100\nIRQ:   \t\t 12\nGPU UUID: \t {uuid}\n")
        yield folder


def run_on(
    harness: str,
    python: Path,
    *args: str,
    gpus: list[Card] | None = FOUR,
    instances: list[Instance] | None = None,
    mask: str | None = None,
    smi: Mapping[str, object] | None = None,
    driver: str | None = "",
    files: list[str] | None = None,
    env: Mapping[str, str] | None = None,
    **options: tuple[int, ...],
) -> MachineRun:
    """Run pytest on a machine with these cards.

    ``smi`` are options of the stand-in nvidia-smi, ``gpus=None`` is a machine without one.
    ``driver`` is the fault of the driver, ``""`` for none; ``None`` is a machine without it.
    ``files`` are the uuids in the driver's files.
    """
    with tempfile.TemporaryDirectory() as name, driver_files(files or []) as kernel:
        folder = Path(name)
        program = StandInNvidiaSmi(
            folder / "bin", gpus or [], instances=instances or [], **(smi or {})
        )
        library = StandInDriver(folder, gpus or [], instances=instances or [], fault=driver or "")
        environ = {
            "PATH": str(folder / ("nothing" if smi is None and gpus is None else "bin")),
            "PYTEST_GPU_LOCK_DIR": str(folder / "leases"),
            **({} if driver is None else library.environ),
            **({} if mask is None else {MASK: mask}),
            **(env or {}),
        }
        text = harness.replace("/proc/driver/nvidia/gpus", kernel)
        hangs = driver == "hang" or (smi or {}).get("hangs")
        run = run_harness(
            text.replace(*ASK_SECONDS) if hangs else text,
            python,
            PROJECT,
            *args,
            env=environ,
            **options,
        )
        return MachineRun(run, [call["argv"] for call in program.calls], library.calls)


# ---- The caller's mask -----------------------------------------------------------------------


@cache
def usual_run(harness: str, python: Path) -> MachineRun:
    """Run three workers where the caller left them two cards of four."""
    return run_on(harness, python, "-n3", mask="2,3")


def the_driver_says_what_a_mask_means(harness: str, python: Path) -> None:
    """Indices count in CUDA's order, not in that of nvidia-smi; workers get uuids."""
    run = usual_run(harness, python)

    assert run.masks == [BY_SPEED[2], BY_SPEED[3], "-1"], run
    assert run.header.endswith("[libcuda.so.1; nvidia-smi]"), run


def the_callers_order_of_devices_is_kept(harness: str, python: Path) -> None:
    """The driver sees ``CUDA_DEVICE_ORDER`` as the caller set it, and the workers too."""
    run = run_on(harness, python, "-n2", mask="2,3", env={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})

    assert run.masks == UUIDS[2:], run


def entries_are_handed_out_without_a_driver(harness: str, python: Path) -> None:
    """Nobody knows then what the indices mean: workers get the caller's own."""
    run = run_on(harness, python, "-n3", mask="2,3", driver=None)

    assert run.masks == ["2", "3", "-1"], run
    assert "nvidia-smi; CUDA driver: " in run.header, run


# Mask -> what is left: uuids where the driver is there, and else the caller's own words.
ENTRIES = {
    "3, 1": ([BY_SPEED[3], BY_SPEED[1]], ["3", "1"]),
    f"{UUIDS[2]},{UUIDS[0]}": ([UUIDS[2], UUIDS[0]], [UUIDS[2], UUIDS[0]]),
    f"{UUIDS[2][:8]},0": ([UUIDS[2], BY_SPEED[0]], [UUIDS[2][:8], "0"]),
    "0,2,-1,1": ([BY_SPEED[0], BY_SPEED[2]], ["0", "2"]),
    "1,9,0": ([BY_SPEED[1]], ["1"]),
    f"1,GPU-,{UUIDS[0]}": ([BY_SPEED[1]], ["1"]),  # of which card is it the beginning?
    "1,,0": ([BY_SPEED[1]], ["1"]),
    "1,NoDevFiles,0": ([BY_SPEED[1]], ["1"]),
}


def every_form_of_entry_is_taken(harness: str, python: Path) -> None:
    """Indices, uuids, abbreviated ones, blanks; the list ends at the first invalid entry."""
    for mask, (with_driver, without) in ENTRIES.items():
        run = run_on(harness, python, mask=mask)
        assert run.shown == with_driver, (mask, str(run))
        run = run_on(harness, python, mask=mask, driver=None)
        assert run.shown == without, (mask, str(run))


def a_mask_may_hide_all(harness: str, python: Path) -> None:
    """Also an entry that comes twice does. The header says so."""
    for mask in ("", "-1", "NoDevFiles", "1,1"):
        for driver in ("", None):
            run = run_on(harness, python, mask=mask, driver=driver)
            assert run.shown == [], (mask, str(run))
            assert f"{MASK}={mask!r} leaves none" in run.header, (mask, str(run))
            assert ("libcuda.so.1; nvidia-smi]" in run.header) == (driver == ""), (mask, str(run))


# ---- MIG -------------------------------------------------------------------------------------

A100S, INSTANCES = mig_machine()
MIG_UUIDS = [mig["uuid"] for mig in INSTANCES]
PLACES = [f"MIG-{A100S[0]['uuid']}/{mig['gpu_instance_id']}/0" for mig in INSTANCES]
OTHERS = [card["uuid"] for card in A100S[1:]]


def mig_run(harness: str, python: Path, *args: str, **options: object) -> MachineRun:
    return run_on(harness, python, *args, gpus=A100S, instances=INSTANCES, **options)


def mig_instances_are_the_units(harness: str, python: Path) -> None:
    """Not the GPU that they are of, of which CUDA by itself shows but the first."""
    run = mig_run(harness, python)
    assert run.shown == MIG_UUIDS + OTHERS, run
    assert run.driver_calls.count("cuInit") == len(A100S) + len(INSTANCES), run
    assert run.limits == [[(19955 - 1024) // 2] * 2], run
    run = mig_run(harness, python, driver=None)
    assert run.shown == PLACES + OTHERS, run
    assert run.limits == [[(19955 - 1024) // 2] * 2], run
    for driver, expected in ("", MIG_UUIDS), (None, PLACES):
        run = mig_run(harness, python, "-n2", mask="0", driver=driver)
        assert run.masks == expected[:2], run


def mig_entries_are_opaque(harness: str, python: Path) -> None:
    """Of both forms; each worker gets one, though CUDA would show but the first."""
    mask = f"{MIG_UUIDS[2]},{MIG_UUIDS[0]}, {PLACES[0]},MIG-none,{MIG_UUIDS[1]}"
    run = mig_run(harness, python, "-n3", mask=mask)
    assert run.masks == [MIG_UUIDS[2], MIG_UUIDS[0], "-1"], run
    assert [(19968 - 1024) // 2] * 2 in run.limits, run
    assert [(19955 - 1024) // 2] * 2 in run.limits, run
    mask = f"{MIG_UUIDS[2]}, {PLACES[0]}"
    run = mig_run(harness, python, "-n3", mask=mask, driver=None)
    assert run.masks == [MIG_UUIDS[2], PLACES[0], "-1"], run


# ---- Sources ---------------------------------------------------------------------------------


def the_driver_alone_will_do(harness: str, python: Path) -> None:
    """Without nvidia-smi, as in many a container: the memory is all that the card has."""
    bare = cards(2, memory__total="9216 MiB", compute_mode="Default")
    bare[1]["compute_mode"] = "Prohibited"
    run = run_on(harness, python, "-n2", gpus=bare, smi={"failure": "no_driver"})

    assert run.masks == [UUIDS[0], "-1"], run
    assert run.limits == [[4096, 4096]], run
    assert f"{UUIDS[1]} passed over: Prohibited" in run.header, run


def driver_files_are_the_last_source(harness: str, python: Path) -> None:
    run = run_on(harness, python, "-n2", gpus=None, driver=None, files=UUIDS[:3], mask="2,0")
    none = run_on(harness, python, gpus=None, driver=None)

    assert run.masks == ["2", "0"], run
    assert re.search(r"\[nvidia-smi: .*; \S+ lists 3; CUDA driver: .*\]", run.header), run
    assert none.shown == [], none
    assert re.search(r"lists none; .*libcuda.so.1: cannot open", none.header), none


# A fault of nvidia-smi -> what the header says of it
SMI_FAULTS: dict[str, tuple[dict[str, object], str]] = {
    "hangs": ({"hangs": True}, "nvidia-smi: no answer in 5 s"),
    "mismatch": ({"failure": "library_mismatch"}, "Driver/library version mismatch"),
    "lost": ({"failure": "lost_gpu"}, "GPU is lost"),
    "text": ({"output": "Failed to initialize\n"}, "nvidia-smi: syntax error"),
    "cut short": ({"output": "<nvidia_smi_log><gpu>"}, "nvidia-smi: no element found"),
    "nothing": ({"output": ""}, "nvidia-smi: no element found"),
}


def the_run_goes_on_without_nvidia_smi(harness: str, python: Path) -> None:
    """It hangs, or prints an error: what the driver, or else its files, say is used."""
    for name, (fault, said) in SMI_FAULTS.items():
        run = run_on(harness, python, smi=fault, mask="2,3")
        assert run.shown == BY_SPEED[2:], (name, str(run))
        assert said in run.header, (name, str(run))
        assert len(run.smi_calls) == 1, (name, str(run))
    run = run_on(harness, python, smi={"hangs": True}, driver=None, files=UUIDS[:1])
    assert run.shown == UUIDS[:1], run


def what_nvidia_smi_writes_beside_its_answer_is_no_fault(harness: str, python: Path) -> None:
    run = run_on(harness, python, smi={"stderr": "NVML: warning\n"}, driver=None)

    assert run.shown == UUIDS, run


DRIVER_FAULTS = {"999": "cuInit returns 999", "hang": "no answer in 5 s", "crash": "exit code -6"}


def the_run_goes_on_without_the_driver(harness: str, python: Path) -> None:
    """It fails, hangs or crashes: in a process of its own."""
    for fault, said in DRIVER_FAULTS.items():
        run = run_on(harness, python, driver=fault, mask="2,3")
        assert run.shown == ["2", "3"], (fault, str(run))
        assert said in run.header.partition("CUDA driver: ")[2], (fault, str(run))


def odd_memory_is_unknown_memory(harness: str, python: Path) -> None:
    """``[N/A]``, no permission, commas: the card is used, with the least that there is."""
    for odd in ("[N/A]", "[Insufficient Permissions]", "8,000 MiB", "8000,5 MiB", "1.000 MiB"):
        run = run_on(harness, python, gpus=cards(1, memory__free=odd))
        assert run.shown == UUIDS[:1], (odd, str(run))
        assert run.limits == [[512, 512]], (odd, str(run))
    run = run_on(harness, python, gpus=recorded_cards("unified_memory"), driver=None)
    assert run.limits == [[512, 512]], run


def the_machine_is_asked_once(harness: str, python: Path) -> None:
    """One call of nvidia-smi and one of the driver for all workers; never for a context."""
    run = usual_run(harness, python)

    assert run.smi_calls == [["-q", "-x"]], run
    assert run.driver_calls.count("cuInit") == 1, run
    assert not [call for call in run.driver_calls if "Ctx" in call], run


def the_machine_is_not_asked_without_tests_to_run(harness: str, python: Path) -> None:
    for args in (["--help"], ["--version"], ["--collect-only"], ["--markers"], ["-n2", "--co"]):
        run = run_on(harness, python, *args)
        assert run.smi_calls == run.driver_calls == [], (args, str(run))


# ---- Busy cards ------------------------------------------------------------------------------


def busy_cards_are_passed_over(harness: str, python: Path) -> None:
    """Each with a word in the header; a process on a card that takes more is no obstacle."""
    five = cards(5)
    five[0]["compute_mode"] = "Exclusive_Process"
    five[1]["compute_mode"] = "Prohibited"
    five[2]["memory.free"] = "2047 MiB"
    five[4]["compute_mode"] = "Exclusive_Process"
    processes = [
        {"gpu_uuid": five[0]["uuid"], "pid": "4711"},
        {"gpu_uuid": five[3]["uuid"], "pid": "4712"},
        {"gpu_uuid": five[4]["uuid"], "pid": "4713", "type": "G", "process_name": "Xorg"},
    ]
    run = run_on(harness, python, "-n3", gpus=five, smi={"processes": processes})

    assert run.masks == [five[3]["uuid"], five[4]["uuid"], "-1"], run
    over = dict(re.findall(r"(GPU-\S+) passed over: ([^;\[]*)", run.header))
    assert list(over) == [card["uuid"] for card in five[:3]], run
    exclusive, prohibited, full = over.values()
    assert "Exclusive_Process" in exclusive, run
    assert "4711" in exclusive, run
    assert "Prohibited" in prohibited, run
    assert "2047 MiB free" in full, run


def memory_limits_fit_the_free_memory(harness: str, python: Path) -> None:
    """Two halves of what is free after a reserve; never more, and never less than the least."""
    for free, limit in ("2048 MiB", 512), ("8000 MiB", 3488), ("80999 MiB", 39987):
        run = run_on(harness, python, gpus=cards(1, memory__free=free))
        assert run.limits == [[limit, limit]], (free, str(run))


DISCOVERY = (
    the_driver_says_what_a_mask_means,
    the_callers_order_of_devices_is_kept,
    entries_are_handed_out_without_a_driver,
    every_form_of_entry_is_taken,
    a_mask_may_hide_all,
    mig_instances_are_the_units,
    mig_entries_are_opaque,
    the_driver_alone_will_do,
    driver_files_are_the_last_source,
    the_run_goes_on_without_nvidia_smi,
    what_nvidia_smi_writes_beside_its_answer_is_no_fault,
    the_run_goes_on_without_the_driver,
    odd_memory_is_unknown_memory,
    the_machine_is_asked_once,
    the_machine_is_not_asked_without_tests_to_run,
    busy_cards_are_passed_over,
    memory_limits_fit_the_free_memory,
)
QUICK = (  # half a second at most, and the most that can be seen in it
    the_driver_alone_will_do,
    what_nvidia_smi_writes_beside_its_answer_is_no_fault,
    busy_cards_are_passed_over,
)
