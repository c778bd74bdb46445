"""The record ``.devicegen/``: what was written, from which answers, and the text as it was.

``record.toml`` is small and readable in review. Beside it lies the pristine text of each file
that we own, as ``<path>.pristine``: the base of a three-way merge, under a name that no test
runner, linter or formatter picks up. The record is read as untrusted input.
"""

from __future__ import annotations

import hashlib
import os
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from keyword import iskeyword
from pathlib import Path, PurePosixPath
from typing import TypeVar

from packaging.version import InvalidVersion, Version

from devicegen.disk import is_plain
from devicegen.errors import DevicegenError
from devicegen.facts.bazel import MAINS
from devicegen.facts.repository import RECORD
from devicegen.harness_names import HarnessNames
from devicegen.templates_folder import environment

T = TypeVar("T")
NAME = re.compile(r"[a-z][a-z_]*")

FOLDER = ".devicegen"
FORMAT = 1
HARNESS = "conftest.py"
MAX_MEMORY_MB = 1_048_576  # 1 TiB, more than a card has; the command line says so too
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
    templates: str | None = None  # "": none any more
    split: bool | None = None
    durations_history: bool | None = None
    strategies: tuple[str, ...] | None = None
    marker_aliases: tuple[str, ...] | None = None
    seeds: bool | None = None

    def merged_with(self, earlier: Answers) -> Answers:
        """Return these answers, with those given earlier where none is given now."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        merged = replace(earlier, **given)
        return replace(merged, templates=merged.templates or None)


@dataclass(frozen=True)
class Pending:
    """A merge that left conflicts: its version, the text that came in, and where.

    ``spans`` are the places of the conflicts: from which line, counted from 0, up to and without
    which, in the pristine text; and the same in the text that came in. That text becomes the
    pristine one when the conflicts are resolved.
    """

    version: str
    text: str
    spans: tuple[tuple[int, int, int, int], ...]


@dataclass(frozen=True)
class Record:
    """What an earlier run wrote.

    ``pristine`` maps each path that we own to its text as rendered; ``unusable`` maps those whose
    text is lost or changed to what is wrong with it. ``registry`` is the configuration file that
    the marker lines were added to, None where none was. ``pending`` maps each path that has
    conflicts to the merge that left them; ``overrides`` maps each template that the project has of
    its own to the hash of devicegen's.
    """

    version: str
    answers: Answers
    pristine: Mapping[str, str] = field(default_factory=dict)
    registry: str | None = None
    unusable: Mapping[str, str] = field(default_factory=dict)
    pending: Mapping[str, Pending] = field(default_factory=dict)
    overrides: Mapping[str, str] = field(default_factory=dict)
    names: HarnessNames = field(default_factory=HarnessNames)

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
        files |= {pending_path(path): each.text for path, each in self.pending.items()}
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
                overrides=self.overrides,
                pending={
                    path: {
                        "version": each.version,
                        "hash": text_hash(each.text),
                        "lines": [list(span) for span in each.spans],
                    }
                    for path, each in self.pending.items()
                },
                names=_other_than_usual(self.names),
            )
        )
        return files


def pristine_path(path: str) -> str:
    """Return where the record keeps the text of ``path``."""
    return f"{FOLDER}/{path}.pristine"


def pending_path(path: str) -> str:
    """Return where the record keeps the text that ``path`` is to become, after a conflict."""
    return f"{FOLDER}/{path}.pending"


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
    text = _text(top, file)
    table = _parse(text)
    try:
        return _record(top, table, tool_version)
    except DevicegenError as error:
        raise DevicegenError(_with_line(str(error), text)) from error


def _with_line(message: str, text: str) -> str:
    """Put the line of ``record.toml`` into a message that names a key which it has."""
    said = message.partition(";")[0].removeprefix(RECORD)
    for quoted, word in reversed(re.findall(r"'([^']+)'|\b(\w+)\b", said)):
        key = rf"^[ \t\[]*[\"']?{re.escape(quoted or word)}[\"']?[ \t]*[=\]]"
        if match := re.search(key, text, re.MULTILINE):
            line = text.count("\n", 0, match.start()) + 1
            return message.replace(f"{RECORD}:", f"{RECORD}:{line}:", 1)
    return message


def _record(top: Path, table: dict[str, object], tool_version: str) -> Record:
    _refuse_other_format(_typed(table, "format", int), tool_version)
    version = _typed(table, "version", str)
    _refuse_newer(version, tool_version)
    answers = _answers(_typed(table, "answers", dict))
    registry = _typed(table, "registry", str) if "registry" in table else None
    if registry is not None:
        _refuse_outside(registry)
    files = _typed(table, "files", dict)
    if [PurePosixPath(path).name for path in files].count(HARNESS) > 1:
        raise DevicegenError(f"{RECORD}: 'files' names more than one harness; {REMEDY}")
    pristine, unusable = {}, {}
    for path, recorded in files.items():
        _refuse_outside(path)
        if PurePosixPath(path).name not in (HARNESS, *MAINS):
            raise DevicegenError(f"{RECORD}: files.{path!r} is no {HARNESS}; {REMEDY}")
        try:
            pristine[path] = _kept_text(top, pristine_path(path), recorded)
        except DevicegenError as error:
            unusable[path] = f"{error}; {REMEDY}"
    pending = _pending(top, table.get("pending", {}), pristine, tool_version)
    overrides = _typed(table, "overrides", dict) if "overrides" in table else {}
    names = _names(table.get("names", {}))
    return Record(version, answers, pristine, registry, unusable, pending, overrides, names)


def _pending(
    top: Path, table: object, pristine: Mapping[str, str], tool_version: str
) -> dict[str, Pending]:
    """Read the merges that left conflicts; one whose text is lost will be made once more."""
    found = {}
    for path, values in (table if isinstance(table, dict) else {"": table}).items():
        if not isinstance(values, dict) or path not in pristine:
            raise DevicegenError(f"{RECORD}: pending.{path!r} is no merge of a file; {REMEDY}")
        version, lines = _typed(values, "version", str), _typed(values, "lines", list)
        _refuse_newer(version, tool_version)
        if not all(_is_span(span) for span in lines):
            raise DevicegenError(f"{RECORD}: 'lines' are no places; {REMEDY}")
        with suppress(DevicegenError):
            text = _kept_text(top, pending_path(path), values.get("hash"))
            found[path] = Pending(version, text, tuple(tuple(span) for span in lines))
    return found


def _is_span(span: object) -> bool:
    return (
        isinstance(span, list) and len(span) == 4 and all(type(number) is int for number in span)
    )


def _text(top: Path, file: Path) -> str:
    if not _is_inside(file, top):
        raise DevicegenError(f"{RECORD}: lies behind a link out of the repository; {REMEDY}")
    try:
        return file.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DevicegenError(f"{RECORD}: cannot be read ({error}); {REMEDY}") from error


def _parse(text: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
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
    """Refuse what is not a plain path, or leads into git's folder or ours."""
    if not is_plain(path) or FOLDER in map(str.lower, PurePosixPath(path).parts):
        raise DevicegenError(
            f"{RECORD}: the path {path!r} is refused: not a plain path of the repository; {REMEDY}"
        )


def _answers(table: Mapping[str, object]) -> Answers:
    kinds = {
        "xdist": bool,
        "memory_limit_mb": int,
        "config_edit": bool,
        "rocm": bool,
        "durations_history": bool,
        "templates": str,
        "split": bool,
        "strategies": list,
        "marker_aliases": list,
        "seeds": bool,
        "bazel": bool,
    }
    for name, value in table.items():
        is_list = isinstance(value, list) and all(isinstance(each, str) for each in value)
        if (
            type(value) is not kinds.get(name)
            or (type(value) is int and not 0 <= value <= MAX_MEMORY_MB)
            or (type(value) is list and not is_list)
        ):
            raise DevicegenError(f"{RECORD}: answers.{name} = {value!r} is no answer; {REMEDY}")
    given = {name: tuple(v) if isinstance(v, list) else v for name, v in table.items()}
    return Answers(**given)  # type: ignore[arg-type]


def _other_than_usual(names: HarnessNames) -> dict[str, str]:
    usual = vars(HarnessNames())
    return {name: value for name, value in vars(names).items() if value != usual[name]}


def _names(table: object) -> HarnessNames:
    """Read the harness's names, of which the usual ones are not recorded."""
    known = vars(HarnessNames())
    for name, value in table.items() if isinstance(table, dict) else [("", table)]:
        is_name = isinstance(value, str) and NAME.fullmatch(value) and not iskeyword(value)
        if name not in known or not is_name:
            raise DevicegenError(f"{RECORD}: names.{name} = {value!r} is no name; {REMEDY}")
    return HarnessNames(**table)  # type: ignore[arg-type]


def _kept_text(top: Path, kept: str, recorded: object) -> str:
    file = top / kept
    if not _is_inside(file, top):
        raise DevicegenError(f"cannot be compared: {kept} is a link out of the repository")
    if file.exists() and not file.is_file():
        raise DevicegenError(f"cannot be compared: {kept} is no regular file")
    try:
        text = file.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        words = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise DevicegenError(f"cannot be compared: {kept} cannot be read ({words})") from error
    if text_hash(text) != recorded:
        raise DevicegenError(f"cannot be compared: {kept} is not what {RECORD} says was written")
    return text
