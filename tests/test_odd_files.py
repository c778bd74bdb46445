"""What is no regular file, at a path that is read: nothing waits for it, and nothing is lost."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Iterable
from pathlib import Path

import pytest

from devicegen.journal import DONE, JOURNAL
from generator import HARNESS, LIBRARY, PRISTINE, RECORD, in_a_fork, run
from kit import write_tree

# Files of the project, and those of a harness that is there.
OWN = (
    HARNESS,
    "conftest.py",
    "tests/sub/conftest.py",
    "tests/test_fifo.py",
    "setup.py",
    "setup.cfg",
    "tox.ini",
    "tox.toml",
    "pytest.ini",
    "pytest.toml",
    "requirements.txt",
    "environment.yml",
    "noxfile.py",
    "Makefile",
    "BUILD",
    ".github/workflows/ci.yml",
)
OURS = (HARNESS, "pyproject.toml", RECORD, PRISTINE, JOURNAL, DONE)


def said_by_each(verbs: Iterable[list[str]], top: Path, output: Path) -> list[tuple[int, str]]:
    """Run each verb, in a process that is ended when it waits; return exit codes and stderr."""
    found = []
    for verb in verbs:

        def work(verb: list[str] = verb) -> int:
            signal.alarm(60)
            done = run(*verb, top)
            output.write_text(done.stderr, "utf-8")
            return done.code

        code = in_a_fork(work)
        assert code >= 0, (verb, code)
        found.append((code, output.read_text("utf-8")))
    return found


def test_a_fifo_of_the_projects_stops_no_verb(tmp_path: Path) -> None:
    top = write_tree(tmp_path / "top", LIBRARY)
    for name in OWN:
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(top / name)

    verbs = (["inspect"], ["init", "--dry-run"], ["check"], ["eject"], ["init"])
    for code, stderr in said_by_each(verbs, top, tmp_path / "output"):
        assert code in (0, 2)
        assert "Traceback" not in stderr
    assert all(stat.S_ISFIFO((top / name).lstat().st_mode) for name in OWN)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name != HARNESS)) for name in OURS]
)
def test_a_fifo_where_a_file_of_ours_was_stops_no_verb(tmp_path: Path, name: str) -> None:
    top = write_tree(tmp_path / "top", LIBRARY)
    assert run("init", top).code == 0
    (top / name).unlink(missing_ok=True)
    os.mkfifo(top / name)

    for code, stderr in said_by_each((["check"], ["upgrade"]), top, tmp_path / "output"):
        assert code in (0, 1, 2)
        assert "Traceback" not in stderr


def test_a_place_that_is_a_fifo_is_refused_in_one_line(tmp_path: Path) -> None:
    top = write_tree(tmp_path / "top", LIBRARY)
    os.mkfifo(top / HARNESS)

    ((code, stderr),) = said_by_each((["init", "--conftest", HARNESS],), top, tmp_path / "output")
    assert code == 2
    assert stderr == (
        f"devicegen: no place for the harness: {HARNESS} is no regular file; free one of them, or "
        "name another with --conftest\n"
    )
