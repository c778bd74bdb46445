"""The record ``.devicegen/``: what was written, from which answers, and the text as it was.

``record.toml`` is small and readable in review. Beside it lies the pristine text of each file
that we own, as ``<path>.pristine``: the base of a three-way merge, under a name that no test
runner, linter or formatter picks up. The record is read as untrusted input.
"""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TypeVar

from packaging.version import InvalidVersion, Version

from devicegen.errors import DevicegenError
from devicegen.facts.bazel import MAINS
from devicegen.facts.repository import RECORD
from devicegen.templates_folder import environment

T = TypeVar("T")

FOLDER = ".devicegen"
FORMAT = 1
HARNESS = "conftest.py"
REMEDY = (
    "restore it from version control, or delete .devicegen/ and the harness and run "
    "`devicegen init` again"
)


@dataclass(frozen=True)
class Answers:
    """What the user asked for, replayed on upgrade; None means: as the facts say."""

    xdist: bool | None = None
    memory_limit_mb: int | None = None
    config_edit: bool | None = None
    rocm: bool | None = None
    bazel: bool | None = None

    def merged_with(self, earlier: Answers) -> Answers:
        """Return these answers, with those given earlier where none is given now."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        return replace(earlier, **given)


@dataclass(frozen=True)
class Record:
    """What an earlier run wrote.

    ``pristine`` maps each path that we own to its text as rendered; ``unusable`` maps those whose
    text is lost or changed to what is wrong with it. ``registry`` is the configuration file that
    the marker lines were added to, None where none was.
    """

    version: str
    answers: Answers
    pristine: Mapping[str, str] = field(default_factory=dict)
    registry: str | None = None
    unusable: Mapping[str, str] = field(default_factory=dict)

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths that we own."""
        return (*self.pristine, *self.unusable)

    @property
    def harness(self) -> str | None:
        """The path of the harness; None where a hand has taken it out of the record."""
        return next((path for path in self.paths if PurePosixPath(path).name == HARNESS), None)

    def texts(self) -> dict[str, str]:
        """Return the record's own files, path to text, ``record.toml`` last."""
        files = {pristine_path(path): text for path, text in self.pristine.items()}
        answers = {name: value for name, value in vars(self.answers).items() if value is not None}
        hashes = {path: text_hash(text) for path, text in self.pristine.items()}
        files[RECORD] = (
            environment()
            .get_template("record.toml.j2")
            .render(
                format=FORMAT,
                version=self.version,
                answers=answers,
                files=hashes,
                registry=self.registry,
            )
        )
        return files


def pristine_path(path: str) -> str:
    """Return where the record keeps the text of ``path``."""
    return f"{FOLDER}/{path}.pristine"


def text_hash(text: str) -> str:
    """Return the hash of a text that the record holds, line endings aside."""
    normal = text.replace("\r\n", "\n")
    return f"sha256:{hashlib.sha256(normal.encode()).hexdigest()}"


def read_record(top: Path, tool_version: str) -> Record | None:
    """Return the record in ``top``, None where there is none.

    A pristine text that is lost or changed makes its path ``unusable``. Raises
    ``DevicegenError`` for a record that is broken, of a newer format or tool, or that names a
    path that is not ours to write.
    """
    file = top / RECORD
    if not file.is_file():
        return None
    table = _parse(top, file)
    _refuse_other_format(_typed(table, "format", int), tool_version)
    version = _typed(table, "version", str)
    _refuse_newer(version, tool_version)
    answers = _answers(_typed(table, "answers", dict))
    registry = _typed(table, "registry", str) if "registry" in table else None
    if registry is not None:
        _refuse_outside(registry)
    files = _typed(table, "files", dict)
    names = [PurePosixPath(path).name for path in files]
    if names.count(HARNESS) > 1:
        raise DevicegenError(f"{RECORD}: 'files' names more than one harness; {REMEDY}")
    pristine, unusable = {}, {}
    for path, recorded in files.items():
        _refuse_outside(path)
        if PurePosixPath(path).name not in (HARNESS, *MAINS):
            raise DevicegenError(f"{RECORD}: files.{path!r} is no {HARNESS}; {REMEDY}")
        try:
            pristine[path] = _pristine(top, path, recorded)
        except DevicegenError as error:
            unusable[path] = f"{error}; {REMEDY}"
    return Record(version, answers, pristine, registry, unusable)


def _parse(top: Path, file: Path) -> dict[str, object]:
    try:
        if not _is_inside(file, top):
            raise DevicegenError(f"{RECORD}: lies behind a link out of the repository; {REMEDY}")
        return tomllib.loads(file.read_bytes().decode("utf-8-sig").replace("\r\n", "\n"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise DevicegenError(f"{RECORD}: cannot be read ({error}); {REMEDY}") from error


def _is_inside(file: Path, top: Path) -> bool:
    return Path(os.path.realpath(file)).is_relative_to(os.path.realpath(top))


def _typed(table: Mapping[str, object], key: str, kind: type[T]) -> T:
    value = table.get(key)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise DevicegenError(f"{RECORD}: {key!r} is missing or no {kind.__name__}; {REMEDY}")
    return value


def _refuse_other_format(number: int, tool_version: str) -> None:
    if number != FORMAT:
        raise DevicegenError(
            f"{RECORD}: format {number} is not the format {FORMAT} that devicegen {tool_version} "
            "reads; use the devicegen that wrote it, or a newer one"
        )


def _refuse_newer(version: str, tool_version: str) -> None:
    try:
        newer = Version(version) > Version(tool_version)
    except InvalidVersion as error:
        raise DevicegenError(f"{RECORD}: version {version!r} is none; {REMEDY}") from error
    if newer:
        raise DevicegenError(
            f"{RECORD}: written by devicegen {version}, and this is {tool_version}; "
            "update devicegen (for example: pipx upgrade devicegen)"
        )


def _refuse_outside(path: str) -> None:
    """Refuse what is not a plain relative path on every system, or leads into git's folder."""
    plain = PurePosixPath(path)
    reserved = {part.lower() for part in plain.parts} & {"..", ".git", FOLDER}
    is_plain = str(plain) == path and path not in ("", ".") and path.isprintable()
    if not is_plain or reserved or plain.is_absolute() or set(path) & set("\\:"):
        raise DevicegenError(
            f"{RECORD}: the path {path!r} is refused: not a plain path of the repository; {REMEDY}"
        )


def _answers(table: Mapping[str, object]) -> Answers:
    kinds = {
        "xdist": bool,
        "memory_limit_mb": int,
        "config_edit": bool,
        "rocm": bool,
        "bazel": bool,
    }
    for name, value in table.items():
        if type(value) is not kinds.get(name) or (type(value) is int and value < 0):
            raise DevicegenError(f"{RECORD}: answers.{name} = {value!r} is no answer; {REMEDY}")
    return Answers(**table)  # type: ignore[arg-type]


def _pristine(top: Path, path: str, recorded: object) -> str:
    kept = pristine_path(path)
    file = top / kept
    if not _is_inside(file, top):
        raise DevicegenError(f"cannot be compared: {kept} is a link out of the repository")
    try:
        text = file.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        words = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise DevicegenError(f"cannot be compared: {kept} cannot be read ({words})") from error
    if text_hash(text) != recorded:
        raise DevicegenError(f"cannot be compared: {kept} is not what {RECORD} says was written")
    return text
