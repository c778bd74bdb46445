"""A formatter's work is taken back, statement by statement; what was edited keeps its words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import isort
import pytest

from devicegen.python_layout import laid_out_as, lines_of, top_level_statements
from kit.harness import render_harness

HARNESS = render_harness()
RUFF = ("ruff", "format", "-q", "--isolated")
TOOLS = {
    "ruff": (*RUFF, "--config=line-length=60", "--config=format.quote-style='single'"),
    "ruff, tabs": (*RUFF, "--config=format.indent-style='tab'"),
    "ruff, two spaces": (*RUFF, "--config=indent-width=2"),
    "black": ("black", "-q", "--line-length=120"),
    "yapf": ("yapf", "-i", "--style={based_on_style: google, indent_width: 2}"),
}
QUICK = "ruff"


def formatted(text: str, tool: str, folder: Path) -> str:
    file = folder / "formatted.py"
    file.write_text(text, "utf-8")
    subprocess.run([sys.executable, "-m", *TOOLS[tool], str(file)], check=True)
    return file.read_text("utf-8")


@pytest.fixture(
    params=[pytest.param(name, marks=[pytest.mark.slow] * (name != QUICK)) for name in TOOLS]
)
def tool(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_unedited_lines_get_their_layout_back(tool: str, tmp_path: Path) -> None:
    text = formatted(HARNESS, tool, tmp_path)

    assert text != HARNESS
    assert laid_out_as(text, HARNESS) == HARNESS


def test_an_edited_line_keeps_its_words_and_gets_its_depth(tool: str, tmp_path: Path) -> None:
    edited = HARNESS.replace(
        "        fault = \"no device is listed\"\n",
        "        if wrong:\n            fault = f(1,\n                2)  # ours\n",
    )  # fmt: skip
    assert edited != HARNESS

    text = laid_out_as(formatted(edited, tool, tmp_path), HARNESS)

    assert "\n        if wrong:\n            fault = f(1, 2)  # ours\n" in text
    others = text.replace("        if wrong:\n            fault = f(1, 2)  # ours\n", "")
    assert others == HARNESS.replace('        fault = "no device is listed"\n', "")


def test_sorted_imports_come_back_to_their_places() -> None:
    text = isort.code(HARNESS, profile="google", force_sort_within_sections=True)
    assert text != HARNESS
    more = text.replace("import copy\n", "import colorsys\nimport copy\n")

    assert laid_out_as(text, HARNESS) == HARNESS
    added = laid_out_as(more, HARNESS)
    assert added != HARNESS
    assert added.replace("import colorsys\n", "") == HARNESS


@pytest.mark.parametrize(
    ("text", "example", "expected"),
    [
        ("x=1\n", "x = 1\n", "x = 1\n"),
        ("x=2\n", "x = 1\n", "x=2\n"),
        ("if x:\n  y=1\n  z=2\n", "if x:\n    y = 1\n", "if x:\n    y = 1\n    z=2\n"),
        ("if x:\n\ty=1\nelse :\n\tz=2\n", "if x:\n    y = 1\n",
         "if x:\n    y = 1\nelse :\n    z=2\n"),
        ("if x:\n\ty='''a\n\tb'''\n", "w\n", "if x:\n    y='''a\n\tb'''\n"),
        ("if x:\n  # c\n  y(1,\n    2)\n# d\nz\n", "w\n",
         "if x:\n    # c\n    y(1,\n      2)\n# d\nz\n"),
        ("x = 1  # a\n", "x = 1  # b\n", "x = 1  # a\n"),
        ("y=1\n", "if x:\n    y = 1\n", "y=1\n"),
        ("from a import c\nfrom a import b\n", "from a import b, c\n", "from a import b, c\n"),
        ("import b\nimport a  # ours\n", "import a\nimport b\n", "import a  # ours\nimport b\n"),
        ("from a import b, c, d\n", "from a import b, c\n", "from a import b, c, d\n"),
        ("x = (\n", "x = 1\n", "x = (\n"),
        ("x=1\n", "x = (\n", "x=1\n"),
        ("", "x = 1\n", ""),
    ],
)  # fmt: skip
def test_each_rule(text: str, example: str, expected: str) -> None:
    assert laid_out_as(text, example) == expected


def test_a_second_example_serves_where_the_first_has_no_such_line() -> None:
    assert laid_out_as("x=1\ny=2\n", "x = 1\n", "y = 2\nx  =  1\n") == "x = 1\ny = 2\n"


def test_lines_are_python_s_own() -> None:
    assert lines_of("a\x0cb\u2028c\nd") == ["a\x0cb\u2028c\n", "d"]


def test_statements_of_the_top_level() -> None:
    text = (
        "# a\nx = 1\n\n\n@b\n@c\ndef f():\n    if x:\n        y\n    else:\n        z\n"
        "try:\n    x\nexcept E:\n    y\nfinally:\n    z\n# end\n"
    )

    found = ["".join(lines) for lines in top_level_statements(text)]

    assert "".join(found) == text
    assert [piece.strip().splitlines()[0] for piece in found] == ["# a", "@b", "try:", "# end"]
