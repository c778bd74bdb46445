"""What the harness for ``tensorflow-rocm`` makes of AMD's cards.

The stand-ins are folders in place of what the kernel's driver shows: ``KFD_NODES``, a folder a
node with ``properties`` and ``mem_banks``, and ``DRM_NODES``, with the memory in use. Where the
rules are written: ``rocm.py.j2``. Behaviours are explained in ``behaviours.py``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from harness.behaviours import FAKE_TENSORFLOW, FILES, HarnessRun, device_lines, run_harness
from harness.discovery_behaviours import PROJECT
from kit.nvidia_smi import Card, cards

NODES_FOLDER = "/sys/class/kfd/kfd/topology/nodes"
DRM_FOLDER = "/sys/class/drm"
ROCR, HIP, CUDA = MASKS = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
PROBE = {
    "rocm_probe.py": f"""
        import json
        import os

        def note(event):
            worker = os.environ.get("PYTEST_XDIST_WORKER")
            masks = [os.environ.get(name) for name in {MASKS}]
            line = {{"event": event, "worker": worker, "masks": masks, "pid": os.getpid()}}
            with open(os.environ["DIARY"], "a") as file:
                file.write(json.dumps(line) + "\\n")

        def pytest_sessionfinish():
            note("masks at the end")

        note("masks")
    """
}
CPU = "cpu_cores_count 16\nsimd_count 0\nunique_id 0\n"
UNREADABLE = None  # as in a container that was given other cards
IDS = (0xF980F88EF31631A2, 2, 0xDEADBEEFDEADBEEF, 10)
UUIDS = [f"GPU-{unique:016x}" for unique in IDS]
NONE = ["-1", "-1", "-1"]


def card(unique: int = 0) -> str:
    return f"cpu_cores_count 0\nsimd_count 416\ndrm_render_minor 128\nunique_id {unique}\n"


FOUR = [CPU, *map(card, IDS)]


def rocm_run(
    harness: str,
    python: Path,
    *args: str,
    nodes: Sequence[str | None] = FOUR,
    banks: Mapping[str, str] | None = None,
    used_mib: int | None = None,
    first: int = 0,
    files: Mapping[str, str | bytes] = PROJECT,
    smi: list[Card] | None = None,
    **masks: str,
) -> HarnessRun:
    """Run pytest where the kernel's driver shows ``nodes``, numbered from ``first``.

    ``banks`` are the memory banks of each: name -> properties; ``used_mib`` is used of them.
    """
    with tempfile.TemporaryDirectory() as name:
        drm = Path(name, "drm")
        if used_mib is not None:
            (drm / "renderD128" / "device").mkdir(parents=True)
            file = drm / "renderD128" / "device" / "mem_info_vram_used"
            file.write_text(f"{used_mib << 20}\n")
        for number, properties in enumerate(nodes, start=first):
            node = Path(name, "nodes", str(number))
            node.mkdir(parents=True)
            if properties is UNREADABLE:
                (node / "properties").mkdir()  # whoever the tests run as
            else:
                (node / "properties").write_text(properties, "utf-8")
            for bank, text in (banks or {}).items():
                (node / "mem_banks" / bank).mkdir(parents=True)
                (node / "mem_banks" / bank / "properties").write_text(text, "utf-8")
        return run_harness(
            harness.replace(NODES_FOLDER, f"{name}/nodes").replace(DRM_FOLDER, str(drm)),
            python,
            {**files, **PROBE},
            "-p",
            "rocm_probe",
            *args,
            smi=smi,
            env=masks,
        )


def seen(run: HarnessRun, event: str = "masks") -> dict[str | None, list[str | None]]:
    """Return worker -> its masks: ROCR's, HIP's, CUDA's."""
    return {worker: entry["masks"] for worker, entry in run.noted(event).items()}


def workers(run: HarnessRun) -> list[list[str | None]]:
    return [masks for worker, masks in sorted(seen(run).items(), key=str) if worker]


def owned(*names: str | None) -> list[list[str]]:
    """Return the masks of workers that have these cards; None: of one that has none."""
    return [[name, "0", "0"] if name else NONE for name in names]


@cache
def two_cards(harness: str, python: Path) -> HarnessRun:
    """Run three workers on a machine with two cards."""
    return rocm_run(harness, python, "-n3", nodes=FOUR[:3])


def each_worker_has_its_own_amd_card(harness: str, python: Path) -> None:
    """By its uuid in ROCR's mask, of which it is the first to HIP; the others have none."""
    run = two_cards(harness, python)

    assert workers(run) == owned(*UUIDS[:2], None), run
    assert seen(run, "masks at the end")["gw0"] == [UUIDS[0], "0", "0"], run
    assert set(run.noted("split")) == {"gw0", "gw1"}, run


def controller_sees_no_amd_card(harness: str, python: Path) -> None:
    """And the caller's environment is as it was when the run is over."""
    run = two_cards(harness, python)

    assert seen(run)[None] == [None, None, None], run
    assert seen(run, "masks at the end")[None] == NONE, run


def amd_cards_are_in_the_header(harness: str, python: Path) -> None:
    """With the source; for want of any, both places that were looked at."""
    header = "".join(device_lines(two_cards(harness, python)))
    for part in (f"gw0 has {UUIDS[0]}", f"gw1 has {UUIDS[1]}", "no GPU for gw2", "lists 2]"):
        assert part in header, (part, header)
    run = rocm_run(harness, python, nodes=[CPU])
    reason = run.pytest.text("test_gpu.py::test_gpu[gpu]")
    assert "lists none; nvidia-smi: " in reason, run


# The caller's masks -> the cards of two workers; None: it has none.
MASKED: dict[str, list[tuple[dict[str, str], list[str | None]]]] = {
    ROCR: [
        ({ROCR: "3, 1"}, [UUIDS[3], UUIDS[1]]),
        ({ROCR: f"2,{UUIDS[0]}"}, [UUIDS[2], UUIDS[0]]),
        ({ROCR: "GPU-DEADBEEF,gpu-f9"}, [UUIDS[2], UUIDS[0]]),
        ({ROCR: "0,GPU-0,2"}, [UUIDS[0], None]),  # of two cards it is the beginning
        ({ROCR: "1,4,2"}, [UUIDS[1], None]),
        ({ROCR: "1,,2"}, [UUIDS[1], None]),
        ({ROCR: f"1,{UUIDS[1]},2"}, [UUIDS[1], None]),
        ({ROCR: ""}, [None, None]),
        ({ROCR: "-1"}, [None, None]),
    ],
    HIP: [
        ({HIP: "1,3"}, [UUIDS[1], UUIDS[3]]),
        ({HIP: "3,-1,1"}, [UUIDS[3], None]),
        ({HIP: "3,3,1"}, [UUIDS[3], UUIDS[1]]),
        ({HIP: UUIDS[2]}, [UUIDS[2], None]),
        ({HIP: "-1"}, [None, None]),
    ],
    CUDA: [
        ({CUDA: "2,0"}, [UUIDS[2], UUIDS[0]]),
        ({CUDA: "2,0", HIP: "1"}, [UUIDS[1], None]),  # of these HIP reads its own
        ({CUDA: "2,0", HIP: ""}, [UUIDS[2], UUIDS[0]]),
        ({CUDA: ""}, [None, None]),
    ],
    "both": [
        ({ROCR: "3,2,1", HIP: "2,0"}, [UUIDS[1], UUIDS[3]]),
        ({ROCR: "3", HIP: "0,1,2,3"}, [UUIDS[3], None]),
        ({ROCR: "3,2", HIP: "3"}, [None, None]),
        ({ROCR: "3,2", CUDA: "1"}, [UUIDS[2], None]),
        ({ROCR: "", HIP: "0"}, [None, None]),
    ],
}


def check_masks(harness: str, python: Path, kind: str) -> None:
    for given, expected in MASKED[kind]:
        run = rocm_run(harness, python, "-n2", **given)
        assert workers(run) == owned(*expected), (given, str(run))
        if not any(expected):
            *_, hidden = (name for name in given if given[name] in ("", "-1", "3"))
            assert f"{hidden}={given[hidden]!r} leaves none" in str(device_lines(run)), run


def rocr_mask_bounds_the_cards(harness: str, python: Path) -> None:
    """Indices, uuids in any case and cut short; it ends at what is no card or comes twice."""
    check_masks(harness, python, ROCR)


def hip_mask_bounds_the_cards(harness: str, python: Path) -> None:
    check_masks(harness, python, HIP)


def cuda_mask_bounds_amd_cards(harness: str, python: Path) -> None:
    """HIP reads it where its own is not there, or empty. An empty one hides all."""
    check_masks(harness, python, CUDA)


def rocr_and_hip_do_not_filter_twice(harness: str, python: Path) -> None:
    """HIP's indices are into what ROCR's mask leaves, for the caller and for the workers."""
    check_masks(harness, python, "both")


def cards_without_a_uuid_go_by_index(harness: str, python: Path) -> None:
    """It is the index among all cards, whatever the caller's mask leaves."""
    nodes = [CPU, card(IDS[0]), card(), card(IDS[1]), card()]
    run = rocm_run(harness, python, "-n4", nodes=nodes, files={**FILES, **FAKE_TENSORFLOW})
    assert workers(run) == owned(UUIDS[0], "1", UUIDS[1], "3"), run
    run = rocm_run(harness, python, "-n3", nodes=nodes, ROCR_VISIBLE_DEVICES="3,2")
    assert workers(run) == owned("3", UUIDS[1], None), run


def nodes_are_in_the_order_of_their_numbers(harness: str, python: Path) -> None:
    """Which is that of ROCR's indices: 10 comes after 9. CPUs are not counted."""
    nodes = [CPU, card(IDS[0]), CPU, card(IDS[1])]
    run = rocm_run(harness, python, "-n3", nodes=nodes, first=7)
    assert workers(run) == owned(*UUIDS[:2], None), run
    run = rocm_run(harness, python, "-n2", nodes=nodes, first=7, ROCR_VISIBLE_DEVICES="1")
    assert workers(run) == owned(UUIDS[1], None), run


def nodes_that_cannot_be_read_are_no_cards(harness: str, python: Path) -> None:
    """ROCR does not count them either."""
    nodes = [CPU, UNREADABLE, card(IDS[1]), UNREADABLE, card(IDS[3])]
    run = rocm_run(harness, python, "-n2", nodes=nodes, ROCR_VISIBLE_DEVICES="1,0")

    assert workers(run) == owned(UUIDS[3], UUIDS[1]), run


def amd_memory_limits_fit_the_card(harness: str, python: Path) -> None:
    """Of its own banks, less what is in use; not what it may use of the machine's."""

    def bank(kind: int, mib: int) -> str:
        return f"heap_type {kind}\nsize_in_bytes {mib << 20}\nflags 0\nwidth 4096\n"

    own, machines = {"0": bank(1, 4096), "1": bank(2, 1024)}, {"2": bank(0, 65536)}
    for banks, used, limit in (
        ({**own, **machines}, None, 2048),  # half of 5120 less the reserve
        ({**own, **machines}, 1120, 1488),
        (machines, 1120, 512),
    ):
        run = rocm_run(harness, python, nodes=FOUR[:2], banks=banks, used_mib=used)
        splits = [entry["limits"] for entry in run.diary if entry["event"] == "split"]
        assert splits == [[limit, limit]], run
    run = rocm_run(harness, python, nodes=FOUR[:2], banks=own, used_mib=5120 - 2047)
    assert f"{UUIDS[0]} passed over: 2047 MiB free" in str(device_lines(run)), run


def nvidia_cards_come_first(harness: str, python: Path) -> None:
    """Where both are; a worker sees its own card only, so AMD's are hidden from it."""
    (nvidia,) = cards(1)
    for env in {}, {ROCR: "0,1", HIP: "0,1"}:
        run = rocm_run(harness, python, "-n2", smi=[nvidia], **env)
        assert workers(run) == [["-1", "-1", nvidia["uuid"]], NONE], run
        assert seen(run)[None] == [env.get(ROCR), env.get(HIP), None], run
    run = rocm_run(harness, python, smi=[nvidia], CUDA_VISIBLE_DEVICES="0")
    assert seen(run, "masks at the end")[None] == ["-1", "-1", "0"], run


def simulated_cards_hide_amd_cards(harness: str, python: Path) -> None:
    run = rocm_run(harness, python, "--gpu-simulate=1")

    assert run.noted("split"), run
    assert seen(run, "masks at the end")[None] == NONE, run


INNER = {
    **FAKE_TENSORFLOW,
    "inner.py": "def test_inner(): pass\n",
    "test_outer.py": """
        import subprocess
        import sys

        import pytest

        @pytest.mark.run_on(["gpu"])
        def test_outer():
            for workers in ([], ["-n1"]):
                options = ["-p", "rocm_probe", "inner.py", *workers]
                subprocess.run([sys.executable, "-m", "pytest", *options], check=True)
    """,
}


def pytest_inside_a_test_keeps_the_amd_card(harness: str, python: Path) -> None:
    """Whatever the caller's masks were; with workers of its own or without."""
    run = rocm_run(harness, python, "-n1", files=INNER, ROCR_VISIBLE_DEVICES="3,1")

    assert run.outcomes == {"test_outer.py::test_outer[gpu]": "passed"}, run
    seen_by = {entry["pid"]: entry["masks"] for entry in run.diary if entry["event"] == "masks"}
    outer, *inner = seen_by.values()
    assert outer == ["3,1", None, None], run
    assert inner == [[UUIDS[3], "0", "0"]] * 4, run  # the worker, two runs, and a worker of one


CRASHES = {
    **FAKE_TENSORFLOW,
    "test_crash.py": """
        import os
        import pytest

        @pytest.mark.run_on(["gpu"])
        @pytest.mark.parametrize("n", range(4))
        def test_crash(n):
            if n % 2 == 0:
                os._exit(1)
    """,
}


def replacement_has_the_amd_card_of_the_dead(harness: str, python: Path) -> None:
    run = rocm_run(harness, python, "-n1", files=CRASHES, ROCR_VISIBLE_DEVICES="3,1")

    assert workers(run) == owned(UUIDS[3]) * 3, run
    assert run.outcomes["test_crash.py::test_crash[gpu-3]"] == "passed", run


QUICK = (
    each_worker_has_its_own_amd_card,
    controller_sees_no_amd_card,
)
ROCM = (
    *QUICK,
    nodes_that_cannot_be_read_are_no_cards,
    amd_cards_are_in_the_header,
    rocr_mask_bounds_the_cards,
    hip_mask_bounds_the_cards,
    cuda_mask_bounds_amd_cards,
    rocr_and_hip_do_not_filter_twice,
    cards_without_a_uuid_go_by_index,
    nodes_are_in_the_order_of_their_numbers,
    amd_memory_limits_fit_the_card,
    nvidia_cards_come_first,
    simulated_cards_hide_amd_cards,
    pytest_inside_a_test_keeps_the_amd_card,
    replacement_has_the_amd_card_of_the_dead,
)
