"""Projects with a rendered harness in them, made by devicegen's own rendering."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from devicegen.decisions import Decisions
from devicegen.rendering import render_conftest, render_main
from kit.trees import write_tree

VERSION = "0.0.0"  # in the header of what is rendered here, so that a release changes no text
USUAL = Decisions(
    conftest="conftest.py",
    registry=None,
    logical_device_api="stable",
    xdist=True,
    memory_limit_mb=None,
    rocm=False,
    listed=(),
)
# What each decision that rendering reads can be; the usual answer first.
ANSWERS: dict[str, tuple[Any, ...]] = {
    "xdist": (True, False),
    "logical_device_api": ("stable", "experimental"),
    "memory_limit_mb": (None, 2048),
    "rocm": (False, True),
    "main": (None, "pytest_main.py"),
}
# The usual harness, and it with one decision changed: these have golden files.
VARIANTS: dict[str, dict[str, Any]] = {
    "usual": {},
    "without_xdist": {"xdist": False},
    "experimental_api": {"logical_device_api": "experimental"},
    "memory_limit": {"memory_limit_mb": 2048},
    "rocm": {"rocm": True},
    "bazel": {"main": "pytest_main.py"},
}
# Every combination of answers: these are linted, type-checked and counted.
COMBINATIONS: dict[str, dict[str, Any]] = {
    "-".join(map(str, answers)): dict(zip(ANSWERS, answers, strict=True))
    for answers in itertools.product(*ANSWERS.values())
}


def render_harness(decisions: Decisions = USUAL, /, **overrides: Any) -> str:
    """Return the text of the harness for ``decisions``, with fields of it overridden."""
    return render_conftest(replace(decisions, **overrides), VERSION)


def render_bazel_main(path: str = "pytest_main.py") -> str:
    """Return the text of the ``py_test`` main at ``path``."""
    return render_main(replace(USUAL, main=path), VERSION)


def harness_project(
    root: Path,
    files: Mapping[str, str | bytes],
    *,
    harness: str | None = None,
    conftest: str = "conftest.py",
    **overrides: Any,
) -> Path:
    """Write ``files`` and a harness below ``root`` and return ``root``.

    The harness goes to the path ``conftest``. It is the text ``harness``, or else rendered from
    the usual decisions with ``overrides``: ``harness_project(tmp_path, {...}, xdist=False)``.
    A ``pytest.ini`` marks the root, unless ``files`` has one.
    """
    text = render_harness(**overrides) if harness is None else harness
    # As bytes: write_tree would dedent a text that begins with a newline.
    return write_tree(root, {"pytest.ini": "[pytest]\n", **files, conftest: text.encode()})
