"""For tests of the generator: its command line in this process, and small repositories."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from devicegen.cli import main
from devicegen.conftest_block import END, is_block, with_block
from devicegen.record import Answers, Record, read_record
from kit.trees import read_tree, write_tree

# What takes the usual names.
TAKEN = """
    import pytest

    def pytest_addoption(parser):
        parser.addoption("--gpu-simulate")

    def pytest_configure(config):
        config.addinivalue_line("markers", "run_on: on which database")
        config.addinivalue_line("markers", "gpu: slow")

    @pytest.fixture
    def device_scope():
        return None
"""
# A library with a pytest configuration, as small as devicegen takes it.
LIBRARY: dict[str, str | bytes] = {
    "pyproject.toml": """
        [project]
        name = "library"
        version = "1"
        dependencies = ["tensorflow>=2.8"]

        [tool.pytest.ini_options]
        addopts = "-q"  # quiet
    """,
    "library.py": "import tensorflow as tf\n",
    "tests/test_library.py": "def test_nothing(): pass\n",
}
HARNESS = "tests/conftest.py"
RECORD = ".devicegen/record.toml"
PRISTINE = ".devicegen/tests/conftest.py.pristine"


@dataclass(frozen=True)
class Done:
    """What a command printed, and its exit code."""

    code: int
    stdout: str
    stderr: str


def run(*args: str | Path) -> Done:
    """Run the command line in this process; ``kit.run_devicegen`` is the slow, real thing."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(arg) for arg in args])
        except SystemExit as stop:
            code = int(stop.code or 0)
    return Done(code, out.getvalue(), err.getvalue())


@cache
def _library_with_harness() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        top = write_tree(Path(folder), LIBRARY)
        assert run("init", top).code == 0
        return read_tree(top)


def library_with_harness(top: Path) -> Path:
    """Make of ``top`` what ``init`` makes of the library, which it is asked for but once."""
    return write_tree(top, _library_with_harness())


def in_a_fork(work: Callable[[], int]) -> int:
    """Return the exit code of ``work`` in a child, negative for a signal."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = work()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def state(top: Path) -> dict[str, tuple[bytes, int, int]]:
    """Return every file's bytes, mode and time of change in ns; without ``.git``."""
    return {
        file.relative_to(top).as_posix(): (file.read_bytes(), info.st_mode, info.st_mtime_ns)
        for file in _files(top)
        for info in [file.lstat()]
    }


def _files(top: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(set(folders) - {".git"})
        yield from (Path(folder, name) for name in sorted(names))


def make_older(top: Path, *changed: tuple[str, str], answers: Answers | None = None) -> str:
    """Make what ``init`` wrote into ``top`` look as devicegen 0.0.1 would have written it.

    ``changed`` are pairs of a text that is in the harness now, once, and of what it was then.
    Returns the older text of the harness, or of the block. The record is made by the code that
    reads it.
    """
    record = read_record(top, "99")
    assert record is not None
    ((path, text),) = record.pristine.items()
    older = text.replace(f"devicegen {record.version}", "devicegen 0.0.1")
    if is_block(text):
        older = older.replace(END, f"OLDER = True\n\n\n{END}")
    else:
        older += "\nOLDER = True\n"
    assert older.count("0.0.1") == 1
    for now, then in changed:
        assert older.count(now) == 1, now
        older = older.replace(now, then)
    made = Record("0.0.1", answers or record.answers, {path: older}, record.registry)
    for name, content in made.texts().items():
        (top / name).write_bytes(content.encode())
    file = top / path
    written = with_block(file.read_bytes(), older) if is_block(text) else older.encode()
    file.write_bytes(written)
    return older
