"""``devicegen upgrade`` into files with edits: kept, shown as a conflict, never lost."""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from devicegen import __version__, migration_notes
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

PENDING = ".devicegen/tests/conftest.py.pending"
MERGED = f"merge  {HARNESS}\nupdate  {PRISTINE}\nupdate  {RECORD}\n"
# In the harness today, and what devicegen 0.0.1 had instead.
CHANGED = ('MARKER_NAMES = ("run_on", "no_device_scope")', 'MARKER_NAMES = ("run_on",)')


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A repository with a harness."""
    return library_with_harness(tmp_path)


def harness(top: Path) -> str:
    return (top / HARNESS).read_bytes().decode()


def edit(top: Path, old: str, new: str) -> None:
    text = harness(top)
    assert text.count(old) == 1, old
    (top / HARNESS).write_bytes(text.replace(old, new).encode())


def conflict(top: Path) -> str:
    """Upgrade a harness whose MARKER_NAMES the user and devicegen have changed, and another place.

    Returns the text that the harness had before.
    """
    make_older(top, CHANGED)
    edit(top, "\nimport os\n", "\nimport os  # ours\n")
    edit(top, 'MARKER_NAMES = ("run_on",)', 'MARKER_NAMES = ("run_on", "ours")')
    before = harness(top)
    assert run("upgrade", top).code == 3
    return before


def formatted(top: Path) -> None:
    style = ["--config=line-length=60", "--config=format.quote-style='single'"]
    command = [sys.executable, "-m", "ruff", "format", "--isolated", *style, str(top / HARNESS)]
    subprocess.run(command, check=True, capture_output=True)


# Kept


def test_an_edit_alone_is_merged_and_recorded(top: Path) -> None:
    newest = harness(top)
    make_older(top, CHANGED)
    edit(top, "\nimport os\n", "\nimport os  # ours\n")

    assert run("upgrade", top, "--dry-run") == Done(
        0, f"{MERGED}\nDry run: nothing was written.\n", ""
    )
    assert run("upgrade", top) == Done(0, MERGED, "")
    assert harness(top) == newest.replace("\nimport os\n", "\nimport os  # ours\n")
    assert (top / PRISTINE).read_bytes().decode() == newest
    assert tomllib.loads((top / RECORD).read_text("utf-8"))["version"] == __version__
    assert run("upgrade", top).stdout == "Nothing to do: the harness is current.\n"


@pytest.mark.parametrize(
    "newline",
    [pytest.param("\n", id="lf", marks=pytest.mark.slow), pytest.param("\r\n", id="crlf")],
)
def test_an_edited_and_formatted_file(top: Path, newline: str) -> None:
    newest = harness(top)
    make_older(top, CHANGED)
    edit(top, "\nimport os\n", "\nimport os  # ours\n")
    formatted(top)
    (top / HARNESS).write_bytes(harness(top).replace("\n", newline).encode())
    (top / HARNESS).chmod(0o640)

    done = run("upgrade", top)

    note = f"devicegen: note: {HARNESS}: is laid out as devicegen writes it; run your formatter "
    assert (done.code, done.stdout) == (0, MERGED)
    assert done.stderr == f"{note}on it\n"
    expected = newest.replace("\nimport os\n", "\nimport os  # ours\n")
    assert harness(top) == expected.replace("\n", newline)
    assert stat.S_IMODE((top / HARNESS).stat().st_mode) == 0o640


@pytest.mark.slow
def test_what_the_user_took_out_stays_out(top: Path) -> None:
    make_older(top, CHANGED)
    edit(top, "\nimport os\n", "\n")

    assert run("upgrade", top).code == 0
    assert "\nimport os\n" not in harness(top)


# Conflicts


def test_a_conflict_is_shown_and_said(top: Path) -> None:
    newest = harness(top)
    before = conflict(top)
    text = harness(top)

    block = (
        f"<<<<<<< {HARNESS} as it is here\n"
        'MARKER_NAMES = ("run_on", "ours")\n'
        "=======\n"
        f"{CHANGED[0]}\n"
        f">>>>>>> devicegen {__version__}\n"
    )
    expected = newest.replace("\nimport os\n", "\nimport os  # ours\n")
    assert text == expected.replace(f"{CHANGED[0]}\n", block)
    assert before not in text
    record = tomllib.loads((top / RECORD).read_text("utf-8"))
    assert record["version"] == "0.0.1"
    assert list(record["pending"]) == [HARNESS]
    assert (top / PENDING).read_bytes().decode() == newest


@pytest.mark.parametrize(
    "args",
    [
        [],
        pytest.param(["--dry-run"], marks=pytest.mark.slow),
        pytest.param(["--diff"], marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_each_place_is_listed_beforehand_too(top: Path, args: list[str]) -> None:
    make_older(top, CHANGED)
    edit(top, 'MARKER_NAMES = ("run_on",)', 'MARKER_NAMES = ("run_on", "ours")')
    before = state(top)

    done = run("upgrade", top, *args)

    (line,) = done.stderr.splitlines()
    place = re.match(rf"devicegen: {HARNESS}:(\d+): conflict: ", line)
    assert done.code == 3
    assert place
    if args:
        assert state(top) == before
        run("upgrade", top)
    lines = harness(top).splitlines()
    assert lines[int(place[1]) - 1] == f"<<<<<<< {HARNESS} as it is here"
    if args == ["--diff"]:
        added = [line[1:] for line in done.stdout.splitlines() if line.startswith("+")]
        assert f"<<<<<<< {HARNESS} as it is here" in added
        assert f">>>>>>> devicegen {__version__}" in added


@pytest.mark.parametrize(
    "verb",
    [
        ["upgrade"],
        pytest.param(["init"], marks=pytest.mark.slow),
        pytest.param(["diff"], marks=pytest.mark.slow),
        ["eject"],
    ],
    ids=str,
)
def test_nothing_is_done_over_conflict_markers(top: Path, verb: list[str]) -> None:
    conflict(top)
    before = state(top)

    done = run(*verb, top)

    assert (done.code, state(top)) == (2, before)
    line = harness(top).splitlines().index(f"<<<<<<< {HARNESS} as it is here") + 1
    assert re.search(
        rf"{HARNESS}(: has conflict markers \(line {line}\)|:{line}: conflict)", done.stderr
    )


RESOLUTIONS = {
    "theirs": 'MARKER_NAMES = ("run_on", "ours")\n',
    "new": f"{CHANGED[0]}\n",
    "both": 'MARKER_NAMES = ("run_on", "no_device_scope", "ours")\n',
    "as it was": 'MARKER_NAMES = ("run_on",)\n',
    "neither": "",
}


@pytest.mark.parametrize(
    "resolution",
    [
        pytest.param(text, id=name, marks=[pytest.mark.slow] * (name != "new"))
        for name, text in RESOLUTIONS.items()
    ],
)
def test_a_resolved_conflict_is_recorded_and_stays_resolved(top: Path, resolution: str) -> None:
    newest = harness(top)
    conflict(top)
    text = re.sub(r"<<<<<<< .*?\n>>>>>>> [^\n]*\n", resolution, harness(top), flags=re.DOTALL)
    (top / HARNESS).write_bytes(text.encode())

    assert run("check", top).code == 1
    done = run("upgrade", top)

    assert (done.code, harness(top)) == (0, text)
    assert not (top / PENDING).exists()
    assert (top / PRISTINE).read_bytes().decode() == newest
    assert tomllib.loads((top / RECORD).read_text("utf-8"))["version"] == __version__
    assert run("upgrade", top).code == 0
    assert run("check", top).code == 0
    assert harness(top) == text


def test_a_file_that_was_put_back_is_merged_again(top: Path) -> None:
    """Else its record would say that it is new, and what is new would never come."""
    before = conflict(top)
    conflicted = read_tree(top)
    (top / HARNESS).write_bytes(before.encode())

    done = run("upgrade", top)

    assert done.code == 3
    assert f"{HARNESS}: lacks what devicegen {__version__} brought; merged again\n" in done.stderr
    assert read_tree(top) == conflicted


@pytest.mark.slow
def test_answers_outlive_a_conflict(top: Path) -> None:
    make_older(top, CHANGED)
    edit(top, 'MARKER_NAMES = ("run_on",)', 'MARKER_NAMES = ("run_on", "ours")')

    assert run("upgrade", top, "--memory-limit-mb", "512").code == 3
    text = re.sub(r"<<<<<<< .*?=======\n(.*?)>>>>>>> [^\n]*\n", r"\1", harness(top), flags=re.S)
    (top / HARNESS).write_bytes(text.encode())

    assert run("upgrade", top).code == 0
    record = tomllib.loads((top / RECORD).read_text("utf-8"))
    assert record["answers"] == {"memory_limit_mb": 512}
    assert "512" in harness(top)


@pytest.mark.slow
def test_a_pending_text_that_is_lost_costs_another_merge(top: Path) -> None:
    conflict(top)
    (top / PENDING).unlink()
    text = re.sub(r"<<<<<<< .*?=======\n(.*?)>>>>>>> [^\n]*\n", r"\1", harness(top), flags=re.S)
    (top / HARNESS).write_bytes(text.encode())

    assert run("upgrade", top).code == 0
    assert harness(top) == text


@pytest.mark.slow
def test_a_newer_conflict_is_no_business_of_an_older_devicegen(top: Path) -> None:
    conflict(top)
    record = (top / RECORD).read_text("utf-8")
    newer = record.replace(f'version = "{__version__}"', 'version = "99"')
    assert newer != record
    (top / RECORD).write_text(newer, "utf-8")

    assert "written by devicegen 99" in run("upgrade", top).stderr


@pytest.mark.parametrize(
    "pending",
    [
        'pending = 1\n',
        "[pending]\nx = 1\n",
        '[pending]\n"{0}" = 1\n',
        '[pending]\n"{0}" = {{ version = "0", hash = "x" }}\n',
        '[pending]\n"{0}" = {{ version = "x", hash = "x", lines = [] }}\n',
        '[pending]\n"{0}" = {{ version = "0", hash = "x", lines = [1] }}\n',
        '[pending]\n"{0}" = {{ version = "0", hash = "x", lines = [[1, true]] }}\n',
        '[pending]\n"../x.py" = {{ version = "0", hash = "x", lines = [] }}\n',
    ],
)  # fmt: skip
def test_a_broken_pending_merge_is_one_line(top: Path, pending: str) -> None:
    record = (top / RECORD).read_text("utf-8")
    pending = pending.format(HARNESS)
    text = record + pending if pending.startswith("[") else pending + record
    (top / RECORD).write_text(text, "utf-8")

    done = run("upgrade", top)

    assert (done.code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"devicegen: {RECORD}:")


# Deleted, moved, replaced


def test_deleted_stays_deleted_and_comes_back_when_asked(top: Path) -> None:
    newest = read_tree(top)
    make_older(top)
    (top / HARNESS).unlink()
    before = state(top)

    done = run("upgrade", top)

    assert done == Done(
        0,
        "Nothing was written.\n",
        f"devicegen: note: {HARNESS}: was deleted and stays so; `devicegen upgrade --restore` "
        "brings it back, `devicegen eject` forgets it\n",
    )
    assert state(top) == before
    assert run("init", top).code == 2
    assert state(top) == before
    assert run("upgrade", top, "--restore").code == 0
    assert read_tree(top) == newest


def test_deleted_with_its_pristine_text_is_refused(top: Path) -> None:
    (top / HARNESS).unlink()
    (top / PRISTINE).unlink()

    assert run("upgrade", top).code == 2
    assert run("upgrade", top, "--restore").code == 0
    assert (top / HARNESS).exists()


@pytest.mark.parametrize(
    "kind",
    [
        "edited",
        pytest.param("as it was", marks=pytest.mark.slow),
        pytest.param("formatted", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(
    "replacement",
    [
        pytest.param(None, id="gone", marks=pytest.mark.slow),
        pytest.param("import pytest\n", id="another"),
    ],
)
def test_a_moved_harness_is_followed(top: Path, kind: str, replacement: str | None) -> None:
    newest = harness(top)
    make_older(top)
    if kind == "edited":
        edit(top, "\nimport os\n", "\nimport os  # ours\n")
    elif kind == "formatted":
        formatted(top)
    (top / HARNESS).rename(top / "conftest.py")
    if replacement:
        write_tree(top, {HARNESS: replacement})

    done = run("upgrade", top)

    assert done.code == 0
    assert (
        f"note: {HARNESS}: was moved to conftest.py; devicegen follows it there\n" in done.stderr
    )
    expected = newest.replace(
        "\nimport os\n", "\nimport os  # ours\n" if kind == "edited" else "\nimport os\n"
    )
    assert (top / "conftest.py").read_text("utf-8") == expected
    assert (top / ".devicegen/conftest.py.pristine").read_text("utf-8") == newest
    assert not (top / PRISTINE).exists()
    assert list(tomllib.loads((top / RECORD).read_text("utf-8"))["files"]) == ["conftest.py"]
    assert run("upgrade", top).stdout == "Nothing to do: the harness is current.\n"
    assert run("check", top).code == 0
    assert (top / HARNESS).exists() == bool(replacement)


def test_a_renamed_folder_is_followed(top: Path) -> None:
    (top / "tests").rename(top / "test_all")

    assert run("check", top).code == 1
    assert run("upgrade", top).code == 0
    assert run("check", top).code == 0
    assert run("upgrade", top).stdout == "Nothing to do: the harness is current.\n"


def test_moved_to_two_places_is_refused(top: Path) -> None:
    shutil.copy(top / HARNESS, top / "conftest.py")
    write_tree(top, {"other/conftest.py": (top / HARNESS).read_bytes()})
    (top / HARNESS).unlink()
    before = state(top)

    done = run("upgrade", top)

    assert done == Done(
        2,
        "",
        f"devicegen: {HARNESS}: is gone, and conftest.py and other/conftest.py are like it; "
        "keep one of them\n",
    )
    assert state(top) == before


@pytest.mark.parametrize(
    "header",
    ["Written by devicegen", pytest.param("Written by us, not devicegen", marks=pytest.mark.slow)],
)
def test_a_copy_is_not_followed(top: Path, header: str) -> None:
    shutil.copy(top / HARNESS, top / "conftest.py")
    edit(top, "Written by devicegen", header)

    assert run("upgrade", top).stdout == "Nothing to do: the harness is current.\n"


def link(top: Path) -> None:
    (top / HARNESS).rename(top / "elsewhere.py")
    (top / HARNESS).symlink_to("../elsewhere.py")


def folder(top: Path) -> None:
    (top / HARNESS).unlink()
    (top / HARNESS).mkdir()


def submodule(top: Path) -> None:
    write_tree(top, {"tests/.git": "gitdir: ../.git/modules/tests\n"})


def another(top: Path) -> None:
    write_tree(top, {HARNESS: "import pytest\n\n\n@pytest.fixture\ndef ours():\n    return 1\n"})


def no_folder(top: Path) -> None:
    shutil.rmtree(top / "tests")
    write_tree(top, {"tests": "", "test_library.py": ""})


@pytest.mark.parametrize(
    ("replace", "reason"),
    [
        (link, "is a symbolic link, which is not followed; replace it by a file"),
        (folder, "is in the way: no regular file"),
        (submodule, "lies in another repository (tests is a submodule or a clone)"),
        (another, "was replaced by a file that is not devicegen's; restore it, or run `eject`"),
        (no_folder, "tests is in the way: no folder"),
    ],
)
def test_what_took_its_place_is_refused_and_nothing_else_is_done(
    top: Path, replace: object, reason: str
) -> None:
    make_older(top)
    write_tree(top, {"pyproject.toml": LIBRARY["pyproject.toml"]})
    replace(top)  # type: ignore[operator]
    before = state(top)

    assert run("upgrade", top) == Done(2, "", f"devicegen: {HARNESS}: {reason}\n")
    assert state(top) == before


def test_an_orphan_of_the_record_goes(top: Path) -> None:
    before = read_tree(top)
    write_tree(top, {".devicegen/other/conftest.py.pristine": "x", ".devicegen/README": "ours"})

    assert run("upgrade", top).stdout == "delete  .devicegen/other/conftest.py.pristine\n"
    assert read_tree(top) == {**before, ".devicegen/README": b"ours"}


# An older devicegen


@pytest.mark.parametrize(
    "verb",
    [
        ["upgrade"],
        *(
            pytest.param([verb], marks=pytest.mark.slow)
            for verb in ("init", "check", "diff", "eject")
        ),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            f'version = "{__version__}"',
            'version = "99.1"',
            "written by devicegen 99.1, and this is",
        ),
        ("format = 1", "format = 2", "format 2 is not the format 1 that devicegen"),
    ],
    ids=["version", "format"],
)
def test_a_newer_record_is_refused(
    top: Path, verb: list[str], old: str, new: str, reason: str
) -> None:
    record = (top / RECORD).read_text("utf-8")
    assert record.count(old) == 1
    (top / RECORD).write_text(record.replace(old, new), "utf-8")
    before = state(top)

    done = run(*verb, top)

    assert (done.code, done.stdout, state(top)) == (2, "", before)
    assert re.match(rf"devicegen: {RECORD}(:2)?: {re.escape(reason)} ", done.stderr)
    assert done.stderr.count("\n") == 1


# Migration notes


def test_migration_notes_are_shown_once(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = (("0.0.1", "old"), ("0.0.9", "look at this"), (__version__, "and this"), ("99", "no"))
    monkeypatch.setattr(migration_notes, "NOTES", notes)
    make_older(top)

    expected = (
        "devicegen: note: since 0.0.9: look at this\n"
        f"devicegen: note: since {__version__}: and this\n"
    )
    assert run("upgrade", top, "--dry-run").stderr == expected
    assert run("upgrade", top).stderr == expected
    assert run("upgrade", top).stderr == ""
