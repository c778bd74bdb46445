"""Repositories as they are: path -> text, and where the harness belongs in each.

``TEST`` stands for a test module that asks for devices; each layout has one at least. What is
expected is decided by real runs of pytest (``test_layouts.py``), not by this table alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TEST = """\
import pytest
import tensorflow


@pytest.mark.run_on(["cpu", "gpu"])
def test_marked(device_scope):
    assert device_scope.kind in ("cpu", "gpu")


def test_plain(device_scope):
    assert device_scope.kind == "cpu"
"""
CASES = """\
import unittest

import pytest
import tensorflow


class TestCases(unittest.TestCase):
    @pytest.mark.run_on(["cpu", "gpu"])
    def test_marked(self): pass

    def test_plain(self): pass
"""
PROJECT = '[project]\nname = "p"\nversion = "1"\n'
TABLE = "\n[tool.pytest.ini_options]\n"
SETUP = "from setuptools import setup\nsetup(name='p')\n"
OWNERS_HOOKS = '''\
"""The project's own."""

from __future__ import annotations

import os

import pytest

CALLED = []


def pytest_addoption(parser):
    parser.addoption("--own", default="here")


def pytest_configure(config):
    config.addinivalue_line("markers", "own: the project's")
    CALLED.append(config.getoption("--own"))


def pytest_generate_tests(metafunc):
    CALLED.append("generate")


def pytest_collection_modifyitems(items):
    CALLED.append("modify")


@pytest.fixture(autouse=True)
def own_fixture():
    assert CALLED[0] == "here"
    assert "modify" in CALLED
    yield os.getpid()
'''


@dataclass(frozen=True)
class Layout:
    """A repository; ``place`` is where the harness goes, ``added`` the configuration it takes.

    ``shared`` means a block in the project's conftest. ``args`` are passed to every run.
    ``newer`` is the oldest pytest that can run it. ``init`` is passed to ``devicegen init``.
    """

    files: Mapping[str, str | bytes]
    place: str
    shared: bool = False
    added: str | None = None
    args: tuple[str, ...] = ()
    newer: tuple[int, int] = (7, 0)
    init: tuple[str, ...] = ()


def _ini(text: str = "", name: str = "pytest.ini") -> dict[str, str]:
    header = "tool:pytest" if name == "setup.cfg" else "pytest"
    return {name: f"[{header}]\n{text}"}


def _toml(text: str = "") -> dict[str, str]:
    return {"pyproject.toml": f"{PROJECT}{TABLE}{text}"}


BARE = {"pyproject.toml": PROJECT}
IN_TESTS = "tests/conftest.py"
TOP = "conftest.py"

LAYOUTS: dict[str, Layout] = {
    # Without any configuration: the rootdir is where a setup.py is, else where pytest is run.
    "tests, nothing else": Layout({"tests/test_a.py": TEST}, IN_TESTS),
    "tests in sub folders, nothing else": Layout(
        {"tests/unit/test_a.py": TEST, "tests/slow/b_test.py": TEST}, IN_TESTS, added="pytest.ini"
    ),
    "tests in sub folders, setup.py": Layout(
        {"setup.py": SETUP, "tests/unit/test_a.py": TEST}, IN_TESTS
    ),
    "next to sources, nothing else": Layout(
        {"p/__init__.py": "", "p/a_test.py": TEST}, TOP, added="pytest.ini"
    ),
    "next to sources, setup.py": Layout(
        {"setup.py": SETUP, "p/__init__.py": "", "p/sub/__init__.py": "", "p/sub/a_test.py": TEST},
        TOP,
    ),
    "next to sources, a bare pyproject": Layout(
        {**BARE, "p/__init__.py": "", "p/a_test.py": TEST}, TOP, added="pyproject.toml"
    ),
    "next to sources, a bare pyproject and setup.py": Layout(
        {**BARE, "setup.py": SETUP, "p/__init__.py": "", "p/a_test.py": TEST}, TOP
    ),
    "next to sources, setup.cfg without a section": Layout(
        {"setup.cfg": "[metadata]\nname = p\n", "p/__init__.py": "", "p/a_test.py": TEST},
        TOP, added="setup.cfg",
    ),
    "next to sources, tox.ini without a section": Layout(
        {"tox.ini": "[tox]\nenvlist = py\n", "p/__init__.py": "", "p/a_test.py": TEST},
        TOP, added="tox.ini",
    ),
    "a test at the top": Layout({"test_a.py": TEST}, TOP),
    "a test at the top and in a folder": Layout(
        {**BARE, "test_a.py": TEST, "p/test_b.py": TEST}, TOP, added="pyproject.toml"
    ),
    "a bare pyproject in the tests": Layout(
        {"setup.py": SETUP, "tests/pyproject.toml": "[tool.black]\n",
         "tests/unit/test_a.py": TEST},
        IN_TESTS,
    ),
    "a setup.py below": Layout(
        {**BARE, "p/setup.py": SETUP, "p/tests/test_a.py": TEST, "q/tests/test_b.py": TEST},
        TOP, added="pyproject.toml",
    ),
    # Each of the seven files.
    "pytest.ini": Layout({**_ini(), "tests/test_a.py": TEST}, IN_TESTS),
    "an empty pytest.ini": Layout({"pytest.ini": "", "p/tests/test_a.py": TEST}, TOP),
    ".pytest.ini": Layout(
        {**_ini(name=".pytest.ini"), "tests/test_a.py": TEST}, IN_TESTS, newer=(7, 4)
    ),
    "pyproject.toml": Layout({**_toml(), "src/p/tests/test_a.py": TEST}, TOP),
    "tox.ini": Layout({**_ini(name="tox.ini"), "tests/unit/test_a.py": TEST}, IN_TESTS),
    "setup.cfg": Layout({**_ini(name="setup.cfg"), "tests/unit/test_a.py": TEST}, IN_TESTS),
    "pytest.toml": Layout(
        {"pytest.toml": '[pytest]\naddopts = ["-q"]\n', "tests/unit/test_a.py": TEST},
        IN_TESTS, newer=(9, 0),
    ),
    ".pytest.toml, strict": Layout(
        {".pytest.toml": "[pytest]\nstrict = true\n", "p/test_a.py": TEST}, TOP, newer=(9, 0)
    ),
    "tool.pytest, strict": Layout(
        {"pyproject.toml": f"{PROJECT}\n[tool.pytest]\nstrict = true\n", "p/test_a.py": TEST},
        TOP, newer=(9, 0),
    ),
    "two files, one in force": Layout(
        {**_ini("markers =\n    slow: a\n"), **_toml('markers = ["fast: b"]\n'),
         "tests/test_a.py": TEST},
        IN_TESTS,
    ),
    "strict markers and strict config": Layout(
        {**_toml('addopts = "--strict-markers --strict-config"\nmarkers = ["own: x"]\n'),
         "tests/test_a.py": TEST},
        IN_TESTS,
    ),
    "warnings are errors": Layout(
        {**_toml('filterwarnings = ["error"]\n'), "tests/test_a.py": TEST}, IN_TESTS
    ),
    "warnings are errors, a block": Layout(
        {**_ini("filterwarnings = error\n"), "tests/test_a.py": TEST, "tests/conftest.py":
         OWNERS_HOOKS, "conftest.py": "import os\n"},
        IN_TESTS, shared=True,
    ),
    # What the configuration says.
    "testpaths": Layout(
        {**_ini("testpaths = tests/unit tests/other\n"), "tests/unit/test_a.py": TEST,
         "tests/other/test_b.py": TEST},
        IN_TESTS,
    ),
    "testpaths, another name": Layout(
        {**_ini("testpaths = checks\n"), "checks/test_a.py": TEST}, TOP
    ),
    "testpaths, another name, the top taken": Layout(
        {**_ini("testpaths = checks\n"), "checks/test_a.py": TEST, "conftest.py": OWNERS_HOOKS},
        TOP, shared=True,
    ),
    "testpaths, a glob": Layout(
        {**_toml('testpaths = ["s*/*/tests"]\n'), "src/p/tests/test_a.py": TEST,
         "src/q/tests/test_b.py": TEST},
        TOP, newer=(7, 4),
    ),
    "testpaths that match nothing": Layout(
        {**_ini("testpaths = gone\n"), "tests/test_a.py": TEST}, IN_TESTS, newer=(7, 4)
    ),
    "testpaths, the top": Layout({**_ini("testpaths = .\n"), "checks/test_a.py": TEST}, TOP),
    "a file of testpaths": Layout(
        {**_ini("testpaths = tests/suite.py\n"), "tests/suite.py": TEST}, IN_TESTS
    ),
    "testpaths leave examples out": Layout(
        {**_ini("testpaths = tests\n"), "tests/test_a.py": TEST, "examples/test_b.py": "1 / 0\n"},
        IN_TESTS,
    ),
    "python_files and python_functions": Layout(
        {**_ini("python_files = check_*.py\npython_functions = test_*\n"),
         "checks/check_a.py": TEST},
        TOP,
    ),
    "norecursedirs": Layout(
        {**_ini("norecursedirs = legacy\n"), "tests/test_a.py": TEST,
         "legacy/test_old.py": "1 / 0\n"},
        IN_TESTS,
    ),
    "build and dist": Layout(
        {**_ini(), "tests/test_a.py": TEST, "build/lib/test_a.py": TEST, "dist/test_b.py": TEST},
        IN_TESTS,
    ),
    "--ignore in addopts": Layout(
        {**_ini("addopts = --ignore=bench\n"), "tests/test_a.py": TEST,
         "bench/test_b.py": "1 / 0\n"},
        IN_TESTS,
    ),
    "-n in addopts": Layout({**_ini("addopts = -n 1\n"), "tests/test_a.py": TEST}, IN_TESTS),
    "--dist loadfile in addopts": Layout(
        {**_ini("addopts = --dist=loadfile\n"), "tests/test_a.py": TEST},
        IN_TESTS, newer=(7, 4),
    ),
    "-p no:cacheprovider in addopts": Layout(
        {**_ini("addopts = -p no:cacheprovider\n"), "tests/test_a.py": TEST}, IN_TESTS
    ),
    "--import-mode=importlib, two conftests": Layout(
        {**_toml('addopts = "--import-mode=importlib"\n'), "tests/test_a.py": TEST,
         "tests/unit/conftest.py": "import pytest\n", "tests/unit/test_a.py": TEST},
        IN_TESTS,
    ),
    "--import-mode=append": Layout(
        {**_ini("addopts = --import-mode=append\n"), "p/test_a.py": TEST}, TOP
    ),
    "--doctest-modules, two conftests": Layout(
        {**_ini("addopts = --doctest-modules\n"), "p/__init__.py": "", "p/m.py": "",
         "p/tests/__init__.py": "", "p/tests/conftest.py": "import pytest\n",
         "p/tests/test_a.py": TEST},
        TOP,
    ),
    "--doctest-modules, tests taken": Layout(
        {**_ini("addopts = --doctest-modules\n"), "tests/test_a.py": TEST,
         "tests/conftest.py": OWNERS_HOOKS},
        IN_TESTS, shared=True,
    ),
    "--import-mode=append, tests taken": Layout(
        {**_ini("addopts = --import-mode=append\n"), "tests/test_a.py": TEST,
         "tests/conftest.py": OWNERS_HOOKS},
        IN_TESTS, shared=True,
    ),
    "--confcutdir=. in addopts": Layout(
        {**_ini("addopts = --confcutdir=.\n"), "tests/test_a.py": TEST}, IN_TESTS
    ),
    # Conftests that are there.
    "tests taken, no configuration": Layout(
        {"tests/test_a.py": TEST, "tests/conftest.py": OWNERS_HOOKS}, IN_TESTS, shared=True
    ),
    "tests taken, a bare pyproject": Layout(
        {**BARE, "tests/test_a.py": TEST, "tests/conftest.py": OWNERS_HOOKS},
        TOP, added="pyproject.toml",
    ),
    "tests taken, setup.py": Layout(
        {"setup.py": SETUP, "tests/test_a.py": TEST, "tests/conftest.py": OWNERS_HOOKS}, TOP
    ),
    "the top taken": Layout(
        {**_ini(), "tests/test_a.py": TEST, "conftest.py": OWNERS_HOOKS}, IN_TESTS
    ),
    "both taken": Layout(
        {**_ini(), "tests/test_a.py": TEST, "tests/conftest.py": OWNERS_HOOKS,
         "conftest.py": "def pytest_configure(config): pass\n"},
        IN_TESTS, shared=True,
    ),
    "the only right level taken": Layout(
        {**_toml(), "p/__init__.py": "", "p/test_a.py": TEST, "conftest.py": OWNERS_HOOKS},
        TOP, shared=True,
    ),
    "the only right level taken, no configuration": Layout(
        {**BARE, "p/__init__.py": "", "p/test_a.py": TEST, "conftest.py": OWNERS_HOOKS},
        TOP, shared=True, added="pyproject.toml",
    ),
    "conftests in every folder": Layout(
        {**_ini(), "p/conftest.py": OWNERS_HOOKS, "p/a/conftest.py": "", "p/a/test_a.py": TEST,
         "p/b/conftest.py": "", "p/b/test_b.py": TEST},
        TOP,
    ),
    "a conftest that git ignores": Layout(
        {**_ini(), ".gitignore": "tests/conftest.py\n", "tests/test_a.py": TEST,
         "tests/conftest.py": "import os\n", ".git/HEAD": ""},
        TOP,
    ),
    "a generated conftest": Layout(
        {**_ini(), "tests/test_a.py": TEST, "conftest.py": "import os\n",
         "tests/conftest.py": "# AUTOGENERATED FILE - DO NOT EDIT\nimport os\n"},
        TOP, shared=True,
    ),
    # Packages and the import path.
    "tests are a package": Layout(
        {**_ini(), "tests/__init__.py": "", "tests/unit/__init__.py": "",
         "tests/unit/test_a.py": TEST},
        IN_TESTS,
    ),
    "the top is a package": Layout(
        {**_ini(), "__init__.py": "import os\n", "tests/test_a.py": TEST}, IN_TESTS
    ),
    "the top is a package, its tests too": Layout(
        {**_ini(), "__init__.py": "import tensorflow\n", "tests/__init__.py": "",
         "tests/test_a.py": TEST},
        IN_TESTS,
    ),
    "compiled code, tests taken": Layout(
        {**_ini(), "p/__init__.py": "", "p/ops.cc": "", "tests/test_a.py": TEST,
         "tests/conftest.py": OWNERS_HOOKS},
        IN_TESTS, shared=True,
    ),
    "no compiled code, tests taken": Layout(
        {**_ini(), "p/__init__.py": "", "tests/test_a.py": TEST,
         "tests/conftest.py": OWNERS_HOOKS},
        TOP,
    ),
    "compiled code, pythonpath": Layout(
        {**_ini("pythonpath = .\n"), "p/__init__.py": "", "p/ops.cc": "",
         "tests/test_a.py": TEST, "tests/conftest.py": OWNERS_HOOKS},
        TOP,
    ),
    "src": Layout({**_toml(), "src/p/__init__.py": "", "tests/test_a.py": TEST}, IN_TESTS),
    "a space in a name": Layout(
        {**_ini(), "my project/test a.py": "", "my project/test_b.py": TEST}, TOP
    ),
    # Monorepos.
    "two packages, one configuration": Layout(
        {**_toml(), "packages/a/pyproject.toml": PROJECT, "packages/a/tests/test_a.py": TEST,
         "packages/b/pyproject.toml": PROJECT, "packages/b/tests/test_b.py": TEST},
        TOP,
    ),
    "two packages, a bare pyproject each": Layout(
        {**BARE, "packages/a/pyproject.toml": PROJECT, "packages/a/tests/test_a.py": TEST,
         "packages/b/pyproject.toml": PROJECT, "packages/b/tests/test_b.py": TEST},
        TOP, added="pyproject.toml",
    ),
    "two packages, a setup.py each": Layout(
        {".git/HEAD": "", "a/setup.py": SETUP, "a/tests/test_a.py": TEST, "b/setup.py": SETUP,
         "b/tests/test_b.py": TEST},
        TOP, added="pytest.ini",
    ),
    "Bazel beside tox": Layout(
        {"WORKSPACE": "", "MODULE.bazel": "", "p/BUILD": "py_test(name = 'a_test')\n",
         "tox.ini": "[tox]\n[testenv]\ncommands = pytest\n[pytest]\n", "p/__init__.py": "",
         "p/a_test.py": TEST},
        TOP,
    ),
    # Style.
    "TestCases": Layout({**_ini(), "tests/test_a.py": CASES}, IN_TESTS),
    "TestCases, a block": Layout(
        {**_ini(), "p/test_a.py": CASES, "conftest.py": OWNERS_HOOKS}, TOP, shared=True
    ),
    "latin-1, a block": Layout(
        {**_ini(), "p/test_a.py": TEST,
         "conftest.py": "# -*- coding: latin-1 -*-\nNAME = 'é'\n".encode("latin-1")},
        TOP, shared=True,
    ),
    "BOM and CRLF, a block": Layout(
        {**_ini(), "p/test_a.py": TEST, "conftest.py": b"\xef\xbb\xbfimport os\r\nX = 1"},
        TOP, shared=True,
    ),
    "a block asked for": Layout(
        {**_ini(), "tests/test_a.py": TEST, "tests/conftest.py": OWNERS_HOOKS},
        IN_TESTS, shared=True, init=("--conftest", "tests/conftest.py"),
    ),
    "the top asked for": Layout(
        {**_ini(), "tests/test_a.py": TEST}, TOP, init=("--conftest", "conftest.py")
    ),
}  # fmt: skip
