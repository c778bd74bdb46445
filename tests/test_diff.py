"""``devicegen diff``: what an upgrade would change, as a unified diff."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from generator import HARNESS, LIBRARY, Done, library_with_harness, make_older, run, state
from kit import clean_environ, read_tree, write_tree


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A repository with a harness."""
    return library_with_harness(tmp_path)


def test_nothing_to_change_is_nothing_printed(top: Path) -> None:
    assert run("diff", top) == Done(0, "", "")


def test_without_a_record_it_points_to_init(tmp_path: Path) -> None:
    assert run("diff", write_tree(tmp_path, LIBRARY)) == Done(
        2, "", f"devicegen: {tmp_path}: no record here; run `devicegen init` first\n"
    )


@pytest.mark.slow
def test_patch_makes_of_it_what_upgrade_makes(top: Path, tmp_path: Path) -> None:
    make_older(top)
    text = (top / HARNESS).read_text("utf-8")
    (top / HARNESS).write_text(text.replace("\nimport os\n", "\nimport os  # ours\n"), "utf-8")
    write_tree(top, {"pyproject.toml": LIBRARY["pyproject.toml"]})
    before = state(top)

    done = run("diff", top)

    assert (done.code, done.stderr) == (1, "")
    assert state(top) == before
    assert re.findall(r"^\+\+\+ b/(.*)$", done.stdout, re.MULTILINE) == [HARNESS, "pyproject.toml"]
    assert "\x1b" not in done.stdout
    subprocess.run(["patch", "-p1", "-s"], cwd=top, input=done.stdout, text=True, check=True)
    patched = read_tree(top)
    (top / HARNESS).write_text(text.replace("\nimport os\n", "\nimport os  # ours\n"), "utf-8")
    write_tree(top, {"pyproject.toml": LIBRARY["pyproject.toml"]})
    assert run("upgrade", top).code == 0
    upgraded = read_tree(top)
    for name in (HARNESS, "pyproject.toml"):
        assert patched[name] == upgraded[name]


def test_conflicts_are_in_it_and_said(top: Path) -> None:
    make_older(top)
    (top / HARNESS).write_bytes((top / HARNESS).read_bytes() + b"# a comment\n")
    before = state(top)

    done = run("diff", top)

    assert done.code == 1
    assert f"\n+<<<<<<< {HARNESS} as it is here\n" in done.stdout
    assert re.fullmatch(rf"devicegen: {HARNESS}:\d+: conflict: .*\n", done.stderr)
    assert state(top) == before


def test_a_record_alone_is_nothing_to_see(top: Path) -> None:
    (top / ".devicegen/tests/conftest.py.pristine").unlink()

    assert run("diff", top) == Done(0, "", "")


@pytest.mark.parametrize(
    ("environ", "coloured"),
    [
        pytest.param({}, True, marks=pytest.mark.slow),
        pytest.param({"NO_COLOR": "1"}, False, marks=pytest.mark.slow),
        pytest.param({"TERM": "dumb"}, False, marks=pytest.mark.slow),
    ],
)
def test_it_is_coloured_on_a_terminal(top: Path, environ: dict[str, str], coloured: bool) -> None:
    make_older(top)
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "devicegen", "diff", str(top)]
    with subprocess.Popen(
        command, stdout=terminal, stderr=terminal, env=clean_environ({"TERM": "xterm", **environ})
    ) as process:
        os.close(terminal)
        printed = b""
        try:
            while data := os.read(controller, 65536):
                printed += data
        except OSError:  # the other end is closed
            pass
    os.close(controller)

    assert process.returncode == 1
    assert (b"\x1b[31m-OLDER = True\x1b[0m" in printed) == coloured
    assert b"-OLDER = True" in printed
    assert (b"\x1b" in printed) == coloured


@pytest.mark.slow
def test_a_reader_who_leaves_early_is_no_error(top: Path) -> None:
    make_older(top)
    command = f'"{sys.executable}" -m devicegen diff "{top}" | head -1'

    done = subprocess.run(
        command, shell=True, env=clean_environ(), capture_output=True, text=True, check=False
    )

    assert (done.stdout, done.stderr) == (f"--- a/{HARNESS}\n", "")
