"""The record is untrusted input: what is broken or leads out is refused in one line."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devicegen.errors import DevicegenError
from devicegen.harness_names import HarnessNames
from devicegen.record import (
    Answers,
    Record,
    pristine_path,
    read_record,
    text_hash,
)
from generator import HARNESS, LIBRARY, PRISTINE, RECORD, run, state
from kit import write_tree

REMEDY = (
    "restore it from version control, or delete .devicegen/ and the harness and run `devicegen "
    "init` again"
)
GOOD = f"""\
format = 1
version = "0.0.1"
registry = "setup.cfg"

[answers]
xdist = false

[files]
"{HARNESS}" = "{text_hash("x = 1")}"
"""


def read(top: Path, record: str | bytes = GOOD, version: str = "0.1") -> Record | None:
    write_tree(top, {RECORD: record, PRISTINE: "x = 1"})
    return read_record(top, version)


def refusal(top: Path, record: str | bytes) -> str:
    with pytest.raises(DevicegenError) as caught:
        read(top, record)
    (line,) = str(caught.value).splitlines()
    return line


def test_reads_what_was_written(tmp_path: Path) -> None:
    answers = Answers(
        xdist=False,
        memory_limit_mb=512,
        rocm=True,
        strategies=("one_device",),
        marker_aliases=("a=run_on", "b=run_on:gpu"),
        seeds=False,
    )
    names = HarnessNames("marked_scope", plain_prefix="on_")
    record = Record("0.1", answers, {HARNESS: "x = 'é'\n"}, "setup.cfg", names=names)
    files = record.texts()

    write_tree(tmp_path, files)

    assert list(files) == [PRISTINE, RECORD]
    assert read_record(tmp_path, "0.1") == record
    assert read_record(tmp_path / "elsewhere", "0.1") is None


@pytest.mark.parametrize("change", [("\n", "\r\n"), ("format", "\ufeffformat")], ids=repr)
def test_a_checkout_or_an_editor_may_change_its_bytes(
    tmp_path: Path, change: tuple[str, str]
) -> None:
    record = read(tmp_path, GOOD.replace(change[0], change[1], 1000).encode())

    assert record == Record("0.0.1", Answers(xdist=False), {HARNESS: "x = 1"}, "setup.cfg")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("format = 1", "format = '1'", f"'format' is missing or no int; {REMEDY}"),
        ("format = 1", "format = true", f"'format' is missing or no int; {REMEDY}"),
        ("format = 1", "", f"'format' is missing or no int; {REMEDY}"),
        (
            "format = 1",
            "format = 2",
            "format 2 is not the format 1 that devicegen 0.1 reads; use the devicegen that wrote "
            "it, or a newer one",
        ),
        ('"0.0.1"', "1", f"'version' is missing or no str; {REMEDY}"),
        ('"0.0.1"', '"one"', f"version 'one' is none; {REMEDY}"),
        (
            '"0.0.1"',
            '"0.2"',
            "written by devicegen 0.2, and this is 0.1; update devicegen (for example: pipx "
            "upgrade devicegen)",
        ),
        ('"setup.cfg"', "1", f"'registry' is missing or no str; {REMEDY}"),
        ("[answers]", "[other]", f"'answers' is missing or no dict; {REMEDY}"),
        ("[files]", "[other]", f"'files' is missing or no dict; {REMEDY}"),
        ("xdist = false", "xdist = 0", f"answers.xdist = 0 is no answer; {REMEDY}"),
        (
            "xdist = false",
            "memory_limit_mb = true",
            f"answers.memory_limit_mb = True is no answer; {REMEDY}",
        ),
        (
            "xdist = false",
            "memory_limit_mb = -1",
            f"answers.memory_limit_mb = -1 is no answer; {REMEDY}",
        ),
        (
            "xdist = false",
            "memory_limit_mb = 1048577",
            f"answers.memory_limit_mb = 1048577 is no answer; {REMEDY}",
        ),
        ("xdist = false", "rocm = 1", f"answers.rocm = 1 is no answer; {REMEDY}"),
        ("xdist = false", "seeds = 1", f"answers.seeds = 1 is no answer; {REMEDY}"),
        (
            "xdist = false",
            'strategies = "one_device"',
            f"answers.strategies = 'one_device' is no answer; {REMEDY}",
        ),
        (
            "xdist = false",
            "marker_aliases = [1]",
            f"answers.marker_aliases = [1] is no answer; {REMEDY}",
        ),
        (
            "[files]",
            "[names]\nfixture = 'x\"); import os'\n[files]",
            f"names.fixture = 'x\"); import os' is no name; {REMEDY}",
        ),
        (
            "[files]",
            "[names]\nfixture = 'def'\n[files]",
            f"names.fixture = 'def' is no name; {REMEDY}",
        ),
        ("[files]", "[names]\nother = 'x'\n[files]", f"names.other = 'x' is no name; {REMEDY}"),
        ("format = 1", "format = 1\nnames = 2", f"names. = 2 is no name; {REMEDY}"),
        ("xdist = false", 'other = "x"', f"answers.other = 'x' is no answer; {REMEDY}"),
        (
            "[files]",
            '[files]\n"conftest.py" = "x"',
            f"'files' names more than one harness; {REMEDY}",
        ),
        (HARNESS, "setup.py", f"files.'setup.py' is no conftest.py; {REMEDY}"),
        ("[files]", "[files", "cannot be read (Expected ']' at the end of a table declaration"),
        ("xdist = false", f"xdist = {'[' * 20000}", "cannot be read ("),
    ],
)
def test_each_broken_field_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert GOOD.count(old) == 1

    broken = GOOD.replace(old, new)

    assert without_place(refusal(tmp_path, broken)).startswith(f"{RECORD}: {message}")


def without_place(line: str) -> str:
    return re.sub(rf"{RECORD}:\d+: ", f"{RECORD}: ", line)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("format = 1", "format = 2", 1),
        ("format = 1", "", None),
        ('"0.0.1"', '"one"', 2),
        ("xdist = false", "\nxdist = 0", 7),
        ("xdist = false", 'other = "x"', 6),
        (HARNESS, "setup.py", 9),
        (HARNESS, "../conftest.py", 9),
        ("[files]", '[files]\n"conftest.py" = "x"', 8),
    ],
)
def test_the_line_is_said_where_there_is_one(
    tmp_path: Path, old: str, new: str, line: int | None
) -> None:
    place = f"{RECORD}:" if line is None else f"{RECORD}:{line}:"

    assert refusal(tmp_path, GOOD.replace(old, new)).startswith(f"{place} ")


@pytest.mark.parametrize("record", [b"", b"\xff", b"\0", b"{}"], ids=repr)
def test_what_is_no_record_at_all(tmp_path: Path, record: bytes) -> None:
    assert refusal(tmp_path, record).endswith(f"; {REMEDY}")


OUTSIDE = [
    "../conftest.py",
    "tests/../../conftest.py",
    "/conftest.py",
    "//conftest.py",
    "./conftest.py",
    "tests//conftest.py",
    "tests/conftest.py/",
    "",
    ".",
    "..",
    ".devicegen/conftest.py",
    ".devicegen/../conftest.py",
    "tests/.devicegen/conftest.py",
    ".git/hooks/conftest.py",
    "part/.GIT/conftest.py",
    "C:/conftest.py",
    "C:conftest.py",
    "..\\conftest.py",
    "tests\\conftest.py",
    "tests\n/conftest.py",
    "tests\0/conftest.py",
    "tests\x1b[2J/conftest.py",
]


@pytest.mark.parametrize("path", OUTSIDE, ids=repr)
def test_a_path_that_is_not_plain_is_refused(tmp_path: Path, path: str) -> None:
    escaped = "".join(f"\\u{ord(char):04x}" for char in path)
    in_files = GOOD.replace(HARNESS, escaped)
    in_registry = GOOD.replace("setup.cfg", escaped)

    for record in (in_files, in_registry):
        line = refusal(tmp_path, record)
        assert without_place(line).startswith(f"{RECORD}: the path {path!r} is refused: ")
        assert line.endswith(REMEDY)


@given(st.text(alphabet="./\\:agit~ \n", max_size=8))
def test_no_path_of_a_record_leaves_the_repository(path: str) -> None:
    escaped = "".join(f"\\u{ord(char):04x}" for char in f"{path}/conftest.py")
    record = f'format = 1\nversion = "0"\n[answers]\n[files]\n"{escaped}" = "x"\n'
    top = Path("/nowhere/at/all")

    class Folder(type(top)):  # type: ignore[misc]
        def is_file(self) -> bool:
            return True

        def read_bytes(self) -> bytes:
            if self.name != "record.toml":
                raise FileNotFoundError(2, "No such file or directory")
            return record.encode()

    try:
        read = read_record(Folder(top), "1")
    except DevicegenError:
        return
    assert read is not None
    (named,) = read.paths
    for each in (named, pristine_path(named)):
        assert (top / each).resolve().is_relative_to(top)
        assert (top / each).resolve() != top
        assert not re.search(r"(^|/)\.(git|devicegen|\.)(/|$)", named)


def test_a_hostile_record_moves_nothing_on_the_command_line(tmp_path: Path) -> None:
    top = write_tree(tmp_path / "top", LIBRARY)
    run("init", top)
    write_tree(tmp_path, {"conftest.py": (top / PRISTINE).read_bytes()})
    record = (top / RECORD).read_text("utf-8")
    write_tree(
        top,
        {
            RECORD: record.replace(f'"{HARNESS}"', '"../conftest.py"'),
            ".devicegen/../conftest.py.pristine": (top / PRISTINE).read_bytes(),
        },
    )
    before = state(tmp_path)

    for verb in ("init", "upgrade", "check"):
        done = run(verb, top)
        assert (done.code, done.stdout) == (2, "")
        assert "record.toml:9: the path '../conftest.py' is refused" in done.stderr
    assert state(tmp_path) == before


def test_a_linked_record_is_not_read_from_outside(tmp_path: Path) -> None:
    top = tmp_path / "top"
    write_tree(tmp_path / "outside", {"record.toml": GOOD})
    (top / ".devicegen").mkdir(parents=True)
    (top / RECORD).symlink_to("../../outside/record.toml")

    with pytest.raises(DevicegenError, match=r"record\.toml: lies behind a link out of"):
        read_record(top, "0.1")


def test_a_linked_pristine_text_is_not_read_from_outside(tmp_path: Path) -> None:
    top = write_tree(tmp_path / "top", {RECORD: GOOD, ".devicegen/tests/x": ""})
    write_tree(tmp_path, {"outside": "x = 1"})
    (top / PRISTINE).symlink_to("../../../outside")

    record = read_record(top, "0.1")

    assert record is not None
    assert record.pristine == {}
    assert record.unusable == {
        HARNESS: f"cannot be compared: {PRISTINE} is a link out of the repository; {REMEDY}"
    }


@pytest.mark.parametrize("target", [PRISTINE, ".devicegen/tests"])
def test_a_circle_of_links_is_no_crash(tmp_path: Path, target: str) -> None:
    write_tree(tmp_path, {RECORD: GOOD})
    (tmp_path / target).parent.mkdir(exist_ok=True)
    (tmp_path / target).symlink_to(Path(target).name)

    record = read_record(tmp_path, "0.1")

    assert record is not None
    assert set(record.unusable) == {HARNESS}


def test_answers_of_now_come_before_those_of_then() -> None:
    then = Answers(xdist=False, memory_limit_mb=512, config_edit=False, rocm=True)
    then = replace(then, durations_history=False)

    assert Answers().merged_with(then) == then
    now = replace(Answers(True, 0, True, False), split=True, durations_history=True)
    assert now.merged_with(then) == now
    assert Answers(xdist=True).merged_with(then) == replace(then, xdist=True)


def test_a_hash_does_not_see_line_endings() -> None:
    assert text_hash("a\r\nb\n") == text_hash("a\nb\n")
    assert text_hash("a\nb") != text_hash("a\nb\n")
