"""What we read of the pytest configuration is what the real pytest reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from devicegen.facts.pytest_config import (
    PytestConfig,
    marker_name,
    read_pytest_config,
    registered_markers,
)

INI = "[pytest]\nmarkers = a: first\n"
INI_OPTIONS = '[tool.pytest.ini_options]\nmarkers = ["b: second"]\n'

# name -> files of the layout; "top/" is the repository's top, what is beside it lies above it.
LAYOUTS: dict[str, dict[str, str]] = {
    "nothing": {"top/README": ""},
    "pytest.toml": {"top/pytest.toml": '[pytest]\nmarkers = ["x: y"]\ntestpaths = ["t", "u"]\n'},
    "pytest.toml is empty": {"top/pytest.toml": "", "top/pytest.ini": INI},
    "pytest.toml with another table": {"top/pytest.toml": "[other]\na = 1\n"},
    "pytest.toml with bare options": {"top/pytest.toml": 'addopts = ["-q"]\n'},
    "pytest.toml, markers a string": {"top/pytest.toml": '[pytest]\nmarkers = "x: y"\n'},
    "pytest.toml, markers of numbers": {"top/pytest.toml": "[pytest]\nmarkers = [1]\n"},
    "pytest.toml, pytest no table": {"top/pytest.toml": "pytest = 3\n"},
    "pytest.toml with a BOM": {"top/pytest.toml": "\ufeff[pytest]\n"},
    ".pytest.toml beats pytest.ini": {"top/.pytest.toml": "[pytest]\n", "top/pytest.ini": INI},
    "pytest.ini": {"top/pytest.ini": INI},
    "pytest.ini is empty": {"top/pytest.ini": "", "top/pyproject.toml": INI_OPTIONS},
    "pytest.ini without the section": {"top/pytest.ini": "[other]\na = 1\n", "top/tox.ini": INI},
    "pytest.ini with a BOM": {"top/pytest.ini": "\ufeff" + INI},
    "pytest.ini with CRLF": {"top/pytest.ini": "[pytest]\r\nmarkers =\r\n  a: b\r\n\tc\r\n"},
    "pytest.ini, all options": {
        "top/pytest.ini": (
            "# c\n[pytest]\nnorecursedirs = a b\npython_classes = C D*\npython_functions = check\n"
            "addopts = -q -p 'no:cacheprovider'\ntestpaths = a 'b c'\n"
            "python_files = c_*.py *_t.py\nmarkers =\n\n    # none\n    a: x # y\n    b(c): d\n"
        )
    },
    "pytest.ini, odd quotes": {"top/pytest.ini": "[pytest]\ntestpaths = 'a\n"},
    "pytest.ini, no header": {"top/pytest.ini": "markers = a\n"},
    "pytest.ini, twice the key": {"top/pytest.ini": "[pytest]\nmarkers = a\nmarkers = b\n"},
    ".pytest.ini": {"top/.pytest.ini": INI, "top/pyproject.toml": INI_OPTIONS},
    "ini_options": {"top/pyproject.toml": INI_OPTIONS, "top/tox.ini": INI},
    "ini_options are empty": {"top/pyproject.toml": "[tool.pytest.ini_options]\n"},
    "ini_options, strings": {
        "top/pyproject.toml": (
            '[tool.pytest.ini_options]\nmarkers = """\n  a: b\n\n  c\n"""\n'
            'addopts = "-q -s"\ntestpaths = "x y"\npython_files = "t_*.py"\n'
        )
    },
    "ini_options, markers of numbers": {
        "top/pyproject.toml": "[tool.pytest.ini_options]\nmarkers = [1]\n"
    },
    "ini_options, markers a number": {
        "top/pyproject.toml": "[tool.pytest.ini_options]\nmarkers = 1\n"
    },
    "ini_options, dotted": {"top/pyproject.toml": '[tool]\npytest.ini_options.markers = ["z"]\n'},
    "ini_options, inline": {"top/pyproject.toml": 'tool = {pytest={ini_options={markers=["z"]}}}'},
    "tool.pytest": {"top/pyproject.toml": '[tool.pytest]\nmarkers = ["n"]\naddopts = ["-q"]\n'},
    "tool.pytest is empty": {"top/pyproject.toml": "[tool.pytest]\n", "top/tox.ini": INI},
    "tool.pytest, a string": {"top/pyproject.toml": '[tool.pytest]\naddopts = "-q"\n'},
    "tool.pytest and ini_options": {
        "top/pyproject.toml": '[tool.pytest]\naddopts = ["-q"]\n' + INI_OPTIONS
    },
    "tool.pytest and empty ini_options": {
        "top/pyproject.toml": '[tool.pytest]\nmarkers = ["m"]\n[tool.pytest.ini_options]\n'
    },
    "tool is no table": {"top/pyproject.toml": "tool = 3\n"},
    "pyproject without pytest": {"top/pyproject.toml": "[project]\nname = 'x'\n"},
    "pyproject without pytest, tox.ini": {"top/pyproject.toml": "", "top/tox.ini": INI},
    "pyproject without pytest, above": {"top/pyproject.toml": "", "pytest.ini": INI},
    "pyproject without pytest twice": {"top/pyproject.toml": "", "pyproject.toml": ""},
    "pyproject without pytest above only": {"pyproject.toml": "", "top/README": ""},
    "pyproject is broken": {"top/pyproject.toml": "[tool\n", "top/setup.cfg": ""},
    "pyproject with lone CR": {"top/pyproject.toml": INI_OPTIONS.replace("\n", "\r")},
    "tox.ini": {"top/tox.ini": "[tox]\nenvlist = x\n" + INI},
    "tox.ini without the section": {"top/tox.ini": "[tox]\nenvlist = x\n"},
    "setup.cfg": {"top/setup.cfg": "[metadata]\nname = x\n[tool:pytest]\nmarkers =\n  a: b\n"},
    "setup.cfg, [pytest]": {"top/setup.cfg": INI},
    "setup.cfg is broken but loses": {"top/pytest.ini": INI, "top/setup.cfg": "nothing\n"},
    "setup.cfg, [pytest], loses": {"top/pytest.ini": INI, "top/setup.cfg": INI},
    "tox.ini is broken before setup.cfg": {"top/tox.ini": "=\n", "top/setup.cfg": ""},
    "above": {"pytest.ini": INI + "testpaths = x\naddopts = -q\n", "top/README": ""},
    "above is broken": {"pytest.ini": "markers\n", "top/README": ""},
    "above is broken, the top is not": {"pytest.ini": "markers\n", "top/pytest.ini": INI},
    "not UTF-8": {"top/pytest.ini": "[pytest]\n# \udcff\n"},
    "a folder of the name": {"top/pytest.ini/x": "", "top/tox.ini": INI},
}

ASK_PYTEST = """
import json, os, sys
from _pytest.config import _prepareconfig

def ask(folder):
    os.chdir(folder)
    try:
        config = _prepareconfig([], [])
    except BaseException as error:
        return {"error": repr(error)}
    try:
        list(config._iter_registered_markers())
        names = ("testpaths", "python_files", "python_classes", "python_functions", "markers",
                 "addopts", "norecursedirs")
        said = {name: list(config.getini(name)) for name in names}
        return {"inipath": config.inipath and str(config.inipath), **said}
    except BaseException as error:
        return {"error": repr(error)}
    finally:
        config._ensure_unconfigure()

answers = {folder: ask(folder) for folder in sys.argv[1:]}
print("\\n" + json.dumps(answers))
"""


@pytest.fixture(scope="module")
def tops(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("layouts")
    made = {}
    for number, (name, files) in enumerate(LAYOUTS.items()):
        for path, text in files.items():
            file = root / str(number) / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode("utf-8", "surrogateescape"))
        made[name] = root / str(number) / "top"
    return made


@pytest.fixture(scope="module")
def answers(tops: dict[str, Path]) -> dict[str, Any]:
    environ = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    environ |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-c", ASK_PYTEST, *map(str, tops.values())]
    done = subprocess.run(command, env=environ, capture_output=True, check=True)
    said = json.loads(done.stdout.decode().splitlines()[-1])
    return {name: said[str(top)] for name, top in tops.items()}


@pytest.mark.parametrize("name", LAYOUTS)
def test_reads_what_pytest_reads(
    name: str, tops: dict[str, Path], answers: dict[str, Any]
) -> None:
    ours, theirs = read_pytest_config(tops[name]), answers[name]
    if "error" in theirs:
        assert ours.problem is not None
        return
    inipath = theirs["inipath"] and Path(theirs["inipath"])
    is_above = inipath is not None and inipath.parent != tops[name]
    is_said_above = is_above and inipath.name == "pytest.ini"
    assert ours.path == (inipath.name if inipath and not is_above else None)
    assert (ours.problem is not None) == is_said_above
    assert list(ours.testpaths) == ([] if is_above else theirs["testpaths"])
    assert list(ours.python_files) == theirs["python_files"]
    assert list(ours.markers) == theirs["markers"]
    assert list(ours.addopts) == theirs["addopts"]
    assert list(ours.python_classes) == theirs["python_classes"]
    assert list(ours.python_functions) == theirs["python_functions"]
    assert list(ours.norecursedirs) == theirs["norecursedirs"]


def test_the_layouts_show_both_answers_and_errors(answers: dict[str, Any]) -> None:
    errors = [name for name, said in answers.items() if "error" in said]
    assert len(errors) >= 15
    assert len(answers) - len(errors) >= 25


@pytest.mark.parametrize(
    ("name", "table", "line", "syntax"),
    [
        ("pytest.toml", "pytest", 1, "toml"),
        ("pytest.toml is empty", None, 1, "toml"),
        ("pytest.ini is empty", None, 1, "ini"),
        ("pytest.ini, all options", "pytest", 2, "ini"),
        ("ini_options, dotted", "tool.pytest.ini_options", 2, "toml"),
        ("tool.pytest", "tool.pytest", 1, "toml"),
        ("tool.pytest and empty ini_options", "tool.pytest", 1, "toml"),
        ("pyproject without pytest", None, 1, "toml"),
        ("tox.ini", "pytest", 3, "ini"),
        ("setup.cfg", "tool:pytest", 3, "ini"),
        ("nothing", None, 1, None),
    ],
)
def test_says_where_the_table_is(
    name: str, table: str | None, line: int, syntax: str | None, tops: dict[str, Path]
) -> None:
    config = read_pytest_config(tops[name])
    assert (config.table, config.line, config.syntax) == (table, line, syntax)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("pytest.ini, no header", "pytest.ini:1: no section header defined"),
        ("pytest.ini, twice the key", "pytest.ini:3: duplicate name 'markers'"),
        ("pytest.ini, odd quotes", "pytest.ini:2: testpaths: No closing quotation"),
        ("pytest.toml, markers a string", "pytest.toml:2: markers must be a list of strings"),
        ("pytest.toml, markers of numbers", "pytest.toml:2: markers must hold strings only"),
        ("tool is no table", "pyproject.toml:1: tool is not a table"),
        ("setup.cfg is broken but loses", "setup.cfg:1: unexpected line: 'nothing'"),
        ("not UTF-8", "pytest.ini:2: is not UTF-8"),
    ],
)
def test_a_problem_names_file_and_line(name: str, problem: str, tops: dict[str, Path]) -> None:
    assert read_pytest_config(tops[name]).problem == problem


def test_a_broken_toml_file_names_its_line(tops: dict[str, Path]) -> None:
    problem = read_pytest_config(tops["pyproject is broken"]).problem
    assert problem is not None
    assert problem.startswith("pyproject.toml:1: ")


def test_a_file_above_the_top_is_named_and_not_ours(tops: dict[str, Path]) -> None:
    config = read_pytest_config(tops["above"])
    above = tops["above"].parent / "pytest.ini"
    assert config == PytestConfig(
        markers=("a: first",),
        addopts=("-q",),
        problem=f"{above}:1: above the repository's top, is what pytest finds; not ours to edit",
        above=True,
    )


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads all")
def test_an_unreadable_file_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(INI)
    (tmp_path / "pytest.ini").chmod(0)
    assert (
        read_pytest_config(tmp_path).problem == "pytest.ini:1: cannot be read: Permission denied"
    )


def test_registered_markers_of_a_broken_text() -> None:
    config = PytestConfig(path="pytest.ini", table="pytest", syntax="ini")
    with pytest.raises(ValueError, match="no section header"):
        registered_markers("markers = a\n", config)
    assert registered_markers(INI, PytestConfig()) == ()


@pytest.mark.parametrize(
    ("line", "name"),
    [("a: b", "a"), ("a(b: c): d", "a"), ("a (b)", "a"), (" a ", "a"), ("a: b(c)", "a")],
)
def test_marker_name(line: str, name: str) -> None:
    assert marker_name(line) == name
