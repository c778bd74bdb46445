"""Markers of the project's that stand for the harness's own, and strategies by name."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from devicegen.errors import DevicegenError
from devicegen.marker_aliases import OTHERS, MarkerAlias, parse_alias, parse_aliases
from generator import HARNESS, LIBRARY, RECORD, run
from kit import clean_environ, read_tree, write_tree

NOTE = (
    "devicegen: note: --marker-alias {}: no marker of that name is used or registered here; is it "
    "spelled as in the tests?\n"
)


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


@pytest.mark.parametrize("name", OTHERS)
def test_a_mark_of_pytests_own_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    top = write_tree(tmp_path, LIBRARY)
    before = read_tree(top)
    text = f"{name}=run_on:gpu"

    done = run("init", top, "--marker-alias", text)

    whose = "pytest-xdist" if name == "xdist_group" else "pytest"
    assert done.code == 2
    assert done.stderr == (
        f"devicegen: --marker-alias {text!r}: {name} is a mark of {whose}'s own, with another "
        "meaning; take a marker of the project's\n"
    )
    assert read_tree(top) == before


def test_all_marks_that_pytest_and_xdist_have_are_refused() -> None:
    """They list them with ``pytest --markers``; those of hooks it does not list."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "--markers",
            "-p",
            "xdist",
            "--rootdir=/",
            "-c",
            "/dev/null",
        ],
        cwd="/",
        env={**clean_environ(), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    listed = set(re.findall(r"^@pytest\.mark\.(\w+)", done.stdout, re.MULTILINE))

    assert {"parametrize", "xdist_group"} <= listed
    assert listed <= OTHERS.keys()


@pytest.mark.parametrize(
    ("name", "meaning", "is_later"),
    [
        ("cpu", "run_on:gpu", False),
        pytest.param("distributed", "no_device_scope", False, marks=pytest.mark.slow),
        pytest.param("gpu", "run_on:gpu", True, marks=pytest.mark.slow),
    ],
)
def test_an_alias_that_is_a_plain_marks_name_gives_those_a_prefix(
    tmp_path: Path, name: str, meaning: str, is_later: bool
) -> None:
    """Also where nothing uses it yet: the harness sets the plain mark on every test."""
    top = write_tree(tmp_path, LIBRARY)
    if is_later:
        run("init", top)
    done = run("upgrade" if is_later else "init", top, "--marker-alias", f"{name}={meaning}")

    assert done.code == 0, done
    assert done.stderr in ("", NOTE.format(name)), done
    if not is_later:
        assert f"on_cpu, on_gpu, on_distributed  ({name} is taken over (--marker-alias))" in (
            done.stdout
        )
    assert 'plain_prefix = "on_"' in (top / RECORD).read_text("utf-8")
    registry = (top / "pyproject.toml").read_text("utf-8")
    assert [
        line for line in registry.splitlines() if f'"{name}: ' in line or f'"{name}(' in line
    ] == [
        f'    "{name}: as '
        + ("no_device_scope" if ":" not in meaning else "run_on(['gpu'])")
        + '",'
    ]
    assert '"on_gpu: set on tests' in registry
    assert run("check", top).code == 0
    assert run("upgrade", top).stdout.startswith("Nothing to do")


def test_an_alias_is_none_of_the_harness_s_own_names(tmp_path: Path) -> None:
    taken = "import pytest\n@pytest.mark.gpu\ndef test_a(): pass\n"
    top = write_tree(tmp_path, {**LIBRARY, "tests/test_a.py": taken})
    given = [f"--marker-alias={prefix}gpu=run_on:gpu" for prefix in ("", "on_", "at_")]

    done = run("init", top, *given)

    assert done.code == 2
    assert done.stderr == (
        "devicegen: --marker-alias at_gpu: the harness itself goes by that name here; give "
        "another marker\n"
    )
    assert run("init", top, *given[:2]).code == 0
    assert 'plain_prefix = "at_"' in (top / RECORD).read_text("utf-8")


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
    note = NOTE.format("wants_cards")

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


@pytest.mark.parametrize(
    ("option", "name"), [("--strategy", "one_device"), ("--marker-alias", "wants_card=run_on:gpu")]
)
@pytest.mark.parametrize("is_first", [True, False], ids=["none first", "none last"])
def test_none_stands_alone(tmp_path: Path, option: str, name: str, is_first: bool) -> None:
    top = write_tree(tmp_path, LIBRARY)
    given = ["none", name] if is_first else [name, "none"]

    done = run("init", top, *(f"{option}={each}" for each in given))

    assert done.code == 2
    assert done.stderr == (
        f"devicegen: {option} none: leaves none, and {name} is asked for too; give the one or "
        "the other\n"
    )
    assert not (top / HARNESS).exists()
    assert run("init", top, option, "none", option, "none").code == 0
    assert run("check", top).code == 0


def test_the_largest_memory_limit_is_remembered(tmp_path: Path) -> None:
    top = write_tree(tmp_path, LIBRARY)

    assert run("init", top, "--memory-limit-mb", "1048576").code == 0
    assert "MEMORY_LIMIT_MB = 1048576" in (top / HARNESS).read_text("utf-8")
    assert run("check", top).code == 0


def test_seeds_can_be_left_alone(tmp_path: Path) -> None:
    top = write_tree(tmp_path, LIBRARY)
    run("init", top)
    assert "\nimport random\n" in (top / HARNESS).read_text("utf-8")

    assert run("upgrade", top, "--no-seeds").code == 0

    harness = (top / HARNESS).read_text("utf-8")
    assert "import random" not in harness
    assert "_seed(" not in harness
    assert "seeds = false" in (top / RECORD).read_text("utf-8")
