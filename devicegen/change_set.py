"""What has to change on disk, file by file: create, update, keep or refuse. Writes nothing."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from devicegen.decisions import MARKERS, Decisions
from devicegen.errors import CannotEdit
from devicegen.facts.pytest_config import PytestConfig
from devicegen.marker_registry import add_markers
from devicegen.python_code import says_the_same
from devicegen.record import Record


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
            if not change.path.startswith(".devicegen/"):
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
            changes.append(_registry(top, decisions.registry, config))
        except CannotEdit as error:
            notes.append(str(error))
            new_record = replace(new_record, registry=None)
    recorded = new_record.texts()
    changes += [_record_file(top, path, text) for path, text in recorded.items()]
    return ChangeSet(tuple(changes), tuple(notes))


def _owned(top: Path, path: str, text: str, record: Record | None) -> Change:
    """Plan a file that is ours alone."""
    before, obstacle = _on_disk(top, path)
    pristine = record.pristine.get(path) if record else None
    if not obstacle and pristine is None and before is not None:
        obstacle = "exists and was not written by devicegen; move it away, or adapt it by hand"
    if not obstacle and pristine is not None and before is None:
        obstacle = "was deleted since devicegen wrote it; restore it, or delete .devicegen/ too"
    if obstacle:
        return Change(path, Action.REFUSE, before, before, obstacle)
    if before is None:
        return Change(path, Action.CREATE, None, text.encode())
    return _rewritten(path, before, pristine or "", text)


def _rewritten(path: str, before: bytes, pristine: str, text: str) -> Change:
    """Plan a file that we wrote: as ``pristine`` then, ``before`` now, ``text`` from now on."""
    current = _decoded(before)
    edited = current is None or not says_the_same(current, pristine)
    if says_the_same(pristine, text) or (current is not None and says_the_same(current, text)):
        reason = "was edited, and there is nothing newer to write" if edited else ""
        return Change(path, Action.KEEP, before, before, reason)
    if edited:
        reason = "was edited since devicegen wrote it; merging edits is not supported yet"
        return Change(path, Action.REFUSE, before, before, reason)
    newline = "\r\n" if b"\r\n" in before else "\n"
    return Change(path, Action.UPDATE, before, text.replace("\n", newline).encode())


def _registry(top: Path, path: str, config: PytestConfig) -> Change:
    before, obstacle = _on_disk(top, path)
    if obstacle or before is None:
        raise CannotEdit(f"{path}: {obstacle or 'is gone'}; the marker lines were not added")
    try:
        text = before.decode()
    except UnicodeDecodeError as error:
        raise CannotEdit(f"{path}: is not UTF-8; the marker lines were not added") from error
    after = add_markers(text, config, MARKERS).encode()
    return Change(path, Action.KEEP if after == before else Action.UPDATE, before, after)


def _record_file(top: Path, path: str, text: str) -> Change:
    before, obstacle = _on_disk(top, path)
    after = text.encode()
    if obstacle:
        return Change(path, Action.REFUSE, before, before, obstacle)
    if before is None:
        return Change(path, Action.CREATE, None, after)
    same = before.replace(b"\r\n", b"\n") == after  # a checkout may have changed line endings
    return Change(path, Action.KEEP if same else Action.UPDATE, before, before if same else after)


def _on_disk(top: Path, path: str) -> tuple[bytes | None, str]:
    """Return a file's bytes, None where there is none, and what forbids writing it."""
    file = top / path
    if not file.parent.resolve().is_relative_to(top.resolve()):
        return None, "lies behind a link out of the repository; it is not followed"
    if file.is_symlink():
        return None, "is a symbolic link; it is not followed"
    if not file.exists():
        blocking = next((each for each in file.parents if each.exists()), top)
        return None, "" if blocking.is_dir() else f"{blocking.name} is no folder"
    if not file.is_file():
        return None, "is no regular file"
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
    old, new = (
        (data or b"").decode("utf-8", "replace").splitlines()
        for data in (change.before, change.after)
    )
    source = "/dev/null" if change.before is None else f"a/{change.path}"
    yield from difflib.unified_diff(old, new, source, f"b/{change.path}", lineterm="")
