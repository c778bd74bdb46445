"""What git knows of files that are about to be written. Git is only asked, and not needed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

# Lets git neither refresh its index nor start a program that a repository's settings name.
COMMAND = ("git", "--no-optional-locks", "--literal-pathspecs", "-c", "core.fsmonitor=false")
STATUS = ("status", "--porcelain", "--ignore-submodules=all")


class NoAnswer(Exception):
    """There is a repository, and git does not say what it knows; ``str`` is what it says."""


def uncommitted(top: Path, paths: Iterable[str], *, tracked: bool = False) -> tuple[str, ...]:
    """Return those of ``paths`` that git has not committed as they are on disk.

    ``tracked`` leaves out those of which git knows nothing at all. None of them is where there is
    no git, or no repository. Raises ``NoAnswer`` where git does not read the one that there is,
    as it does not where that belongs to another user.
    """
    untracked = f"--untracked-files={'no' if tracked else 'all'}"
    return tuple(path for path in paths if _status(top, untracked, "--", path))


def are_committed(top: Path, paths: Iterable[str]) -> bool:
    """Tell whether git could give back all of ``paths`` as they are on disk."""
    paths = set(paths)
    try:
        listed = _git(top, "ls-files", "-z", "--", *paths) if paths else b""
        return listed.count(b"\0") == len(paths) > 0 and not uncommitted(top, paths)
    except NoAnswer:
        return False


def _status(top: Path, *args: str) -> bytes:
    return _git(top, *STATUS, *args)


def _git(top: Path, *args: str) -> bytes:
    try:
        done = subprocess.run(
            [*COMMAND, *args],
            cwd=top,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except OSError:
        return b""  # git is not installed
    if done.returncode != 0 and _is_in_repository(top):
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        fatal = [line for line in lines if line.startswith("fatal: ")]
        said = next(iter([*fatal, *lines]), f"exit code {done.returncode}")
        raise NoAnswer(said.removeprefix("fatal: "))
    return done.stdout if done.returncode == 0 else b""


def _is_in_repository(top: Path) -> bool:
    """Tell whether there is a ``.git`` where git looks for one: on this file system."""
    device = top.stat().st_dev
    for folder in (top, *top.parents):
        if folder.stat().st_dev != device:
            return False
        if os.path.lexists(folder / ".git"):
            return True
    return False
