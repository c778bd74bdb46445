"""``devicegen check``: exit 0 when what is committed is current, 1 when ``upgrade`` is due."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from devicegen import __version__
from generator import HARNESS, LIBRARY, PRISTINE, RECORD, Done, make_older, run, state
from kit import clean_environ, write_tree

CURRENT = Done(0, f"Current: written by devicegen {__version__}.\n", "")


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A repository with a harness."""
    assert run("init", write_tree(tmp_path, LIBRARY)).code == 0
    return tmp_path


def check(top: Path) -> Done:
    before = state(top)
    done = run("check", top)
    assert state(top) == before
    return done


def test_what_was_just_written_is_current(top: Path) -> None:
    assert check(top) == CURRENT
    assert run("check", top / "tests") == CURRENT


def test_without_a_record_it_points_to_init(tmp_path: Path) -> None:
    write_tree(tmp_path, LIBRARY)

    assert check(tmp_path) == Done(
        2, "", f"devicegen: {tmp_path}: no record here; run `devicegen init` first\n"
    )


def test_an_older_harness_is_out_of_date(top: Path) -> None:
    make_older(top)

    assert check(top) == Done(1, f"{HARNESS}: is out of date; run `devicegen upgrade`\n", "")
    run("upgrade", top)
    assert check(top) == CURRENT


def test_missing_markers(top: Path) -> None:
    config = (top / "pyproject.toml").read_text("utf-8")
    without = "\n".join(line for line in config.splitlines() if "no_device_scope" not in line)
    (top / "pyproject.toml").write_text(without, "utf-8")

    assert check(top) == Done(
        1, "pyproject.toml: does not register all markers; run `devicegen upgrade`\n", ""
    )
    run("upgrade", top)
    assert check(top) == CURRENT


def test_an_edit_is_noted_and_is_no_reason_to_fail(top: Path) -> None:
    (top / HARNESS).write_bytes((top / HARNESS).read_bytes() + b"# a comment\n")

    done = check(top)

    assert (done.code, done.stdout) == (0, CURRENT.stdout)
    assert done.stderr.startswith(f"devicegen: note: {HARNESS}: was edited since devicegen wrote ")


def test_an_edit_in_the_way_of_something_newer(top: Path) -> None:
    make_older(top)
    (top / HARNESS).write_bytes((top / HARNESS).read_bytes() + b"# a comment\n")

    done = check(top)

    assert (done.code, done.stderr) == (1, "")
    (line,) = done.stdout.splitlines()
    assert line.startswith(f"{HARNESS}: was edited since devicegen wrote it, and merging ")


def test_a_deleted_harness(top: Path) -> None:
    (top / HARNESS).unlink()

    done = check(top)

    assert (done.code, done.stderr) == (1, "")
    assert done.stdout.startswith(f"{HARNESS}: was deleted; restore it, or ")


@pytest.mark.parametrize("name", [PRISTINE, RECORD])
def test_a_record_that_is_out_of_date_alone(top: Path, name: str) -> None:
    with (top / name).open("a", encoding="utf-8") as file:
        file.write("# more\n")

    assert check(top) == Done(1, f"{name}: is out of date; run `devicegen upgrade`\n", "")
    run("upgrade", top)
    assert check(top) == CURRENT


def test_line_endings_are_no_finding(top: Path) -> None:
    for name in (HARNESS, PRISTINE, RECORD, "pyproject.toml"):
        (top / name).write_bytes((top / name).read_bytes().replace(b"\n", b"\r\n"))

    assert check(top) == CURRENT


def test_a_commit_and_an_autocrlf_clone_are_current(top: Path, tmp_path: Path) -> None:
    clone = tmp_path.parent / f"{tmp_path.name}-clone"
    environ = clean_environ()
    for command in (
        ["git", "init", "-q", str(top)],
        ["git", "-C", str(top), "add", "."],
        ["git", "-C", str(top), "commit", "-qm", "x"],
        ["git", "clone", "-q", "-c", "core.autocrlf=true", str(top), str(clone)],
    ):
        subprocess.run(command, check=True, env=environ)

    assert b"\r\n" in (clone / RECORD).read_bytes()
    assert check(clone) == CURRENT
    make_older(clone)
    for name in (HARNESS, PRISTINE, RECORD):
        (clone / name).write_bytes((clone / name).read_bytes().replace(b"\n", b"\r\n"))
    assert check(clone).code == 1
    assert run("upgrade", clone).code == 0
    status = subprocess.run(
        ["git", "-C", str(clone), "status", "--porcelain"],
        check=True, env=environ, capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert status == ""


@pytest.mark.parametrize("place", [pytest.param("top", marks=pytest.mark.slow), "worktree"])
def test_as_a_pre_commit_hook(top: Path, tmp_path: Path, place: str) -> None:
    """Git gives a hook its GIT_DIR and index, which must not lead devicegen astray."""
    environ = clean_environ()

    def git(*args: str, cwd: Path = top) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["git", *args], cwd=cwd, env=environ, capture_output=True, text=True, check=False
        )

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    hook = top / ".git/hooks/pre-commit"
    hook.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m devicegen check\n', "utf-8")
    hook.chmod(0o755)
    tree = top
    if place == "worktree":
        tree = tmp_path.parent / f"{tmp_path.name}-tree"
        git("worktree", "add", "-q", str(tree))

    good = git("commit", "-q", "--allow-empty", "-m", "second", cwd=tree)
    assert (good.returncode, good.stderr.strip()) == (0, CURRENT.stdout.strip())
    make_older(tree)
    bad = git("commit", "-q", "-a", "-m", "third", cwd=tree)
    assert bad.returncode == 1
    assert "is out of date" in bad.stderr


def test_it_reads_only(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_older(top)

    def fail(*args: object, **kwargs: object) -> None:
        raise AssertionError(args)

    for name in ("replace", "rename", "unlink", "mkdir", "chmod", "utime"):
        monkeypatch.setattr(os, name, fail)

    assert run("check", top).code == 1
