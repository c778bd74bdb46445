"""Writes a change set: every file through a temporary file, all or nothing.

A failure or an interrupt leaves the old tree. So does a process that is killed, once the next run
that writes has put back what was replaced: see ``journal``. At any moment each file is whole, the
old one or the new one.
"""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from devicegen.change import Change
from devicegen.change_set import ChangeSet
from devicegen.disk import on_disk
from devicegen.errors import DevicegenError
from devicegen.journal import (
    JOURNAL,
    Journal,
    Unfinished,
    commit,
    held,
    make_journal,
    remove_traces,
    restore,
)


def apply_changes(top: Path, change_set: ChangeSet) -> None:
    """Write the files of ``change_set`` below ``top``, and nothing when there are none.

    All temporary files, also those with the bytes to put back, are complete before the first
    file is replaced. Raises ``DevicegenError`` where the disk refuses, or a file has changed
    since it was read; nothing has changed then.
    """
    if change_set.written:
        with _signals_held():
            _Transaction(top, change_set.written).apply()


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


@dataclass
class _Transaction:
    """The changes to make below ``top``; ``path`` is what is worked on now.

    ``replaced`` are the files that this process has put in their places, or was about to.
    """

    top: Path
    changes: Sequence[Change]
    path: str = ""
    replaced: set[str] = field(default_factory=set)

    def apply(self) -> None:
        folders = _missing_folders(self.top, self.changes)
        files = [(change.path, change.before, change.after) for change in self.changes]
        journal = make_journal(files, folders)
        try:
            for change in self.changes:
                self._refuse_read_only(change)
            self.path = JOURNAL
            with held(self.top, journal):
                for change in self.changes:
                    self._refuse_changed(change)
                try:
                    self._write(journal)
                    commit(self.top)
                except BaseException:
                    restore(self.top, journal, self.replaced)
                    remove_traces(self.top, journal)
                    raise
        except Unfinished as lost:
            words = getattr(lost.__context__, "strerror", None) or lost.__context__
            raise DevicegenError(f"{self.path}: cannot be written ({words}), and {lost}") from lost
        except OSError as error:
            reason = f"cannot be written ({error.strerror or error})"
            raise DevicegenError(f"{self.path}: {reason}; nothing was changed") from error

    def _refuse_read_only(self, change: Change) -> None:
        self.path, file = change.path, self.top / change.path
        if change.before is not None and file.exists() and not os.access(file, os.W_OK):
            raise DevicegenError(f"{change.path}: is read-only; nothing was changed")

    def _refuse_changed(self, change: Change) -> None:
        self.path = change.path
        now, obstacle = on_disk(self.top, change.path)
        if obstacle or now != change.before:
            raise DevicegenError(
                f"{change.path}: was changed by another program just now; nothing of it was "
                "overwritten, run the command again"
            )

    def _write(self, journal: Journal) -> None:
        for folder in journal.folders:
            self.path = folder
            (self.top / folder).mkdir()
        for change in self.changes:
            self.path = change.path
            if change.after is not None:
                self._temporary(change, journal.new(change.path), change.after)
                if change.before is not None:
                    self._temporary(change, journal.old(change.path), change.before)
        for change in self.changes:
            self.path = change.path
            self._replace(change, journal)

    def _temporary(self, change: Change, name: str, data: bytes) -> None:
        """Write ``data`` beside the file, with the mode and the owner that it should have."""
        file, temporary = self.top / change.path, self.top / name
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        handle = os.open(temporary, flags, 0o600)
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

    def _replace(self, change: Change, journal: Journal) -> None:
        self._refuse_changed(change)
        file = self.top / change.path
        self.replaced.add(change.path)
        try:
            if change.after is None:
                file.replace(self.top / journal.old(change.path))
            else:
                (self.top / journal.new(change.path)).replace(file)
        except OSError:
            self.replaced.discard(change.path)
            raise


def _missing_folders(top: Path, changes: Sequence[Change]) -> list[str]:
    """Return the folders to make, outer ones first."""
    missing: dict[str, None] = {}
    for change in changes:
        for folder in reversed((top / change.path).parents):
            if folder != top and folder.is_relative_to(top) and not folder.exists():
                missing[folder.relative_to(top).as_posix()] = None
    return list(missing)


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
