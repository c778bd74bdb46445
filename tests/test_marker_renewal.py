"""Marker lines of an older devicegen become today's; those of the user stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from devicegen.decisions import MARKERS
from generator import HARNESS, LIBRARY, PRISTINE, make_older, run
from kit import read_tree, write_tree

NOW = MARKERS[1]
THEN = "no_device_scope: the test is on its own"
CONFIGURATIONS = {
    "pyproject.toml": "",
    "pytest.ini": "[pytest]\naddopts = -q\n",
    "setup.cfg": "[tool:pytest]\naddopts = -q\n",
    "tox.ini": "[pytest]\nmarkers =\n\tslow: slow\n",
    "pytest.toml": "[pytest]\nmarkers = ['slow: slow'] # ours\n",
}


FIRST, *OTHERS = CONFIGURATIONS


@pytest.fixture(params=[FIRST, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def top(tmp_path: Path, name: str) -> Path:
    """A repository whose configuration and harness have an older marker line."""
    write_tree(tmp_path, LIBRARY)
    if name != "pyproject.toml":
        config = (tmp_path / "pyproject.toml").read_text("utf-8")
        config = config.partition("[tool.pytest")[0]
        write_tree(tmp_path, {"pyproject.toml": config, name: CONFIGURATIONS[name]})
    assert run("init", tmp_path).code == 0
    make_older(tmp_path, (f'"{NOW}"', f'"{THEN}"'))
    text = (tmp_path / name).read_text("utf-8")
    assert text.count(NOW) == 1
    (tmp_path / name).write_text(text.replace(NOW, THEN), "utf-8")
    return tmp_path


def test_an_older_line_is_renewed_in_its_place(top: Path, name: str) -> None:
    before = read_tree(top)
    assert run("check", top).code == 1

    assert run("upgrade", top).code == 0

    after = read_tree(top)
    assert after[name] == before[name].replace(THEN.encode(), NOW.encode())
    assert after[HARNESS] == after[PRISTINE]
    assert run("upgrade", top).stdout == "Nothing to do: the harness is current.\n"


@pytest.mark.parametrize("words", ["no_device_scope: ours", "no_device_scope"])
def test_a_line_that_the_user_changed_stays(top: Path, name: str, words: str) -> None:
    text = (top / name).read_text("utf-8").replace(THEN, words)
    (top / name).write_text(text, "utf-8")

    assert run("upgrade", top).code == 0
    assert (top / name).read_text("utf-8") == text


def test_a_line_that_stands_elsewhere_too_stays(top: Path, name: str) -> None:
    with (top / name).open("a", encoding="utf-8") as file:
        file.write(f"# {THEN}\n")
    text = (top / name).read_text("utf-8")

    assert run("upgrade", top).code == 0
    after = (top / name).read_text("utf-8")
    assert after in (text, text.replace(THEN, NOW, 1))
