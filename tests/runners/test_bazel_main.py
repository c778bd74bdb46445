"""The ``py_test`` main, as Bazel starts it but without Bazel: what it makes of the environment."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from kit import environment
from kit.processes import run_process
from runners.projects import initialised

pytestmark = pytest.mark.slow
Main = Callable[..., CompletedProcess[str]]
PROJECT = {
    "tests/BUILD": "py_test(\n",
    "tests/test_one.py": """
        import os
        import unittest

        import pytest

        class TestCase(unittest.TestCase):
            def test_method(self): pass

        class TestOther:
            def test_method(self): pass

        @pytest.mark.parametrize("n", [0.5])
        def test_function(n): pass

        def test_fails(): assert 0

        def test_after_it(tmp_path): pass

        def test_ends_the_process():
            if "END" in os.environ:
                os._exit(0)
    """,
    "tests/test_two.py": "def test_two(): pass\n",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("main")
    initialised(top, PROJECT)
    return top


@pytest.fixture
def main(project: Path, tmp_path: Path) -> Main:
    """Return a function that runs the main as Bazel does; ``TEST_TMPDIR`` is ``tmp_path``."""

    def run(*args: str, python: str = "pytest-9", **env: str) -> CompletedProcess[str]:
        return run_process(
            [environment(python), project / "tests/pytest_main.py", *args], project,
            env={"TEST_TMPDIR": str(tmp_path), "XML_OUTPUT_FILE": f"{tmp_path}/test.xml", **env},
        )  # fmt: skip

    return run


def ran(tmp_path: Path) -> list[str]:
    """Return the test cases of the report."""
    return [
        f"{case.get('classname')}::{case.get('name')}"
        for case in ET.parse(tmp_path / "test.xml").iter("testcase")
    ]


@pytest.mark.parametrize(
    ("only", "selected"),
    [
        ("test_method", ["TestCase::test_method", "TestOther::test_method"]),
        ("TestCase.test_method", ["TestCase::test_method"]),
        ("not test_one", ["::test_two"]),
        ("test_function[0.5]", ["::test_function[0.5]"]),
        ("tests/test_one.py::TestOther::test_method", ["TestOther::test_method"]),
    ],
)
def test_filter(main: Main, tmp_path: Path, only: str, selected: list[str]) -> None:
    done = main("tests/test_one.py", "tests/test_two.py", TESTBRIDGE_TEST_ONLY=only)
    modules = {"::test_two": "tests.test_two"}

    assert done.returncode == 0, done.stdout
    assert ran(tmp_path) == [
        modules.get(name, "tests.test_one") + ("." if name[0] == "T" else "") + name
        for name in selected
    ]


def test_a_node_id_of_another_file_is_an_error(main: Main) -> None:
    done = main("tests/test_two.py", TESTBRIDGE_TEST_ONLY="tests/test_gone.py::test_x")

    assert done.returncode == 4, done.stdout


@pytest.mark.parametrize("python", ["pytest-9", "pytest-7"])
def test_without_arguments(main: Main, project: Path, tmp_path: Path, python: str) -> None:
    """All is run that is there, and all that is written is below ``TEST_TMPDIR``."""
    before = sorted(project.rglob("*"))
    done = main(python=python, PYTHONDONTWRITEBYTECODE="")

    assert done.returncode == 1
    assert len(ran(tmp_path)) == 7, done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"pytest", "pytest_cache", "test.xml"}
    assert sorted(project.rglob("*")) == before


def test_fail_fast(main: Main, tmp_path: Path) -> None:
    main("tests/test_one.py", TESTBRIDGE_TEST_RUNNER_FAIL_FAST="1")

    assert "tests.test_one::test_after_it" not in ran(tmp_path)
    assert "tests.test_one::test_fails" in ran(tmp_path)


def test_arguments_of_the_target_win(main: Main, tmp_path: Path) -> None:
    done = main("tests/test_two.py", f"--basetemp={tmp_path}/other", "-k", "two", "-q")

    assert done.returncode == 0, done.stdout
    assert ran(tmp_path) == ["tests.test_two::test_two"]
    assert not (tmp_path / "pytest").exists()


def test_an_end_of_the_process_leaves_the_file(main: Main, tmp_path: Path) -> None:
    """Bazel fails a test that ends with exit code 0 and leaves it; any other end removes it."""
    file = tmp_path / "exited_prematurely"
    ended = main("-k", "ends_the_process", END="1", TEST_PREMATURE_EXIT_FILE=str(file))
    assert ended.returncode == 0, ended.stdout
    assert file.exists()
    for args, code in ((["-k", "fails"], 1), (["-k", "two"], 0), (["-k", "nothing"], 5)):
        assert main(*args, TEST_PREMATURE_EXIT_FILE=str(file)).returncode == code
        assert not file.exists()


def test_the_wait_for_a_gpu_is_within_the_timeout(main: Main, project: Path) -> None:
    """Bazel would kill it before it could say what it waits for."""
    (project / "tests/test_wait.py").write_text(
        "import os\ndef test_wait(): print('WAIT', os.environ.get('PYTEST_GPU_WAIT'))\n"
    )
    try:
        for env, seconds in (
            ({"TEST_TIMEOUT": "60"}, "30"),
            ({"TEST_TIMEOUT": "3600"}, "600"),
            ({"TEST_TIMEOUT": "60", "PYTEST_GPU_WAIT": "5"}, "5"),
            ({}, "None"),
        ):
            done = main("-s", "tests/test_wait.py", **env)
            assert f"WAIT {seconds}\n" in done.stdout, done.stdout
    finally:
        (project / "tests/test_wait.py").unlink()
