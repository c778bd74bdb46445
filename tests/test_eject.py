"""``devicegen eject``: the record goes, the files stay and work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from devicegen.python_code import says_the_same
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


def inspected(top: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(run("inspect", "--json", top).stdout)["facts"]
    return facts


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A repository with a harness."""
    return library_with_harness(tmp_path)


def without_header(text: str) -> str:
    head, _, rest = text.partition("Written by devicegen ")
    return head + rest.partition("\n\n")[2]


def test_it_takes_out_the_header_and_the_record_and_nothing_else(top: Path) -> None:
    before = read_tree(top)
    text = before[HARNESS].decode()

    done = run("eject", top)

    assert done.code == 0
    assert done.stdout == (
        f"update  {HARNESS}\ndelete  {PRISTINE}\ndelete  {RECORD}\n\n"
        "Done. The harness is yours: devicegen knows nothing of it any more.\n"
    )
    expected = {name: data for name, data in before.items() if not name.startswith(".devicegen")}
    assert read_tree(top) == {**expected, HARNESS: without_header(text).encode()}
    assert not (top / ".devicegen").exists()
    assert (
        (top / HARNESS)
        .read_text("utf-8")
        .startswith(
            '"""Run each test on the device that its marker asks for.\n\n    @pytest.mark.run_on('
        )
    )
    assert "Written by devicegen" not in (top / HARNESS).read_text("utf-8")
    compile((top / HARNESS).read_bytes(), HARNESS, "exec")
    assert run("check", top).code == 2
    again = run("init", top)  # two harnesses are none
    assert again.code == 2
    assert f"{HARNESS}:" in again.stderr


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_edits_stay(top: Path, newline: str) -> None:
    text = (top / HARNESS).read_text("utf-8").replace("\nimport os\n", "\nimport os  # ours\n")
    text = text.replace("Run each test", "Ours: run each test")
    (top / HARNESS).write_bytes(text.replace("\n", newline).encode())

    assert run("eject", top).code == 0
    assert (top / HARNESS).read_bytes() == without_header(text).replace("\n", newline).encode()


def test_a_header_that_is_gone_or_at_the_end_is_no_harm(top: Path) -> None:
    text = without_header((top / HARNESS).read_text("utf-8"))
    (top / HARNESS).write_text(text, "utf-8")

    assert run("eject", top).code == 0
    assert (top / HARNESS).read_text("utf-8") == text


@pytest.mark.parametrize("end", ['"""\n', '\n"""\n', ' """\n', "'''\n"])
def test_words_of_the_user_s_in_the_header_stay(top: Path, end: str) -> None:
    quotes = end.strip()[-3:]
    head = f"{quotes}Ours.\n\nWritten by devicegen 0.1.0 for this repository. "
    (top / HARNESS).write_text(f"{head}It is good.{end}x = 1\n", "utf-8")

    assert run("eject", top).code == 0
    after = (top / HARNESS).read_text("utf-8")
    assert says_the_same(after, f"{quotes}Ours.\n\nIt is good.{quotes}\nx = 1\n")


def test_a_docstring_that_ends_with_the_header(top: Path) -> None:
    head, _, rest = (top / HARNESS).read_text("utf-8").partition("\n\n    @pytest.mark.run_on(")
    (top / HARNESS).write_text(f'{head}"""\n{rest.partition(chr(34) * 3)[2]}', "utf-8")

    assert run("eject", top).code == 0
    after = (top / HARNESS).read_text("utf-8")
    assert after.startswith(
        '"""Run each test on the device that its marker asks for.\n\n"""\n\n\nfrom __future__'
    )


@pytest.mark.parametrize("option", ["--dry-run", "--diff"])
def test_it_can_be_seen_first(top: Path, option: str) -> None:
    before = state(top)

    done = run("eject", top, option)

    assert (done.code, done.stderr) == (0, "")
    assert state(top) == before
    assert ("-Written by devicegen" in done.stdout) == (option == "--diff")


def test_a_harness_that_is_gone_and_a_folder_with_more_in_it(top: Path) -> None:
    (top / HARNESS).unlink()
    write_tree(top, {".devicegen/README": "ours"})

    assert run("eject", top).code == 0
    assert sorted(read_tree(top)) == sorted({".devicegen/README", *LIBRARY})


def test_an_older_one_and_a_conflict_that_was_resolved(top: Path) -> None:
    make_older(top)
    (top / HARNESS).write_bytes((top / HARNESS).read_bytes() + b"# a comment\n")
    assert run("upgrade", top).code == 3
    assert run("eject", top).code == 2
    (top / HARNESS).write_bytes((top / PRISTINE).read_bytes())

    assert run("eject", top).code == 0
    assert not (top / ".devicegen").exists()


def test_without_a_record(tmp_path: Path) -> None:
    write_tree(tmp_path, LIBRARY)

    assert run("eject", tmp_path) == Done(
        2, "", f"devicegen: {tmp_path}: no record here; there is nothing to eject\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize("place", [HARNESS, "conftest.py"])
def test_what_init_says_of_a_harness_that_was_ejected(tmp_path: Path, place: str) -> None:
    """A file of its own, or a block: it is the project's, and a second one would stop pytest."""
    shared = {} if place == HARNESS else {place: "import os\n", HARNESS: "import os\n"}
    write_tree(tmp_path, {**LIBRARY, **shared})
    assert run("init", tmp_path, "--conftest", place).code == 0
    assert run("eject", tmp_path).code == 0
    before = state(tmp_path)

    for options in ([], ["--keep-device-setup"], ["--conftest", place]):
        done = run("init", tmp_path, *options)

        assert done.code == 2, done
        assert done.stderr.startswith(f"devicegen: {place}:"), done
        assert "a harness without devicegen's header is here, as `devicegen eject`" in done.stderr
    assert state(tmp_path) == before
    ejected = {each["path"]: each["ejected"] for each in inspected(tmp_path)["conftests"]}
    assert ejected[place], ejected
