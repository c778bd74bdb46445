"""``devicegen eject``: forget the record, keep the files."""

from __future__ import annotations

import re
from pathlib import Path

from devicegen import __version__
from devicegen.apply import apply_changes
from devicegen.change import Action, Change
from devicegen.change_set import ChangeSet
from devicegen.conftest_block import between_marks, block_text, find_block, with_block
from devicegen.console import say, warn
from devicegen.disk import as_it_was_saved, decoded, on_disk
from devicegen.errors import DevicegenError
from devicegen.facts.conftests import HARNESS_LINE
from devicegen.facts.repository import RECORD, find_top, gather_facts
from devicegen.journal import clear, refuse_unfinished
from devicegen.merge import conflict_lines
from devicegen.moved import follow_moved
from devicegen.owned_file import Owned
from devicegen.record import Record, pending_path, pristine_path, read_record
from devicegen.reporting import print_changes, print_diff, refuse_uncommitted

# The paragraph of the harness's docstring that says who wrote it, with the blank line after it,
# and its first sentence.
_HEADER = re.compile(
    rf"{HARNESS_LINE.pattern}.*?(?:\n[ \t]*\n|(?=\"\"\"|'''))", re.MULTILINE | re.DOTALL
)
_SENTENCE = re.compile(rf"{HARNESS_LINE.pattern}\.?[ ]?", re.MULTILINE)


def eject(path: Path, *, dry_run: bool, diff: bool, allow_dirty: bool) -> int:
    """Remove the record and the header that names devicegen; all else keeps working as it is.

    Returns 0 when done, 2 when refused, with nothing written.
    """
    top, _ = find_top(path)
    writes = not (dry_run or diff)
    recovered = clear(top) if writes else refuse_unfinished(top)
    record = read_record(top, __version__)
    if record is None:
        raise DevicegenError(f"{top}: no record here; there is nothing to eject")
    record, moved = follow_moved(record, gather_facts(path))
    for note in filter(None, (recovered, *moved)):
        warn(f"note: {note}")
    owned = tuple(_without_header(top, name, record) for name in record.paths)
    changes = ChangeSet(
        (*(each.change for each in owned), *_of_the_record(top, record)), (), owned
    )
    if refuse_uncommitted(top, changes, allow_dirty=allow_dirty) and writes:
        return 2
    if diff:
        print_diff(changes)
    else:
        print_changes(changes, dry_run=dry_run)
    if writes:
        apply_changes(top, changes)
        say("\nDone. The harness is yours: devicegen knows nothing of it any more.")
    return 0


def _without_header(top: Path, path: str, record: Record) -> Owned:
    before, obstacle = on_disk(top, path)
    if before is not None and not obstacle and _has_block(path, before):
        return _without_marks(path, before, record)
    text = None if before is None or obstacle else decoded(before)
    if before is None or text is None:
        return Owned(Change(path, Action.KEEP, before, before))
    if places := conflict_lines(text):
        raise DevicegenError(f"{path}:{places[0]}: conflict markers; resolve them first")
    plain = text.replace("\r\n", "\n")
    after = as_it_was_saved(_anonymous(plain, record.pristine.get(path, "")), before)
    action = Action.KEEP if after == before else Action.UPDATE
    is_edited = plain != record.pristine.get(path)
    return Owned(Change(path, action, before, after), is_edited=is_edited)


def _has_block(path: str, data: bytes) -> bool:
    try:
        return find_block(data) is not None
    except DevicegenError as error:
        raise DevicegenError(f"{path}: {error}") from error


def _without_marks(path: str, before: bytes, record: Record) -> Owned:
    """Leave the code of a block where it is, in the project's conftest."""
    start, end = find_block(before) or (0, 0)
    try:
        block = block_text(before, (start, end))
    except ValueError as error:
        raise DevicegenError(f"{path}: {error}") from error
    if places := conflict_lines(block):
        line = len(before[:start].splitlines()) + places[0]
        raise DevicegenError(f"{path}:{line}: conflict markers; resolve them first")
    written = record.pristine.get(path, "")
    code = _anonymous(between_marks(block), between_marks(written))
    if not before[end:].strip():
        code = code.rstrip() + "\n"
    after = with_block(before, code)
    is_edited = block != written
    return Owned(Change(path, Action.UPDATE, before, after), is_edited=is_edited, is_shared=True)


def _anonymous(text: str, base: str) -> str:
    """Take the header out; its first sentence only where the user has put words to it."""
    here, written = _HEADER.search(text), _HEADER.search(base)
    is_ours = here and written and here[0].split()[3:] == written[0].split()[3:]
    return (_HEADER if is_ours else _SENTENCE).sub("", text, count=1)


def _of_the_record(top: Path, record: Record) -> list[Change]:
    names = [each(path) for path in record.paths for each in (pristine_path, pending_path)]
    found = []
    for name in (*names, RECORD):
        before, obstacle = on_disk(top, name)
        if obstacle:
            raise DevicegenError(f"{name}: {obstacle}")
        if before is not None:
            found.append(Change(name, Action.DELETE, before, None))
    return found
