"""The test kit tells the truth: about outcomes, crashes, repeats, and the environment."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from pathlib import Path

import pytest

from kit import environment, environments, read_tree, run_pytest, write_tree
from kit.processes import LIMIT, run_process

SUITE = {
    "test_all.py": """
        import os
        import pytest

        def test_passes(): pass
        def test_fails(): assert 0, "on purpose"
        def test_skips(): pytest.skip("no reason")

        @pytest.mark.xfail
        def test_xfails(): assert 0

        @pytest.mark.xfail
        def test_xpasses(): pass

        @pytest.fixture
        def broken_setup(): raise ValueError("setup")

        @pytest.fixture
        def broken_teardown():
            yield
            raise ValueError("teardown")

        def test_setup(broken_setup): pass
        def test_teardown(broken_teardown): pass

        @pytest.mark.parametrize("size", [1])
        def test_properties(size, record_property):
            record_property("device", "gpu")
    """,
    "test_unimportable.py": "import nothing_of_that_name\n",
    "pytest.ini": "[pytest]\n",
}
OUTCOMES = {
    "test_all.py::test_passes": "passed",
    "test_all.py::test_fails": "failed",
    "test_all.py::test_skips": "skipped",
    "test_all.py::test_xfails": "xfailed",
    "test_all.py::test_xpasses": "xpassed",
    "test_all.py::test_setup": "error",
    "test_all.py::test_teardown": "error",
    "test_all.py::test_properties[1]": "passed",
    "test_unimportable.py": "error",
}


@pytest.mark.parametrize("args", [[], ["-n", "2"]], ids=["alone", "xdist"])
def test_outcomes_are_those_of_pytest(tmp_path: Path, each_pytest: Path, args: list[str]) -> None:
    write_tree(tmp_path, SUITE)

    run = run_pytest(each_pytest, tmp_path, "--continue-on-collection-errors", *args)

    assert run.outcomes == OUTCOMES, run
    assert run.returncode == 1
    # a failing teardown belongs to a test that pytest counts as passed as well
    assert "1 failed, 3 passed, 1 skipped, 1 xfailed, 1 xpassed, 3 errors" in run.stdout
    assert "on purpose" in run.text("test_all.py::test_fails")
    assert run.text("test_all.py::test_skips") == "Skipped: no reason"
    assert set(run.starts.values()) == {1}
    properties = [r.properties for r in run.reports if r.nodeid.endswith("[1]")]
    assert properties[-1] == (("device", "gpu"),)
    assert {*run.workers.values()} <= ({"gw0", "gw1"} if args else {None})


def test_a_crash_of_a_worker_is_a_failure(tmp_path: Path, each_pytest: Path) -> None:
    write_tree(tmp_path, {"test_it.py": "import os\ndef test_dies(): os._exit(3)\n"})

    run = run_pytest(each_pytest, tmp_path, "-n", "1")

    assert run.outcomes == {"test_it.py::test_dies": "failed"}, run
    assert "crashed" in run.text("test_it.py::test_dies")


def test_settings_of_the_machine_do_not_reach_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "CUDA_VISIBLE_DEVICES",
        "PYTEST_ADDOPTS",
        "PYTEST_GPU_SIMULATE",
        "TEST_SHARD_INDEX",
    ):
        monkeypatch.setenv(name, "-1")
    script = "import os; print(*sorted(name for name in os.environ if '_' in name))"

    printed = run_process([sys.executable, "-c", script], tmp_path, env={"TF_X": "1"}).stdout

    assert "TF_X" in printed.split()
    assert not {"CUDA_", "PYTEST_", "TEST_"} & {
        name.split("_")[0] + "_" for name in printed.split()
    }


def test_a_run_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    script = """
        import os, subprocess, sys
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
        print(child.pid, flush=True)
        child.wait()
    """
    write_tree(tmp_path, {"hang.py": script})

    for timeout in (0.5, 2, 10, 60):  # as long as it takes to start them
        with pytest.raises(TimeoutError) as caught:
            run_process([sys.executable, "hang.py"], tmp_path, timeout=timeout)
        said = str(caught.value).splitlines()
        if len(said) > 1:
            break

    pid = int(said[1])
    end = time.monotonic() + LIMIT  # the kernel takes its time to bury the child
    while _is_running(pid) and time.monotonic() < end:
        time.sleep(0.05)
    assert not _is_running(pid)


def _is_running(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _ask(folder: str, answers: multiprocessing.Queue[str]) -> None:
    environments.ENVIRONMENTS = Path(folder)
    made = environments.make_environment

    def counted(*args: object) -> Path:
        with Path(folder, "makes").open("a", encoding="utf-8") as file:
            file.write(f"{os.getpid()}\n")
        return made(*args)  # type: ignore[arg-type]

    environments.make_environment = counted
    environments.environment.cache_clear()
    answers.put(str(environment("no-xdist")))


@pytest.mark.slow
def test_an_environment_is_made_once_also_when_several_ask(tmp_path: Path) -> None:
    half_made = tmp_path / "no-xdist" / "bin"
    half_made.mkdir(parents=True)  # left behind by a run that was killed
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    askers = [context.Process(target=_ask, args=(str(tmp_path), answers)) for _ in range(3)]

    for asker in askers:
        asker.start()
    pythons = {answers.get(timeout=LIMIT) for _ in askers}
    for asker in askers:
        asker.join()

    assert pythons == {str(half_made / "python")}
    assert len(Path(tmp_path, "makes").read_text("utf-8").splitlines()) == 1
    version = run_process([pythons.pop(), "-m", "pytest", "--version"], tmp_path)
    assert "pytest 9.2" in version.stdout + version.stderr


def test_trees_are_written_exactly_and_read_back(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "a/windows.py": "x = 1\r\n",
        "a/indented.py": """
            if x:
                y
        """,
        "bytes": b"\xff\x00",
    }

    assert read_tree(write_tree(tmp_path, files)) == {
        "a/windows.py": b"x = 1\r\n",
        "a/indented.py": b"if x:\n    y\n",
        "bytes": b"\xff\x00",
    }
