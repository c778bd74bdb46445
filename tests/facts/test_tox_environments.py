"""Which variables tox does not pass to pytest, and the lines that mend it."""

from __future__ import annotations

from pathlib import Path

import pytest

from devicegen.facts.source_tree import SourceTree
from devicegen.facts.tox_environments import NEEDED, ToxGap, tox_gaps
from devicegen.facts.tox_files import read_tox_file
from facts.tox_cases import CASES, Case, add_lines
from kit import write_tree


def gaps(top: Path) -> tuple[ToxGap, ...]:
    return tox_gaps(read_tox_file(SourceTree.list(top)))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_says_what_is_not_passed_until_it_is(tmp_path: Path, case: Case) -> None:
    write_tree(tmp_path, {case.path: case.text.encode()})
    found = gaps(tmp_path)
    lacks = {name: missing for name, missing in case.lacks.items() if missing}
    named = [name for gap in found for name in gap.environments]
    assert {gap.where.path for gap in found} <= {case.path}
    add_lines(tmp_path, found)

    assert sorted(named) == sorted(lacks)
    for gap in found:
        missing = set().union(*(lacks[name] for name in gap.environments))
        assert gap.missing == tuple(needed for needed in NEEDED if needed in missing)
    assert gaps(tmp_path) == (), (tmp_path / case.path).read_text("utf-8")


def test_says_it_in_words(tmp_path: Path) -> None:
    text = "[tox]\nenvlist = a, b\n\n[testenv]\ncommands = pytest\npassenv =\n    TF_*\n"
    write_tree(tmp_path, {"tox.ini": text})
    (gap,) = gaps(tmp_path)

    assert str(gap) == (
        "tox.ini:6: tox environment a, b runs pytest and does not pass CUDA_DEVICE_ORDER, "
        "CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES, PYTEST_GPU_*, PYTEST_WORKERS_PER_GPU, "
        "ROCR_VISIBLE_DEVICES, XLA_FLAGS; add below `passenv` of [testenv]:"
    )
    assert gap.lines[:2] == ("    CUDA_DEVICE_ORDER", "    CUDA_VISIBLE_DEVICES")


def test_the_first_file_counts(tmp_path: Path) -> None:
    """As for tox: what another one says is not asked."""
    write_tree(tmp_path, {
        "tox.ini": "[tox]\nenvlist = a\n[testenv]\ncommands = pytest\npassenv = *\n",
        "tox.toml": '[env_run_base]\ncommands = [["pytest"]]\n',
    })  # fmt: skip

    assert gaps(tmp_path) == ()


@pytest.mark.parametrize(
    "text",
    [
        "[testenv]\ncommands = {[testenv]commands}\n",
        "[testenv:a]\nbase = testenv:b\n[testenv:b]\nbase = testenv:a\n",
        "[testenv:{a,b]\ncommands = pytest\n[testenv:}{]\n",
        f"[tox]\nenvlist = {'{a,b}' * 40}\n[testenv]\ncommands = pytest\n",
    ],
    ids=["itself", "each other", "braces", "very many"],
)
def test_gets_through_odd_files(tmp_path: Path, text: str) -> None:
    write_tree(tmp_path, {"tox.ini": f"[tox]\n{text}" if "[tox]" not in text else text})

    gaps(tmp_path)
