"""What a project should know when the harness that it gets is newer; shown by ``upgrade``.

A note belongs to the version that brings the change. It says what its reader has to look at or
to do; what needs nothing of him is in CHANGELOG.md only.
"""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import Version

# Nothing was released before 0.1.0. CONTRIBUTING.md says how a template is released.
NOTES: tuple[tuple[str, str], ...] = ()


def notes_since(old: str, new: str) -> Iterator[tuple[str, str]]:
    """Yield version and note of each change after ``old``, up to and with ``new``."""
    for version, note in NOTES:
        if Version(old) < Version(version) <= Version(new):
            yield version, note
