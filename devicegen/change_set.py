"""What has to change on disk, file by file: create, update, keep or refuse. Writes nothing."""

from __future__ import annotations

import codecs
import difflib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from devicegen.decisions import Decisions
from devicegen.errors import CannotEdit
from devicegen.facts.pytest_config import PytestConfig
from devicegen.facts.repository import is_harness
from devicegen.marker_registry import add_markers
from devicegen.python_code import says_the_same
from devicegen.record import FOLDER, Record


class Action(Enum):
    """What happens to one file."""

    CREATE = "create"
    UPDATE = "update"
    KEEP = "keep"
    REFUSE = "refuse"


@dataclass(frozen=True)
class Change:
    """One file: the bytes on disk (None: no file), those that it should hold, and why.

    ``path`` is posix and relative to the top. A refused file keeps ``before`` as ``after``.
    """

    path: str
    action: Action
    before: bytes | None
    after: bytes | None
    reason: str = ""

    @property
    def writes(self) -> bool:
        """Whether the file is to be written."""
        return self.action in (Action.CREATE, Action.UPDATE)


@dataclass(frozen=True)
class ChangeSet:
    """All changes, the record's own files last and ``record.toml`` the very last.

    ``notes`` are lines for the user about what could not be done and is not needed.
    """

    changes: tuple[Change, ...]
    notes: tuple[str, ...] = ()

    @property
    def refused(self) -> tuple[Change, ...]:
        """The files that stand in the way."""
        return tuple(change for change in self.changes if change.action is Action.REFUSE)

    @property
    def written(self) -> tuple[Change, ...]:
        """The files that are to be written, in order."""
        return tuple(change for change in self.changes if change.writes)

    def diff(self) -> Iterator[str]:
        """Yield a unified diff of the project's files, line by line; not of the record's."""
        for change in self.written:
            if not change.path.startswith(f"{FOLDER}/"):
                yield from _diff(change)


def plan_changes(
    top: Path,
    texts: dict[str, str],
    decisions: Decisions,
    config: PytestConfig,
    record: Record | None,
    new_record: Record,
) -> ChangeSet:
    """Compare what was rendered with what is on disk and with what an earlier run wrote.

    ``texts`` maps each path that we own to its rendered text. ``new_record`` is the record as it
    is to be; its registry is dropped where the configuration cannot be edited.
    """
    changes = [_owned(top, path, text, record) for path, text in texts.items()]
    notes = []
    if decisions.registry is not None:
        try:
            changes.append(_registry(top, decisions.registry, config, decisions.markers))
        except CannotEdit as error:
            notes.append(str(error))
            new_record = replace(new_record, registry=None)
    recorded = new_record.texts()
    changes += [_record_file(top, path, text) for path, text in recorded.items()]
    return ChangeSet(tuple(changes), tuple(notes))


def _owned(top: Path, path: str, text: str, record: Record | None) -> Change:
    """Plan a file that is ours alone."""
    before, obstacle = _on_disk(top, path)
    if obstacle:
        return Change(path, Action.REFUSE, before, before, obstacle)
    if before is None:
        if record is None or path not in record.paths:
            return Change(path, Action.CREATE, None, text.encode())
        reason = f"was deleted; restore it, or delete {FOLDER}/ too and run `devicegen init`"
        return Change(path, Action.REFUSE, None, None, reason)
    current = _decoded(before)
    if current is not None and says_the_same(current, text):  # also after a run that was killed
        return Change(path, Action.KEEP, before, before)
    if record is not None and path in record.pristine:
        return _recorded(path, before, record.pristine[path], text)
    reason = (record.unusable.get(path) if record else None) or _stranger(current)
    return Change(path, Action.REFUSE, before, before, reason)


def _recorded(path: str, before: bytes, pristine: str, text: str) -> Change:
    """Plan a file that was written as ``pristine``, is ``before``, and is to be ``text``."""
    current = _decoded(before)
    is_edited = current is None or not says_the_same(current, pristine)
    if says_the_same(pristine, text):
        reason = "was edited since devicegen wrote it; there is nothing newer to write"
        return Change(path, Action.KEEP, before, before, reason if is_edited else "")
    if is_edited:
        reason = (
            "was edited since devicegen wrote it, and merging is not supported yet; take the "
            "edit out, run `devicegen upgrade`, then put it back"
        )
        return Change(path, Action.REFUSE, before, before, reason)
    return Change(path, Action.UPDATE, before, _as_it_was_saved(text, before))


def _stranger(current: str | None) -> str:
    if current is not None and is_harness(current):
        return (
            f"is a harness of devicegen that {FOLDER}/ does not know; restore {FOLDER}/, or "
            "delete this file and run `devicegen init`"
        )
    return "exists and was not written by devicegen; move it away, or adapt it by hand"


def _registry(top: Path, path: str, config: PytestConfig, markers: tuple[str, ...]) -> Change:
    before, obstacle = _on_disk(top, path)
    if obstacle or before is None:
        raise CannotEdit(f"{path}: {obstacle or 'is gone'}; the marker lines were not added")
    try:
        text = before.decode()
    except UnicodeDecodeError as error:
        raise CannotEdit(f"{path}: is not UTF-8; the marker lines were not added") from error
    after = add_markers(text, config, markers).encode()
    return Change(path, Action.KEEP if after == before else Action.UPDATE, before, after)


def _record_file(top: Path, path: str, text: str) -> Change:
    before, obstacle = _on_disk(top, path)
    if obstacle:
        return Change(path, Action.REFUSE, before, before, obstacle)
    if before is None:
        return Change(path, Action.CREATE, None, text.encode())
    after = _as_it_was_saved(text, before)
    return Change(path, Action.KEEP if after == before else Action.UPDATE, before, after)


def _as_it_was_saved(text: str, before: bytes) -> bytes:
    """Encode ``text`` with the line endings and the byte order mark of ``before``."""
    newline = "\r\n" if b"\r\n" in before else "\n"
    mark = codecs.BOM_UTF8 if before.startswith(codecs.BOM_UTF8) else b""
    return mark + text.replace("\n", newline).encode()


def _on_disk(top: Path, path: str) -> tuple[bytes | None, str]:
    """Return a file's bytes, None where there is none, and what forbids writing it."""
    file = top / path
    if not Path(os.path.realpath(file.parent)).is_relative_to(os.path.realpath(top)):
        return None, "lies behind a link out of the repository, which is not followed"
    if file.is_symlink():
        return None, "is a symbolic link, which is not followed; replace it by a file"
    if not os.path.lexists(file):
        blocking = next((each for each in file.parents if os.path.lexists(each)), top)
        return None, "" if blocking.is_dir() else f"{blocking.name} is in the way: no folder"
    if not file.is_file():
        return None, "is in the way: no regular file"
    try:
        return file.read_bytes(), ""
    except OSError as error:
        return None, f"cannot be read ({error.strerror})"


def _decoded(data: bytes) -> str | None:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def _diff(change: Change) -> Iterator[str]:
    """Yield lines without their end; ``git apply`` and ``patch`` take them."""
    old, new = (
        (data or b"").decode("utf-8", "replace").split("\n")
        for data in (change.before, change.after)
    )
    source = "/dev/null" if change.before is None else f"a/{change.path}"
    lines = difflib.unified_diff(
        list(_ended(old)), list(_ended(new)), source, f"b/{change.path}", lineterm=""
    )
    for line in lines:
        yield from line.removesuffix("\n").split("\n")


def _ended(pieces: list[str]) -> Iterator[str]:
    """Yield the lines; a last one that nothing ends is marked as in every unified diff."""
    yield from pieces[:-1]
    if pieces[-1]:
        yield f"{pieces[-1]}\n\\ No newline at end of file"
