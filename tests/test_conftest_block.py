"""The harness as a block in a conftest of the project: nothing else changes, both sides run."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from devicegen.conftest_block import BEGIN, END, find_block, make_block, with_block
from devicegen.errors import DevicegenError
from devicegen.facts.conftests import bound_names, read_conftest
from devicegen.python_code import says_the_same
from devicegen.record import Record, read_record
from generator import RECORD, run, state
from kit import clean_environ, environment, run_pytest, write_tree
from kit.harness import COMBINATIONS, render_harness
from layouts import OWNERS_HOOKS, TEST

INI = {"pytest.ini": "[pytest]\n", "p/test_a.py": TEST}
PLACE = "conftest.py"

# Conftests as projects have them: each must keep every byte.
OWNERS: dict[str, bytes] = {
    "empty": b"",
    "a comment": b"# nothing yet\n",
    "hooks": OWNERS_HOOKS.encode(),
    "no newline at the end": b"import os\nX = 1",
    "blank lines at the end": b"X = 1\n\n\n\n\n",
    "CRLF": b"import os\r\n\r\nX = 1\r\n",
    "lone CR": b"import os\rX = 1\r",
    "BOM": b"\xef\xbb\xbfX = 1\n",
    "BOM and CRLF": b"\xef\xbb\xbfimport os\r\nX = 1",
    "latin-1": "# coding: latin-1\nNAME = 'é'\n".encode("latin-1"),
    "cookie on the second line": "#!/usr/bin/python\n# coding: cp1252\nX = '€'\n".encode("cp1252"),
    "tabs": b"def f():\n\tif True:\n\t\treturn 1\n",
    "docstring and __future__": b'"Doc."\nfrom __future__ import annotations\nX: Y | None = 1\n',
    "TYPE_CHECKING": b"from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    import pytest\n",
    "__all__": b"__all__ = ['x']\n\n\ndef x(): pass\n",
    "only imports": b"import pathlib\nfrom os import *\n",
    "a form feed": b"X = 1\n\x0c\nY = 2\n",
    "ends in a comment": b"X = 1\n# the end",
    "ends in a class": b"class A:\n    def f(self):\n        pass\n\n    # more\n",
}
FORMATTERS = {
    "black": ["black", "-q"],
    "black, preview": ["black", "-q", "--preview", "--line-length=60"],
    "isort": ["isort", "-q"],
    "isort, black": ["isort", "-q", "--profile=black"],
    "isort, forced": [
        "isort",
        "-q",
        "--force-single-line-imports",
        "--force-sort-within-sections",
    ],
    "ruff format": ["ruff", "format", "-q", "--isolated"],
    "ruff sorts": ["ruff", "check", "-q", "--isolated", "--select=I", "--fix"],
    "autopep8": ["autopep8", "--in-place"],
    "yapf": ["yapf", "--in-place"],
}


def mostly_slow(names: Iterable[str], *quick: str) -> list[Any]:
    slow = pytest.mark.slow
    return [name if name in quick else pytest.param(name, marks=slow) for name in names]


def init_in(top: Path, owner: bytes) -> bytes:
    write_tree(top, {**INI, PLACE: owner})
    done = run("init", top)
    assert done.code == 0, done
    assert f"update  {PLACE}\n" in done.stdout
    return (top / PLACE).read_bytes()


@pytest.mark.parametrize("name", mostly_slow(OWNERS, "BOM and CRLF"))
def test_every_other_byte_stays(tmp_path: Path, name: str) -> None:
    owner = OWNERS[name]

    data = init_in(tmp_path, owner)

    found = find_block(data)
    assert found is not None
    start, end = found
    assert end == len(data)
    assert data.startswith(owner)
    added = data[len(owner) : start]
    assert not added.strip(b"\r\n")
    assert len(added) <= 6
    newline = b"\r\n" if b"\r\n" in owner else b"\r" if b"\r" in owner else b"\n"
    block = data[start:]
    assert (
        block.replace(newline, b"").count(b"\n") == block.replace(newline, b"").count(b"\r") == 0
    )
    ast.parse(data)
    assert "Current: written by" in run("check", tmp_path).stdout
    before = state(tmp_path)
    assert run("upgrade", tmp_path).code == 0
    assert state(tmp_path) == before


@pytest.mark.parametrize("combination", mostly_slow(COMBINATIONS, next(iter(COMBINATIONS))))
def test_block_is_the_harness_with_other_names(combination: str) -> None:
    """Nothing is lost: hooks, helpers and classes of the harness are all in the block."""
    harness = render_harness(**COMBINATIONS[combination])
    block = make_block(harness, "")
    tree, original = ast.parse(block), ast.parse(harness)
    named = {  # those that have a name of their own in the harness too
        node.name
        for node in original.body
        if isinstance(node, ast.FunctionDef)
        and any("specname" in ast.unparse(each) for each in node.decorator_list)
    }
    hooks = [name for name in functions(original) if name.startswith("pytest_")]

    assert block.startswith(f"{BEGIN}\n")
    assert block.endswith(f"\n{END}\n")
    assert block.isascii()
    assert "__future__" not in block
    assert functions(tree) == [
        name if name in named else re.sub("^pytest_", "pytest_devices_", name)
        for name in functions(original)
    ]
    specnames = re.findall(r'specname="(\w+)"', block)
    assert len(specnames) == len(hooks)
    assert set(specnames) >= set(hooks) - named
    assert len(hooks) >= 8
    assert "pytest_configure" in hooks


@pytest.mark.parametrize("combination", mostly_slow(COMBINATIONS, next(iter(COMBINATIONS))))
def test_methods_and_fields_keep_their_names(combination: str) -> None:
    """Also where the project has each name of the harness for something else."""
    harness = render_harness(**COMBINATIONS[combination])
    names = sorted({each.name for each in bound_names(ast.parse(harness))})

    block = ast.parse(make_block(harness, "".join(f"{name} = 0\n" for name in names)))

    assert "_split" in names
    assert not {each.name for each in bound_names(block)} & set(names)
    assert members(block) == members(ast.parse(harness))
    marked = [(name, mark) for name, marks in hooks(block) for mark in marks]
    assert len(marked) == len(hooks(block)) >= 8  # each has one mark, and of our pytest
    assert all(mark.startswith("devices_pytest.hookimpl(") for _, mark in marked)
    assert all("specname='pytest_" in mark for _, mark in marked)
    assert all(name.startswith("pytest_") for name, _ in marked)  # or pytest takes it for none


def hooks(module: ast.Module) -> list[tuple[str, list[str]]]:
    """Return each function with a mark of a hook, and all its marks."""
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef)]
    marks = [(each.name, [*map(ast.unparse, each.decorator_list)]) for each in functions]
    return [(name, found) for name, found in marks if any("hookimpl" in mark for mark in found)]


def members(module: ast.Module) -> list[list[str]]:
    classes = [node for node in ast.walk(module) if isinstance(node, ast.ClassDef)]
    return [
        [
            each.name if isinstance(each, ast.FunctionDef) else ast.unparse(each.target)
            for each in node.body
            if isinstance(each, ast.FunctionDef | ast.AnnAssign)
        ]
        for node in classes
    ]


def functions(module: ast.Module) -> list[str]:
    return [node.name for node in module.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]


@pytest.mark.slow
def test_names_of_the_project_are_left_to_it(tmp_path: Path) -> None:
    """A name that both use for something else, defined, imported or from elsewhere, is renamed."""
    owner = """
        import os
        from copy import copy
        from dataclasses import dataclass as dataclasses
        import pytest

        KIND = [copy([1])]
        MARKERS = "mine"
        Assignment = type("Assignment", (), {"card": 7})

        def _split(text): return text.split()

        def json(value): return f"json {value}"

        def pytest_configure(config):
            config.own = [_split("a b"), json(1), KIND, MARKERS, Assignment.card, copy(KIND)]

        @pytest.fixture
        def own(pytestconfig): return pytestconfig.own
    """
    test = """
        def test_own(own, device_scope):
            assert own == [["a", "b"], "json 1", [[1]], "mine", 7, [[1]]]
            assert device_scope.kind == "cpu"
    """
    write_tree(tmp_path, {**INI, PLACE: owner, "p/test_own.py": test, "p/test_a.py": TEST})
    assert run("init", tmp_path).code == 0
    fake = (Path(__file__).parent / "harness" / "fake_tensorflow.py").read_bytes()
    write_tree(tmp_path, {"tensorflow.py": fake})

    for workers in ("0", "2"):
        args = ("--gpu-simulate", "1", "-n", workers)
        done = run_pytest(environment("pytest-9"), tmp_path, *args, env={"DIARY": "/dev/null"})

        assert done.returncode == 0, done
        assert done.counts == {"passed": 4}, done
    block = (tmp_path / PLACE).read_text().partition(BEGIN)[2]
    for name in ("KIND", "MARKERS", "Assignment", "_split", "json", "copy", "dataclasses"):
        assert not re.search(rf"^(?:def |class |import )?{name}\b(?! as)", block, re.MULTILINE), (
            name
        )
    assert re.search(r"^import os\b", block, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATTERS)
def test_formatters_and_import_sorters_are_no_edit(tmp_path: Path, name: str) -> None:
    for number, owner in enumerate([OWNERS["hooks"], OWNERS["only imports"], OWNERS["empty"]]):
        top = tmp_path / str(number)
        init_in(top, owner)

        subprocess.run(
            [sys.executable, "-m", *FORMATTERS[name], PLACE],
            cwd=top, env=clean_environ(), check=True, capture_output=True,
        )  # fmt: skip

        done = run("check", top)
        assert (done.code, done.stderr) == (0, ""), done
        assert find_block((top / PLACE).read_bytes()) is not None


def test_an_older_block_is_renewed_where_it_stands(tmp_path: Path) -> None:
    init_in(tmp_path, OWNERS["hooks"])
    data = (tmp_path / PLACE).read_bytes()
    record = read_record(tmp_path, "99")
    assert record is not None
    older = record.pristine[PLACE].replace(END, f"OLDER = True\n{END}")
    made = Record("0.0.1", record.answers, {PLACE: older}, record.registry)
    written = OWNERS["hooks"] + b"\n\n" + older.encode() + b"\n\nAFTER = 1\n"
    write_tree(
        tmp_path, {**{name: text.encode() for name, text in made.texts().items()}, PLACE: written}
    )

    assert run("check", tmp_path).code == 1
    assert run("upgrade", tmp_path).code == 0

    now = (tmp_path / PLACE).read_bytes()
    assert now.startswith(OWNERS["hooks"])
    assert now.endswith(b"\n\nAFTER = 1\n")
    block, current = (each[slice(*(find_block(each) or ()))] for each in (now, data))
    assert says_the_same(block.decode(), current.decode())


def test_an_edit_outside_the_block_is_none(tmp_path: Path) -> None:
    data = init_in(tmp_path, OWNERS["hooks"])

    write_tree(
        tmp_path, {PLACE: b"# new first line\n" + data.replace(b"here", b"there") + b"Z = 1"}
    )

    assert run("check", tmp_path).code == 0


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda data: data.replace(END.encode(), b""), "must be there once, in this order"),
        pytest.param(
            lambda data: data + data, "must be there once, in this order", marks=pytest.mark.slow
        ),
    ],
    ids=["no end", "twice"],
)
def test_a_damaged_block_is_said(tmp_path: Path, damage, words: str) -> None:  # type: ignore[no-untyped-def]
    data = init_in(tmp_path, b"X = 1\n")
    write_tree(tmp_path, {PLACE: damage(data)})
    before = state(tmp_path)

    done = run("upgrade", tmp_path)

    assert done.code == 2
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("devicegen: conftest")]
    assert words in line
    assert state(tmp_path) == before


@pytest.mark.slow
def test_a_block_without_a_record_stays_where_it_is(tmp_path: Path) -> None:
    files = {"pytest.ini": "[pytest]\n", "tests/test_a.py": TEST, "conftest.py": "X = 1\n"}
    write_tree(tmp_path, {**files, "tests/conftest.py": "Y = 1\n"})
    assert run("init", tmp_path).code == 0
    record = tmp_path / RECORD
    record.unlink()
    (tmp_path / "conftest.py").unlink()  # now free, and pytest would load a second one there

    again = run("init", tmp_path)

    assert again.code == 0, again
    assert "(a harness is there already, without a record)" in again.stdout
    assert record.is_file()
    assert not (tmp_path / "conftest.py").exists()

    record.unlink()
    block = (tmp_path / "tests/conftest.py").read_bytes()
    write_tree(tmp_path, {"tests/conftest.py": block.replace(b"KIND", b"SORT")})
    assert (
        "holds a block of devicegen that .devicegen/ does not know" in run("init", tmp_path).stderr
    )

    write_tree(tmp_path, {"conftest.py": block})
    done = run("init", tmp_path)
    assert done.stderr.endswith("hold a harness each, which stops pytest; delete one\n"), done


def test_a_record_names_the_block(tmp_path: Path) -> None:
    init_in(tmp_path, b"X = 1\n")

    pristine = (tmp_path / f".devicegen/{PLACE}.pristine").read_text()
    assert pristine.startswith(BEGIN)
    assert f'"{PLACE}" = "sha256:' in (tmp_path / RECORD).read_text()
    again = run("init", tmp_path)
    assert again.stdout.endswith("Nothing to do: the harness is here and current.\n"), again


def test_find_block_refuses_what_is_not_whole() -> None:
    assert find_block(b"X = 1\n") is None
    with pytest.raises(DevicegenError, match=r"^line 2: "):
        find_block(f"X = 1\n{END}\n".encode())
    assert with_block(b"", "a\n") == b"a\n"


# What is known of a conftest


def test_facts_of_a_conftest(tmp_path: Path) -> None:
    text = """
        import tensorflow as tf
        from plugin import pytest_sessionstart
        import pytest

        pytest_plugins = ["x"]

        def pytest_configure(config): pass

        def pytest_addoption(parser):
            parser.addoption("--slow", action="store_true")

        def pytest_configure(config): pass

        pytest_runtest_setup = pytest_configure

        @pytest.fixture(autouse=True)
        def always(): pass

        @pytest.fixture(name="other", scope="session")
        def named(): pass
    """
    write_tree(tmp_path, {PLACE: text})

    found = read_conftest(tmp_path, PLACE)

    assert found.owner == "project"
    assert [(each.name, each.line, each.how) for each in found.hooks] == [
        ("pytest_sessionstart", 2, "import"),
        ("pytest_configure", 7, "def"),
        ("pytest_addoption", 9, "def"),
        ("pytest_configure", 12, "def"),
        ("pytest_runtest_setup", 14, "="),
    ]
    assert [(each.name, each.line) for each in found.shadowed] == [("pytest_configure", 7)]
    assert [(each.name, each.line) for each in found.options] == [("--slow", 10)]
    assert [(each.name, each.autouse) for each in found.fixtures] == [
        ("always", True),
        ("other", False),
    ]
    assert found.plugins == 5
    assert [(each.name, each.line) for each in found.imports] == [("tensorflow", 1)]


@pytest.mark.parametrize(
    ("data", "obstacle"),
    [
        (b"# Generated by make.py\n", "is generated, as line 1 says"),
        (b'"""x\n\nThis file is AUTOGENERATED."""\n', None),
        (b"x = 1\n# do not edit\n", None),
        (b"\xff\n", "cannot be read (line 1 is not utf-8)"),
        (b"# coding: nothing\n", "cannot be read (its encoding nothing is none)"),
        (b"x = 1\ndef (:\n", "is no Python that can be parsed (line 2)"),
        (b"x = '\0'\n", "is no Python that can be parsed (line 1)"),
    ],
)
def test_what_keeps_a_block_out(tmp_path: Path, data: bytes, obstacle: str | None) -> None:
    write_tree(tmp_path, {PLACE: data})

    assert read_conftest(tmp_path, PLACE).obstacle == obstacle
