"""Who has leased GPUs on this machine: what harnesses of any project have locked.

Read from outside, as the kernel tells it in ``/proc/locks`` (proc(5)); the folder and the names
are those of ``templates/harness/lease.py.j2``.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

SHARED_FOLDER = "/dev/shm"
NAME = re.compile(r"pytest-gpu-(?P<card>.+)\.(?P<kind>card|use)")
PROC = Path("/proc")


class Holder(NamedTuple):
    """A process that has a lock; what is not known of it is "".

    ``since`` is when the process began, as local time: the lock is no older.
    """

    pid: int
    user: str = ""
    since: str = ""
    command: str = ""

    def __str__(self) -> str:
        said = [self.user, f"since {self.since}" if self.since else "", self.command]
        told = ", ".join(filter(None, said))
        return f"pid {self.pid or 'not known'}" + (f" ({told})" if told else "")


class Lease(NamedTuple):
    """A card's uuid, the processes whose run has leased it, and those that use it."""

    card: str
    runs: tuple[Holder, ...]
    users: tuple[Holder, ...]

    def __str__(self) -> str:
        runs, users = "; ".join(map(str, self.runs)), "; ".join(map(str, self.users))
        if not runs:
            return f"{self.card}: used by {users}, whose run has ended"
        return f"{self.card}: leased by {runs}" + (f", used by {users}" if users else "")


def lease_folder(environ: Mapping[str, str], top: Path) -> Path:
    """Return where the harness keeps its leases when it is run in ``top`` under ``environ``."""
    given = environ.get("PYTEST_GPU_LOCK_DIR")
    shared = SHARED_FOLDER if os.access(SHARED_FOLDER, os.W_OK) else tempfile.gettempdir()
    return top / (given or os.path.realpath(shared))


def held_leases(folder: Path) -> tuple[Lease, ...]:
    """Return the leases in ``folder`` that a process has now, sorted by card."""
    held: dict[str, dict[str, tuple[Holder, ...]]] = {}
    locks = _locks()
    with contextlib.suppress(OSError):
        for file in sorted(folder.iterdir()):
            named = NAME.fullmatch(file.name)
            if named and (pids := _pids(file, locks)):
                held.setdefault(named["card"], {})[named["kind"]] = tuple(map(_holder, pids))
    return tuple(
        Lease(card, kinds.get("card", ()), kinds.get("use", ())) for card, kinds in held.items()
    )


def _locks() -> list[tuple[int, int]]:
    """Return (inode, pid) of each lock that is held; none where there is no such file."""
    found = []
    with contextlib.suppress(OSError):
        for line in (PROC / "locks").read_text("utf-8").splitlines():
            fields = line.split()
            if "->" not in fields and fields[1] == "FLOCK":
                found.append((int(fields[5].rpartition(":")[2]), int(fields[4])))
    return found


def _pids(folder: Path, locks: list[tuple[int, int]]) -> list[int]:
    """Return who has a lock on ``folder``; [0] for a process of another container."""
    with contextlib.suppress(OSError):
        if folder.is_symlink():
            return []
        inode = folder.stat().st_ino
        return sorted({pid for each, pid in locks if each == inode}) or _hidden(folder)
    return []


def _hidden(folder: Path) -> list[int]:
    """Try the lock, shared and for a moment: /proc/locks shows those of this container only."""
    try:
        import fcntl
    except ImportError:  # Windows
        return []
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return [0]
    finally:
        os.close(lock)
    return []


def _holder(pid: int) -> Holder:
    process = PROC / str(pid)
    user = since = command = ""
    with contextlib.suppress(OSError, ValueError, IndexError):
        user = _user(process.stat().st_uid)
        words = (process / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        command = " ".join(shlex.join(filter(None, words)).split())[:80]
        since = _since((process / "stat").read_text("utf-8", "replace"))
    return Holder(pid, user, since, command)


def _user(uid: int) -> str:
    try:
        import pwd

        return pwd.getpwuid(uid).pw_name
    except (ImportError, KeyError):
        return f"user {uid}"


def _since(stat: str) -> str:
    """Return when a process began: field 22 of its ``stat``, in clock ticks since the boot."""
    ticks = int(stat.rpartition(")")[2].split()[19])
    booted = re.search(r"^btime (\d+)$", (PROC / "stat").read_text("utf-8"), re.MULTILINE)
    if booted is None:
        return ""
    began = int(booted[1]) + ticks / os.sysconf("SC_CLK_TCK")
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(began))
