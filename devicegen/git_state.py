"""What git knows of files that are about to be written. Git is only asked, and not needed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

# Lets git neither refresh its index nor start a program that a repository's settings name.
COMMAND = ("git", "--no-optional-locks", "--literal-pathspecs", "-c", "core.fsmonitor=false")
STATUS = ("status", "--porcelain", "--untracked-files=all", "--ignore-submodules=all", "--")


def uncommitted(top: Path, paths: Iterable[str]) -> tuple[str, ...]:
    """Return those of ``paths`` that git has not committed as they are on disk.

    None of them is where there is no git, or no repository that git is ready to read.
    """
    return tuple(path for path in paths if _status(top, path))


def _status(top: Path, path: str) -> bytes:
    try:
        done = subprocess.run(
            [*COMMAND, *STATUS, path],
            cwd=top,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except OSError:
        return b""  # git is not installed
    return done.stdout if done.returncode == 0 else b""
