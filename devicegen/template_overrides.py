"""Templates of a project's own in the place of single ones of ours, and whether they still fit."""

from __future__ import annotations

import builtins
import os
import symtable
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import jinja2

from devicegen import __version__
from devicegen.decisions import Decisions
from devicegen.errors import DevicegenError
from devicegen.facts.repository import is_harness
from devicegen.python_code import NOT_PYTHON
from devicegen.record import text_hash
from devicegen.rendering import render_texts
from devicegen.templates_folder import templates_folder

SUFFIX = ".j2"
HARNESS_TEMPLATES = ("conftest.py", "pytest_main.py", "harness/")
_MODULE_NAMES = frozenset({*dir(builtins), "__file__", "__name__", "__doc__", "__spec__"})


class Overrides(NamedTuple):
    """The folder, as it is shown and as it is read, and the templates that it overrides."""

    shown: str
    folder: Path
    names: tuple[str, ...]

    def hashes(self) -> dict[str, str]:
        """Return the hash of each template of ours that is overridden."""
        return {
            name: text_hash((templates_folder() / name).read_text("utf-8")) for name in self.names
        }


def as_recorded(folder: Path, top: Path) -> str:
    """Return how the record names a folder: from the top where it is below it, else in full."""
    full = Path(os.path.abspath(folder))  # noqa: PTH100
    for real in (full, full.resolve()):
        if real.is_relative_to(top):
            return real.relative_to(top).as_posix()
    return full.as_posix()


def overridable() -> tuple[str, ...]:
    """Return the names of the templates that the harness is rendered from."""
    folder = templates_folder()
    parts = (path.relative_to(folder).as_posix() for path in folder.rglob(f"*{SUFFIX}"))
    return tuple(sorted(name for name in parts if name.startswith(HARNESS_TEMPLATES)))


def read_overrides(recorded: str, top: Path) -> Overrides:
    """List the templates in a folder. Raises ``DevicegenError`` where one overrides nothing."""
    folder = top / recorded
    if not folder.is_dir():
        raise DevicegenError(
            f"{recorded}: no folder of templates is here; give another with --templates, or go "
            "back to devicegen's own with --no-templates"
        )
    # Not all that is below: a record that nobody has looked at may name any folder.
    found = (path for where in (".", "harness") for path in (folder / where).glob(f"*{SUFFIX}"))
    paths = (path for path in found if path.is_file())
    names = tuple(sorted(path.relative_to(folder).as_posix() for path in paths))
    known = overridable()
    for name in names:
        if name not in known:
            raise DevicegenError(
                f"{recorded}/{name}: devicegen {__version__} has no such template to override; "
                f"it has {', '.join(known)}"
            )
    if not names:
        raise DevicegenError(f"{recorded}: holds no template; there can be {', '.join(known)}")
    return Overrides(recorded, folder, names)


def render_overridden(decisions: Decisions, overrides: Overrides) -> dict[str, str]:
    """Render all texts with ``overrides``. Raises ``DevicegenError`` where one does not fit."""
    try:
        texts = render_texts(decisions, __version__, overrides.folder)
    except (jinja2.TemplateError, UnicodeDecodeError, RecursionError, TypeError) as error:
        raise _misfit(_place(overrides, error), str(error) or type(error).__name__) from error
    for path, own in render_texts(decisions, __version__).items():
        _check(texts[path], own, overrides)
    return texts


def _check(text: str, own: str, overrides: Overrides) -> None:
    if not is_harness(text):
        start = "Written by devicegen"
        raise _misfit(overrides.shown, f"the line that begins with {start!r} is gone")
    try:
        missing = sorted(_unbound(text) - _unbound(own))
    except NOT_PYTHON as error:
        raise _misfit(overrides.shown, f"what is rendered is no Python ({error})") from error
    if missing:
        raise _misfit(overrides.shown, f"nothing defines {', '.join(missing)}, which is used")


def changed_since(overrides: Overrides, recorded: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each override whose original was another when it was recorded."""
    for name, now in overrides.hashes().items():
        if recorded.get(name, now) != now:
            yield (
                f"{overrides.shown}/{name}: devicegen's own {name} is another now; see whether "
                "your override still says what it should"
            )


def _misfit(where: str, reason: str) -> DevicegenError:
    return DevicegenError(
        f"{where}: {reason}; the override does not fit devicegen {__version__}: adapt it, or "
        "delete it"
    )


def _place(overrides: Overrides, error: Exception) -> str:
    """Return the file and line of an override that an error came from."""
    if isinstance(error, jinja2.TemplateSyntaxError) and error.filename:
        places = [(error.filename, error.lineno)]
    else:
        frames = traceback.extract_tb(error.__traceback__)
        places = [(frame.filename, frame.lineno or 0) for frame in frames]
    for filename, line in reversed(places):
        for name in overrides.names:
            if Path(filename) == overrides.folder / name:
                return f"{overrides.shown}/{name}:{line}"
    return overrides.shown


def _unbound(code: str) -> set[str]:
    """Return the names that a module uses and that neither it nor Python defines."""
    module = symtable.symtable(code, "", "exec")
    bound = {
        symbol.get_name()
        for symbol in module.get_symbols()
        if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
    }
    return set(_globals(module)) - bound - _MODULE_NAMES


def _globals(table: symtable.SymbolTable) -> Iterator[str]:
    for symbol in table.get_symbols():
        is_global = symbol.is_global() or table.get_type() == "module"
        if symbol.is_referenced() and is_global:
            yield symbol.get_name()
    for child in table.get_children():
        yield from _globals(child)
