"""The stand-in driver reads masks as CUDA's documents say; ``kit/libcuda.py`` cites them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kit import clean_environ
from kit.libcuda import StandInDriver
from kit.nvidia_smi import cards, mig_machine

FOUR = [{**card, "speed": str(speed)} for speed, card in enumerate(cards(4))]
UUIDS = [card["uuid"] for card in FOUR]
A100S, INSTANCES = mig_machine()
MIG_UUIDS = [mig["uuid"] for mig in INSTANCES]
PLACE = f"MIG-{A100S[0]['uuid']}/4/0"
SHOW = """
import ctypes, sys, uuid
cuda = ctypes.CDLL("libcuda.so.1")
code = cuda.cuInit(0)
number, device, raw = ctypes.c_int(), ctypes.c_int(), (ctypes.c_ubyte * 16)()
cuda.cuDeviceGetCount(ctypes.byref(number))
print(code)
for index in range(number.value):
    cuda.cuDeviceGet(ctypes.byref(device), index)
    cuda.cuDeviceGetUuid_v2(ctypes.byref(raw), device)
    print(uuid.UUID(bytes=bytes(raw)))
"""


def shown(driver: StandInDriver, **changes: str) -> tuple[int, list[str]]:
    """Return what cuInit returns, and the uuids of all devices without ``GPU-`` or ``MIG-``."""
    environ = clean_environ({**driver.environ, **changes})
    command = [sys.executable, "-c", SHOW]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    code, *uuids = done.stdout.split()
    return int(code), uuids


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (None, [3, 2, 1, 0]),
        ("2,1", [1, 2]),
        ("0,2,-1,1", [3, 1]),
        ("3, 0", [0, 3]),
        ("0,9,1", [3]),
        (UUIDS[1], [1]),
        (f"{UUIDS[1][:9]},{UUIDS[0]}", [1, 0]),
        ("0,GPU-", [3]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("1,1", []),
    ],
)
def test_masks(mask: str | None, expected: list[int], tmp_path: Path) -> None:
    changes = {} if mask is None else {"CUDA_VISIBLE_DEVICES": mask}
    code, uuids = shown(StandInDriver(tmp_path, FOUR), **changes)

    assert uuids == [UUIDS[index][4:] for index in expected]
    assert code == (0 if expected else 100)


def test_order(tmp_path: Path) -> None:
    driver = StandInDriver(tmp_path, FOUR)

    assert shown(driver, CUDA_DEVICE_ORDER="PCI_BUS_ID")[1] == [uuid[4:] for uuid in UUIDS]


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (None, MIG_UUIDS[0]),
        (MIG_UUIDS[2], MIG_UUIDS[2]),
        (PLACE, MIG_UUIDS[1]),
        (f"{MIG_UUIDS[3]},{MIG_UUIDS[2]}", MIG_UUIDS[3]),
        (A100S[0]["uuid"], MIG_UUIDS[0]),
        (A100S[2]["uuid"], A100S[2]["uuid"]),
    ],
)
def test_one_mig_instance_is_shown(mask: str | None, expected: str, tmp_path: Path) -> None:
    changes = {} if mask is None else {"CUDA_VISIBLE_DEVICES": mask}

    assert shown(StandInDriver(tmp_path, A100S, instances=INSTANCES), **changes) == (
        0,
        [expected[4:]],
    )


def test_faults_and_calls(tmp_path: Path) -> None:
    driver = StandInDriver(tmp_path, FOUR, fault="999")

    assert shown(driver) == (999, [])
    assert driver.calls == ["cuInit", "cuDeviceGetCount"]
