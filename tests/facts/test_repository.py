"""Where a repository's top is, and what of it is a harness."""

from __future__ import annotations

from pathlib import Path

import pytest

from devicegen.errors import DevicegenError
from devicegen.facts.repository import find_top, gather_facts, is_harness
from generator import LIBRARY, run
from kit import write_tree


@pytest.mark.parametrize(
    ("files", "start", "top", "reason"),
    [
        ({"pyproject.toml": "", "a/b/c.py": ""}, "a/b", ".", "it holds pyproject.toml"),
        ({"setup.py": "", "a/c.py": ""}, "a", ".", "it holds setup.py"),
        ({"setup.cfg": "", "setup.py": ""}, ".", ".", "it holds setup.py"),
        ({".git/HEAD": "", "pyproject.toml": ""}, ".", ".", "it holds .git"),
        ({".git": "gitdir: elsewhere\n", "a/c.py": ""}, "a", ".", "it holds .git"),
        ({".git/HEAD": ""}, ".git", ".", "it holds .git"),
        ({".git/HEAD": "", "a/pyproject.toml": ""}, "a", "a", "it holds pyproject.toml"),
        (
            {".git/HEAD": "", ".devicegen/record.toml": "", "a/c.py": ""},
            "a",
            ".",
            "it holds .devicegen/record.toml",
        ),
        ({".devicegen/record.toml": ""}, ".devicegen", ".", "it holds .devicegen/record.toml"),
        ({"a/c.py": ""}, "a", "a", "the folder given; no folder above it holds a project file"),
    ],
)
def test_the_nearest_folder_with_a_mark_is_the_top(
    tmp_path: Path, files: dict[str, str], start: str, top: str, reason: str
) -> None:
    write_tree(tmp_path, files)

    assert find_top(tmp_path / start) == ((tmp_path / top).resolve(), reason)


def test_a_link_to_a_folder_leads_to_its_own_repository(tmp_path: Path) -> None:
    write_tree(tmp_path, {"one/setup.py": "", "two/setup.py": "", "two/a/b.py": ""})
    (tmp_path / "one" / "a").symlink_to("../two/a")

    assert find_top(tmp_path / "one" / "a")[0] == tmp_path / "two"


@pytest.mark.parametrize(("name", "what"), [("x", "does not exist"), ("file", "is not a folder")])
def test_a_bad_path(tmp_path: Path, name: str, what: str) -> None:
    write_tree(tmp_path, {"file": ""})

    with pytest.raises(DevicegenError, match=rf"/{name}: {what}; give the folder of a repos"):
        gather_facts(tmp_path / name)


def test_harnesses_are_known_whatever_version_wrote_them(tmp_path: Path) -> None:
    write_tree(tmp_path, LIBRARY)
    run("init", tmp_path)
    text = (tmp_path / "tests/conftest.py").read_text("utf-8")
    write_tree(
        tmp_path,
        {
            "conftest.py": '"""Not Written by devicegen 1 for this repository."""\n',
            "a/conftest.py": text.replace("devicegen 0", "devicegen 99"),
            "b/conftest.py": text.replace("\n", "\r\n").encode(),
            "c/conftest.py": b"\xff",
        },
    )

    facts = gather_facts(tmp_path)

    assert is_harness(text)
    everywhere = ("a/conftest.py", "b/conftest.py", "c/conftest.py", "conftest.py")
    assert facts.conftests == (*everywhere, "tests/conftest.py")
    assert facts.harnesses == ("a/conftest.py", "b/conftest.py", "tests/conftest.py")


@pytest.mark.parametrize(
    ("files", "problems"),
    [
        ({"pytest.ini": "x = 1\n"}, ["pytest.ini:1: no section header defined"]),
        ({"pyproject.toml": "[x\n"}, ["pyproject.toml:1: not TOML: "]),
        ({"pytest.ini": "x = 1\n", "requirements.txt": b"\xff"},
         ["pytest.ini:1: no section header", "requirements.txt:1: not read: "]),
        ({"pytest.ini": "[pytest]\n"}, []),
    ],
)  # fmt: skip
def test_each_problem_is_said_once(
    tmp_path: Path, files: dict[str, str | bytes], problems: list[str]
) -> None:
    found = gather_facts(write_tree(tmp_path, {"setup.py": "", **files})).problems

    assert len(found) == len(problems)
    assert all(one.startswith(other) for one, other in zip(found, problems, strict=True))
