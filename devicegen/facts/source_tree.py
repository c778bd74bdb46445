"""The files of the repository, listed once and read as text only where a fact needs it."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

# Folders that hold no sources of the project, for trees that git does not list.
SKIPPED_FOLDERS = frozenset(
    {"__pycache__", "build", "dist", "env", "node_modules", "site-packages", "venv"}
)
# Hidden folders that hold what such trees run.
RUNNER_FOLDERS = frozenset({".ci", ".circleci", ".github"})
MAX_BYTES = 2_000_000


class Location(NamedTuple):
    """A place in the repository: posix path relative to its top, and a line counted from 1."""

    path: str
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True)
class SourceTree:
    """The repository's files below ``top``, as posix paths relative to it, sorted.

    ``git ls-files`` (tracked, and untracked but not ignored) where git knows the tree,
    else a walk that leaves out hidden folders (but CI's), environments and build outputs.
    """

    top: Path
    files: tuple[str, ...]
    is_of_git: bool = False
    _texts: dict[str, str | None] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def list(cls, top: Path) -> SourceTree:
        """List the files below ``top``."""
        listed = _git_files(top)
        files = _walk(top) if listed is None else listed
        return cls(top, tuple(sorted(files)), listed is not None)

    @cached_property
    def lookup(self) -> frozenset[str]:
        """The files as a set."""
        return frozenset(self.files)

    def text(self, path: str) -> str | None:
        """Return the text of a file; None where it is no regular file, too large or not UTF-8."""
        if path not in self._texts:
            data = self.data(path)
            self._texts[path] = None if data is None else _decoded(data)
        return self._texts[path]

    def data(self, path: str) -> bytes | None:
        """Return the bytes of a file, not kept; None where it is no regular file or too large."""
        # os and not pathlib: this is called for every Python file, and is the time that takes.
        try:
            status = os.lstat(name := f"{self.top}/{path}")
            if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
                return None
            with open(name, "rb", buffering=0) as file:  # noqa: PTH123
                return file.read()
        except OSError:
            return None

    def python_files(self) -> Iterator[str]:
        """Yield the paths that end in ``.py``."""
        return (path for path in self.files if path.endswith(".py"))

    def searched(self, words: Iterable[bytes]) -> Callable[[], Iterable[str]] | None:
        """Let git search the Python files, beside this process; None where it does not list them.

        What is returned waits for the answer: the files whose bytes hold any of ``words``; all
        Python files where git cannot tell.
        """
        if not self.is_of_git:
            return None
        # Whatever the user's configuration says of colours, paths and submodules.
        options = ("-c", "grep.fullName=false", "-c", "submodule.recurse=false")
        command = ["git", *options, "grep", "--untracked", "--no-color", "-lzaF"]
        command += [each for word in words for each in ("-e", os.fsdecode(word))]
        environ = {**os.environ, "GIT_LITERAL_PATHSPECS": "0", "GIT_NOGLOB_PATHSPECS": "0"}
        try:
            git = subprocess.Popen(
                [*command, "--", "*.py"],
                cwd=self.top,
                env=environ,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except OSError:
            return self.python_files

        def answer() -> Iterable[str]:
            names, _ = git.communicate()
            if git.returncode not in (0, 1):  # 1: there is none
                return self.python_files()
            return sorted(self.lookup & {os.fsdecode(name) for name in names.split(b"\0")})

        return answer

    def mentioning(self, *words: str) -> Iterator[str]:
        """Yield the Python files whose bytes hold any of ``words``: a cheap text search."""
        wanted = [word.encode() for word in words]
        for path in self.python_files():
            data = self.data(path)
            if data is not None and any(word in data for word in wanted):
                yield path


def _decoded(data: bytes) -> str | None:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def _git_files(top: Path) -> list[str] | None:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        done = subprocess.run(command, cwd=top, capture_output=True, check=False)
    except OSError:
        return None  # git is not installed
    if done.returncode != 0:
        return None  # not a work tree
    names = {os.fsdecode(name) for name in done.stdout.split(b"\0") if name}
    if not names:
        return None  # a folder that the work tree around it ignores
    return [name for name in names if os.path.isfile(f"{top}/{name}")]  # noqa: PTH113


def _walk(top: Path) -> Iterator[str]:
    for folder, subfolders, names in os.walk(top):
        subfolders[:] = [
            name
            for name in subfolders
            if (not name.startswith(".") or name in RUNNER_FOLDERS)
            and name not in SKIPPED_FOLDERS
            and not name.endswith(".egg-info")
        ]
        for name in names:
            yield (Path(folder) / name).relative_to(top).as_posix()
