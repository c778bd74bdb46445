"""Projects with a rendered harness in them, made by devicegen's own rendering."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from devicegen.decisions import Decisions
from devicegen.harness_names import HarnessNames
from devicegen.marker_aliases import MarkerAlias
from devicegen.rendering import render_conftest, render_main
from kit.trees import write_tree

VERSION = "0.0.0"  # in the header of what is rendered here, so that a release changes no text
USUAL = Decisions(
    conftest="conftest.py",
    registry=None,
    logical_device_api="stable",
    xdist=True,
    durations_history=False,
    memory_limit_mb=None,
    rocm=False,
    strategies=(),
    aliases=(),
    seeds=True,
    names=HarnessNames(),
    listed=(),
)
# What each decision that rendering reads can be; the usual answer first.
ANSWERS: dict[str, tuple[Any, ...]] = {
    "xdist": (True, False),
    "durations_history": (False, True),
    "logical_device_api": ("stable", "experimental"),
    "memory_limit_mb": (None, 2048),
    "rocm": (False, True),
    "split": (True, False),
    "strategies": ((), ("one_device", "central_storage")),
    "aliases": ((), (MarkerAlias("needs_gpu", ("gpu",)), MarkerAlias("with_device", ()))),
    "seeds": (True, False),
    "names": (
        HarnessNames(),
        HarnessNames("marked_scope", "dev", "on_dev", "in_no_dev_scope", "on_"),
    ),
    "main": (None, "pytest_main.py"),
}
# The usual harness, and it with one decision changed: these have golden files.
VARIANTS: dict[str, dict[str, Any]] = {
    "usual": {},
    "without_xdist": {"xdist": False},
    "durations_history": {"durations_history": True},
    "experimental_api": {"logical_device_api": "experimental"},
    "memory_limit": {"memory_limit_mb": 2048},
    "rocm": {"rocm": True},
    "without_split": {"split": False},
    "strategies": {"strategies": ("one_device", "central_storage")},
    "aliases": {"aliases": ANSWERS["aliases"][1]},
    "without_seeds": {"seeds": False},
    "other_names": {"names": ANSWERS["names"][1]},
    "bazel": {"main": "pytest_main.py"},
}
# What combines: these are linted, type-checked and counted. Every combination of the first four,
# and what the others add, which does not depend on those, to the usual and to the least usual one.
FIRST = ("xdist", "logical_device_api", "memory_limit_mb", "rocm")
COMBINATIONS: dict[str, dict[str, Any]] = {
    "-".join(map(str, answers)): dict(zip(FIRST, answers, strict=True))
    for answers in itertools.product(*(ANSWERS[name] for name in FIRST))
}
OTHERS: dict[str, Any] = {name: ANSWERS[name][-1] for name in ANSWERS if name not in FIRST}
for first in [*COMBINATIONS][:: len(COMBINATIONS) - 1]:
    COMBINATIONS[f"{first}-others"] = {**COMBINATIONS[first], **OTHERS}


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
