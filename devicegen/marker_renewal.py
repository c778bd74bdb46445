"""Renews marker lines that an older devicegen added to the pytest configuration."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from devicegen.conftest_block import PREFIX
from devicegen.facts.pytest_config import PytestConfig, marker_name, registered_markers
from devicegen.marker_registry import changes_markers_only
from devicegen.python_code import NOT_PYTHON
from devicegen.templates_folder import toml_string


def markers_of(harness: str) -> tuple[str, ...]:
    """Return the marker lines that a harness registers, as its ``MARKERS`` has them.

    In a block the name may be another, where the project has one of its own.
    """
    try:
        for node in ast.parse(harness).body:
            if isinstance(node, ast.Assign) and _is_markers(ast.unparse(node.targets[0])):
                return tuple(str(line) for line in ast.literal_eval(node.value))
    except NOT_PYTHON:
        pass
    return ()


def _is_markers(name: str) -> bool:
    return re.fullmatch(rf"({PREFIX.upper()}_)?MARKERS_*", name) is not None


def renew_markers(
    text: str, config: PytestConfig, earlier: Sequence[str], lines: Sequence[str]
) -> str:
    """Return ``text`` with each of the ``earlier`` lines as it is in ``lines`` now, by its name.

    ``text`` is the file of ``config``. A line that the user changed, one that stands there twice,
    and one whose marker is in ``lines`` no more, stay as they are; so does all else.
    """
    newest = {marker_name(line): line for line in lines}
    for old in earlier:
        new = newest.get(marker_name(old), old)
        if new != old:
            text = _renewed(text, config, old, new)
    return text


def _renewed(text: str, config: PytestConfig, old: str, new: str) -> str:
    try:
        before = registered_markers(text, config)
    except ValueError:
        return text
    after = [new if line == old else line for line in before]
    for written, wanted in _spellings(config, old, new):
        changed = text.replace(written, wanted)
        is_found_once = before.count(old) == 1 and text.count(written) == 1
        if is_found_once and changes_markers_only(text, changed, config, after):
            return changed
    return text


def _spellings(config: PytestConfig, old: str, new: str) -> Iterator[tuple[str, str]]:
    if config.syntax == "toml":
        for quote in ('"', "'"):
            yield toml_string(old, quote), toml_string(new, quote)
    yield old, new
