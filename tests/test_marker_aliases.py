"""Markers of the project's that stand for the harness's own, and strategies by name."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from devicegen.errors import DevicegenError
from devicegen.marker_aliases import MarkerAlias, parse_alias, parse_aliases
from generator import HARNESS, LIBRARY, RECORD, run
from kit import read_tree, write_tree


@pytest.mark.parametrize(
    ("text", "alias"),
    [
        ("with_device=run_on", MarkerAlias("with_device", ())),
        ("needs_gpu=run_on:gpu", MarkerAlias("needs_gpu", ("gpu",))),
        (" both = run_on : cpu , gpu ", MarkerAlias("both", ("cpu", "gpu"))),
        ("one=run_on:one_device", MarkerAlias("one", ("one_device",))),
        ("free=no_device_scope", MarkerAlias("free", ("none",))),
    ],
)
def test_forms(text: str, alias: MarkerAlias) -> None:
    assert parse_alias(text, ("one_device",)) == alias


@pytest.mark.parametrize(
    "text",
    [
        "needs_gpu",
        "=run_on",
        "needs gpu=run_on",
        "class=run_on",
        "run_on=run_on",
        "no_device_scope=run_on",
        "x=run",
        "x=run_on:",
        "x=run_on:gpus",
        "x=run_on:gpu,gpu",
        "x=run_on:one_device",
        "x=no_device_scope:gpu",
    ],
)
def test_what_is_no_alias_is_one_line_and_writes_nothing(tmp_path: Path, text: str) -> None:
    with pytest.raises(DevicegenError, match="NAME=run_on"):
        parse_alias(text)
    top = write_tree(tmp_path, LIBRARY)
    before = read_tree(top)

    done = run("init", top, "--marker-alias", text)

    assert done.code == 2
    assert len(done.stderr.splitlines()) == 1
    assert read_tree(top) == before


def test_one_name_has_one_meaning() -> None:
    twice = parse_aliases(("b=run_on", "a=run_on:gpu", "b=run_on"), ())

    assert [alias.name for alias in twice] == ["a", "b"]
    with pytest.raises(DevicegenError, match="a is given twice"):
        parse_aliases(("a=run_on", "a=run_on:gpu"), ())


def test_they_are_rendered_registered_remembered_and_taken_back(tmp_path: Path) -> None:
    top = write_tree(tmp_path, LIBRARY)
    done = run("init", top, "--marker-alias", "wants_card=run_on:gpu", "--strategy", "one_device")
    harness = (top / HARNESS).read_text("utf-8")

    assert done.code == 0, done.stderr
    printed = " ".join(done.stdout.split())
    assert (
        "marker wants_card taken over (--marker-alias; wants_card: as run_on(['gpu']))" in printed
    )
    assert "strategies distributed, one_device (--strategy)" in printed
    assert '    "wants_card": ["gpu"],' in harness.splitlines()
    assert "tf.distribute.OneDeviceStrategy(" in harness
    assert "wants_card: as run_on(['gpu'])" in (top / "pyproject.toml").read_text("utf-8")
    assert 'marker_aliases = ["wants_card=run_on:gpu"]' in (top / RECORD).read_text("utf-8")
    assert run("check", top).code == 0

    assert run("upgrade", top).stdout.startswith("Nothing to do")
    assert run("upgrade", top, "--strategy", "none", "--marker-alias", "none").code == 0
    harness = (top / HARNESS).read_text("utf-8")
    ast.parse(harness)
    assert "OneDeviceStrategy" not in harness
    assert "wants_card" not in harness
    assert run("check", top).code == 0


@pytest.mark.parametrize(
    "files",
    [
        {"tests/test_it.py": "from pytest import mark\n@mark . wants_card\ndef test(): pass\n"},
        {"plugin.py": "def add(config): config.addinivalue_line('markers', 'wants_card: x')\n"},
        {"pyproject.toml": """
            [project]
            name = "library"
            version = "1"
            dependencies = ["tensorflow>=2.8"]

            [tool.pytest.ini_options]
            markers = ["wants_card: where it runs"]
        """},
    ],
    ids=["used", "registered by code", "registered"],
)  # fmt: skip
def test_a_name_that_is_no_marker_here_is_noted(tmp_path: Path, files: dict[str, str]) -> None:
    top = write_tree(tmp_path, {**LIBRARY, **files})
    args = ["--marker-alias=wants_card=run_on:gpu", "--marker-alias=wants_cards=run_on:gpu"]
    note = (
        "devicegen: note: --marker-alias wants_cards: no marker of that name is used or "
        "registered here; is it spelled as in the tests?\n"
    )

    first, later = run("init", top, *args), run("upgrade", top)
    other = run("upgrade", top, "--marker-alias=wants=run_on")

    assert (first.code, first.stderr) == (0, note)
    assert (later.code, later.stderr) == (0, "")
    assert (other.code, other.stderr) == (0, note.replace("wants_cards", "wants"))


def test_an_unknown_strategy_is_one_line(tmp_path: Path) -> None:
    top = write_tree(tmp_path, LIBRARY)

    done = run("init", top, "--strategy", "one_device", "--strategy", "mirrored")

    assert done.code == 2
    assert done.stderr == (
        "devicegen: --strategy mirrored: unknown; write one_device or central_storage, or none\n"
    )
    assert not (top / HARNESS).exists()


def test_seeds_can_be_left_alone(tmp_path: Path) -> None:
    top = write_tree(tmp_path, LIBRARY)
    run("init", top)
    assert "\nimport random\n" in (top / HARNESS).read_text("utf-8")

    assert run("upgrade", top, "--no-seeds").code == 0

    harness = (top / HARNESS).read_text("utf-8")
    assert "import random" not in harness
    assert "_seed(" not in harness
    assert "seeds = false" in (top / RECORD).read_text("utf-8")
