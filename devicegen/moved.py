"""Follows a harness that the user has moved."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from devicegen.conftest_block import block_text, find_block, is_block
from devicegen.disk import decoded, on_disk
from devicegen.errors import DevicegenError
from devicegen.facts.bazel import MAINS
from devicegen.facts.repository import RepoFacts, is_harness
from devicegen.merge import likeness
from devicegen.owned_file import LEAST_LIKENESS
from devicegen.record import Record

T = TypeVar("T")


def follow_moved(record: Record, facts: RepoFacts) -> tuple[Record, tuple[str, ...]]:
    """Return the record with each harness where it is now, and lines that say so.

    A harness has moved when there is none at its path, and one other ``conftest.py`` of the
    repository holds most of what was written; a block, where one does in a block. Raises
    ``DevicegenError`` where several do.
    """
    notes = []
    for path, base in record.pristine.items():
        if _is_harness_at(facts.top, path, base):
            continue
        found = [
            each
            for each in facts.conftests
            if each not in record.paths and _holds(facts.top, each, base)
        ]
        if len(found) > 1:
            raise DevicegenError(
                f"{path}: is gone, and {' and '.join(found)} are like it; keep one of them"
            )
        for new in found:
            for old, now in ((path, new), *_main_beside(record, facts.top, path, new)):
                record = replace(
                    record,
                    pristine=_renamed(record.pristine, old, now),
                    pending=_renamed(record.pending, old, now),
                )
                notes.append(f"{old}: was moved to {now}; devicegen follows it there")
    return record, tuple(notes)


def _main_beside(record: Record, top: Path, old: str, new: str) -> list[tuple[str, str]]:
    """Return from where to where the ``py_test`` main was moved along with the harness."""
    mains = [(posixpath.join(posixpath.dirname(old), name),
              posixpath.join(posixpath.dirname(new), name)) for name in MAINS]  # fmt: skip
    return [
        (before, now)
        for before, now in mains
        if before in record.pristine
        and on_disk(top, before) == (None, "")
        and _holds(top, now, record.pristine[before])
    ]


def _is_harness_at(top: Path, path: str, base: str) -> bool:
    data, obstacle = on_disk(top, path)
    if obstacle:
        return True  # whatever it is, it is refused by name
    if is_block(base):
        return data is not None and _block_of(data) != ""
    text = decoded(data) if data is not None else ""
    return text is None or is_harness(text) or likeness(base, text) >= LEAST_LIKENESS


def _holds(top: Path, path: str, base: str) -> bool:
    data, obstacle = on_disk(top, path)
    if data is None or obstacle:
        return False
    block = _block_of(data)
    if is_block(base):
        return bool(block) and (block is None or likeness(base, block) >= LEAST_LIKENESS)
    text = None if block else decoded(data)
    return text is not None and is_harness(text) and likeness(base, text) >= LEAST_LIKENESS


def _block_of(data: bytes) -> str | None:
    """Return the text of the block in a file, "" where there is none, None for a broken one."""
    try:
        place = find_block(data)
        return block_text(data, place) if place else ""
    except (DevicegenError, ValueError):
        return None


def _renamed(table: Mapping[str, T], old: str, new: str) -> dict[str, T]:
    return {new if path == old else path: value for path, value in table.items()}
