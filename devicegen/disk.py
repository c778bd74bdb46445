"""What is on disk at a path that we may write, and what forbids writing it."""

from __future__ import annotations

import codecs
import os
from pathlib import Path, PurePosixPath


def on_disk(top: Path, path: str) -> tuple[bytes | None, str]:
    """Return a file's bytes, None where there is none, and what forbids writing it.

    ``path`` is posix and relative to ``top``.
    """
    file = top / path
    if obstacle := _obstacle(top, path) or _blocking(top, file):
        return None, obstacle
    try:
        return (file.read_bytes(), "") if os.path.lexists(file) else (None, "")
    except OSError as error:
        return None, f"cannot be read ({error.strerror})"


def _obstacle(top: Path, path: str) -> str:
    """Return why nobody may write to this place, whatever is there."""
    if not Path(os.path.realpath((top / path).parent)).is_relative_to(os.path.realpath(top)):
        return "lies behind a link out of the repository, which is not followed"
    for folder in PurePosixPath(path).parents[:-1]:
        if os.path.lexists(top / folder / ".git"):
            return f"lies in another repository ({folder} is a submodule or a clone)"
    return ""


def _blocking(top: Path, file: Path) -> str:
    """Return why what is there is no file to write."""
    if file.is_symlink():
        return "is a symbolic link, which is not followed; replace it by a file"
    if not os.path.lexists(file):
        nearest = next((each for each in file.parents if os.path.lexists(each)), top)
        return "" if nearest.is_dir() else f"{nearest.name} is in the way: no folder"
    return "" if file.is_file() else "is in the way: no regular file"


def as_it_was_saved(text: str, before: bytes) -> bytes:
    """Encode ``text`` with the line endings and the byte order mark of ``before``."""
    newline = "\r\n" if b"\r\n" in before else "\n"
    mark = codecs.BOM_UTF8 if before.startswith(codecs.BOM_UTF8) else b""
    return mark + text.replace("\n", newline).encode()


def decoded(data: bytes) -> str | None:
    """Return the text of a UTF-8 file, None where it is none."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def is_plain(path: object) -> bool:
    """Tell whether ``path`` is a plain relative path on every system, and not in git's folder."""
    if not isinstance(path, str):
        return False
    plain = PurePosixPath(path)
    reserved = {part.lower() for part in plain.parts} & {"..", ".git"}
    is_written_so = str(plain) == path and path not in ("", ".") and path.isprintable()
    return is_written_so and not (reserved or plain.is_absolute() or set(path) & set("\\:"))
