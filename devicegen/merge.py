"""The three-way merge of a harness, as one pure function of three texts.

``base`` is what devicegen wrote, ``theirs`` what the file holds now, ``new`` what devicegen
writes today. The policy, in words:

- Code is compared, not layout. What a formatter or an import sorter did is no edit: a statement
  of ``theirs`` that says what the one of ``base`` says counts as unedited.
- Where only devicegen changed something, the new text is taken. Where only the user did, theirs
  is kept: what was added, and what was taken out. Where both made the same change, it is taken.
- Where both only added imports, all of them are taken: their order says nothing.
- Where both changed the same place in different ways, or with no unchanged line between their
  changes, that place is a conflict that shows both. Nothing is chosen for the user.
- So each line that the user added is in the result, in its place or in a conflict.
- The result of a merge without conflict is Python where both sides are. Where a merge by lines
  is not, whole statements of the top level are merged.

The layout of the result is that of the new text, and the project's formatter may have to run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import accumulate, chain
from typing import NamedTuple, TypeVar

from devicegen.python_code import is_python, meaning_of, says_the_same
from devicegen.python_layout import laid_out_as, lines_of, top_level_statements

T = TypeVar("T")

START, MIDDLE, END = "<<<<<<<", "=======", ">>>>>>>"
_MARKER = re.compile(rf"({START} |{MIDDLE}$|{END} )")


class Span(NamedTuple):
    """Lines ``start`` up to and without ``stop``, counted from 0."""

    start: int
    stop: int

    def of(self, pieces: Sequence[T]) -> list[T]:
        """Return those of ``pieces``."""
        return list(pieces[self.start : self.stop])


class Chunk(NamedTuple):
    """What stands at the same place in ``base``, ``theirs`` and ``new``."""

    base: Span
    theirs: Span
    new: Span


class Conflict(NamedTuple):
    """A place that both changed: its line in the merged text, from 1, and where it is in two."""

    line: int
    base: Span
    new: Span


@dataclass(frozen=True)
class Merged:
    r"""The result of a merge, with ``\n`` line endings.

    ``is_laid_out_anew`` tells that ``theirs`` was formatted, and that its layout went.
    """

    text: str
    conflicts: tuple[Conflict, ...] = ()
    is_laid_out_anew: bool = False


def merge(base: str, theirs: str, new: str, labels: tuple[str, str] = ("theirs", "new")) -> Merged:
    """Merge what changed from ``base`` to ``new`` into ``theirs``; see the module's policy.

    ``labels`` name the two sides of a conflict.
    """
    base, theirs, new = (_plain(text) for text in (base, theirs, new))
    if says_the_same(theirs, new):
        return Merged(theirs)
    if says_the_same(theirs, base):
        return Merged(new, is_laid_out_anew=theirs != base)
    if says_the_same(base, new):
        return Merged(theirs)
    unformatted = laid_out_as(theirs, base, new)
    merged = merge_lines(base, unformatted, new, labels)
    both_are_python = is_python(theirs) and is_python(new)
    if both_are_python and not merged.conflicts and not is_python(merged.text):
        statements = (top_level_statements(text) for text in (base, unformatted, new))
        merged = _merge(*statements, labels=labels)
    return replace(merged, is_laid_out_anew=unformatted != theirs)


def merge_lines(
    base: str, theirs: str, new: str, labels: tuple[str, str] = ("theirs", "new")
) -> Merged:
    """Merge by lines alone, whatever the texts are."""
    sides = ([[line] for line in lines_of(text)] for text in (base, theirs, new))
    return _merge(*sides, labels=labels)


def conflict_lines(text: str) -> list[int]:
    """Return the lines, from 1, on which a conflict begins that somebody has still to resolve.

    A conflict is a line with each of the three markers, in their order. No parser is asked: one
    in a string breaks nothing and is a conflict all the same.
    """
    found: list[int] = []
    open_at, has_middle = 0, False
    for number, line in enumerate(lines_of(text), start=1):
        match = _MARKER.match(line.rstrip("\r\n"))
        if match is None:
            continue
        marker = match[1].strip()
        if marker == START:
            open_at, has_middle = number, False
        elif marker == MIDDLE:
            has_middle = open_at > 0
        elif open_at and has_middle:
            found.append(open_at)
            open_at, has_middle = 0, False
    return found


def has_come(base: str, current: str, new: str, conflicts: Sequence[tuple[Span, Span]]) -> bool:
    """Tell whether ``current`` holds what a merge of ``new`` brought, its conflicts aside.

    ``conflicts`` are their places in ``base`` and in ``new``, where the user had the choice. Of
    all other lines that came or went, most must have. It is False for a file that was put back
    to what it was before that merge.
    """
    base, current, new = (_plain(text) for text in (base, current, new))
    old = _counted(base, [place for place, _ in conflicts])
    newest = _counted(new, [place for _, place in conflicts])
    now = _counted(laid_out_as(current, new, base), [])
    came, went = newest - old, old - newest
    done = (came & (now - old)).total() + (went & (old - now)).total()
    return 2 * done >= came.total() + went.total()


def _counted(text: str, without: Sequence[Span]) -> Counter[str]:
    left_out = {number for span in without for number in range(span.start, span.stop)}
    lines = (line for number, line in enumerate(lines_of(text)) if number not in left_out)
    return Counter(line for line in lines if line.strip())


def likeness(base: str, theirs: str) -> float:
    """Return how much of ``base`` is in ``theirs``, from 0 to 1: the share of its lines of code.

    Indentation, blank lines and a formatter's layout do not count.
    """
    kept = [line.strip() for line in lines_of(_plain(base)) if line.strip()]
    there = {line.strip() for line in lines_of(laid_out_as(_plain(theirs), _plain(base)))}
    return sum(line in there for line in kept) / len(kept) if kept else 0.0


def _plain(text: str) -> str:
    r"""Return ``text`` with ``\n`` line endings and a final one."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text if not text or text.endswith("\n") else f"{text}\n"


# Pieces of a text: a line, or the lines of one statement, each as a list of lines

Pieces = Sequence[list[str]]


def _merge(base: Pieces, theirs: Pieces, new: Pieces, *, labels: tuple[str, str]) -> Merged:
    out: list[str] = []
    conflicts = []
    offsets, new_offsets = (
        list(accumulate((len(piece) for piece in side), initial=0)) for side in (base, new)
    )
    for chunk in chunks(*(["".join(piece) for piece in side] for side in (base, theirs, new))):
        old, their, our = chunk.base.of(base), chunk.theirs.of(theirs), chunk.new.of(new)
        if our in (their, old):
            out += chain(*their)
        elif their == old:
            out += chain(*our)
        elif not old and _are_imports(their) and _are_imports(our):
            out += chain(*their, *(piece for piece in our if piece not in their))
        else:
            before, left, right, after = _trimmed(list(chain(*their)), list(chain(*our)))
            out += before
            place = Span(offsets[chunk.base.start], offsets[chunk.base.stop])
            new_place = Span(new_offsets[chunk.new.start], new_offsets[chunk.new.stop])
            conflicts.append(Conflict(len(out) + 1, place, new_place))
            out += [f"{START} {labels[0]}\n", *left, f"{MIDDLE}\n", *right, f"{END} {labels[1]}\n"]
            out += after
    return Merged("".join(out), tuple(conflicts))


def _are_imports(pieces: Pieces) -> bool:
    """Tell whether these are imports of the top level, each on a line, and nothing else."""
    return all(
        re.match(r"(import|from)[ ]", "".join(piece)) and meaning_of("".join(piece).strip())[1]
        for piece in pieces
    )


def _trimmed(left: list[str], right: list[str]) -> tuple[list[str], ...]:
    """Return what two sides begin with alike, the rest of each, and what they end with alike."""
    most = min(len(left), len(right))
    first = next((n for n in range(most) if left[n] != right[n]), most)
    most -= first
    last = next((n for n in range(most) if left[-1 - n] != right[-1 - n]), most)
    middle = slice(first, -last or None)
    return left[:first], left[middle], right[middle], left[len(left) - last :]


def chunks(base: Sequence[str], theirs: Sequence[str], new: Sequence[str]) -> Iterator[Chunk]:
    """Yield the whole of three sequences in order, cut where all three begin or cease to agree.

    This is diff3: Khanna, Kunal, Pierce: A Formal Investigation of Diff3 (FSTTCS 2007).
    """
    to_theirs, to_new = _matches(base, theirs), _matches(base, new)
    stable = [(at, to_theirs[at], to_new[at]) for at in to_theirs if at in to_new]
    end = (len(base), len(theirs), len(new))
    start = done = (0, 0, 0)  # of the chunk, and of what follows its last agreed place
    for place in [*stable, end]:
        if place != done or place == end:
            if done != start:
                yield _chunk(start, done)
            if place != done:
                yield _chunk(done, place)
            start = place
        done = (place[0] + 1, place[1] + 1, place[2] + 1)


def _chunk(start: tuple[int, int, int], stop: tuple[int, int, int]) -> Chunk:
    return Chunk(*(Span(first, last) for first, last in zip(start, stop, strict=True)))


def _matches(base: Sequence[str], other: Sequence[str]) -> dict[int, int]:
    """Return which place of ``base`` stands where in ``other``, in order."""
    # A blank line begins no match: that would tie unlike places together.
    matcher = SequenceMatcher(lambda piece: not piece.strip(), base, other, autojunk=False)
    return {
        block.a + n: block.b + n
        for block in matcher.get_matching_blocks()
        for n in range(block.size)
    }
