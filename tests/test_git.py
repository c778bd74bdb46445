"""In a git repository of any shape: git is asked, and nothing of it is written."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from generator import HARNESS, LIBRARY, library_with_harness, make_older, run, state
from kit import clean_environ, write_tree

CHANGED = ('MARKER_NAMES = ("run_on", "no_device_scope")', 'MARKER_NAMES = ("run_on",)')
DIRTY = "has uncommitted changes; commit or stash them first, or pass --allow-dirty"


def git(top: Path, *args: str) -> str:
    done = subprocess.run(
        ["git", *args], cwd=top, env=clean_environ(), capture_output=True, text=True, check=True
    )
    return done.stdout


def commit(top: Path) -> None:
    if not (top / ".git").exists():
        git(top, "init", "-q")
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", "x")


def edit(top: Path) -> None:
    text = (top / HARNESS).read_bytes()
    assert b"\nimport os" in text
    (top / HARNESS).write_bytes(text.replace(b"\nimport os", b"\nimport os  # ours", 1))


@pytest.fixture(autouse=True)
def no_git_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the git that devicegen starts see no settings of this machine."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, os.devnull)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A committed repository with an older harness."""
    top = library_with_harness(tmp_path / "top")
    make_older(top, CHANGED)
    commit(top)
    return top


def upgraded(top: Path) -> bool:
    return b"\nOLDER = True" not in (top / HARNESS).read_bytes()


# Uncommitted changes


def test_an_edit_that_is_not_committed_stops_it(top: Path) -> None:
    edit(top)
    before = state(top)

    done = run("upgrade", top)

    assert (done.code, done.stdout) == (2, "")
    assert done.stderr == f"devicegen: {HARNESS}: {DIRTY}\n"
    assert state(top) == before


@pytest.mark.parametrize("option", ["--dry-run", "--diff"])
def test_it_is_said_where_nothing_is_written(top: Path, option: str) -> None:
    edit(top)

    done = run("upgrade", top, option)

    assert done.code == 0
    assert done.stderr == f"devicegen: {HARNESS}: {DIRTY}\n"


def test_it_can_be_allowed(top: Path) -> None:
    edit(top)

    done = run("upgrade", top, "--allow-dirty")

    assert done.code == 0
    assert done.stderr == f"devicegen: {HARNESS}: has uncommitted changes\n"
    assert upgraded(top)
    assert b"# ours" in (top / HARNESS).read_bytes()


@pytest.mark.parametrize("is_added", [False, True], ids=["on disk", "in the index"])
def test_a_committed_edit_is_merged(top: Path, is_added: bool) -> None:
    edit(top)
    if is_added:
        git(top, "add", "-A")
        assert run("upgrade", top).code == 2
    commit(top)

    done = run("upgrade", top)

    assert (done.code, done.stderr) == (0, "")
    assert upgraded(top)


def test_our_file_without_an_edit_needs_no_permission(tmp_path: Path) -> None:
    write_tree(tmp_path, LIBRARY)
    commit(tmp_path)
    run("init", tmp_path)
    make_older(tmp_path, CHANGED)
    (tmp_path / HARNESS).write_bytes((tmp_path / HARNESS).read_bytes().replace(b"\n", b"\r\n"))

    assert run("upgrade", tmp_path).code == 0


def test_a_configuration_with_changes_stops_it_only_where_it_is_written(top: Path) -> None:
    config = (top / "pyproject.toml").read_text("utf-8")
    (top / "pyproject.toml").write_text(f"{config}\n# ours\n", "utf-8")
    assert run("upgrade", top, "--dry-run").stderr == ""
    (top / "pyproject.toml").write_text(LIBRARY["pyproject.toml"] + "\n", "utf-8")

    done = run("upgrade", top)

    assert (done.code, done.stderr) == (2, f"devicegen: pyproject.toml: {DIRTY}\n")


@pytest.mark.parametrize("is_committed", [True, False])
def test_init_says_what_it_adds_to(tmp_path: Path, is_committed: bool) -> None:
    write_tree(tmp_path, {**LIBRARY, "pyproject.toml": "[project]\nname = 'library'\n"})
    commit(tmp_path)
    write_tree(tmp_path, {"pyproject.toml": LIBRARY["pyproject.toml"]})
    if is_committed:
        commit(tmp_path)

    note = "pyproject.toml: has uncommitted changes; what is written there adds to them"
    done = run("init", tmp_path)
    assert (done.code, done.stderr) == (0, "" if is_committed else f"devicegen: note: {note}\n")


def test_eject_asks_too(top: Path) -> None:
    edit(top)

    assert run("eject", top).code == 2
    assert run("eject", top, "--allow-dirty").code == 0


@pytest.mark.slow
def test_resolving_needs_no_permission(top: Path) -> None:
    text = (top / HARNESS).read_text("utf-8")
    ours = text.replace(CHANGED[1], 'MARKER_NAMES = ("run_on", "ours")')
    (top / HARNESS).write_text(ours, "utf-8")
    commit(top)
    assert run("upgrade", top).code == 3
    lines = (top / HARNESS).read_text("utf-8").splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith(("<<<<<<<", "=======", ">>>>>>>"))]
    (top / HARNESS).write_text("".join(kept), "utf-8")

    assert run("upgrade", top).code == 0
    assert run("check", top).code == 0


# Repositories of all shapes


def worktree(top: Path, elsewhere: Path) -> Path:
    git(top, "worktree", "add", "-q", str(elsewhere))
    return elsewhere


def shallow(top: Path, elsewhere: Path) -> Path:
    git(top, "commit", "-q", "--allow-empty", "-m", "y")
    git(top, "clone", "-q", "--depth=1", top.as_uri(), str(elsewhere))
    return elsewhere


def submodule(top: Path, elsewhere: Path) -> Path:
    write_tree(elsewhere, {"README": "x"})
    commit(elsewhere)
    git(elsewhere, "-c", "protocol.file.allow=always", "submodule", "-q", "add", str(top), "part")
    return elsewhere / "part"


def git_folder_elsewhere(top: Path, elsewhere: Path) -> Path:
    git(top, "init", "-q", "--separate-git-dir", str(elsewhere))
    return top


def bare_with_a_work_tree(top: Path, elsewhere: Path) -> Path:
    """As people keep their dot-files: git finds it only when it is told where."""
    (top / ".git").rename(elsewhere)
    git(elsewhere, "config", "core.bare", "false")
    git(elsewhere, "config", "core.worktree", str(top))
    return top


def autocrlf(top: Path, elsewhere: Path) -> Path:
    git(top, "clone", "-q", "-c", "core.autocrlf=true", str(top), str(elsewhere))
    assert b"\r\n" in (elsewhere / HARNESS).read_bytes()
    return elsewhere


def signed(top: Path, elsewhere: Path) -> Path:
    git(top, "config", "commit.gpgsign", "true")
    git(top, "config", "gpg.program", str(elsewhere))
    return top


def without_an_identity(top: Path, elsewhere: Path) -> Path:
    git(top, "config", "user.useConfigOnly", "true")
    return top


SHAPES = (
    worktree,
    shallow,
    submodule,
    git_folder_elsewhere,
    bare_with_a_work_tree,
    autocrlf,
    signed,
    without_an_identity,
)


QUICK = (worktree, autocrlf)


@pytest.mark.parametrize(
    "shape",
    [pytest.param(shape, marks=[pytest.mark.slow] * (shape not in QUICK)) for shape in SHAPES],
)
def test_it_works_and_leaves_git_alone(shape: object, top: Path, tmp_path: Path) -> None:
    edit(top)
    commit(top)
    top = shape(top, tmp_path / "elsewhere")  # type: ignore[operator]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    others = [
        path
        for path in files
        if not path.is_relative_to(top) or ".git" in path.relative_to(top).parts
    ]
    git_files = {path: path.read_bytes() for path in others}

    done = run("upgrade", top)

    assert (done.code, done.stderr) == (0, "")
    assert upgraded(top)
    assert b"# ours" in (top / HARNESS).read_bytes()
    assert run("check", top).code == 0
    assert {path: path.read_bytes() for path in git_files} == git_files


@pytest.mark.slow
@pytest.mark.parametrize("shape", [worktree, shallow, submodule, git_folder_elsewhere, autocrlf])
def test_uncommitted_edits_are_seen_there_too(shape: object, top: Path, tmp_path: Path) -> None:
    top = shape(top, tmp_path / "elsewhere")  # type: ignore[operator]
    edit(top)

    assert run("upgrade", top).stderr == f"devicegen: {HARNESS}: {DIRTY}\n"


# Repositories that git does not read


def of_another_owner(top: Path, patch: pytest.MonkeyPatch) -> str:
    patch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    return f"detected dubious ownership in repository at '{top}'"


def a_link_to_nowhere(top: Path, patch: pytest.MonkeyPatch) -> str:
    """As of a worktree, or a submodule, that was copied without its repository."""
    shutil.rmtree(top / ".git")
    (top / ".git").write_text("gitdir: /nowhere/worktrees/top\n", "utf-8")
    return "not a git repository: /nowhere/worktrees/top"


def broken(top: Path, patch: pytest.MonkeyPatch) -> str:
    (top / ".git" / "index").write_bytes(b"no index of git's, but as long as one has to be")
    return "index file corrupt"


def too_new(top: Path, patch: pytest.MonkeyPatch) -> str:
    git(top, "config", "core.repositoryformatversion", "99")
    return "Expected git repo version <= 1, found 99"


def without_a_word(top: Path, patch: pytest.MonkeyPatch) -> str:
    write_tree(top.parent, {"bin/git": "#!/bin/sh\nexit 7\n"})
    (top.parent / "bin" / "git").chmod(0o755)
    patch.setenv("PATH", str(top.parent / "bin"))
    return "exit code 7"


UNREAD = (of_another_owner, a_link_to_nowhere, broken, too_new, without_a_word)
NOT_SAID = "git does not say whether there are uncommitted changes"
MEND = "; mend that first, or pass --allow-dirty"


@pytest.mark.parametrize(
    "how",
    [pytest.param(how, marks=[pytest.mark.slow] * (how != UNREAD[0])) for how in UNREAD],
)
def test_where_git_does_not_answer_an_edited_file_is_not_written(
    how: Callable[[Path, pytest.MonkeyPatch], str], top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(top)
    (top / "pyproject.toml").write_text(LIBRARY["pyproject.toml"] + "\n", "utf-8")  # type: ignore[operator]
    said = f"devicegen: {HARNESS}, pyproject.toml: {NOT_SAID}: "
    reason = how(top, monkeypatch)
    before = state(top)

    done = run("upgrade", top)

    assert (done.code, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(said)
    assert reason in line
    assert line.endswith(MEND)
    assert run("upgrade", top, "--dry-run").stderr == done.stderr
    assert run("eject", top).code == 2
    assert state(top) == before

    done = run("upgrade", top, "--allow-dirty")

    assert (done.code, done.stderr) == (0, line.removesuffix(MEND) + "\n")
    assert upgraded(top)
    assert b"# ours" in (top / HARNESS).read_bytes()


@pytest.mark.parametrize(
    "how",
    [pytest.param(how, marks=[pytest.mark.slow] * (how not in UNREAD[:1])) for how in UNREAD],
)
def test_where_git_does_not_answer_what_nobody_edited_needs_no_permission(
    how: Callable[[Path, pytest.MonkeyPatch], str], top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    how(top, monkeypatch)

    done = run("upgrade", top)

    assert (done.code, done.stderr) == (0, "")
    assert upgraded(top)
    assert run("check", top).code == 0


def test_where_git_does_not_answer_init_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(tmp_path, LIBRARY)
    commit(tmp_path)
    reason = of_another_owner(tmp_path, monkeypatch)

    done = run("init", tmp_path)

    assert done.code == 0
    assert done.stderr == f"devicegen: note: pyproject.toml: {NOT_SAID}: {reason}\n"


def test_without_a_repository(top: Path) -> None:
    edit(top)
    shutil.rmtree(top / ".git")

    done = run("upgrade", top)

    assert (done.code, done.stderr) == (0, "")
    assert upgraded(top)


def test_without_git(top: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    edit(top)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    assert run("upgrade", top).code == 0
    assert upgraded(top)


def conflicting(top: Path) -> tuple[str, ...]:
    """Make the upgrade to ``--memory-limit-mb 512`` a conflict; return its flags."""
    assert run("upgrade", top).code == 0
    text = (top / HARNESS).read_text("utf-8")
    assert text.count("\nMEMORY_LIMIT_MB") == 1
    (top / HARNESS).write_bytes(
        text.replace("\nMEMORY_LIMIT_MB", "\nMEMORY_LIMIT_MB: int").encode()
    )
    return ("--memory-limit-mb", "512")


@pytest.mark.parametrize(
    "where",
    [pytest.param(".", marks=pytest.mark.slow), "..", pytest.param("/", marks=pytest.mark.slow)],
)
def test_a_conflict_that_is_given_up(
    top: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the command that is said, which leaves nothing that ``check`` or git would see."""
    flags = conflicting(top)
    commit(top)
    before = {path: data for path, (data, *_) in state(top).items()}
    monkeypatch.chdir(top / where)

    done = run("upgrade", top, *flags)

    assert done.code == 3, done
    said = "devicegen: to go back to what was there before: "
    *_, line = done.stderr.splitlines()
    assert line.startswith(f"{said}git "), done
    assert git(top, "status", "--porcelain")
    subprocess.run(line.removeprefix(said), shell=True, check=True, env=clean_environ())
    assert {path: data for path, (data, *_) in state(top).items()} == before
    assert git(top, "status", "--porcelain") == ""
    assert run("check", top).code == 0


@pytest.mark.slow
def test_a_conflict_that_git_could_not_take_back(top: Path) -> None:
    flags = conflicting(top)

    assert run("upgrade", top, "--dry-run", *flags).stderr.count("to go back") == 0
    done = run("upgrade", top, "--allow-dirty", *flags)

    assert done.code == 3, done
    assert "to go back" not in done.stderr


@pytest.mark.slow
def test_what_a_conflict_has_left_fails_no_check(top: Path) -> None:
    """After ``git checkout .``, which takes no file away."""
    flags = conflicting(top)
    commit(top)
    assert run("upgrade", top, *flags).code == 3
    git(top, "checkout", ".")
    assert run("check", top).code == 0

    left = f".devicegen/{HARNESS}.pending"
    note = f"note  {left}: left by a conflict that was given up; delete it\n"
    assert note in run("check", top).stdout
    assert run("upgrade", top).stdout == f"delete  {left}\n"
    assert note not in run("check", top).stdout
