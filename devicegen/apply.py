"""Writes a change set: every file through a temporary file, the record last, all or nothing.

A failure or an interrupt leaves the old tree. A process that is killed leaves a tree in which
each file is whole, the old one or the new one; the same command, run again, completes it and
removes the temporary files. That holds because ``record.toml`` is written last.
"""

from __future__ import annotations

import glob
import os
import signal
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from devicegen.change_set import Change, ChangeSet
from devicegen.errors import DevicegenError


def apply_changes(top: Path, change_set: ChangeSet) -> None:
    """Write the files of ``change_set`` below ``top``, and nothing when there are none.

    All temporary files, also those with the bytes to put back, are complete before the first
    file is replaced. Raises ``DevicegenError`` where the disk refuses, or a file has changed
    since it was read; nothing has changed then.
    """
    with _signals_held():
        _Transaction(top).apply(change_set.written)
        _remove_leftovers(top, change_set.changes)


@contextmanager
def _signals_held() -> Iterator[None]:
    """Let Ctrl-C and the like wait: nothing here takes long."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@dataclass(frozen=True)
class _Staged:
    """A change and its temporary files: the new bytes, and the old ones where there are any."""

    change: Change
    file: Path
    new: Path
    old: Path | None


@dataclass
class _Transaction:
    """What has been done below ``top``, so that it can be undone."""

    top: Path
    folders: list[Path] = field(default_factory=list)
    temporaries: list[Path] = field(default_factory=list)
    replaced: list[_Staged] = field(default_factory=list)

    def apply(self, changes: Sequence[Change]) -> None:
        path = ""
        try:
            staged = []
            for change in changes:
                path = change.path
                staged.append(self._stage(change))
            for each in staged:
                path = each.change.path
                self._replace(each)
        except BaseException as error:
            lost = self._undo()
            words = f"{path}: cannot be written ({getattr(error, 'strerror', '') or error})"
            if lost:
                raise DevicegenError(
                    f"{words}, and {', '.join(lost)} could not be put back; restore it from "
                    "version control"
                ) from error
            if isinstance(error, OSError):
                raise DevicegenError(f"{words}; nothing was changed") from error
            raise
        finally:
            for temporary in self.temporaries:
                _remove(temporary)

    def _stage(self, change: Change) -> _Staged:
        file = self.top / change.path
        if change.before is not None and not os.access(file, os.W_OK):
            raise DevicegenError(f"{change.path}: is read-only; nothing was changed")
        self._make_folders(file.parent)
        old = None if change.before is None else self._temporary(file, change.before)
        return _Staged(change, file, self._temporary(file, change.after or b""), old)

    def _make_folders(self, folder: Path) -> None:
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        for each in reversed(missing):
            each.mkdir()
            self.folders.append(each)

    def _temporary(self, file: Path, data: bytes) -> Path:
        """Write ``data`` beside ``file``, with the mode and the owner that it should have."""
        prefix, suffix = _affixes(file)
        handle, name = tempfile.mkstemp(prefix=prefix, suffix=suffix, dir=file.parent)
        temporary = Path(name)
        self.temporaries.append(temporary)
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if file.exists():
            status = file.stat()
            temporary.chmod(stat.S_IMODE(status.st_mode))
            if hasattr(os, "chown"):
                with suppress(OSError):  # root in a container must not take the owner's files
                    os.chown(temporary, status.st_uid, status.st_gid)
        else:
            temporary.chmod(0o666 & ~_umask())
        return temporary

    def _replace(self, each: _Staged) -> None:
        now = each.file.read_bytes() if os.path.lexists(each.file) else None
        if now != each.change.before:
            raise DevicegenError(
                f"{each.change.path}: was changed by another program just now; nothing of it was "
                "overwritten, run the command again"
            )
        each.new.replace(each.file)
        self.replaced.append(each)

    def _undo(self) -> list[str]:
        """Put back what was replaced; return the paths for which that failed."""
        lost = []
        for each in reversed(self.replaced):
            try:
                if each.old is None:
                    each.file.unlink()
                else:
                    each.old.replace(each.file)
            except OSError:
                lost.append(each.change.path)
        for temporary in self.temporaries:
            _remove(temporary)
        for folder in reversed(self.folders):
            with suppress(OSError):
                folder.rmdir()
        return lost


def _affixes(file: Path) -> tuple[str, str]:
    return f".{file.name}.", ".devicegen"


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


def _remove(temporary: Path) -> None:
    with suppress(OSError):
        temporary.unlink(missing_ok=True)


def _remove_leftovers(top: Path, changes: Sequence[Change]) -> None:
    """Remove the temporary files of a run that was killed."""
    for file in (top / change.path for change in changes):
        prefix, suffix = _affixes(file)
        for leftover in file.parent.glob(f"{glob.escape(prefix)}????????{suffix}"):
            _remove(leftover)
