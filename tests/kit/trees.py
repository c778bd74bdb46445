"""Small repositories, written from and read back into dictionaries."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path


def write_tree(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write ``files``, posix path -> content, below ``root`` and return ``root``.

    A text that begins with a newline is dedented and loses that newline, so that it can be
    written as an indented triple-quoted string; any other text, and bytes, are written as given.
    """
    for path, content in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else _text(content).encode())
    return root


def _text(content: str) -> str:
    return textwrap.dedent(content[1:]) if content.startswith("\n") else content


def read_tree(root: Path) -> dict[str, bytes]:
    """Return the files below ``root``, posix path -> bytes; no caches and no ``.git``."""
    left_out = {".git", "__pycache__", ".pytest_cache"}
    return {
        file.relative_to(root).as_posix(): file.read_bytes()
        for file in sorted(root.rglob("*"))
        if file.is_file() and not left_out & set(file.relative_to(root).parts)
    }
