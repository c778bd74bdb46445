"""``tox -p``: environments that run at the same time share the machine's cards by lease."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from devicegen.facts.source_tree import SourceTree
from devicegen.facts.tox_environments import tox_gaps
from devicegen.facts.tox_files import read_tox_file
from facts.tox_cases import add_lines
from harness.lease_stress import violations
from kit import environment
from kit.nvidia_smi import StandInNvidiaSmi, cards
from kit.processes import run_process
from runners.projects import FAKE_TENSORFLOW, GPU_LOG, initialised

pytestmark = pytest.mark.slow
PROJECT = {
    **FAKE_TENSORFLOW,
    **GPU_LOG,
    "tox.ini": """
        [tox]
        skipsdist = true
        envlist = a,b,c

        [testenv]
        skip_install = true
        allowlist_externals = *
        set_env =
            PYTHONPATH = {tox_root}
        pass_env =
            DIARY
            GPU_LOG
            PATH
            SUITE_PYTHON
        commands = {env:SUITE_PYTHON} -m pytest -n2 --gpu-require=1
    """,
    "tests/test_gpu.py": """
        import os
        import time

        import pytest
        from gpu_log import on_card

        @pytest.mark.run_on(["gpu"])
        @pytest.mark.parametrize("n", range(6))
        def test_gpu(n):
            with on_card(f"{os.environ['TOX_ENV_NAME']}-{n}"):
                time.sleep(0.2)
    """,
}


def test_no_card_is_shared_and_each_environment_completes(tmp_path: Path) -> None:
    """Three environments, two cards of three: the mask gets through, and bounds them."""
    top = tmp_path / "project"
    initialised(top, PROJECT)
    add_lines(top, tox_gaps(read_tox_file(SourceTree.list(top))))
    smi = StandInNvidiaSmi(tmp_path / "bin", cards(3))
    log = tmp_path / "gpu.jsonl"
    done = run_process(
        [environment("runners"), "-m", "tox", "-p", "all", "--parallel-no-spinner"], top,
        env={
            "PATH": f"{smi.folder}:/usr/bin:/bin", "SUITE_PYTHON": str(environment("pytest-9")),
            "GPU_LOG": str(log), "DIARY": "/dev/null", "CUDA_VISIBLE_DEVICES": "0,1",
            "PYTEST_GPU_LOCK_DIR": str(tmp_path / "leases"),
        },
    )  # fmt: skip
    entries = [json.loads(line) for line in log.read_text("utf-8").splitlines()]

    assert done.returncode == 0, done.stdout + done.stderr
    assert {entry["test"] for entry in entries} == {f"{e}-{n}" for e in "abc" for n in range(6)}
    assert {entry["card"] for entry in entries} <= {"0", "1"}
    assert not list(violations(entries, {})), entries
