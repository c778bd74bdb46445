"""The stand-in says what the real nvidia-smi was recorded to say, word for word."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kit.nvidia_smi import (
    RECORDINGS,
    Card,
    Process,
    Recording,
    StandInNvidiaSmi,
    cards,
    mig_machine,
    recorded_cards,
)
from kit.processes import LIMIT

NAMES = sorted(file.stem for file in RECORDINGS.glob("*.txt"))
Ask = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def smi(tmp_path: Path) -> StandInNvidiaSmi:
    return StandInNvidiaSmi(tmp_path / "bin", cards(3))


@pytest.fixture
def ask(smi: StandInNvidiaSmi) -> Ask:
    def run(*args: str) -> subprocess.CompletedProcess[str]:
        program = smi.folder / "nvidia-smi"
        return subprocess.run([program, *args], capture_output=True, text=True, check=False)

    return run


@pytest.mark.parametrize("name", NAMES)
def test_recorded_command_gets_the_recorded_answer(name: str, tmp_path: Path) -> None:
    recording = Recording.read(name)
    has, processes, listing, failure = served(name, recording)
    smi = StandInNvidiaSmi(tmp_path, has, processes=processes, listing=listing, failure=failure)

    command = [smi.folder / "nvidia-smi", *recording.command]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.stdout, done.returncode) == (recording.stdout, recording.exit_code)


def served(
    name: str, recording: Recording
) -> tuple[list[Card], list[Process], str | None, str | None]:
    """Return what the stand-in is made from, so that it can give this recording's answer."""
    if name == "invalid_field":
        return cards(), [], None, None
    if recording.exit_code:
        return [], [], None, name
    if "-L" in recording.command:
        return cards(), [], name, None
    if "--query-compute-apps" in recording.command[0]:
        rows = [{"gpu_uuid": row["uuid"], "process_name": row["name"]} for row in recording.rows]
        uuids = sorted({row["gpu_uuid"] for row in rows})
        return (
            [{**card, "uuid": u} for card, u in zip(cards(2), uuids, strict=True)],
            rows,
            None,
            None,
        )
    return recorded_cards(name), [], None, None


def test_every_recording_says_where_it_was_seen() -> None:
    table = (RECORDINGS / "README.md").read_text("utf-8")

    for name in NAMES:
        (line,) = [line for line in table.splitlines() if line.startswith(f"| `{name}.txt`")]
        assert "https://github.com/" in line


def test_any_fields_can_be_asked_for(ask: Ask) -> None:
    query = "--query-gpu=index,gpu_uuid,memory.free,compute_mode"

    assert ask(query, "--format=csv,noheader,nounits", "-i", "1").stdout == (
        "1, GPU-15ea7bf9-1a0e-2d7f-9c62-c28e5ca1aaf1, 8000, Default\n"
    )
    assert ask(*query.split("="), "--format=csv,noheader", "-i", "GPU-none").returncode == 6
    assert len(ask(*query.split("="), "--format=csv,noheader").stdout.splitlines()) == 3


def test_headings_and_units(ask: Ask) -> None:
    done = ask("--query-gpu=name,memory.total,utilization.gpu,pci.bus_id", "--format=csv")

    assert done.stdout.splitlines()[:2] == [
        "name, memory.total [MiB], utilization.gpu [%], pci.bus_id",
        "GeForce GTX 1060 6GB, 8192 MiB, 0 %, 00000000:01:00.0",
    ]


def test_processes(smi: StandInNvidiaSmi, ask: Ask) -> None:
    row = {"gpu_uuid": smi.uuids[1], "pid": "4711", "used_gpu_memory": "500 MiB"}
    smi.answer(processes=[row])
    query = "--query-compute-apps=gpu_uuid,pid,used_memory"

    assert ask(query, "--format=csv,noheader").stdout == f"{smi.uuids[1]}, 4711, 500 MiB\n"
    assert ask(query, "--format=csv,noheader", "--id=0").stdout == ""


def test_listing_and_overview(smi: StandInNvidiaSmi, ask: Ask) -> None:
    assert (
        ask("-L").stdout.splitlines()[2] == f"GPU 2: GeForce GTX 1060 6GB (UUID: {smi.uuids[2]})"
    )
    assert "8192 MiB" in ask().stdout


def test_log(smi: StandInNvidiaSmi, ask: Ask) -> None:
    """The elements are those of the recorded logs that the README names."""
    row = {"gpu_uuid": smi.uuids[2], "pid": "4711", "type": "C"}
    smi.answer(processes=[row], cards=[*cards(2), *cards(3, memory__free="[N/A]")[2:]])
    gpus = ElementTree.fromstring(ask("-q", "-x").stdout).findall("gpu")

    assert [gpu.findtext("uuid") for gpu in gpus] == smi.uuids
    assert [gpu.get("id") for gpu in gpus] == [card["pci.bus_id"] for card in cards(3)]
    assert [gpu.findtext("fb_memory_usage/free") for gpu in gpus] == [
        "8000 MiB",
        "8000 MiB",
        "N/A",
    ]
    assert {gpu.findtext("compute_mode") for gpu in gpus} == {"Default"}
    assert [gpu.findtext("processes/process_info/pid") for gpu in gpus] == [None, None, "4711"]
    assert {gpu.findtext("mig_devices", "").strip() for gpu in gpus} == {"None"}


def test_log_of_a_mig_machine(tmp_path: Path) -> None:
    gpus, instances = mig_machine()
    smi = StandInNvidiaSmi(tmp_path, gpus, instances=instances)
    done = subprocess.run([tmp_path / "nvidia-smi", "-q", "-x"], capture_output=True, check=True)
    first, *others = ElementTree.fromstring(done.stdout).findall("gpu")

    assert first.findtext("mig_mode/current_mig") == "Enabled"
    migs = first.findall("mig_devices/mig_device")
    assert [mig.findtext("gpu_instance_id") for mig in migs] == ["3", "4", "5", "6"]
    assert {mig.findtext("compute_instance_id") for mig in migs} == {"0"}
    assert {mig.findtext("fb_memory_usage/free") for mig in migs} == {"19955 MiB"}
    assert not [mig for gpu in others for mig in gpu.iter("mig_device")]
    assert len(smi.calls) == 1


def test_calls_are_recorded(smi: StandInNvidiaSmi, ask: Ask) -> None:
    assert smi.calls == []
    ask("-L")
    ask()

    assert [call["argv"] for call in smi.calls] == [["-L"], []]


def test_hangs_is_slow_and_talks_on_stderr(smi: StandInNvidiaSmi, ask: Ask) -> None:
    smi.answer(delay=0.3, stderr="NVML: warning\n")
    start = time.monotonic()
    assert ask("-L").stderr == "NVML: warning\n"
    assert time.monotonic() - start >= 0.3
    smi.answer(hangs=True)
    program = smi.folder / "nvidia-smi"
    with subprocess.Popen([program, "-L"], stdout=subprocess.PIPE) as process:
        end = start + LIMIT
        while len(smi.calls) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        assert len(smi.calls) == 2
        with pytest.raises(subprocess.TimeoutExpired):
            process.communicate(timeout=0.5)
        process.kill()
