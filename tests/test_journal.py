"""What a run that died has left is put back, and a journal that somebody wrote does no harm."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

import pytest

from devicegen.errors import DevicegenError
from devicegen.journal import DONE, JOURNAL, clear, digest
from generator import HARNESS, LIBRARY, RECORD, make_older, run, state
from kit import read_tree, write_tree

TOKEN = "0123abcd"
BACK = "an earlier run was stopped while it wrote; the old files are back"


def journal(top: Path, *files: tuple[str, str | None, str | None], **changes: Any) -> None:
    """Leave a journal as of a run that died; each file is a path, old text and new text."""
    entries = [
        {"path": path, "before": _digest(before), "after": _digest(after)}
        for path, before, after in files
    ]
    table = {"token": TOKEN, "files": entries, "folders": [], **changes}
    (top / JOURNAL).write_text(json.dumps(table), "utf-8")


def _digest(text: str | None) -> str | None:
    return digest(None if text is None else text.encode())


def test_each_file_goes_back(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            "changed": "new",
            f".changed.{TOKEN}.old.devicegen": "old",
            "made/it": "new",
            f".gone.{TOKEN}.old.devicegen": "old",
            "untouched": "old",
            f".untouched.{TOKEN}.old.devicegen": "old",
            f".untouched.{TOKEN}.new.devicegen": "new",
        },
    )
    files = [
        ("changed", "old", "new"),
        ("made/it", None, "new"),
        ("gone", "old", None),
        ("untouched", "old", "new"),
    ]
    journal(tmp_path, *files, folders=["made"])

    assert clear(tmp_path) == BACK
    assert read_tree(tmp_path) == {"changed": b"old", "gone": b"old", "untouched": b"old"}
    assert not (tmp_path / "made").exists()
    assert clear(tmp_path) is None


def test_what_was_changed_since_is_left(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a": "theirs", f".a.{TOKEN}.old.devicegen": "old"})
    journal(tmp_path, ("a", "old", "new"))

    assert clear(tmp_path) == f"{BACK}, but not a, which were changed since"
    assert read_tree(tmp_path) == {"a": b"theirs"}


def test_a_copy_that_is_lost_or_changed_is_not_put_back(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a": "new", f".a.{TOKEN}.old.devicegen": "hostile"})
    journal(tmp_path, ("a", "old", "new"))
    before = state(tmp_path)

    with pytest.raises(DevicegenError, match=r"^a could not be put back; "):
        clear(tmp_path)
    assert state(tmp_path) == before


@pytest.mark.parametrize(
    "path",
    ["../a", "/a", "x/../../a", ".git/a", "link/a", "sub/a", "a\\b", "", ".", 1, None],
    ids=repr,
)
def test_no_path_leads_out(tmp_path: Path, path: Any) -> None:
    top = write_tree(tmp_path / "top", {".git/a": "new", "sub/.git": "x", "sub/a": "new"})
    write_tree(tmp_path, {"a": "new", f".a.{TOKEN}.old.devicegen": "old"})
    write_tree(top, {f"sub/.a.{TOKEN}.old.devicegen": "old"})
    (top / "link").symlink_to("..")
    journal(top, (path, "old", "new"), folders=["../x"] if path == "" else [])
    before = {name: data for name, data in read_tree(tmp_path).items() if JOURNAL not in name}

    clear(top)

    after = read_tree(tmp_path)
    assert {name: data for name, data in after.items() if JOURNAL not in name} == before


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "1", '{"token": "x"}', '{"token": 1, "files": [], "folders": []}',
        '{"token": "../../..", "files": [], "folders": []}',
        '{"token": "0123abcd", "files": [1], "folders": []}',
        '{"token": "0123abcd", "files": [], "folders": 1}',
        "[" * 100_000,
    ],
)  # fmt: skip
def test_half_a_journal_means_that_nothing_was_written(tmp_path: Path, text: str) -> None:
    write_tree(tmp_path, {"a": "x"})
    (tmp_path / JOURNAL).write_text(text, "utf-8")

    assert clear(tmp_path) is None
    assert read_tree(tmp_path) == {"a": b"x"}


def test_what_a_run_could_not_remove_goes(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a": "new", f".a.{TOKEN}.old.devicegen": "old"})
    journal(tmp_path, ("a", "old", "new"))
    (tmp_path / JOURNAL).rename(tmp_path / DONE)

    assert clear(tmp_path) is None
    assert read_tree(tmp_path) == {"a": b"new"}


def test_another_run_that_is_writing_is_left_alone(tmp_path: Path) -> None:
    top = write_tree(tmp_path, LIBRARY)
    run("init", top)
    make_older(top)
    journal(top, (HARNESS, "old", "new"))
    before = state(top)

    with (top / JOURNAL).open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = run("upgrade", top)

    assert (done.code, done.stdout) == (2, "")
    assert done.stderr == (
        f"devicegen: {JOURNAL}: another devicegen writes here; nothing was changed, "
        "run this again\n"
    )
    assert state(top) == before


@pytest.mark.parametrize(
    "verb",
    [["check"], ["diff"], ["upgrade", "--dry-run"], ["init", "--diff"], ["eject", "--dry-run"]],
    ids=" ".join,
)
def test_who_only_reads_says_so_and_touches_nothing(tmp_path: Path, verb: list[str]) -> None:
    top = write_tree(tmp_path, LIBRARY)
    run("init", top)
    journal(top, (HARNESS, "old", "new"))
    before = state(top)

    done = run(*verb, top)

    assert (done.code, done.stdout) == (2, "")
    assert done.stderr == (
        f"devicegen: {JOURNAL}: an earlier run was stopped while it wrote; `devicegen upgrade` "
        "(or init) puts the old files back\n"
    )
    assert state(top) == before


def test_the_next_run_goes_on_from_the_old_tree(tmp_path: Path) -> None:
    top = write_tree(tmp_path, LIBRARY)
    run("init", top)
    newest = read_tree(top)
    make_older(top)
    older = read_tree(top)
    journal(top, (HARNESS, older[HARNESS].decode(), newest[HARNESS].decode()))
    folder, _, name = HARNESS.partition("/")
    write_tree(
        top,
        {HARNESS: newest[HARNESS], f"{folder}/.{name}.{TOKEN}.old.devicegen": older[HARNESS]},
    )

    done = run("upgrade", top)

    assert done.code == 0
    assert done.stderr == f"devicegen: note: {BACK}\n"
    assert read_tree(top) == newest
    assert os.path.exists(top / RECORD)  # noqa: PTH110
