"""What happens to a text of ours: the harness, in a file of its own here.

Where anything is refused, nothing at all is written: the harness, its registry and its record
belong together, and half an upgrade is none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
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
    ``is_clean`` that it is at the version that runs now. ``is_deleted`` tells that the user took
    the text out; ``is_shared`` that the file holds more than it. ``notes`` are lines for the user.
    """

    change: Change
    base: str | None = None
    pending: Pending | None = None
    is_edited: bool = False
    is_clean: bool = True
    notes: tuple[str, ...] = ()
    is_deleted: bool = False
    is_shared: bool = False


@dataclass(frozen=True)
class TextOnDisk:
    """A file on disk that holds a text of ours: ``current``, None where it is no UTF-8.

    ``before`` is the whole file, and ``save`` returns it with another text of ours; ``above`` is
    the number of lines before that text. ``what`` names the text, and ``remedy`` says what to do
    about one that is not recorded.
    """

    path: str
    before: bytes
    current: str | None
    save: Callable[[str], bytes]
    above: int = 0
    what: str = "is a harness"
    remedy: str = "delete this file"


def plan_owned(
    top: Path, path: str, text: str, record: Record | None, version: str, *, restore: bool
) -> Owned:
    """Plan the file ``path``, which is to hold ``text``, rendered by devicegen ``version``."""
    before, obstacle = on_disk(top, path)
    if obstacle:
        return refused(path, before, obstacle)
    if before is None:
        return _absent(path, text, record, restore=restore)
    saved = partial(as_it_was_saved, before=before)
    return plan_text(TextOnDisk(path, before, decoded(before), saved), text, record, version)


def plan_text(place: TextOnDisk, text: str, record: Record | None, version: str) -> Owned:
    """Plan what happens to a text of ours that is there, and is to be ``text``."""
    path, before, current = place.path, place.before, place.current
    if current is not None and (lines := conflict_lines(current)):
        return _with_markers(place, lines)
    if current is not None and says_the_same(current, text):
        return Owned(Change(path, Action.KEEP, before, before), text)
    if record is None or path not in record.pristine:
        return refused(path, before, (record and record.unusable.get(path)) or _stranger(place))
    if current is None:
        return refused(path, before, "is no longer UTF-8; restore it from version control")
    if not is_harness(current) and likeness(record.pristine[path], current) < LEAST_LIKENESS:
        reason = "was replaced by a file that is not devicegen's; restore it, or run `eject`"
        return refused(path, before, reason)
    return _merged(place, current, text, record, version)


def refused(path: str, before: bytes | None, reason: str) -> Owned:
    """Return that nothing may be written to a file, and why."""
    return Owned(Change(path, Action.REFUSE, before, before, reason), is_clean=False)


def deleted(path: str, before: bytes | None, what: str, record: Record) -> Owned:
    """Return that the user took a text of ours out, and that it stays so."""
    reason = (
        f"{what} and stays so; `devicegen upgrade --restore` brings it back, "
        "`devicegen eject` forgets it"
    )
    change = Change(path, Action.KEEP, before, before, reason)
    base, pending = record.pristine.get(path), record.pending.get(path)
    return Owned(change, base, pending, is_clean=False, is_deleted=True)


def _with_markers(place: TextOnDisk, found: list[int]) -> Owned:
    places = tuple(place.above + line for line in found)
    lines = ", ".join(map(str, places))
    reason = f"has conflict markers (line {lines}); resolve them, then run devicegen again"
    change = Change(place.path, Action.REFUSE, place.before, place.before, reason, places)
    return Owned(change, is_clean=False)


def _stranger(place: TextOnDisk) -> str:
    if place.current is not None and is_harness(place.current):
        return (
            f"{place.what} of devicegen that {FOLDER}/ does not know; restore {FOLDER}/, or "
            f"{place.remedy} and run `devicegen init`"
        )
    return "exists and was not written by devicegen; move it away, or adapt it by hand"


def _absent(path: str, text: str, record: Record | None, *, restore: bool) -> Owned:
    if restore or record is None or path not in record.paths:
        return Owned(Change(path, Action.CREATE, None, text.encode()), text)
    if path in record.unusable:
        return refused(path, None, record.unusable[path])
    return deleted(path, None, "was deleted", record)


def _merged(place: TextOnDisk, current: str, text: str, record: Record, version: str) -> Owned:
    path, before = place.path, place.before
    base, notes = _settled(path, record.pristine[path], current, record)
    labels = (f"{path} as it is here", f"devicegen {version}")
    merged = merge(base, current, text, labels)
    if merged.is_laid_out_anew and not says_the_same(merged.text, current):
        notes += (f"{path}: is laid out as devicegen writes it; run your formatter on it",)
    is_edited = not says_the_same(current, base)
    if merged.conflicts:
        after = place.save(merged.text)
        lines = tuple(place.above + conflict.line for conflict in merged.conflicts)
        change = Change(path, Action.MERGE, before, after, conflicts=lines)
        pending = Pending(version, text, tuple(_span(each) for each in merged.conflicts))
        return Owned(change, base, pending, is_edited, is_clean=False, notes=notes)
    change = _change(place, current, merged, is_edited)
    return Owned(change, text, None, is_edited, True, notes)


def _change(place: TextOnDisk, current: str, merged: Merged, is_edited: bool) -> Change:
    path, before = place.path, place.before
    after = place.save(merged.text)
    if after == before or says_the_same(merged.text, current):  # no Python has only its bytes
        reason = "was edited since devicegen wrote it; there is nothing newer to write"
        return Change(path, Action.KEEP, before, before, reason if is_edited else "")
    action = Action.MERGE if is_edited else Action.UPDATE
    return Change(path, action, before, after)


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
