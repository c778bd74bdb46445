"""What ``init`` and ``upgrade`` write and print for a Bazel repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from devicegen.record import read_record
from generator import HARNESS, LIBRARY, RECORD, run, state
from kit import write_tree

MAIN = "tests/pytest_main.py"
PRISTINE_MAIN = f".devicegen/{MAIN}.pristine"
BAZEL = {**LIBRARY, "WORKSPACE": "", "tests/BUILD": 'py_test(\n    name = "test_library",\n)\n'}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return write_tree(tmp_path, BAZEL)


def read(top: Path, path: str) -> str:
    return (top / path).read_text("utf-8")


def test_a_main_is_written_where_py_test_is_used(top: Path) -> None:
    before = state(top)
    done = run("init", top)
    written = set(state(top)) - set(before)

    assert done.code == 0, done
    assert written == {HARNESS, MAIN, f".devicegen/{HARNESS}.pristine", PRISTINE_MAIN, RECORD}
    assert (
        "Bazel               tests/pytest_main.py  (py_test is used (tests/BUILD:1))"
        in done.stdout
    )
    assert state(top)["tests/BUILD"] == before["tests/BUILD"]
    assert "pytest_bazel_modifyitems" in read(top, HARNESS)
    assert read(top, PRISTINE_MAIN) == read(top, MAIN)
    assert run("check", top).code == 0


def test_the_build_text_is_printed(top: Path) -> None:
    printed = run("init", top, "--dry-run").stdout

    assert run("init", top).stdout.endswith(printed.partition("nothing was written.\n")[2])
    assert printed.endswith("""
# In tests/BUILD, for all tests:
py_library(
    name = "conftest",
    testonly = True,
    srcs = ["conftest.py"],
    data = ["//:pyproject.toml"],
    visibility = ["//:__subpackages__"],
    deps = [],  # pytest and TensorFlow, as your other targets name them
)

exports_files(["pytest_main.py"], visibility = ["//:__subpackages__"])

# In BUILD.bazel (a new file):
exports_files(["pyproject.toml"])

# In each py_test, as in this one; shard_count, and more args for pytest, work as usual:
py_test(
    name = "test_library",
    srcs = ["test_library.py", "//tests:pytest_main.py"],
    main = "//tests:pytest_main.py",
    args = ["$(location test_library.py)"],
    legacy_create_init = 0,  # or Bazel makes __init__.py files, and with them other ids
    deps = ["//tests:conftest"],  # and what the test imports
)

# In .bazelrc, for a test sees no other variables of the caller:
test --test_env=CUDA_DEVICE_ORDER
test --test_env=CUDA_VISIBLE_DEVICES
test --test_env=PYTEST_GPU_LOCK_DIR
test --test_env=PYTEST_GPU_REQUIRE
test --test_env=PYTEST_GPU_SIMULATE
test --test_env=PYTEST_GPU_STRICT
test --test_env=PYTEST_GPU_WAIT
test --test_env=PYTEST_WORKERS_PER_GPU
test --test_env=XLA_FLAGS
""")


def test_it_is_printed_until_the_build_file_has_it(top: Path) -> None:
    run("init", top)
    assert "exports_files" in run("init", top).stdout
    with (top / "tests/BUILD").open("a") as file:
        file.write('exports_files(["pytest_main.py"])\n')

    assert "exports_files" not in run("init", top).stdout


def test_a_main_of_the_project_is_left_alone(tmp_path: Path) -> None:
    own = "import pytest\npytest.main()\n"
    write_tree(tmp_path, {**BAZEL, MAIN: own})
    done = run("init", tmp_path)

    assert "tests/device_pytest_main.py  (py_test is used (tests/BUILD:1); " in done.stdout
    assert "tests/pytest_main.py is the project's own)" in done.stdout
    assert read(tmp_path, MAIN) == own
    assert "import pytest" in read(tmp_path, "tests/device_pytest_main.py")
    assert 'main = "//tests:device_pytest_main.py"' in done.stdout
    assert run("check", tmp_path).code == 0


def test_it_can_be_left_out_and_asked_for(tmp_path: Path) -> None:
    """As every answer, it is remembered."""
    write_tree(tmp_path, LIBRARY)
    assert "Bazel" not in run("init", tmp_path).stdout
    assert run("upgrade", tmp_path, "--bazel").code == 0
    assert "pytest_bazel_modifyitems" in read(tmp_path, HARNESS)
    assert (tmp_path / MAIN).is_file()
    assert "bazel = true\n" in read(tmp_path, RECORD)
    assert run("check", tmp_path).code == 0

    left = run("upgrade", tmp_path, "--no-bazel")
    assert left.code == 0
    assert f"{MAIN}: is not needed any more; delete it\n" in left.stderr
    assert not (tmp_path / PRISTINE_MAIN).exists()
    assert "pytest_bazel_modifyitems" not in read(tmp_path, HARNESS)
    record = read_record(tmp_path, "99")
    assert record is not None
    assert record.paths == (HARNESS,)
    assert run("check", tmp_path).code == 0


def test_no_bazel_at_the_first_time(top: Path) -> None:
    done = run("init", top, "--no-bazel")

    assert "Bazel               left out  (--no-bazel (tests/BUILD:1))" in done.stdout
    assert not (top / MAIN).exists()
    assert "exports_files" not in done.stdout


def test_where_nothing_runs_pytest(tmp_path: Path) -> None:
    """It is refused unless asked for, and then with the configuration that is made."""
    test = "import unittest\nimport tensorflow as tf\n"
    write_tree(tmp_path, {"WORKSPACE": "", "p/a_test.py": test, "p/BUILD": "py_test(\n"})
    before = state(tmp_path)
    refused = run("init", tmp_path)

    assert refused.code == 2
    assert "are run by Bazel (p/BUILD:1, 1 test rule)" in refused.stderr
    assert "`devicegen init --bazel` makes py_test run it\n" in refused.stderr
    assert state(tmp_path) == before

    done = run("init", tmp_path, "--bazel")
    assert done.code == 0, done
    assert '    srcs = ["conftest.py"],\n    data = ["//:pytest.ini"],\n' in done.stdout
    assert '    args = ["$(location a_test.py)"],\n' in done.stdout
    assert (tmp_path / "pytest.ini").is_file()
    assert run("check", tmp_path).code == 0


@pytest.mark.slow
def test_the_main_is_where_the_conftest_is(tmp_path: Path) -> None:
    """Where it is asked for, and where it is moved to later, with the main or without."""
    write_tree(tmp_path, {**BAZEL, "tests/unit/test_b.py": "def test_b(): pass\n"})
    done = run("init", tmp_path, "--conftest", "conftest.py")

    assert done.code == 0, done
    assert "parents[0]" in read(tmp_path, "pytest_main.py")
    assert 'main = "//:pytest_main.py"' in done.stdout
    assert "# In BUILD.bazel (a new file), for all tests:" in done.stdout

    (tmp_path / "conftest.py").rename(tmp_path / HARNESS)
    left = run("upgrade", tmp_path)
    assert left.code == 0, left
    assert "parents[1]" in read(tmp_path, MAIN)
    assert "pytest_main.py: is not needed any more; delete it" in left.stderr
    assert 'deps = ["//tests:conftest"]' in left.stdout
    assert run("check", tmp_path).code == 0

    (tmp_path / "pytest_main.py").unlink()
    for name in ("conftest.py", "pytest_main.py"):
        (tmp_path / "tests" / name).rename(tmp_path / name)
    both = run("upgrade", tmp_path)
    assert both.code == 0, both
    assert "parents[0]" in read(tmp_path, "pytest_main.py")
    assert not list(tmp_path.rglob("device_pytest_main.py"))
    assert run("check", tmp_path).code == 0


def test_an_edited_main_is_not_overwritten(top: Path) -> None:
    """It is ours, so it keeps its name; it is edited, so it is not touched."""
    run("init", top)
    (top / MAIN).write_text(read(top, MAIN).replace("Written by devicegen", "By devicegen"))
    before = state(top)
    done = run("upgrade", top, "--no-xdist")

    assert "device_pytest_main" not in done.stdout
    assert state(top)[MAIN] == before[MAIN]


def test_a_lost_harness_text_does_not_move_the_harness(top: Path) -> None:
    """Of the record's files it is then not the first."""
    run("init", top)
    (top / f".devicegen/{HARNESS}.pristine").unlink()
    run("upgrade", top)

    assert run("check", top).code == 0
    assert not (top / "conftest.py").exists()
    assert "pytest_addoption" in read(top, HARNESS)


def test_the_main_knows_its_own_depth(tmp_path: Path) -> None:
    write_tree(tmp_path, {**BAZEL, "test_top.py": "def test_it(): pass\n"})
    run("init", tmp_path)

    assert "parents[0]" in read(tmp_path, "pytest_main.py")


def test_two_harnesses_in_a_record_are_still_refused(top: Path) -> None:
    run("init", top)
    (top / RECORD).write_text(read(top, RECORD) + f'"other/conftest.py" = "{"0" * 64}"\n')

    assert "'files' names more than one harness" in run("check", top).stderr
