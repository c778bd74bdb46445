"""The pytest configuration in force for ``pytest`` at the repository's top, without arguments.

The rules are pytest's own, as of pytest 9.2: ``_pytest/config/findpaths.py`` (``locate_config``
and the loaders) and ``Config.getini``;
https://docs.pytest.org/en/stable/reference/customize.html.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

import iniconfig

from devicegen.toml_statements import find_statement, line_of

# In pytest's order of precedence; the first four count even when they say nothing.
CONFIG_FILES = (
    "pytest.toml",
    ".pytest.toml",
    "pytest.ini",
    ".pytest.ini",
    "pyproject.toml",
    "tox.ini",
    "setup.cfg",
)
ALWAYS_IN_FORCE = CONFIG_FILES[:4]
INI_OPTIONS = "tool.pytest.ini_options"
DEFAULT_PYTHON_FILES = ("test_*.py", "*_test.py")
DEFAULT_NORECURSEDIRS = (
    "*.egg", ".*", "_darcs", "build", "CVS", "dist", "node_modules", "venv", "{arch}",
)  # fmt: skip
BOM = "\N{BYTE ORDER MARK}"


@dataclass(frozen=True)
class PytestConfig:
    """What the configuration in force says, and where.

    ``path`` is relative to the repository's top, None when no file there is in force. ``table``
    is the TOML table or INI section that pytest reads, None where the file in force has none (an
    empty ``pytest.ini``, a ``pyproject.toml`` without a table for pytest), and ``line`` is where
    it begins. ``problem`` says in one line why pytest stops, or why the file is not ours to edit;
    a ``path`` of None with a problem means that nothing here can be edited.
    """

    path: str | None = None
    table: str | None = None
    line: int = 1
    syntax: Literal["toml", "ini"] | None = None
    testpaths: tuple[str, ...] = ()
    python_files: tuple[str, ...] = DEFAULT_PYTHON_FILES
    python_classes: tuple[str, ...] = ("Test",)
    python_functions: tuple[str, ...] = ("test",)
    markers: tuple[str, ...] = ()
    addopts: tuple[str, ...] = ()
    norecursedirs: tuple[str, ...] = DEFAULT_NORECURSEDIRS
    pythonpath: tuple[str, ...] = ()
    strict_markers: bool = False
    minversion: tuple[int, int] | None = None
    above: bool = False
    problem: str | None = None

    @property
    def is_in_force(self) -> bool:
        """Whether a file at the top says something to pytest; a bare pyproject.toml does not."""
        return self.path is not None and (self.table is not None or self.path in ALWAYS_IN_FORCE)

    @property
    def is_above(self) -> bool:
        """Whether a file above the top is in force."""
        return self.path is None and self.above

    def options(self, *names: str) -> list[str]:
        """Return the values that addopts give an option, in order."""
        words = [word.partition("=") for word in self.addopts]
        following = [*self.addopts[1:], ""]
        return [
            value if equals else after
            for (name, equals, value), after in zip(words, following, strict=False)
            if name in names
        ]


class _Table(NamedTuple):
    """The table that pytest reads in one file; ``name`` is None where the file has none."""

    file: Path
    text: str
    name: str | None
    values: Mapping[str, object]


class _Stop(Exception):
    """Pytest stops here: what is wrong in which file, and the line, 1 where none is known."""

    def __init__(self, message: str, line: int = 1, file: Path | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.file = file

    def words(self, top: Path) -> str:
        """Say it in one line: the file relative to ``top`` where it lies there."""
        if self.file is None:
            return str(self)
        shown = self.file.name if self.file.parent == top else self.file.as_posix()
        return f"{shown}:{self.line}: {self}"


def read_pytest_config(top: Path) -> PytestConfig:
    """Return the configuration that ``pytest`` finds when it is run in the folder ``top``.

    Nothing is raised: what pytest cannot read, or would stop at, is the ``problem`` of the
    result. A file above ``top`` counts for pytest, so its answers are given, with ``path`` None;
    except for ``testpaths``, which pytest ignores outside its rootdir.
    """
    top = top.resolve()  # as os.getcwd() does, from which pytest walks up
    try:
        table = _locate(top)
    except _Stop as stop:
        return PytestConfig(problem=stop.words(top))
    return PytestConfig() if table is None else _config(table, top)


def folders_with_config(top: Path, folders: Iterable[str]) -> tuple[set[str], set[str]]:
    """Return the folders that hold a configuration in force there, and the bare ones.

    ``folders`` are relative to ``top``; a bare one has a pyproject.toml without a table for
    pytest and nothing else. A file at which pytest stops counts as a configuration.
    """
    configs, bare = set(), set()
    for folder in folders:
        try:
            tables = [_table_in(top / folder / name) for name in CONFIG_FILES]
        except _Stop:
            configs.add(folder)
            continue
        found = [table for table in tables if table is not None]
        if any(map(_counts, found)):
            configs.add(folder)
        elif found:
            bare.add(folder)
    return configs, bare


def registered_markers(text: str, config: PytestConfig) -> tuple[str, ...]:
    """Return the marker lines that ``text`` registers, read as the file of ``config`` is.

    Raises ``ValueError`` with one line of words where pytest would stop; the text is not a file
    in force then.
    """
    if config.path is None:
        return ()
    try:
        table = _parse(Path(config.path), text)
        return () if table is None else _strings(table, "markers")
    except _Stop as stop:
        raise ValueError(str(stop)) from stop


def marker_name(line: str) -> str:
    """Return the name in a marker line: ``run_on`` for ``run_on(devices): once per device``.

    As ``Config._iter_registered_markers`` of pytest reads it.
    """
    return re.split(r"[:(]", line, maxsplit=1)[0].strip()


def parse_toml(text: str) -> dict[str, object]:
    """Parse as pytest does, which opens the file with universal newlines."""
    return tomllib.loads(text.replace("\r\n", "\n").replace("\r", "\n"))


def parse_ini(text: str) -> iniconfig.IniConfig:
    """Parse with pytest's own reader, to which a byte order mark is nothing."""
    return iniconfig.IniConfig("", text.removeprefix(BOM))


def _locate(top: Path) -> _Table | None:
    """Find the table in force, as ``locate_config`` does."""
    bare_pyproject: _Table | None = None
    for folder in (top, *top.parents):
        tables = (_table_in(folder / name) for name in CONFIG_FILES)
        for table in tables:
            if table is not None and _counts(table):
                for _ in tables:
                    pass  # pytest 9 reads the files that lose too, and stops at a broken one
                return table
            bare_pyproject = bare_pyproject or table
    if bare_pyproject is not None and bare_pyproject.file.parent == top:
        return bare_pyproject
    return None


def _table_in(file: Path) -> _Table | None:
    try:
        return _parse(file, file.read_bytes().decode("utf-8")) if file.is_file() else None
    except OSError as error:
        raise _Stop(f"cannot be read: {error.strerror}", file=file) from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise _Stop("is not UTF-8", line, file) from error
    except _Stop as stop:
        stop.file = file
        raise


def _parse(file: Path, text: str) -> _Table | None:
    """Return the table of a file's text; None where it has none and the file need have one."""
    name, values = _toml_table(file, text) if file.suffix == ".toml" else _ini_table(file, text)
    if name is None and file.name not in (*ALWAYS_IN_FORCE, "pyproject.toml"):
        return None
    return _Table(file, text, name, values)


def _counts(table: _Table) -> bool:
    return table.name is not None or table.file.name in ALWAYS_IN_FORCE


def _ini_table(file: Path, text: str) -> tuple[str | None, Mapping[str, object]]:
    try:
        sections = parse_ini(text).sections
    except iniconfig.ParseError as error:
        raise _Stop(error.msg, error.lineno + 1) from error
    wanted = "tool:pytest" if file.suffix == ".cfg" else "pytest"
    if wanted in sections:
        return wanted, sections[wanted]
    if file.suffix == ".cfg" and "pytest" in sections:
        raise _Stop("pytest stops at a [pytest] section in setup.cfg; it must be [tool:pytest]")
    return None, {}


def _toml_table(file: Path, text: str) -> tuple[str | None, Mapping[str, object]]:
    try:
        document = parse_toml(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        end = line_of(text, len(text))
        raise _Stop(str(error), int(line[1]) if line else end) from error
    if file.name == "pyproject.toml":
        return _tool_pytest(document)
    if "pytest" in document:
        return "pytest", _as_table(document, "pytest")
    if outside := [key for key, value in document.items() if not isinstance(value, dict)]:
        raise _Stop(f"options outside the [pytest] table: {', '.join(outside)}")
    return None, {}


def _tool_pytest(document: dict[str, object]) -> tuple[str | None, Mapping[str, object]]:
    tool_pytest = _as_table(_as_table(document, "tool"), "pytest")
    native = {key: value for key, value in tool_pytest.items() if key != "ini_options"}
    ini_options = _as_table(tool_pytest, "ini_options")
    if native and ini_options:
        raise _Stop(f"[tool.pytest] and [{INI_OPTIONS}] cannot be used both")
    if native:
        return "tool.pytest", native
    if "ini_options" in tool_pytest:
        return INI_OPTIONS, ini_options
    return None, {}


def _as_table(parent: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = parent.get(key, {})
    if not isinstance(value, dict):
        raise _Stop(f"{key} is not a table")
    return value


def _config(table: _Table, top: Path) -> PytestConfig:
    said = _read_values(table, top)
    if table.file.parent != top:
        words = "above the repository's top, is what pytest finds; not ours to edit"
        note = _Stop(words, _line(table), table.file).words(top)
        return replace(said, testpaths=(), problem=said.problem or note, above=True)
    return replace(
        said,
        path=table.file.name,
        table=table.name,
        line=_line(table),
        syntax="toml" if table.file.suffix == ".toml" else "ini",
    )


def _read_values(table: _Table, top: Path) -> PytestConfig:
    try:
        return PytestConfig(
            testpaths=_strings(table, "testpaths"),
            python_files=_strings(table, "python_files", DEFAULT_PYTHON_FILES),
            python_classes=_strings(table, "python_classes", ("Test",)),
            python_functions=_strings(table, "python_functions", ("test",)),
            markers=_strings(table, "markers"),
            addopts=_strings(table, "addopts"),
            norecursedirs=_strings(table, "norecursedirs", DEFAULT_NORECURSEDIRS),
            pythonpath=_strings(table, "pythonpath"),
            minversion=_version(table),
            strict_markers=_says_yes(table, "strict_markers") or _says_yes(table, "strict"),
        )
    except _Stop as stop:
        stop.file = table.file
        return PytestConfig(problem=stop.words(top))


def _strings(table: _Table, key: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Read a list of strings as ``Config.getini`` does: ``markers`` by lines, others by words."""
    if key not in table.values:
        return default
    value = table.values[key]
    is_native = table.file.suffix == ".toml" and table.name != INI_OPTIONS
    if not isinstance(value, list):
        if is_native:
            raise _Stop(f"{key} must be a list of strings", _line(table, key))
        return _split(table, key, str(value))
    if not all(isinstance(item, str) for item in value):
        raise _Stop(f"{key} must hold strings only", _line(table, key))
    return tuple(value)


def _says_yes(table: _Table, key: str) -> bool:
    """Read an option of pytest 9 that is true or false."""
    return str(table.values.get(key, "")).lower() in ("true", "1", "yes", "on")


def _version(table: _Table) -> tuple[int, int] | None:
    found = re.match(r"\s*(\d+)(?:\.(\d+))?", str(table.values.get("minversion", "")))
    return (int(found[1]), int(found[2] or 0)) if found else None


def _split(table: _Table, key: str, value: str) -> tuple[str, ...]:
    if key == "markers":
        return tuple(stripped for line in value.split("\n") if (stripped := line.strip()))
    try:
        return tuple(shlex.split(value))
    except ValueError as error:
        raise _Stop(f"{key}: {error}", _line(table, key)) from error


def _line(table: _Table, key: str | None = None) -> int:
    """Return the line of the table, or of a key in it; 1 where there is none."""
    if table.name is None:
        return 1
    if table.file.suffix != ".toml":
        return parse_ini(table.text).lineof(table.name, key) or 1
    path = tuple(table.name.split("."))
    if key is not None:
        path += (key,)
    found = find_statement(table.text, path)
    return line_of(table.text, found.start) if found else 1
