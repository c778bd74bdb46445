"""A stand-in for CUDA's driver, ``libcuda.so.1``, compiled from C and found by the loader.

What it makes of ``CUDA_VISIBLE_DEVICES``, and where that is written:

- unset: all; empty: none; indices; a uuid as ``nvidia-smi -L`` says it, or enough of its
  beginning; ``MIG-GPU-<uuid>/<GI>/<CI>``; the list ends at the first invalid index, so ``-1``
  ends it; ``CUDA_DEVICE_ORDER`` is ``FASTEST_FIRST`` unless it says ``PCI_BUS_ID``: CUDA
  Programming Guide, 5.2.1,
  https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html
- ``MIG-<uuid>``; one instance at most, and no other GPU beside it: MIG User Guide, "CUDA Device
  Enumeration", https://docs.nvidia.com/datacenter/tesla/mig-user-guide/mig-device-names.html
- a handle is not an ordinal, 100 is "no device", ``cuDeviceGetUuid_v2`` is of the MIG instance:
  CUDA Driver API, https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__DEVICE.html

No document was found for these. An entry that comes twice hides all: so PyTorch found and
mirrors (``_parse_visible_devices`` in torch/cuda/__init__.py, from pytorch/pytorch#84879 on). An
entry that is no token at all, such as ``NoDevFiles`` (what Slurm sets for a job without GPUs),
is taken to be an invalid one. Blanks around entries are skipped, as PyTorch skips them.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from kit.environments import ENVIRONMENTS
from kit.nvidia_smi import Card, Instance

SOURCE = Path(__file__).parent / "stand_in_programs" / "libcuda.c"
COMPUTE_MODES = {"Default": 0, "Prohibited": 2, "Exclusive_Process": 3}


@functools.cache
def library_folder() -> Path:
    """Return the folder of the library, compiled once for each text of its source."""
    text = SOURCE.read_bytes()
    folder = ENVIRONMENTS / "stand_ins" / hashlib.sha256(text).hexdigest()[:16]
    library = folder / "libcuda.so.1"
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            made = Path(temporary, library.name)
            subprocess.run([_compiler(), "-shared", "-fPIC", "-o", made, SOURCE], check=True)
            os.replace(made, library)  # noqa: PTH105 - two processes may be at it
    return folder


def _compiler() -> str:
    """Return the C compiler; as root, install one where there is none."""
    if shutil.which("gcc") is None and os.getuid() == 0:
        for command in (["update"], ["install", "-y", "gcc", "libc6-dev"]):
            subprocess.run(["apt-get", "-q", *command], check=True, stdout=subprocess.DEVNULL)
    return "gcc"


class StandInDriver:
    """The environment variables that make the stand-in driver show ``cards``, and its calls.

    Of a card it takes ``uuid``, ``memory.total``, ``compute_mode`` and ``speed``, a number: CUDA's
    own order is the fastest first. ``fault`` is ``"hang"``, ``"crash"`` or a code that ``cuInit``
    returns.
    """

    def __init__(
        self,
        folder: Path,
        cards: Iterable[Card] = (),
        *,
        instances: Sequence[Instance] = (),
        fault: str = "",
    ) -> None:
        self.file = folder / "driver_calls.txt"
        lines = []
        for card in cards:
            migs = [
                f"{mig['uuid']}:{mig['gpu_instance_id']}/{mig['compute_instance_id']}:{mib(mig)}"
                for mig in instances
                if mig["gpu_uuid"] == card["uuid"]
            ]
            mode = COMPUTE_MODES[card["compute_mode"]]
            fields = [card["uuid"], mib(card), mode, card.get("speed", "0"), *migs]
            lines.append(" ".join(map(str, fields)))
        self.environ = {
            "LD_LIBRARY_PATH": str(library_folder()),
            "STAND_IN_CUDA": "\n".join(lines),
            "STAND_IN_CUDA_FAULT": fault,
            "STAND_IN_CUDA_CALLS": str(self.file),
        }

    @property
    def calls(self) -> list[str]:
        """Return the names of the functions that were called, in order."""
        text = self.file.read_text("utf-8") if self.file.exists() else ""
        return [line.split()[0] for line in text.splitlines()]


def mib(fields: Card | Instance) -> int:
    """Return the whole memory of a card or an instance."""
    total = fields["memory.total"].split()[0]
    return int(total) if total.isdecimal() else 131072  # what nvidia-smi cannot say, CUDA can
