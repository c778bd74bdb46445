"""``devicegen upgrade`` into a block in a conftest of the project: merged as a whole harness is.

Whatever happens, no byte outside of the block changes.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from devicegen import __version__
from devicegen.conftest_block import BEGIN, END, find_block
from generator import RECORD, Done, make_older, run, state
from kit import clean_environ, environment, read_tree, run_pytest, write_tree
from layouts import OWNERS_HOOKS, TEST

PLACE = "conftest.py"
PRISTINE = f".devicegen/{PLACE}.pristine"
PENDING = f".devicegen/{PLACE}.pending"
UP_TO_DATE = "Nothing to do: the harness is current.\n"
MERGED = f"merge  {PLACE}\nupdate  {PRISTINE}\nupdate  {RECORD}\n"
# In the block today, and what devicegen 0.0.1 had instead.
CHANGED = ('MARKER_NAMES = ("run_on", "no_device_scope")', 'MARKER_NAMES = ("run_on",)')
EDIT = ("\nimport contextlib  # noqa: E402\n", "\nimport contextlib  # noqa: E402, ours\n")
# What the project has around the block: each keeps every byte.
AROUND = {
    "plain": (OWNERS_HOOKS.encode() + b"\n\n", b"\n\nAFTER  =  1\n"),
    "CRLF": (b"import os\r\nX  =  1\r\n\r\n", b"\r\n\r\nAFTER = 1\r\n"),
    "lone CR": (b"import os\rX  =  1\r\r", b"AFTER = 1\r"),
    "latin-1": ("# coding: latin-1\nNAME  =  'é'\n".encode("latin-1"), "# ü".encode("latin-1")),
    "BOM, no end": (b"\xef\xbb\xbfX  =  1\n", b""),
}
slow = pytest.mark.slow
EACH = [name if name == "CRLF" else pytest.param(name, marks=slow) for name in AROUND]


def block_of(top: Path, path: str = PLACE) -> str:
    r"""Return the text of the block, with ``\n`` line endings."""
    data = (top / path).read_bytes()
    text = data[slice(*(find_block(data) or (0, 0)))].decode("latin-1")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def outside(top: Path, path: str = PLACE) -> bytes:
    data = (top / path).read_bytes()
    start, end = find_block(data) or (0, 0)
    return data[:start] + data[end:]


def edit(top: Path, *edits: tuple[str, str]) -> None:
    data = (top / PLACE).read_bytes()
    newline = b"\r\n" if b"\r\n" in data else b"\r" if b"\r" in data else b"\n"
    for old, new in edits:
        before, after = (each.encode("latin-1").replace(b"\n", newline) for each in (old, new))
        assert data.count(before) == 1, old
        data = data.replace(before, after)
    (top / PLACE).write_bytes(data)


def made(top: Path, around: str) -> Path:
    """A repository whose conftest has our block between what the project wrote."""
    head, tail = AROUND[around]
    write_tree(top, {"pytest.ini": "[pytest]\n", "p/test_a.py": TEST, PLACE: head})
    assert run("init", top).code == 0
    data = (top / PLACE).read_bytes()
    start, end = find_block(data) or (0, 0)
    (top / PLACE).write_bytes(head + data[start:end] + tail)
    return top


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return made(tmp_path, "plain")


def git(top: Path, *args: str) -> None:
    subprocess.run(["git", *args], cwd=top, env=clean_environ(), check=True)


def conflict(top: Path) -> int:
    """Upgrade a block whose MARKER_NAMES both sides have changed; return the line of it."""
    make_older(top, CHANGED)
    edit(top, EDIT, (CHANGED[1], 'MARKER_NAMES = ("run_on", "ours")'))
    done = run("upgrade", top)
    assert done.code == 3, done
    lines = (top / PLACE).read_bytes().splitlines()
    (line,) = [number for number, each in enumerate(lines, 1) if each.startswith(b"<<<<<<<")]
    assert f"{PLACE}:{line}: conflict: " in done.stderr
    return line


# Kept


@pytest.mark.slow
@pytest.mark.parametrize("around", EACH)
def test_an_edit_is_merged_and_no_other_byte_changes(tmp_path: Path, around: str) -> None:
    top = made(tmp_path, around)
    newest = block_of(top)
    make_older(top, CHANGED)
    edit(top, EDIT)

    assert run("diff", top).code == 1
    assert run("check", top).code == 1
    assert run("upgrade", top) == Done(0, MERGED, "")

    assert outside(top) == b"".join(AROUND[around])
    assert block_of(top) == newest.replace(*EDIT)
    assert (top / PRISTINE).read_bytes().decode() == newest
    assert tomllib.loads((top / RECORD).read_text("utf-8"))["version"] == __version__
    assert run("upgrade", top).stdout == UP_TO_DATE
    assert run("check", top).code == 0
    assert run("check", top, "--strict").code == 1


@slow
@pytest.mark.parametrize("around", AROUND)
def test_an_unedited_block_takes_the_new_text(tmp_path: Path, around: str) -> None:
    top = made(tmp_path, around)
    newest = read_tree(top)
    make_older(top, CHANGED)

    assert run("upgrade", top).code == 0
    assert read_tree(top) == newest


@slow
def test_a_formatted_block_is_no_edit_and_keeps_one(top: Path) -> None:
    newest = block_of(top)
    make_older(top, CHANGED)
    edit(top, EDIT)
    style = ["--config=line-length=60", "--config=format.quote-style='single'"]
    subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--isolated", *style, PLACE],
        cwd=top, env=clean_environ(), check=True, capture_output=True,
    )  # fmt: skip
    around = outside(top)

    done = run("upgrade", top)

    assert done.code == 0
    assert "is laid out as devicegen writes it; run your formatter on it" in done.stderr
    assert outside(top).split() == around.split()
    assert outside(top).strip() == around.strip()
    assert block_of(top) == newest.replace(*EDIT)


@slow
def test_an_edit_of_the_lines_that_hold_it_is_none(top: Path) -> None:
    """They are never merged, so a conflict can never tear the block apart."""
    make_older(top, CHANGED)
    edit(top, (BEGIN, "# >>> devicegen: by Ann"), (END, "# <<< devicegen: here"))
    edit(top, ("\nOLDER = True\n", "\nOLDER = False\n"))

    done = run("upgrade", top)

    assert done.code == 3
    assert block_of(top).startswith(f"{BEGIN}\n")
    assert block_of(top).endswith(f"\n{END}\n")
    assert outside(top) == b"".join(AROUND["plain"])


# Conflicts


@pytest.mark.parametrize("around", EACH)
def test_a_conflict_stays_within_the_block(tmp_path: Path, around: str) -> None:
    top = made(tmp_path, around)
    newest = block_of(top)

    conflict(top)

    shown = (
        f"<<<<<<< {PLACE} as it is here\n"
        'MARKER_NAMES = ("run_on", "ours")\n'
        "=======\n"
        f"{CHANGED[0]}\n"
        f">>>>>>> devicegen {__version__}\n"
    )
    assert block_of(top) == newest.replace(*EDIT).replace(f"{CHANGED[0]}\n", shown)
    assert outside(top) == b"".join(AROUND[around])
    assert tomllib.loads((top / RECORD).read_text("utf-8"))["version"] == "0.0.1"
    assert (top / PENDING).read_bytes().decode() == newest


@pytest.mark.slow
def test_check_and_a_second_upgrade_see_it(top: Path) -> None:
    line = conflict(top)
    before = state(top)

    assert run("check", top).stdout == f"FAIL  {PLACE}:{line}: conflict markers; resolve them\n"
    for verb in ("upgrade", "diff", "init"):
        done = run(verb, top)
        assert done.code == 2, done
        assert f"{PLACE}: has conflict markers (line {line})" in done.stderr
    done = run("eject", top)
    assert (done.code, done.stdout) == (2, "")
    assert f"{PLACE}:{line}: conflict markers; resolve them first" in done.stderr
    assert state(top) == before

    lines = (top / PLACE).read_text().splitlines(keepends=True)
    kept = [each for each in lines if not each.startswith(("<<<<<<<", "=======", ">>>>>>>"))]
    (top / PLACE).write_text("".join(kept).replace(f"{CHANGED[0]}\n", "", 1))
    assert "conflicts are resolved; run `devicegen upgrade`" in run("check", top).stdout
    assert run("upgrade", top).code == 0
    assert run("check", top).code == 0
    assert not (top / PENDING).exists()
    assert 'MARKER_NAMES = ("run_on", "ours")' in block_of(top)


@slow
def test_what_would_be_a_conflict_is_said_beforehand(top: Path) -> None:
    make_older(top, CHANGED)
    edit(top, (CHANGED[1], 'MARKER_NAMES = ("run_on", "ours")'))
    before = state(top)

    assert "`devicegen upgrade` will leave 1 conflict" in run("check", top).stdout
    assert "+<<<<<<< " in run("diff", top).stdout
    assert run("upgrade", top, "--dry-run").code == 3
    assert state(top) == before


# Deleted, moved, replaced


@pytest.mark.slow
def test_a_deleted_block_stays_deleted_and_comes_back_when_asked(top: Path) -> None:
    newest = block_of(top)
    make_older(top)
    left = OWNERS_HOOKS.encode()
    (top / PLACE).write_bytes(left)
    before = state(top)

    done = run("upgrade", top)

    reason = (
        f"{PLACE}: its block was deleted and stays so; `devicegen upgrade --restore` brings it "
        "back, `devicegen eject` forgets it\n"
    )
    assert done == Done(0, "Nothing was written.\n", f"devicegen: note: {reason}")
    assert run("init", top).code == 2
    assert run("check", top).code == 1
    assert f"FAIL  {reason}" in run("check", top).stdout
    assert run("diff", top).code == 0
    assert state(top) == before

    assert run("upgrade", top, "--restore").code == 0
    assert (top / PLACE).read_bytes() == left + b"\n\n" + newest.encode()
    assert run("check", top).code == 0


@slow
def test_a_deleted_conftest_stays_deleted(top: Path) -> None:
    (top / PLACE).unlink()
    before = state(top)

    assert f"{PLACE}: was deleted and stays so" in run("upgrade", top).stderr
    assert run("check", top).code == 1
    done = run("upgrade", top, "--restore")
    assert done.code == 2
    assert f"{PLACE}: was deleted, with what the project had in it; restore it" in done.stderr
    assert state(top) == before
    assert run("eject", top).code == 0
    assert not (top / ".devicegen").exists()


def test_a_moved_conftest_is_followed_with_its_block(top: Path) -> None:
    newest = block_of(top)
    make_older(top, CHANGED)
    edit(top, EDIT)
    (top / PLACE).rename(top / "p" / PLACE)
    write_tree(top, {PLACE: "X = 1\n"})

    done = run("upgrade", top)

    assert done.code == 0, done
    assert f"note: {PLACE}: was moved to p/{PLACE}; devicegen follows it there\n" in done.stderr
    assert block_of(top, f"p/{PLACE}") == newest.replace(*EDIT)
    assert outside(top, f"p/{PLACE}") == b"".join(AROUND["plain"])
    assert (top / PLACE).read_bytes() == b"X = 1\n"
    assert run("upgrade", top).stdout == UP_TO_DATE


@slow
def test_a_block_in_two_other_places_is_refused(top: Path) -> None:
    data = (top / PLACE).read_bytes()
    write_tree(top, {"p/conftest.py": data, "q/conftest.py": data, PLACE: "X = 1\n"})
    before = state(top)

    done = run("upgrade", top)

    assert done.code == 2
    assert f"{PLACE}: is gone, and p/conftest.py and q/conftest.py are like it" in done.stderr
    assert state(top) == before


@slow
def test_another_text_between_the_lines_is_refused(top: Path) -> None:
    (top / PLACE).write_text(f"X = 1\n{BEGIN}\nY = 2\n{END}\n")
    before = state(top)

    done = run("upgrade", top)

    assert done.code == 2
    assert f"{PLACE}: was replaced by a file that is not devicegen's" in done.stderr
    assert state(top) == before


@slow
def test_uncommitted_work_around_the_block_is_not_written_into(top: Path) -> None:
    git(top, "init", "-q")
    make_older(top, CHANGED)
    git(top, "add", ".")
    git(top, "-c", "user.name=x", "-c", "user.email=x", "commit", "-qm", "x")
    with (top / PLACE).open("ab") as file:
        file.write(b"MINE = 1\n")
    before = state(top)

    done = run("upgrade", top)

    assert done.code == 2
    assert f"{PLACE}: has uncommitted changes" in done.stderr
    assert state(top) == before
    assert run("upgrade", top, "--allow-dirty").code == 0
    assert (top / PLACE).read_bytes().endswith(b"MINE = 1\n")


# Templates of the project's own, and eject


@pytest.mark.slow
def test_templates_of_their_own_and_a_block(tmp_path: Path) -> None:
    name = "tools/templates/harness/report.py.j2"
    wrapped = '{% include "devicegen/harness/report.py.j2" %}\n\nOURS = 1\n'
    write_tree(tmp_path, {name: wrapped})
    top = made(tmp_path, "plain")

    assert run("upgrade", top, "--templates", top / "tools/templates").code == 0
    assert "\nOURS = 1\n" in block_of(top)
    edit(top, EDIT)
    write_tree(top, {name: wrapped.replace("OURS = 1", "OURS = 2")})
    assert run("check", top).code == 1
    assert run("upgrade", top).stdout == f"merge  {PLACE}\nupdate  {PRISTINE}\nupdate  {RECORD}\n"
    assert "\nOURS = 2\n" in block_of(top)
    assert EDIT[1] in block_of(top)
    assert outside(top) == b"".join(AROUND["plain"])

    assert run("upgrade", top, "--no-templates").code == 0
    assert "OURS" not in block_of(top)


@slow
def test_a_character_that_the_conftest_cannot_hold(tmp_path: Path) -> None:
    name = "tools/templates/harness/report.py.j2"
    wrapped = '{% include "devicegen/harness/report.py.j2" %}\n\nOURS = "€"\n'
    write_tree(tmp_path, {name: wrapped})
    top = made(tmp_path, "latin-1")
    before = state(top)

    done = run("upgrade", top, "--templates", top / "tools/templates")

    assert done.code == 2
    assert f"{PLACE}: is latin-1, which has no '€' of the block" in done.stderr
    assert state(top) == before


@pytest.mark.parametrize("around", EACH)
def test_eject_leaves_the_code(tmp_path: Path, around: str) -> None:
    top = made(tmp_path, around)
    edit(top, EDIT)
    block, others = block_of(top), outside(top)
    head, tail = AROUND[around]

    assert run("eject", top).code == 0

    data = (top / PLACE).read_bytes()
    assert data.startswith(head)
    assert data.endswith(tail)
    assert b"devicegen <<<" not in data
    assert b"Written by devicegen" not in data
    assert not (top / ".devicegen").exists()
    code = data[len(head) : len(data) - len(tail)].decode("latin-1")
    code = code.replace("\r\n", "\n").replace("\r", "\n")
    said = [line for line in block.splitlines() if line]
    assert code.splitlines()[0] == said[1]  # the first line of the docstring
    removed = [line for line in said if line not in code.splitlines()]
    assert [removed[0], removed[-1]] == [BEGIN, END]
    assert len(removed) <= 5  # the two lines, and the paragraph that names devicegen
    assert others == head + tail


@slow
def test_what_was_ejected_works(top: Path) -> None:
    assert run("eject", top).code == 0
    fake = (Path(__file__).parent / "harness" / "fake_tensorflow.py").read_bytes()
    write_tree(top, {"tensorflow.py": fake})

    done = run_pytest(
        environment("pytest-9"), top, "--gpu-simulate", "1", env={"DIARY": "/dev/null"}
    )

    assert done.returncode == 0, done
    assert done.counts["passed"] == 3, done
