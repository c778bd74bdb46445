"""``devicegen upgrade``: newer templates and other answers into what was written before."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from devicegen import __version__
from devicegen.record import Answers
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
from kit import read_tree, write_tree

UP_TO_DATE = Done(0, "Nothing to do: the harness is current.\n", "")
XDIST_HOOK = "pytest_xdist_setupnodes"
RENEWED = Done(0, f"update  {HARNESS}\nupdate  {PRISTINE}\nupdate  {RECORD}\n", "")


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A repository with a harness."""
    return library_with_harness(tmp_path)


def edit(top: Path, old: str = "\nimport os\n", new: str = "\nimport os  # edited\n") -> None:
    text = (top / HARNESS).read_text("utf-8")
    assert text.count(old) == 1
    (top / HARNESS).write_text(text.replace(old, new), "utf-8")


def test_nothing_to_do_touches_nothing(top: Path) -> None:
    before = state(top)

    assert run("upgrade", top) == UP_TO_DATE
    assert state(top) == before


def test_without_a_record_it_points_to_init(tmp_path: Path) -> None:
    write_tree(tmp_path, LIBRARY)

    assert run("upgrade", tmp_path) == Done(
        2, "", f"devicegen: {tmp_path}: no record here; run `devicegen init` first\n"
    )
    assert set(read_tree(tmp_path)) == set(LIBRARY)


def test_a_newer_template_comes_in(top: Path) -> None:
    before = read_tree(top)
    make_older(top)

    assert run("upgrade", top) == RENEWED
    assert read_tree(top) == before
    assert run("upgrade", top) == UP_TO_DATE


def test_dry_run_and_diff_write_nothing(top: Path) -> None:
    make_older(top)
    before = state(top)

    dry, diff = run("upgrade", top, "--dry-run"), run("upgrade", top, "--diff")

    assert state(top) == before
    assert dry == Done(0, f"{RENEWED.stdout}\nDry run: nothing was written.\n", "")
    assert (diff.code, diff.stderr) == (0, "")
    assert diff.stdout.startswith(f"--- a/{HARNESS}\n+++ b/{HARNESS}\n@@ -")
    assert "\n-OLDER = True\n" in diff.stdout
    assert f"\n+Written by devicegen {__version__} for" in diff.stdout
    assert ".devicegen" not in diff.stdout


@pytest.mark.slow
def test_answers_are_remembered_changed_and_taken_back(top: Path) -> None:
    as_first = read_tree(top)

    def answers() -> list[str]:
        table = (top / RECORD).read_text("utf-8").split("[answers]")[1].split("[files]")[0]
        return table.splitlines()[1:-1]

    said = "xdist: not given -> no\nmemory_limit_mb: not given -> 512\n"
    assert run("upgrade", top, "--no-xdist", "--memory-limit-mb", "512") == Done(
        0, said + RENEWED.stdout, ""
    )
    assert answers() == ["xdist = false", "memory_limit_mb = 512"]
    harness = (top / HARNESS).read_text("utf-8")
    assert XDIST_HOOK not in harness
    assert "512" in harness

    assert run("upgrade", top) == UP_TO_DATE
    make_older(top)
    assert run("upgrade", top) == RENEWED
    assert (top / HARNESS).read_text("utf-8") == harness

    assert run("upgrade", top, "--xdist").code == 0
    assert answers() == ["xdist = true", "memory_limit_mb = 512"]
    assert XDIST_HOOK in (top / HARNESS).read_text("utf-8")
    assert run("upgrade", top, "--memory-limit-mb", "0").code == 0
    assert (top / HARNESS).read_bytes() == as_first[HARNESS]
    assert run("upgrade", top, "--rocm").code == 0
    assert answers()[2:] == ["rocm = true"]
    assert "ROCR_VISIBLE_DEVICES" in (top / HARNESS).read_text("utf-8")
    assert run("upgrade", top, "--no-rocm").code == 0
    assert (top / HARNESS).read_bytes() == as_first[HARNESS]


def test_config_edit_can_be_given_up_and_asked_for(tmp_path: Path) -> None:
    write_tree(tmp_path, LIBRARY)
    untouched = (tmp_path / "pyproject.toml").read_bytes()
    run("init", tmp_path, "--no-config-edit")

    assert (
        run("upgrade", tmp_path, "--config-edit").stdout
        == f"config_edit: no -> yes\nupdate  pyproject.toml\nupdate  {RECORD}\n"
    )
    edited = (tmp_path / "pyproject.toml").read_bytes()
    assert edited != untouched
    assert run("upgrade", tmp_path, "--no-config-edit").stdout == (
        f"config_edit: yes -> no\nupdate  {RECORD}\n"
    )
    assert (tmp_path / "pyproject.toml").read_bytes() == edited


@pytest.mark.parametrize(
    ("earlier", "now", "said"),
    [
        (
            ["--strategy=one_device", "--marker-alias=a=run_on", "--marker-alias=b=run_on:gpu"],
            ["--strategy=central_storage", "--marker-alias=none"],
            "strategies: one_device -> central_storage\n"
            "marker_aliases: a=run_on, b=run_on:gpu -> none\n",
        ),
        (
            ["--memory-limit-mb=512", "--xdist"],
            ["--memory-limit-mb=0", "--xdist", "--rocm"],
            "memory_limit_mb: 512 -> 0\nrocm: not given -> yes\n",
        ),
    ],
    ids=["lists", "others"],
)
def test_an_answer_that_replaces_another_is_said(
    tmp_path: Path, earlier: list[str], now: list[str], said: str
) -> None:
    top = write_tree(tmp_path, LIBRARY)
    assert run("init", top, *earlier).code == 0
    before = run("upgrade", top, "--dry-run", *now)

    done = run("upgrade", top, *now)

    assert done.code == 0, done
    assert done.stdout.startswith(f"{said}update  {HARNESS}\n"), done
    assert before.stdout == f"{done.stdout}\nDry run: nothing was written.\n"
    assert run("upgrade", top, *now).stdout == "Nothing to do: the harness is current.\n"


def test_marker_lines_that_were_taken_out_come_back(top: Path) -> None:
    with_markers = read_tree(top)
    write_tree(top, {"pyproject.toml": LIBRARY["pyproject.toml"]})

    assert run("upgrade", top) == Done(0, "update  pyproject.toml\n", "")
    assert read_tree(top) == with_markers


# A formatted file, another checkout


def reformat(top: Path) -> None:
    """Format the harness as a project with a style of its own would."""
    style = ["--config=line-length=60", "--config=format.quote-style='single'"]
    command = [sys.executable, "-m", "ruff", "format", "--isolated", *style, str(top / HARNESS)]
    before = (top / HARNESS).read_bytes()
    subprocess.run(command, check=True, capture_output=True)
    assert (top / HARNESS).read_bytes() != before


def test_a_reformatted_harness_is_no_edit_and_is_left_alone(top: Path) -> None:
    reformat(top)
    before = state(top)

    assert run("upgrade", top) == UP_TO_DATE
    assert state(top) == before


def test_a_reformatted_harness_is_renewed(top: Path) -> None:
    before = read_tree(top)
    make_older(top)
    reformat(top)

    assert run("upgrade", top) == Done(
        0,
        RENEWED.stdout,
        f"devicegen: note: {HARNESS}: is laid out as devicegen writes it; run your formatter on "
        "it\n",
    )
    assert read_tree(top) == before


def test_a_checkout_with_other_line_endings_is_no_edit(top: Path) -> None:
    for name in (HARNESS, PRISTINE, RECORD, "pyproject.toml"):
        (top / name).write_bytes((top / name).read_bytes().replace(b"\n", b"\r\n"))
    before = state(top)

    assert run("upgrade", top) == UP_TO_DATE
    assert state(top) == before


@pytest.mark.parametrize("name", [HARNESS, PRISTINE, RECORD])
def test_a_byte_order_mark_is_no_edit(top: Path, name: str) -> None:
    (top / name).write_bytes(b"\xef\xbb\xbf" + (top / name).read_bytes())

    assert run("upgrade", top) == UP_TO_DATE


def test_line_endings_byte_order_mark_and_mode_stay(top: Path) -> None:
    expected = read_tree(top)
    make_older(top)
    for name in (HARNESS, PRISTINE, RECORD):
        data = (top / name).read_bytes().replace(b"\n", b"\r\n")
        (top / name).write_bytes(b"\xef\xbb\xbf" + data if name == HARNESS else data)
    (top / HARNESS).chmod(0o640)

    assert run("upgrade", top) == RENEWED

    after = read_tree(top)
    assert after[HARNESS] == b"\xef\xbb\xbf" + expected[HARNESS].replace(b"\n", b"\r\n")
    assert after[PRISTINE] == expected[PRISTINE].replace(b"\n", b"\r\n")
    assert after[RECORD] == expected[RECORD].replace(b"\n", b"\r\n")
    assert stat.S_IMODE((top / HARNESS).stat().st_mode) == 0o640


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root's chown")
def test_root_does_not_take_the_owner_s_files(top: Path) -> None:
    make_older(top)
    os.chown(top / HARNESS, 65534, 65534)

    run("upgrade", top)

    status = (top / HARNESS).stat()
    assert (status.st_uid, status.st_gid) == (65534, 65534)


# An edited file


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("\nimport os\n", "\nimport os  # ours\n"),
        ("\nimport os\n", "\nimport os\nimport secrets\n"),
        ("\nimport os\n", "\nos = __import__('os')\n"),
    ],
    ids=["a comment", "an import", "code"],
)
def test_an_edit_is_kept_where_nothing_is_newer(top: Path, old: str, new: str) -> None:
    edit(top, old, new)
    before = state(top)

    done = run("upgrade", top)

    assert done == Done(
        0,
        UP_TO_DATE.stdout,
        f"devicegen: note: {HARNESS}: was edited since devicegen wrote it; there is nothing newer "
        "to write\n",
    )
    assert state(top) == before


def test_what_is_no_longer_text_is_refused(top: Path) -> None:
    make_older(top)
    (top / HARNESS).write_bytes(b"\xff\xfe")
    before = state(top)

    assert run("upgrade", top) == Done(
        2,
        "",
        f"devicegen: {HARNESS}: is no longer UTF-8; restore it from version control\n",
    )
    assert state(top) == before


def test_an_edit_that_is_the_newer_text_itself_is_taken_up(top: Path) -> None:
    newer = (top / HARNESS).read_bytes()
    make_older(top)
    (top / HARNESS).write_bytes(newer)

    assert run("upgrade", top) == Done(0, f"update  {PRISTINE}\nupdate  {RECORD}\n", "")


def test_the_harness_stays_where_it_is_when_tests_move(top: Path) -> None:
    write_tree(top, {"other/test_b.py": "import tensorflow\n", "more_test.py": ""})

    assert run("upgrade", top) == UP_TO_DATE


def test_the_oldest_tensorflow_changes_the_names(top: Path) -> None:
    config = (top / "pyproject.toml").read_text("utf-8")
    assert "set_logical_device_configuration" in (top / HARNESS).read_text("utf-8")
    (top / "pyproject.toml").write_text(config.replace(">=2.8", ">=2.1"), "utf-8")

    assert run("upgrade", top) == RENEWED

    harness = (top / HARNESS).read_text("utf-8")
    assert "experimental.set_virtual_device_configuration" in harness
    assert "set_logical_device_configuration" not in harness


# A pristine text that is lost or changed


@pytest.mark.parametrize("damage", [None, b"changed\n", b"\xff"], ids=["gone", "changed", "bytes"])
def test_a_damaged_pristine_text_is_written_anew(top: Path, damage: bytes | None) -> None:
    before = read_tree(top)
    (top / PRISTINE).unlink()
    if damage is not None:
        (top / PRISTINE).write_bytes(damage)

    action = "create" if damage is None else "update"
    assert run("upgrade", top) == Done(0, f"{action}  {PRISTINE}\n", "")
    assert read_tree(top) == before


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (None, f"{PRISTINE} cannot be read (No such file or directory)"),
        (b"changed\n", f"{PRISTINE} is not what {RECORD} says was written"),
        (b"\xff", f"{PRISTINE} cannot be read (not UTF-8)"),
    ],
    ids=["gone", "changed", "bytes"],
)
def test_nothing_is_overwritten_that_cannot_be_compared(
    top: Path, damage: bytes | None, reason: str
) -> None:
    make_older(top)
    (top / PRISTINE).unlink()
    if damage is not None:
        (top / PRISTINE).write_bytes(damage)
    before = state(top)

    done = run("upgrade", top)

    assert done.code == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"devicegen: {HARNESS}: cannot be compared: {reason}; ")
    assert state(top) == before


def test_a_record_by_hand_with_other_answers_is_followed(top: Path) -> None:
    make_older(top, answers=Answers(xdist=False))

    assert run("upgrade", top) == RENEWED
    assert XDIST_HOOK not in (top / HARNESS).read_text("utf-8")
