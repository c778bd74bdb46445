"""A stand-in ``nvidia-smi`` on PATH, whose answers come from recordings of the real one.

The recordings are in ``tests/stand_ins/nvidia_smi``; its README says where each was seen.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

RECORDINGS = Path(__file__).parents[1] / "stand_ins" / "nvidia_smi"
PROGRAM = Path(__file__).parent / "stand_in_programs" / "nvidia_smi.py"

Card = dict[str, str]  # a field of --query-gpu -> its value, with the unit: "11019 MiB"
Process = dict[str, str]  # the same of --query-compute-apps; "type" as in -q -x: "C", "G"
Instance = dict[str, str]  # of MIG: gpu_uuid, uuid, index, gpu_instance_id, compute_instance_id

# Fields that every card has, in the spelling of the recordings; the memory is of our own making.
USUAL_FIELDS: Card = {
    "name": "GeForce GTX 1060 6GB",
    "driver_version": "535.161.08",
    "serial": "[N/A]",
    "memory.total": "8192 MiB",
    "memory.used": "192 MiB",
    "memory.free": "8000 MiB",
    "compute_mode": "Default",
    "mig.mode.current": "[N/A]",
    "mig.mode.pending": "[N/A]",
    "utilization.gpu": "0 %",
    "utilization.memory": "0 %",
}
IN_MIB = ("memory.total", "memory.free", "memory.used")


@dataclass(frozen=True)
class Recording:
    """A transcript: what was asked, and what the real tool answered."""

    command: tuple[str, ...]  # without the program's name
    stdout: str
    exit_code: int

    @classmethod
    def read(cls, name: str) -> Recording:
        """Return the recording ``name``, a file's name without ``.txt``."""
        command, *rest = (RECORDINGS / f"{name}.txt").read_text("utf-8").split("\n")
        exit_code = 0
        if "$ echo $?" in rest:
            at = rest.index("$ echo $?")
            rest, exit_code = [*rest[:at], ""], int(rest[at + 1])
        words = tuple(command.split()[2:])
        return cls(words, "\n".join(rest), exit_code)

    @property
    def rows(self) -> list[dict[str, str]]:
        """Return the rows of a csv answer, field -> value, units as printed."""
        query = next(word for word in self.command if word.startswith("--query-"))
        fields = [USED_NAMES.get(field, field) for field in query.partition("=")[2].split(",")]
        lines = self.stdout.splitlines()
        if "noheader" not in self.command[-1]:
            lines = lines[1:]
        rows = [dict(zip(fields, line.split(", "), strict=True)) for line in lines]
        if "nounits" in self.command[-1]:
            rows = [{f: f"{v} MiB" if f in IN_MIB else v for f, v in r.items()} for r in rows]
        return rows


# Other names of a field, as in `nvidia-smi --help-query-gpu` and `--help-query-compute-apps`.
USED_NAMES = {
    "gpu_name": "name",
    "gpu_uuid": "uuid",
    "gpu_bus_id": "pci.bus_id",
    "gpu_serial": "serial",
    "used_memory": "used_gpu_memory",
}


def cards(count: int = 1, **fields: str) -> list[Card]:
    """Return up to five cards, with uuids and places that were recorded together.

    Keyword arguments set fields of all of them; write ``__`` for a dot: ``memory__free="9 MiB"``.
    """
    recorded = Recording.read("five_geforce").rows[:count]
    assert len(recorded) == count, "there are five recorded cards"
    return complete(recorded, **fields)


def recorded_cards(name: str, **fields: str) -> list[Card]:
    """Return the cards of a recording; fields that it lacks are the usual ones."""
    return complete(Recording.read(name).rows, **fields)


def mig_machine() -> tuple[list[Card], list[Instance]]:
    """Return four cards and the MIG instances of the first, as ``mig_listing`` was recorded.

    The places and the memory are those that ``-q -x`` says of that card; see the README.
    """
    uuids = re.findall(r"UUID: (\S+)\)", Recording.read("mig_listing").stdout)
    gpus = [{"uuid": uuid, "name": "NVIDIA A100-SXM4-80GB"} for uuid in uuids if uuid[0] == "G"]
    sizes = {"memory.total": "81920 MiB", "memory.used": "50 MiB", "memory.free": "80999 MiB"}
    migs = [uuid for uuid in uuids if uuid[0] == "M"]
    instances = [
        {
            "gpu_uuid": gpus[0]["uuid"],
            "uuid": uuid,
            "index": str(index),
            "gpu_instance_id": str(index + 3),
            "compute_instance_id": "0",
            "memory.total": "19968 MiB",
            "memory.used": "12 MiB",
            "memory.free": "19955 MiB",
        }
        for index, uuid in enumerate(migs)
    ]
    return complete([{**gpu, **sizes} for gpu in gpus]), instances


def complete(rows: Iterable[Mapping[str, str]], **fields: str) -> list[Card]:
    """Give each row the fields that every card has, then ``fields``."""
    given = {field.replace("__", "."): value for field, value in fields.items()}
    made = []
    for index, row in enumerate(rows):
        place = Recording.read("five_geforce").rows[index]
        bus = row.get("pci.bus", place["pci.bus"])
        own = {
            "index": str(index),
            "uuid": place["uuid"],
            "pci.bus": bus,
            "pci.bus_id": f"00000000:{bus.removeprefix('0x')}:00.0",
        }
        made.append({**USUAL_FIELDS, **own, **row, **given})
    return made


class StandInNvidiaSmi:
    """A program ``nvidia-smi`` in a folder of its own, and the record of its calls.

    ``processes`` are rows of ``--query-compute-apps``; ``listing`` is the answer to ``-L`` where
    it is more than the cards (MIG), ``instances`` are what ``-q -x`` lists below their cards.
    ``output`` is printed instead of any answer. ``failure`` is the name of a recording that every
    call prints, with its exit code. ``stderr`` is printed beside any answer, ``delay`` seconds
    pass before it, and with ``hangs`` it never comes. All may be changed between two calls.
    """

    def __init__(
        self,
        folder: Path,
        cards: Iterable[Card] = (),
        *,
        processes: Iterable[Process] = (),
        instances: Iterable[Instance] = (),
        output: str | None = None,
        listing: str | None = None,
        failure: str | None = None,
        stderr: str = "",
        delay: float = 0,
        hangs: bool = False,
    ) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        program = folder / "nvidia-smi"
        # Isolated and without site: it starts in 15 ms and takes nothing from the caller.
        text = f"#!{os.path.realpath(sys.executable)} -IS\n{PROGRAM.read_text('utf-8')}"
        program.write_text(text, "utf-8")
        program.chmod(0o755)
        failed = Recording.read(failure) if failure else None
        self.answer(
            cards=list(cards),
            processes=list(processes),
            instances=list(instances),
            output=output,
            listing=Recording.read(listing).stdout if listing else None,
            failure={"stdout": failed.stdout, "exit_code": failed.exit_code} if failed else None,
            stderr=stderr,
            delay=delay,
            hangs=hangs,
            other_names=USED_NAMES,
        )

    def answer(self, **changes: Any) -> None:
        """Change what the program answers from now on."""
        file = self.folder / "answers.json"
        answers = json.loads(file.read_text("utf-8")) if file.exists() else {}
        fresh = self.folder / "answers.json.new"
        fresh.write_text(json.dumps({**answers, **changes}), "utf-8")
        fresh.replace(file)

    @property
    def environ(self) -> dict[str, str]:
        """Return the environment variables that put it on PATH, with nothing else there."""
        return {"PATH": str(self.folder)}

    @property
    def calls(self) -> list[dict[str, Any]]:
        """Return one dictionary a call, in order: ``argv`` (a list), ``pid``, ``mask``."""
        file = self.folder / "calls.jsonl"
        if not file.exists():
            return []
        return [json.loads(line) for line in file.read_text("utf-8").splitlines()]

    @cached_property
    def uuids(self) -> list[str]:
        """Return the cards' uuids, in order."""
        answers = json.loads((self.folder / "answers.json").read_text("utf-8"))
        return [card["uuid"] for card in answers["cards"]]
