"""``devicegen check``: exit 0 when what is committed is current, 1 when ``upgrade`` is due."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from devicegen import __version__
from generator import (
    HARNESS,
    LIBRARY,
    PRISTINE,
    RECORD,
    Done,
    library_with_harness,
    make_older,
    run,
    state,
)
from kit import clean_environ, write_tree

CURRENT_LINE = f"Current: written by devicegen {__version__}.\n"
REGISTERED = "ok    pyproject.toml: registers all markers\n"
NO_CONFLICT = f"ok    {HARNESS}: no conflict markers\n"
UNEDITED = f"ok    {HARNESS}: unedited\n{NO_CONFLICT}{REGISTERED}"
CURRENT = Done(0, f"ok    {HARNESS}: current\n{UNEDITED}{CURRENT_LINE}", "")
OUT_OF_DATE = f"FAIL  {HARNESS}: out of date; run `devicegen upgrade`\n"
EDITED = f"{HARNESS}: edited since devicegen wrote it; an upgrade keeps that\n"


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A repository with a harness."""
    return library_with_harness(tmp_path)


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

    assert check(top) == Done(1, f"{OUT_OF_DATE}{UNEDITED}", "")
    run("upgrade", top)
    assert check(top) == CURRENT


def test_missing_markers(top: Path) -> None:
    config = (top / "pyproject.toml").read_text("utf-8")
    without = "\n".join(line for line in config.splitlines() if "no_device_scope" not in line)
    (top / "pyproject.toml").write_text(without, "utf-8")

    fail = "FAIL  pyproject.toml: does not register all markers; run `devicegen upgrade`\n"
    assert check(top) == Done(
        1, f"ok    {HARNESS}: current\n{UNEDITED.replace(REGISTERED, fail)}", ""
    )
    run("upgrade", top)
    assert check(top) == CURRENT


def test_an_edit_is_noted_and_fails_only_where_that_is_asked_for(top: Path) -> None:
    (top / HARNESS).write_bytes((top / HARNESS).read_bytes() + b"# a comment\n")
    rest = f"{EDITED}{NO_CONFLICT}{REGISTERED}"

    assert check(top) == Done(0, f"ok    {HARNESS}: current\nnote  {rest}{CURRENT_LINE}", "")
    assert run("check", "--strict", top) == Done(1, f"ok    {HARNESS}: current\nFAIL  {rest}", "")


def test_strict_lets_what_was_not_edited_pass(top: Path) -> None:
    assert run("check", "--strict", top) == CURRENT


@pytest.mark.slow
def test_an_edit_in_the_way_of_something_newer(top: Path) -> None:
    make_older(top)
    (top / HARNESS).write_bytes((top / HARNESS).read_bytes() + b"# a comment\n")

    assert check(top) == Done(
        1,
        f"FAIL  {HARNESS}: out of date; `devicegen upgrade` will leave 1 conflict\n"
        f"note  {EDITED}{NO_CONFLICT}{REGISTERED}",
        "",
    )


@pytest.mark.slow
def test_conflict_markers_in_a_committed_file(top: Path) -> None:
    make_older(top)
    (top / HARNESS).write_bytes((top / HARNESS).read_bytes() + b"# a comment\n")
    assert run("upgrade", top).code == 3
    lines = (top / HARNESS).read_text("utf-8").splitlines()
    (line,) = [number for number, line in enumerate(lines, 1) if line.startswith("<<<<<<<")]

    assert check(top) == Done(1, f"FAIL  {HARNESS}:{line}: conflict markers; resolve them\n", "")

    kept = [line for line in lines if not line.startswith(("<<<<<<<", "=======", ">>>>>>>"))]
    (top / HARNESS).write_text("\n".join(kept) + "\n", "utf-8")
    resolved = f"{HARNESS}: conflicts are resolved; run `devicegen upgrade` to record that\n"
    assert check(top) == Done(1, f"FAIL  {resolved}note  {EDITED}{NO_CONFLICT}{REGISTERED}", "")
    assert run("upgrade", top).code == 0
    assert check(top).code == 0


def test_a_deleted_harness(top: Path) -> None:
    (top / HARNESS).unlink()

    done = check(top)

    assert (done.code, done.stderr) == (1, "")
    assert done.stdout == (
        f"FAIL  {HARNESS}: was deleted and stays so; `devicegen upgrade --restore` brings it "
        f"back, `devicegen eject` forgets it\n{REGISTERED}"
    )


def test_without_a_registry(tmp_path: Path) -> None:
    run("init", write_tree(tmp_path, LIBRARY), "--no-config-edit")
    own = f"ok    {HARNESS}: registers all markers, and no other file does\n"

    assert check(tmp_path).stdout == CURRENT.stdout.replace(REGISTERED, own)


@pytest.mark.parametrize("name", [PRISTINE, RECORD])
def test_a_record_that_is_out_of_date_alone(top: Path, name: str) -> None:
    with (top / name).open("a", encoding="utf-8") as file:
        file.write("# more\n")

    fail = f"FAIL  {name}: out of date; run `devicegen upgrade`\n"
    assert check(top) == Done(1, f"ok    {HARNESS}: current\n{UNEDITED}{fail}", "")
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


@pytest.mark.slow
@pytest.mark.parametrize("place", ["top", "worktree"])
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
    assert "out of date" in bad.stderr


def test_it_reads_only(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_older(top)

    def fail(*args: object, **kwargs: object) -> None:
        raise AssertionError(args)

    for name in ("replace", "rename", "unlink", "mkdir", "chmod", "utime"):
        monkeypatch.setattr(os, name, fail)

    assert run("check", top).code == 1
