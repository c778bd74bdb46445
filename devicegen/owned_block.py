"""What happens to a block of ours in a conftest of the project.

It is merged as a harness in a file of its own is: base, theirs and new are the text of the block,
from its first line to its last. No byte outside of it changes.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from devicegen.change import Action, Change
from devicegen.conftest_block import block_text, find_block, with_block, with_marks_of
from devicegen.disk import on_disk
from devicegen.errors import DevicegenError
from devicegen.owned_file import Owned, TextOnDisk, deleted, plan_text, refused
from devicegen.record import Record


def plan_block(
    top: Path, path: str, block: str, record: Record | None, version: str, *, restore: bool
) -> Owned:
    """Plan the file ``path``, which is to hold ``block``, rendered by devicegen ``version``."""
    before, obstacle = on_disk(top, path)
    if obstacle:
        return refused(path, before, obstacle)
    known = record if record is not None and path in record.paths else None
    if before is None:
        return _without_file(path, known, restore=restore)
    try:
        found = find_block(before)
        if found is None:
            return _without_block(path, before, block, known, restore=restore)
        return _planned(path, before, found, block, known, version)
    except (DevicegenError, ValueError) as error:  # lost marks, or an encoding that does not fit
        return refused(path, before, str(error))


def _without_file(path: str, known: Record | None, *, restore: bool) -> Owned:
    if known is None or restore:
        reason = "was deleted, with what the project had in it; restore it from version control"
        return refused(path, None, reason)
    return replace(deleted(path, None, "was deleted", known), is_shared=True)


def _without_block(
    path: str, before: bytes, block: str, known: Record | None, *, restore: bool
) -> Owned:
    if known is not None and not restore:
        if path in known.unusable:
            return refused(path, before, known.unusable[path])
        return replace(deleted(path, before, "its block was deleted", known), is_shared=True)
    change = Change(path, Action.UPDATE, before, with_block(before, block))
    return Owned(change, block, is_shared=True)


def _planned(
    path: str,
    before: bytes,
    found: tuple[int, int],
    block: str,
    known: Record | None,
    version: str,
) -> Owned:
    place = TextOnDisk(
        path,
        before,
        with_marks_of(block, block_text(before, found)),
        partial(with_block, before),
        above=len(before[: found[0]].splitlines()),
        what="holds a block",
        remedy="take the block out",
    )
    if known is not None and path in known.pristine:
        pristine = {path: with_marks_of(block, known.pristine[path])}
        pending = {
            name: replace(each, text=with_marks_of(block, each.text))
            for name, each in known.pending.items()
        }
        known = replace(known, pristine=pristine, pending=pending)
    return replace(plan_text(place, block, known, version), is_shared=True)
