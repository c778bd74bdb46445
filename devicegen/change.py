"""One file of a change set, and how a diff shows it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple


class Action(Enum):
    """What happens to one file."""

    CREATE = "create"
    UPDATE = "update"
    MERGE = "merge"
    DELETE = "delete"
    KEEP = "keep"
    REFUSE = "refuse"


class Change(NamedTuple):
    """One file: the bytes on disk (None: no file), those that it should hold, and why.

    ``path`` is posix and relative to the top. A refused file keeps ``before`` as ``after``.
    ``conflicts`` are the lines, from 1, on which a conflict begins in ``after``.
    """

    path: str
    action: Action
    before: bytes | None
    after: bytes | None
    reason: str = ""
    conflicts: tuple[int, ...] = ()

    @property
    def writes(self) -> bool:
        """Whether anything happens to the file."""
        return self.action not in (Action.KEEP, Action.REFUSE)

    def diff(self) -> Iterator[str]:
        """Yield a unified diff, lines without their end; ``git apply`` and ``patch`` take it."""
        old, new = (
            (data or b"").decode("utf-8", "replace").split("\n")
            for data in (self.before, self.after)
        )
        source = "/dev/null" if self.before is None else f"a/{self.path}"
        target = "/dev/null" if self.after is None else f"b/{self.path}"
        lines = difflib.unified_diff(
            list(_ended(old)), list(_ended(new)), source, target, lineterm=""
        )
        for line in lines:
            yield from line.removesuffix("\n").split("\n")


def _ended(pieces: list[str]) -> Iterator[str]:
    """Yield the lines; a last one that nothing ends is marked as in every unified diff."""
    yield from pieces[:-1]
    if pieces[-1]:
        yield f"{pieces[-1]}\n\\ No newline at end of file"
