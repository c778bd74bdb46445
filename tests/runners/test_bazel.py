"""``bazel test`` with the files that ``devicegen init`` wrote and the text that it printed."""

from __future__ import annotations

import json
import os
import re
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from generator import run
from harness.lease_stress import violations
from kit import environment, write_tree
from kit.bazel import Workspace
from kit.nvidia_smi import StandInNvidiaSmi, cards
from runners.projects import FAKE_TENSORFLOW, GPU_LOG, add_build_texts, initialised

pytestmark = pytest.mark.slow
SIMULATED = "--test_env=PYTEST_GPU_SIMULATE=1"
ALL = ("--keep_going", "--cache_test_results=no")


def verdicts(done: CompletedProcess[str]) -> dict[str, str]:
    """Return target -> "PASSED", "FAILED" or another of Bazel's words."""
    lines = re.findall(r"^//\S*?:(\S+) +(\(cached\) )?([A-Z][A-Z ]+?)(?: in|$)", done.stdout, re.M)
    return {name: word for name, _, word in lines}


def rule(name: str, file: str, *more: str) -> str:
    """Return a ``py_test`` as the printed text shows one."""
    lines = [
        f'name = "{name}"',
        f'srcs = ["{file}", "//protocol/tests:pytest_main.py"]',
        'main = "//protocol/tests:pytest_main.py"',
        f'args = ["$(location {file})"]',
        "legacy_create_init = 0",
        'deps = ["//protocol/tests:conftest", "//protocol:libraries"]',
        *more,
    ]
    return "py_test(\n" + "".join(f"    {line},\n" for line in lines) + ")\n"


PROTOCOL = {
    **FAKE_TENSORFLOW,
    "BUILD": 'py_library(name = "libraries", srcs = ["tensorflow.py"],'
    ' imports = ["."], visibility = ["//visibility:public"])\n',
    "tests/undeclared.py": "",
    "tests/test_shards.py": """
        import os

        import pytest

        @pytest.mark.parametrize("n", range(3))
        def test_cpu(n): pass

        @pytest.mark.run_on(["gpu"])
        @pytest.mark.parametrize("n", range(3))
        def test_gpu(n): pass

        class TestCase:
            def test_method(self): pass

        def test_is_no_shard_for_what_it_starts():
            assert not [name for name in os.environ if name.startswith("TEST_SHARD")]
            assert not {"TEST_TOTAL_SHARDS", "XML_OUTPUT_FILE"} & set(os.environ)
    """,
    "tests/test_one.py": """
        def test_one(): pass
    """,
    "tests/test_folders.py": """
        import os
        import pathlib
        import sys

        import pytest

        RUNFILES = pathlib.Path(os.environ["RUNFILES_DIR"])

        def test_temporary(tmp_path, tmp_path_factory):
            scratch = os.environ["TEST_TMPDIR"]
            assert str(tmp_path).startswith(scratch)

        def test_cache(cache, pytestconfig):
            cache.set("a/b", 1)
            assert str(cache.mkdir("made")).startswith(os.environ["TEST_TMPDIR"])
            assert pytestconfig.rootpath == pathlib.Path(__file__).parents[1]

        def test_undeclared_files_are_not_there():
            with pytest.raises(ImportError):
                import undeclared

        def test_wait_is_within_the_timeout():
            assert os.environ["PYTEST_GPU_WAIT"] == str(int(os.environ["TEST_TIMEOUT"]) // 2)

        def test_nothing_is_written_to_runfiles():
            made = [*RUNFILES.rglob("__pycache__"), *RUNFILES.rglob(".pytest_cache")]
            assert not made
            assert not list(RUNFILES.rglob("*.pyc"))
    """,
    "tests/test_workers.py": """
        import os

        import pytest

        @pytest.mark.run_on(["gpu"])
        def test_worker():
            assert os.environ["PYTEST_XDIST_WORKER"]
    """,
    "tests/BUILD": "".join(
        [
            rule("test_shards", "test_shards.py", "shard_count = 3"),
            rule("test_more_shards_than_tests", "test_one.py", "shard_count = 3"),
            rule("test_folders", "test_folders.py"),
            rule("test_workers", "test_workers.py", "shard_count = 2").replace(
                '.py)"]', '.py)", "-n1"]'
            ),
        ]
    ),
}


@pytest.fixture(scope="module")
def protocol(bazel: Workspace) -> CompletedProcess[str]:
    """Return a run of all targets of the project below; it is in a subfolder of the workspace."""
    top = bazel.top / "protocol"
    add_build_texts(top, initialised(top, PROTOCOL))
    diary = bazel.folder / "diary"
    diary.mkdir()
    return bazel.test(
        environment("pytest-9"), "//protocol/...", *ALL, SIMULATED,
        f"--test_env=DIARY={diary}/diary.jsonl", f"--sandbox_writable_path={diary}",
    )  # fmt: skip


def reports(bazel: Workspace, target: str) -> list[dict[tuple[str, str], dict[str, str]]]:
    """Return of each of its shards (class, name) -> properties of the test case."""
    folder = bazel.logs("protocol/tests", target)
    return [
        {
            (case.get("classname", ""), case.get("name", "")): {
                each.get("name", ""): each.get("value", "") for each in case.iter("property")
            }
            for case in ET.parse(file).iter("testcase")
        }
        for file in sorted(folder.rglob("test.xml"))
    ]


def test_verdicts(protocol: CompletedProcess[str]) -> None:
    """A shard without a test is a success, with workers and without."""
    assert verdicts(protocol) == {
        "test_shards": "PASSED",
        "test_more_shards_than_tests": "PASSED",
        "test_folders": "PASSED",
        "test_workers": "PASSED",
    }, protocol.stdout + protocol.stderr


def test_each_item_is_in_one_shard(bazel: Workspace, protocol: CompletedProcess[str]) -> None:
    """And the GPU items are spread; XML says the device of each."""
    shards = reports(bazel, "test_shards")
    cases = [case for shard in shards for case in shard]
    devices = [sorted(each["device"] for each in shard.values()) for shard in shards]

    assert len(shards) == 3
    assert len(cases) == len(set(cases)) == 8, cases
    assert devices == [["cpu", "cpu", "gpu"], ["cpu", "cpu", "gpu"], ["cpu", "gpu"]]
    assert {each["gpu"] for shard in shards for each in shard.values()} == {"simulated-0"}
    assert [len(shard) for shard in reports(bazel, "test_more_shards_than_tests")] == [1, 0, 0]


def test_filter(bazel: Workspace, protocol: None) -> None:
    """``--test_filter`` takes a node id, as pytest prints it; more in ``test_bazel_main.py``."""
    done = bazel.test(
        environment("pytest-9"), "//protocol/tests:test_shards", *ALL, SIMULATED,
        "--test_filter=tests/test_shards.py::test_gpu[gpu-1]", "--test_env=DIARY=/dev/null",
        "--test_sharding_strategy=disabled",
    )  # fmt: skip
    report = bazel.logs("protocol/tests", "test_shards") / "test.xml"

    assert done.returncode == 0, done.stdout
    assert [case.get("name") for case in ET.parse(report).iter("testcase")] == ["test_gpu[gpu-1]"]


def test_folders_without_a_sandbox(bazel: Workspace, protocol: None) -> None:
    """There runfiles are the ones that stay, and lie below links to the sources."""
    done = bazel.test(
        environment("pytest-9"), "//protocol/tests:test_folders", *ALL, SIMULATED,
        "--spawn_strategy=local", "--test_env=DIARY=/dev/null",
    )  # fmt: skip

    assert verdicts(done) == {"test_folders": "PASSED"}, done.stdout


def test_filter_that_selects_nothing(bazel: Workspace, protocol: None) -> None:
    """A typo is no success, in shards neither."""
    done = bazel.test(
        environment("pytest-9"), "//protocol/tests:test_shards", *ALL, SIMULATED,
        "--test_filter=tset_gpu", "--test_env=DIARY=/dev/null",
    )  # fmt: skip

    assert verdicts(done) == {"test_shards": "FAILED"}, done.stdout


# ---- Leases -----------------------------------------------------------------------------------

LEASES = {
    **FAKE_TENSORFLOW,
    **GPU_LOG,
    "BUILD": 'py_library(name = "libraries", srcs = ["tensorflow.py", "gpu_log.py"],'
    ' imports = ["."], visibility = ["//visibility:public"])\n',
    **{
        f"tests/test_{name}.py": f"""
            import pathlib
            import time

            import pytest
            from gpu_log import on_card

            @pytest.mark.run_on(["gpu"])
            @pytest.mark.parametrize("n", range(4))
            def test_gpu(n):
                with on_card("{name}-" + str(n)):
                    time.sleep(0.3)

            def test_tmp_is_its_own():
                made = pathlib.Path("/tmp/seen-by-one")
                assert not made.exists()
                made.touch()
        """
        for name in ("a", "b")
    },
    "tests/BUILD": "".join(
        rule(f"test_{name}", f"test_{name}.py", "shard_count = 2", 'tags = ["resources:gpu:1"]')
        for name in ("a", "b")
    ).replace("//protocol", "//leases"),
}


def test_leases_across_targets_and_shards(bazel: Workspace) -> None:
    """Each process has a ``/tmp`` of its own; the leases are in ``/dev/shm``, as by default."""
    python = environment("pytest-9")
    if python.is_relative_to("/tmp"):
        pytest.skip(
            "this checkout's interpreters are in /tmp, of which each test has its own here"
        )
    top = bazel.top / "leases"
    add_build_texts(top, initialised(top, LEASES))
    scratch = bazel.folder / "cards"
    mark = f"{os.getpid() % 65536:04x}"  # no other run on this machine has such cards
    uuids = [card["uuid"][:-4] + mark for card in cards(2)]
    smi = StandInNvidiaSmi(
        scratch, [{**c, "uuid": u} for c, u in zip(cards(2), uuids, strict=True)]
    )
    options = [
        "//leases/...", *ALL, "--local_test_jobs=4", "--jobs=4",
        "--sandbox_tmpfs_path=/tmp", f"--sandbox_writable_path={scratch}",
        f"--test_env=DIARY={scratch}/diary.jsonl", f"--test_env=GPU_LOG={scratch}/gpu.jsonl",
        "--test_env=PYTEST_GPU_REQUIRE=1", "--test_env=PATH",
    ]  # fmt: skip
    try:
        done = bazel.test(python, *options, path=smi.folder)
        log = [json.loads(line) for line in (scratch / "gpu.jsonl").read_text().splitlines()]
    finally:
        for entry in Path("/dev/shm").glob(f"pytest-gpu-*{mark}.*"):
            shutil.rmtree(entry)

    assert done.returncode == 0, done.stdout + done.stderr
    assert len({entry["test"] for entry in log}) == 8, log
    assert {entry["card"] for entry in log} <= set(uuids), log
    # Each sandbox counts pids from 1, so a test stands for its process.
    assert not list(violations([{**entry, "pid": entry["test"]} for entry in log], {})), log


# ---- A project that pytest has never run ------------------------------------------------------

ALONE = {
    **FAKE_TENSORFLOW,
    "BUILD": 'py_library(name = "libraries", srcs = ["tensorflow.py"],'
    ' imports = ["."], visibility = ["//visibility:public"])\n',
    "tests/add_test.py": """
        import os
        import unittest

        import tensorflow as tf

        class AddTest(unittest.TestCase):
            def test_add(self): self.assertEqual(1 + 1, 2)

            def test_is_run_by_pytest(self): self.assertIn("PYTEST_CURRENT_TEST", os.environ)

        if __name__ == "__main__":
            unittest.main()
    """,
    "tests/BUILD": """
        py_test(
            name = "as_before",
            srcs = ["add_test.py"],
            main = "add_test.py",
            deps = ["//alone:libraries"],
        )
    """,
}


def test_a_project_that_only_bazel_runs(bazel: Workspace) -> None:
    """``--bazel`` is asked for; the harness and its main go where ``--conftest`` says."""
    top = write_tree(bazel.top / "alone", ALONE)
    assert run("init", top).code == 2
    done = run("init", top, "--bazel", "--conftest", "tests/conftest.py")
    assert done.code == 0, done
    add_build_texts(top, done.stdout)
    (_, _, text) = done.stdout.partition("# In each py_test")
    rule = text[text.index("py_test(") : text.index("\n)\n") + 3]
    (top / "tests/BUILD").write_text(
        (top / "tests/BUILD").read_text()
        + rule.replace('//alone/tests:conftest"]', '//alone/tests:conftest", "//alone:libraries"]')
    )
    tested = bazel.test(
        environment("pytest-9"), "//alone/...", *ALL, SIMULATED, "--test_env=DIARY=/dev/null"
    )
    cases = ET.parse(bazel.logs("alone/tests", "add_test") / "test.xml").iter("testcase")

    # Without pytest one of the two tests fails: so the rule above is not the one that passes.
    assert verdicts(tested) == {"as_before": "FAILED", "add_test": "PASSED"}, tested.stdout
    for case in cases:
        assert {each.get("name"): each.get("value") for each in case.iter("property")} == {
            "device": "cpu", "gpu": "simulated-0"
        }  # fmt: skip
