"""Where Python tests run under Bazel, and how files are named there."""

from __future__ import annotations

from pathlib import Path

import pytest

from devicegen.facts.bazel import BazelFacts, read_bazel
from devicegen.facts.source_tree import SourceTree
from kit import write_tree


def facts(top: Path, files: dict[str, str], start: str = "") -> BazelFacts:
    write_tree(top, files)
    return read_bazel(SourceTree.list(top / start), [])


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('py_test(\n    name = "a",\n)\n', [1]),
        ('load(":x.bzl", "x")\n\ntf_py_test(name = "a")\n', [3]),
        ('load(":x.bzl", "x")\n\ncuda_py_test(name = "a")\npy_test(name = "b")\n', [3]),
        ("[py_test(name = n) for n in NAMES]\n", [1]),
        ('pytype_strict_test(name = "a")\n', [1]),
        ('multi_substrate_py_test(name = "a")\n', [1]),
        ('py_library(name = "a")\ncc_test(name = "b")\n', []),
        ('# py_test(name = "a")\nload("@x//:y.bzl", "py_test")\n', []),
        ("", []),
    ],
)
def test_finds_python_tests(tmp_path: Path, text: str, lines: list[int]) -> None:
    found = facts(tmp_path, {"a/BUILD": text}).py_tests

    assert [where.line for where in found] == lines


def test_labels_go_by_packages(tmp_path: Path) -> None:
    """A folder without a BUILD file belongs to the package above it."""
    found = facts(tmp_path, {"WORKSPACE": "", "BUILD": "", "a/BUILD.bazel": "", "a/b/c.py": "",
                             "d/e.py": "", "a/BUILD": ""})  # fmt: skip

    assert found.label("a/b/c.py") == "//a:b/c.py"
    assert found.label("d/e.py") == "//:d/e.py"
    assert found.label("f.py") == "//:f.py"
    assert found.build_file("a/b/c.py") == "a/BUILD.bazel"


def test_without_a_package_one_is_to_be_made_beside_the_file(tmp_path: Path) -> None:
    found = facts(tmp_path, {"a/b.py": ""})

    assert found.build_file("a/b.py") == "a/BUILD.bazel"


@pytest.mark.parametrize("mark", ["MODULE.bazel", "WORKSPACE", "WORKSPACE.bazel"])
def test_the_workspace_may_lie_above(tmp_path: Path, mark: str) -> None:
    files = {mark: "", "part/project/pyproject.toml": "", "part/project/tests/BUILD": ""}
    found = facts(tmp_path, files, "part/project")

    assert found.label("tests/a.py") == "//part/project/tests:a.py"


def test_what_py_test_is_loaded_from(tmp_path: Path) -> None:
    rules = '"@rules_python//python:defs.bzl"'
    found = facts(tmp_path, {
        "a/BUILD": f'load({rules}, "py_library", "py_test")\n',
        "b/BUILD": f'load(\n    {rules},\n    "py_test",\n)\n',
        "c/BUILD": 'load(":own.bzl", "py_tests")\n',
    })  # fmt: skip

    assert found.load == "@rules_python//python:defs.bzl"
    assert found.loads_library == ("a/BUILD",)
    assert facts(tmp_path / "c", {}).load == ""
