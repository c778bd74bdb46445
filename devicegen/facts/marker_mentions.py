"""Which markers are used or registered anywhere in the repository."""

from __future__ import annotations

import re
from collections.abc import Iterable

from devicegen.facts.conftests import owners_data
from devicegen.facts.pytest_config import PytestConfig, marker_name
from devicegen.facts.source_tree import SourceTree


def unknown_markers(
    tree: SourceTree, config: PytestConfig, names: Iterable[str]
) -> tuple[str, ...]:
    """Return those of ``names`` that no Python file and no configuration has, sorted.

    A file has one as ``mark.name`` or as the first word of a string; ours are none of these.
    """
    left = set(names) - {marker_name(line) for line in config.markers}
    for path in tree.python_files() if left else ():
        data = owners_data(tree.data(path) or b"")
        left -= {name for name in left if _mention(name).search(data)}
        if not left:
            break
    return tuple(sorted(left))


def _mention(name: str) -> re.Pattern[bytes]:
    word = re.escape(name.encode())
    return re.compile(rb"(?i:mark)\w*\s*\.\s*" + word + rb"\b|[\"']" + word + rb"\b")
