"""What git lists and searches, whatever its configuration, and what is done without it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from devicegen.facts.source_tree import SourceTree
from kit import clean_environ, write_tree

FILES: dict[str, str | bytes] = {
    ".gitignore": "ignored.py\n",
    "top/tracked.py": "a word\n",
    "top/sub/deep.py": b"\xe9 \0 word\r\n",
    "top/other.py": "another\n",
    "top/text.txt": "a word\n",
    "top/deleted.py": "a word\n",
    "top/now.py": "",
    "top/no_more.py": "a word\n",
    "outside.py": "a word\n",
    "ignored.py": "a word\n",
}
FOUND = ["now.py", "sub/deep.py", "tracked.py", "untracked \u00e9.py"]
# What git prints then is no plain list of paths below the folder that it is asked in.
CONFIGURED = [
    "color.ui=always",
    "grep.fullName=true",
    "submodule.recurse=true",
    "core.quotePath=true",
]


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """Return a folder of a git work tree, with files in each of git's states."""
    write_tree(tmp_path, FILES)
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        subprocess.run(["git", *command], cwd=tmp_path, env=clean_environ(), check=True)
    top = tmp_path / "top"
    changes = {"untracked \u00e9.py": "a word\n", "now.py": "a word\n", "no_more.py": ""}
    write_tree(top, {**changes, "ignored.py": "a word\n"})
    (top / "deleted.py").unlink()
    (top / "link.py").symlink_to("tracked.py")
    return top


@pytest.mark.parametrize("setting", ["", *CONFIGURED])
def test_git_searches_what_it_lists(top: Path, setting: str) -> None:
    if setting:
        subprocess.run(["git", "config", *setting.split("=")], cwd=top, check=True)
    answer = SourceTree.list(top).searched([b"no such", b"word"])

    assert answer is not None
    assert [*answer()] == FOUND


def test_nothing_is_found(top: Path) -> None:
    answer = SourceTree.list(top).searched([b"no such"])

    assert answer is not None
    assert [*answer()] == []


def test_pathspecs_are_no_literals(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_LITERAL_PATHSPECS", "1")

    test_git_searches_what_it_lists(top, "")


def test_all_are_candidates_where_git_cannot_search(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lists the tree and then fails, or is gone."""
    tree = SourceTree.list(top)
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    failing = tree.searched([b"word"])
    monkeypatch.setenv("PATH", "/nowhere")
    gone = tree.searched([b"word"])

    assert failing is not None
    assert gone is not None
    assert [*failing()] == [*gone()] == [*tree.python_files()]


def test_a_tree_that_git_does_not_list_is_not_searched(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.py": "word\n"})

    assert SourceTree.list(tmp_path).searched([b"word"]) is None
