"""Bazel's sharding protocol, as the harness keeps it; ``tests/runners`` runs the real Bazel.

As in ``behaviours.py`` each takes the text of a harness, of the variant ``bazel``, and an
interpreter.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from harness.behaviours import FAKE_TENSORFLOW, MARKED, ONE_TEST, HarnessRun, run_harness

SHUFFLED = {
    "test_shuffled.py": """
        import pytest

        @pytest.mark.parametrize("n", range(12))
        def test_it(n): pass
    """,
    "shuffle.py": """
        import os
        import random

        def pytest_collection_modifyitems(items):
            random.Random(os.environ["SEED"]).shuffle(items)
    """,
}


def shard(harness: str, python: Path, files: Any, index: object, total: object, *args: str,
          env: dict[str, str] | None = None, **more: Any) -> HarnessRun:  # fmt: skip
    variables = {"TEST_SHARD_INDEX": str(index), "TEST_TOTAL_SHARDS": str(total), **(env or {})}
    return run_harness(harness, python, files, *args, env=variables, **more)


def each_item_is_in_one_shard(harness: str, python: Path) -> None:
    """In the order in which it would run without shards."""
    whole = run_harness(harness, python, MARKED)
    shards = [shard(harness, python, MARKED, index, 3) for index in range(3)]
    count = Counter(nodeid for run in shards for nodeid in run.outcomes)

    assert count == Counter(list(whole.outcomes))
    for run in shards:
        assert list(run.outcomes) == [i for i in whole.outcomes if i in run.outcomes], run
        assert f"{len(whole.outcomes) - len(run.outcomes)} deselected" in run.pytest.stdout


def gpu_items_are_spread_over_the_shards(harness: str, python: Path) -> None:
    """And those that handle devices themselves, for they may use one."""
    files = {
        "test_spread.py": """
            import pytest
            run_on = pytest.mark.run_on

            @run_on(["cpu", "gpu", "distributed"])
            @pytest.mark.parametrize("n", range(2))
            def test_it(n): pass

            @pytest.mark.no_device_scope
            @pytest.mark.parametrize("n", range(2))
            def test_free(n): pass
        """
    }
    for index in range(3):
        run = shard(harness, python, files, index, 3)
        kinds = [dict(report.properties)["device"] for report in run.pytest.reports
                 if report.when == "setup"]  # fmt: skip
        assert len(kinds) - kinds.count("cpu") == 2, run


def an_empty_shard_succeeds(harness: str, python: Path) -> None:
    for args in ([], ["-n1"]):
        runs = [
            shard(harness, python, ONE_TEST, index, 2, *args, exit_codes=(0, 5))
            for index in (0, 1)
        ]
        assert [run.pytest.returncode for run in runs] == [0, 0], runs[1]
        assert [len(run.outcomes) for run in runs] == [1, 0]


def an_empty_selection_does_not(harness: str, python: Path) -> None:
    """With a typo in an expression nothing is tested in any shard; without shards neither."""
    run = shard(harness, python, ONE_TEST, 0, 2, "-k", "tset", exit_codes=(0, 5))
    assert run.pytest.returncode == 5, run
    run = run_harness(harness, python, ONE_TEST, "-k", "tset", exit_codes=(0, 5))
    assert run.pytest.returncode == 5, run


def a_shard_that_does_not_exist_is_said(harness: str, python: Path) -> None:
    for index, total in ((2, 2), ("", 2), ("-1", 2)):
        run = shard(harness, python, ONE_TEST, index, total, exit_codes=(0, 3, 4))
        assert run.pytest.returncode == 4, run
        assert f"ERROR: no shard: TEST_SHARD_INDEX='{index}' of '{total}'" in run.pytest.stderr
    run = shard(
        harness, python, ONE_TEST, "", 0, exit_codes=(0, 4)
    )  # as Bazel says that there are none
    assert len(run.outcomes) == 1, run


def the_status_file_is_touched(harness: str, python: Path) -> None:
    """In shards only: it says that they are honoured."""
    with tempfile.TemporaryDirectory() as folder:
        for name, total in (("sharded", "2"), ("whole", "")):
            file = Path(folder, name)
            status = {"TEST_SHARD_STATUS_FILE": str(file)}
            shard(harness, python, ONE_TEST, 0, total, env=status)
            assert file.exists() == (name == "sharded")


def a_random_order_loses_no_test(harness: str, python: Path) -> None:
    """A plugin's seed may differ from shard to shard."""
    count: Counter[str] = Counter()
    for index in range(3):
        run = shard(
            harness, python, SHUFFLED, index, 3, "-p", "shuffle", env={"SEED": f"seed {index}"}
        )
        count.update(list(run.outcomes))

    assert count == Counter({f"test_shuffled.py::test_it[{n}]": 1 for n in range(12)})


def a_run_inside_a_test_is_no_shard(harness: str, python: Path) -> None:
    files = {
        **FAKE_TENSORFLOW,
        "inner/test_inner.py": "def test_one(): pass\ndef test_two(): pass\n",
        "test_outer.py": """
            import subprocess
            import sys

            import pytest

            @pytest.mark.no_device_scope
            @pytest.mark.parametrize("simulate", ["0", "1"])
            def test_outer(simulate):
                command = [sys.executable, "-m", "pytest", f"--gpu-simulate={simulate}", "inner"]
                done = subprocess.run(command, capture_output=True, text=True)
                assert "2 passed" in done.stdout
        """,
    }
    for args in ([], ["-n1"]):
        run = shard(harness, python, files, 0, 2, "test_outer.py", *args)
        assert run.outcomes == {"test_outer.py::test_outer[0]": "passed"}, run


BAZEL = (
    each_item_is_in_one_shard,
    gpu_items_are_spread_over_the_shards,
    an_empty_shard_succeeds,
    an_empty_selection_does_not,
    a_shard_that_does_not_exist_is_said,
    the_status_file_is_touched,
    a_random_order_loses_no_test,
    a_run_inside_a_test_is_no_shard,
)
