"""What git knows of files that are about to be written. Git is only asked, and not needed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

# Lets git neither refresh its index nor start a program that a repository's settings name.
COMMAND = ("git", "--no-optional-locks", "--literal-pathspecs", "-c", "core.fsmonitor=false")
STATUS = ("status", "--porcelain", "--ignore-submodules=all")


def uncommitted(top: Path, paths: Iterable[str], *, tracked: bool = False) -> tuple[str, ...]:
    """Return those of ``paths`` that git has not committed as they are on disk.

    ``tracked`` leaves out those of which git knows nothing at all. None of them is where there is
    no git, or no repository that git is ready to read.
    """
    untracked = f"--untracked-files={'no' if tracked else 'all'}"
    return tuple(path for path in paths if _status(top, untracked, "--", path))


def are_committed(top: Path, paths: Iterable[str]) -> bool:
    """Tell whether git could give back all of ``paths`` as they are on disk."""
    paths = list(paths)
    listed = _git(top, "ls-files", "--error-unmatch", "--", *paths)
    return bool(listed) and not uncommitted(top, paths)


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
    return done.stdout if done.returncode == 0 else b""
