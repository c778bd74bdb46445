"""Writes a change set: every file through a temporary file, the record last, all or nothing."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from devicegen.change_set import Change, ChangeSet
from devicegen.errors import DevicegenError


def apply_changes(top: Path, change_set: ChangeSet) -> None:
    """Write the files of ``change_set`` below ``top``.

    All temporary files are complete before the first file is replaced. Where a replacement
    fails, what was replaced before is put back. Raises ``DevicegenError`` where the disk
    refuses; nothing has changed then.
    """
    changes = change_set.written
    staged: list[tuple[Path, Path]] = []
    made: list[Path] = []
    try:
        for change in changes:
            file = top / change.path
            made += _make_folders(file.parent)
            staged.append((_stage(file, change.after or b""), file))
        _replace_all(staged, changes)
    except BaseException as error:
        for temporary, _ in staged:
            temporary.unlink(missing_ok=True)
        for folder in reversed(made):
            with suppress(OSError):
                folder.rmdir()
        if isinstance(error, OSError):
            where = error.filename or changes[len(staged) - 1].path
            raise DevicegenError(
                f"{where}: cannot be written ({error.strerror}); nothing was changed"
            ) from error
        raise


def _make_folders(folder: Path) -> list[Path]:
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir()
    return list(reversed(missing))


def _stage(file: Path, data: bytes) -> Path:
    """Write ``data`` to a temporary file beside ``file``, with the mode that it should have."""
    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", suffix=".devicegen", dir=file.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(_mode(file))
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _mode(file: Path) -> int:
    if file.exists():
        return stat.S_IMODE(file.stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def _replace_all(staged: Sequence[tuple[Path, Path]], changes: Sequence[Change]) -> None:
    done: list[tuple[Path, bytes | None]] = []
    try:
        for (temporary, file), change in zip(staged, changes, strict=True):
            if file.exists() and not os.access(file, os.W_OK):
                raise PermissionError(13, "the file is read-only", str(file))
            temporary.replace(file)
            done.append((file, change.before))
    except BaseException:
        for file, before in reversed(done):
            if before is None:
                file.unlink(missing_ok=True)
            else:
                _stage(file, before).replace(file)
        raise
