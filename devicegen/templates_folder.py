"""Where the templates are, and the one way in which they are rendered."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import jinja2
from jinja2.sandbox import SandboxedEnvironment


def templates_folder() -> Path:
    """Return the folder of the templates.

    A wheel carries it inside the package; an sdist, an editable install and a checkout have it
    beside the package.
    """
    inside = Path(__file__).parent / "templates"
    return inside if inside.is_dir() else Path(__file__).parent.parent / "templates"


@cache
def environment(overrides: Path | None = None) -> jinja2.Environment:
    """Return the Jinja environment of every template: an undefined name is an error.

    A template in the folder ``overrides`` comes before ours of the same name, which it can
    include as ``devicegen/<name>``. A template runs in Jinja's sandbox, for a folder that a
    record names is untrusted input. The filters ``toml_string`` and ``python_string`` write a
    string on one line of TOML and of Python.
    """
    ours = jinja2.FileSystemLoader(templates_folder(), encoding="utf-8")
    loaders: list[jinja2.BaseLoader] = [ours, jinja2.PrefixLoader({"devicegen": ours})]
    if overrides is not None:
        loaders.insert(0, jinja2.FileSystemLoader(overrides, encoding="utf-8"))
    made = SandboxedEnvironment(
        loader=jinja2.ChoiceLoader(loaders),
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["toml_string"] = toml_string
    made.filters["python_string"] = python_string
    return made


def toml_string(value: str, quote: str = '"') -> str:
    """Return ``value`` as a TOML string, in ``quote`` (``"`` or ``'``) where it can be written so.

    Every escape of a JSON string is one of a TOML basic string too; TOML wants U+007F escaped
    as well (https://toml.io/en/v1.0.0#string).
    """
    if quote == "'" and "'" not in value and value.isprintable():
        return f"'{value}'"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def python_string(value: str) -> str:
    """Return ``value`` as a Python string literal, in double quotes as formatters want it."""
    return json.dumps(value, ensure_ascii=False)
