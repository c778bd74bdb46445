"""What a run is about to write, so that the next run can put the old tree back.

``.devicegen.journal`` is written before the first temporary file, and renamed when the last file
is in its place: that moment makes the old tree the new one. A process that dies before it leaves
the journal; the next run that writes puts back each file that was replaced, and says so.
The journal is read as untrusted input, and no file is touched that holds anything else than what
the run that died wrote.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from devicegen.disk import is_plain, on_disk
from devicegen.errors import DevicegenError
from devicegen.record import FOLDER

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

JOURNAL = ".devicegen.journal"
DONE = f"{JOURNAL}.done"
OTHER_WRITES = f"{JOURNAL}: another devicegen writes here; nothing was changed, run this again"


@dataclass(frozen=True)
class Entry:
    """A file to be written, and the hashes of its old and its new bytes; None for no file."""

    path: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class Journal:
    """All files to be written, the folders to be made for them, and what names their copies."""

    token: str
    files: tuple[Entry, ...]
    folders: tuple[str, ...]

    def old(self, path: str) -> str:
        """Return the path of the copy of the old bytes of ``path``."""
        return self._beside(path, "old")

    def new(self, path: str) -> str:
        """Return the path of the file that is to replace ``path``."""
        return self._beside(path, "new")

    def _beside(self, path: str, kind: str) -> str:
        plain = PurePosixPath(path)
        return str(plain.with_name(f".{plain.name}.{self.token}.{kind}.devicegen"))


def make_journal(
    files: Sequence[tuple[str, bytes | None, bytes | None]], folders: Sequence[str]
) -> Journal:
    """Return the journal for ``files``: path, old bytes, new bytes."""
    entries = tuple(Entry(path, digest(old), digest(new)) for path, old, new in files)
    return Journal(secrets.token_hex(4), entries, tuple(folders))


def digest(data: bytes | None) -> str | None:
    """Return the hash of a file's bytes, None for no file."""
    return None if data is None else hashlib.sha256(data).hexdigest()


@contextmanager
def held(top: Path, journal: Journal) -> Iterator[None]:
    """Hold the journal on disk, locked, while the body writes and then commits, or puts back.

    Raises ``DevicegenError`` where another process holds one, or has taken this one for half of
    one before it was locked.
    """
    file = top / JOURNAL
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError as error:
        raise DevicegenError(OTHER_WRITES) from error
    is_ours = True
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            is_ours = _lock(stream.fileno()) and _is_at(file, stream.fileno())
            if not is_ours:
                raise DevicegenError(OTHER_WRITES)
            stream.write(json.dumps(asdict(journal), indent=1) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
            yield
    except Unfinished:
        raise
    except BaseException:
        if is_ours:
            _remove(file)
        raise
    _clean(top, journal)


def commit(top: Path) -> None:
    """Make the new tree the one that stays."""
    (top / JOURNAL).replace(top / DONE)


class Unfinished(DevicegenError):
    """Files could not be put back: the journal and the copies stay, and the next run tries."""


def clear(top: Path) -> str | None:
    """Put back the old tree where a run died while it wrote; return a line that says so.

    Raises ``DevicegenError`` where another process is writing now, or a file cannot be put back.
    """
    if (done := _read(top / DONE)) is not None:
        _clean(top, done)
    _remove(top / DONE)
    with _opened(top / JOURNAL) as stream:
        if stream is None:
            return None
        if not _lock(stream) or not _is_at(top / JOURNAL, stream):
            raise DevicegenError(OTHER_WRITES)
        journal = _read(top / JOURNAL)
        if journal is None:  # died while it wrote this, so before it wrote anything else
            _remove(top / JOURNAL)
            return None
        put_back, left = restore(top, journal)
        remove_traces(top, journal)
        _remove(top / JOURNAL)
    line = "an earlier run was stopped while it wrote; the old files are back"
    if left:
        line += f", but not {', '.join(left)}, which were changed since"
    return line if put_back or left else None


def refuse_unfinished(top: Path) -> str | None:
    """Raise ``DevicegenError`` where a run died while it wrote: a verb that only reads stops."""
    if _read(top / JOURNAL) is not None:
        raise DevicegenError(
            f"{JOURNAL}: an earlier run was stopped while it wrote; `devicegen upgrade` (or init) "
            "puts the old files back"
        )
    return None


def restore(
    top: Path, journal: Journal, replaced: Container[str] | None = None
) -> tuple[list[str], list[str]]:
    """Put back each file that was replaced; return those, and those that hold something else.

    A process that lives says which it has ``replaced``: what others wrote, be it the same bytes,
    is theirs. Of one that died only the journal tells.

    Raises ``Unfinished`` where one could not be put back.
    """
    put_back, left, lost = [], [], []
    for entry in reversed(journal.files):
        if replaced is not None and entry.path not in replaced:
            continue
        now, obstacle = on_disk(top, entry.path)
        if obstacle:
            left.append(entry.path)
        elif digest(now) == entry.before:
            continue
        elif digest(now) != entry.after:
            left.append(entry.path)
        elif _put_back(top, journal, entry):
            put_back.append(entry.path)
        else:
            lost.append(entry.path)
    if lost:
        raise Unfinished(
            f"{', '.join(lost)} could not be put back; make room or allow writing, then run "
            "`devicegen upgrade` (or init) again"
        )
    return put_back, left


def _put_back(top: Path, journal: Journal, entry: Entry) -> bool:
    try:
        if entry.before is None:
            (top / entry.path).unlink()
            return True
        old, obstacle = on_disk(top, journal.old(entry.path))
        if obstacle or digest(old) != entry.before:
            return False
        (top / journal.old(entry.path)).replace(top / entry.path)
    except OSError:
        return False
    return True


def _read(file: Path) -> Journal | None:
    """Return the journal in ``file``; None where there is none, or half of one."""
    try:
        if file.is_symlink() or not file.is_file():
            return None
        table = json.loads(file.read_bytes())
        files = tuple(Entry(**entry) for entry in table["files"])
        journal = Journal(table["token"], files, tuple(table["folders"]))
        paths = [*journal.folders, *(entry.path for entry in journal.files)]
        is_sound = re.fullmatch(r"[0-9a-f]{8}", journal.token) and all(map(is_plain, paths))
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return journal if is_sound else None


@contextmanager
def _opened(file: Path) -> Iterator[int | None]:
    try:
        handle = os.open(file, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        yield None
        return
    try:
        yield handle
    finally:
        os.close(handle)


def _lock(handle: int) -> bool:
    """Lock the journal until it is closed; False where another process has it."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _is_at(file: Path, handle: int) -> bool:
    """Tell whether the file that is open is still the one at its path."""
    try:
        return os.path.samestat(file.lstat(), os.fstat(handle))
    except OSError:
        return False


def _clean(top: Path, journal: Journal) -> None:
    """Remove the copies, and what is empty of the record's folder once files of it are gone."""
    _remove_copies(top, journal)
    for entry in journal.files:
        if entry.after is None and entry.path.startswith(f"{FOLDER}/"):
            for folder in PurePosixPath(entry.path).parents[:-1]:
                with suppress(OSError):
                    (top / folder).rmdir()
    _remove(top / DONE)


def remove_traces(top: Path, journal: Journal) -> None:
    """Remove the copies, and the folders that were made where nothing is left in them."""
    _remove_copies(top, journal)
    for folder in reversed(journal.folders):
        with suppress(OSError):
            (top / folder).rmdir()


def _remove_copies(top: Path, journal: Journal) -> None:
    for entry in journal.files:
        for name in (journal.old(entry.path), journal.new(entry.path)):
            if not on_disk(top, name)[1]:
                _remove(top / name)


def _remove(file: Path) -> None:
    with suppress(OSError):
        file.unlink(missing_ok=True)
