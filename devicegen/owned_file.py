"""What happens to a file that is ours alone: the harness.

Where anything is refused, nothing at all is written: the harness, its registry and its record
belong together, and half an upgrade is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from devicegen.change import Action, Change
from devicegen.disk import as_it_was_saved, decoded, on_disk
from devicegen.facts.repository import is_harness
from devicegen.merge import Conflict, Merged, Span, conflict_lines, has_come, likeness, merge
from devicegen.python_code import says_the_same
from devicegen.record import FOLDER, Pending, Record

# A file at our path that lacks our header and has less of our lines than this is another's.
LEAST_LIKENESS = 0.5


@dataclass(frozen=True)
class Owned:
    """What happens to one file, and what the record is to say of it afterwards.

    ``base`` is the text that the next merge starts from; ``pending`` what a conflict leaves open;
    ``is_edited`` tells that the file holds more than devicegen's text and a formatter's work, and
    ``is_clean`` that it is at the version that runs now. ``notes`` are lines for the user.
    """

    change: Change
    base: str | None = None
    pending: Pending | None = None
    is_edited: bool = False
    is_clean: bool = True
    notes: tuple[str, ...] = ()


def plan_owned(  # noqa: PLR0911
    top: Path, path: str, text: str, record: Record | None, version: str, *, restore: bool
) -> Owned:
    """Plan the file ``path``, which is to hold ``text``, rendered by devicegen ``version``."""
    before, obstacle = on_disk(top, path)
    if obstacle:
        return _refused(path, before, obstacle)
    if before is None:
        return _absent(path, text, record, restore=restore)
    current = decoded(before)
    if current is not None and (places := conflict_lines(current)):
        return _with_markers(path, before, places)
    if current is not None and says_the_same(current, text):
        return Owned(Change(path, Action.KEEP, before, before), text)
    if record is None or path not in record.pristine:
        return _refused(path, before, (record and record.unusable.get(path)) or _stranger(current))
    if current is None:
        return _refused(path, before, "is no longer UTF-8; restore it from version control")
    if not is_harness(current) and likeness(record.pristine[path], current) < LEAST_LIKENESS:
        reason = "was replaced by a file that is not devicegen's; restore it, or run `eject`"
        return _refused(path, before, reason)
    return _merged(path, before, current, text, record, version)


def _refused(path: str, before: bytes | None, reason: str) -> Owned:
    return Owned(Change(path, Action.REFUSE, before, before, reason), is_clean=False)


def _with_markers(path: str, before: bytes, places: list[int]) -> Owned:
    lines = ", ".join(map(str, places))
    reason = f"has conflict markers (line {lines}); resolve them, then run devicegen again"
    change = Change(path, Action.REFUSE, before, before, reason, tuple(places))
    return Owned(change, is_clean=False)


def _stranger(current: str | None) -> str:
    if current is not None and is_harness(current):
        return (
            f"is a harness of devicegen that {FOLDER}/ does not know; restore {FOLDER}/, or "
            "delete this file and run `devicegen init`"
        )
    return "exists and was not written by devicegen; move it away, or adapt it by hand"


def _absent(path: str, text: str, record: Record | None, *, restore: bool) -> Owned:
    if restore or record is None or path not in record.paths:
        return Owned(Change(path, Action.CREATE, None, text.encode()), text)
    if path in record.unusable:
        return _refused(path, None, record.unusable[path])
    reason = (
        "was deleted and stays so; `devicegen upgrade --restore` brings it back, "
        "`devicegen eject` forgets it"
    )
    change = Change(path, Action.KEEP, None, None, reason)
    return Owned(change, record.pristine.get(path), record.pending.get(path), is_clean=False)


def _merged(
    path: str, before: bytes, current: str, text: str, record: Record, version: str
) -> Owned:
    base, notes = _settled(path, record.pristine[path], current, record)
    labels = (f"{path} as it is here", f"devicegen {version}")
    merged = merge(base, current, text, labels)
    if merged.is_laid_out_anew and not says_the_same(merged.text, current):
        notes += (f"{path}: is laid out as devicegen writes it; run your formatter on it",)
    is_edited = not says_the_same(current, base)
    if merged.conflicts:
        after = as_it_was_saved(merged.text, before)
        lines = tuple(conflict.line for conflict in merged.conflicts)
        change = Change(path, Action.MERGE, before, after, conflicts=lines)
        pending = Pending(version, text, tuple(_span(each) for each in merged.conflicts))
        return Owned(change, base, pending, is_edited, is_clean=False, notes=notes)
    return Owned(
        _change(path, before, current, merged, is_edited), text, None, is_edited, True, notes
    )


def _change(path: str, before: bytes, current: str, merged: Merged, is_edited: bool) -> Change:
    if says_the_same(merged.text, current):
        reason = "was edited since devicegen wrote it; there is nothing newer to write"
        return Change(path, Action.KEEP, before, before, reason if is_edited else "")
    action = Action.MERGE if is_edited else Action.UPDATE
    return Change(path, action, before, as_it_was_saved(merged.text, before))


def _settled(path: str, base: str, current: str, record: Record) -> tuple[str, tuple[str, ...]]:
    """Return the base to merge from, where an earlier merge had conflicts that are now resolved.

    That is the text that came in then. But where its other lines are missing, the file was put
    back to what it was before, and the merge is made once more.
    """
    pending = record.pending.get(path)
    if pending is None:
        return base, ()
    places = [(Span(*span[:2]), Span(*span[2:])) for span in pending.spans]
    if has_come(base, current, pending.text, places):
        return pending.text, ()
    return base, (f"{path}: lacks what devicegen {pending.version} brought; merged again",)


def _span(conflict: Conflict) -> tuple[int, int, int, int]:
    return conflict.base.start, conflict.base.stop, conflict.new.start, conflict.new.stop
