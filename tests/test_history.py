"""From every released set of templates to today's, in every variant, edited and unedited.

``tests/history/<version>/<variant>/`` holds what a release rendered. A release adds its own, by

    RELEASE=1 python -m pytest tests/test_history.py -k newest

The ``dev`` sets are two that were in use before the first release.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from devicegen.migration_notes import NOTES
from devicegen.python_code import is_python, says_the_same
from devicegen.record import Answers, Record, read_record
from generator import HARNESS, LIBRARY, RECORD, TAKEN, run
from kit import write_tree
from kit.harness import VARIANTS, VERSION, render_harness

TOP = Path(__file__).parents[1]
HISTORY = TOP / "tests/history"
VERSIONS = sorted((folder.name for folder in HISTORY.iterdir()), key=Version)
CHANGELOG = (TOP / "CHANGELOG.md").read_text("utf-8")
NEWEST = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))["project"]["version"]
# What a project had that got each variant: answers, and its requirement.
PROJECTS: dict[str, tuple[Answers, str]] = {
    "usual": (Answers(), "tensorflow>=2.8"),
    "without_xdist": (Answers(xdist=False), "tensorflow>=2.8"),
    "experimental_api": (Answers(), "tensorflow>=2.1"),
    "memory_limit": (Answers(memory_limit_mb=2048), "tensorflow>=2.8"),
    "rocm": (Answers(rocm=True), "tensorflow>=2.8"),
    "without_split": (Answers(split=False), "tensorflow>=2.8"),
    "durations_history": (Answers(durations_history=True), "tensorflow>=2.8"),
    "strategies": (Answers(strategies=("one_device", "central_storage")), "tensorflow>=2.8"),
    "aliases": (
        Answers(marker_aliases=("needs_gpu=run_on:gpu", "with_device=run_on")),
        "tensorflow>=2.8",
    ),
    "without_seeds": (Answers(seeds=False), "tensorflow>=2.8"),
    "other_names": (Answers(), "tensorflow>=2.8"),
    "bazel": (Answers(bazel=True), "tensorflow>=2.8"),
}


@dataclass(frozen=True)
class Old:
    """A project whose harness an older devicegen wrote, and what today's would write there."""

    top: Path
    newest: str

    @property
    def harness(self) -> str:
        return (self.top / HARNESS).read_text("utf-8")


USUAL, *OTHERS = VARIANTS
# A version has the variants that there were then.
SETS = [
    pytest.param(
        version, name, marks=[pytest.mark.slow] * ((version, name) != (VERSIONS[-1], USUAL))
    )
    for version in VERSIONS
    for name in VARIANTS
    if (HISTORY / version / name).is_dir()
]


def new_project(top: Path, variant: str) -> None:
    """Write a project that gets a variant, and run ``init`` there."""
    answers, requirement = PROJECTS[variant]
    config = str(LIBRARY["pyproject.toml"]).replace("tensorflow>=2.8", requirement)
    write_tree(top, {**LIBRARY, "pyproject.toml": config})
    if variant == "other_names":
        write_tree(top, {"library/plugin.py": TAKEN})
    options: list[str] = []
    if answers.xdist is False:
        options += ["--no-xdist"]
    if answers.memory_limit_mb:
        options += ["--memory-limit-mb", str(answers.memory_limit_mb)]
    if answers.rocm:
        options += ["--rocm"]
    if answers.split is False:
        options += ["--no-split"]
    if answers.durations_history:
        options += ["--durations-history"]
    if answers.seeds is False:
        options += ["--no-seeds"]
    if answers.bazel:
        options += ["--bazel"]
    options += [f"--strategy={name}" for name in answers.strategies or ()]
    options += [f"--marker-alias={alias}" for alias in answers.marker_aliases or ()]
    assert run("init", top, *options).code == 0


@pytest.mark.parametrize("variant", VARIANTS)
def test_projects_get_their_variants(variant: str, tmp_path: Path) -> None:
    new_project(tmp_path, variant)

    text = (tmp_path / HARNESS).read_text("utf-8")
    assert text.replace(f"devicegen {NEWEST}", f"devicegen {VERSION}") == render_harness(
        **VARIANTS[variant]
    )


@pytest.fixture
def old(version: str, variant: str, tmp_path: Path) -> Old:
    new_project(tmp_path, variant)
    answers, _ = PROJECTS[variant]
    of_today = read_record(tmp_path, NEWEST)
    assert of_today is not None
    newest = (tmp_path / HARNESS).read_text("utf-8")
    text = (HISTORY / version / variant / "conftest.py.txt").read_text("utf-8")
    text = text.replace(f"devicegen {VERSION}", f"devicegen {version}")
    record = Record(version, answers, {HARNESS: text}, "pyproject.toml", names=of_today.names)
    write_tree(tmp_path, {name: data.encode() for name, data in record.texts().items()})
    write_tree(tmp_path, {HARNESS: text.encode()})
    return Old(tmp_path, newest)


@pytest.mark.parametrize(("version", "variant"), SETS)
def test_unedited(old: Old) -> None:
    assert run("check", old.top).code == 1

    assert run("upgrade", old.top).code == 0
    assert old.harness == old.newest
    assert run("check", "--strict", old.top).code == 0


def commented(old: str, newest: str) -> tuple[str, str]:
    """Put comments into both texts, in the middle of up to five places that they share."""
    sides = [text.splitlines(keepends=True) for text in (old, newest)]
    blocks = SequenceMatcher(None, *sides, autojunk=False).get_matching_blocks()
    longest = sorted((block for block in blocks if block.size >= 7), key=lambda block: -block.size)
    assert len(longest) >= 2
    for number, block in enumerate(sorted(longest[:5], key=lambda block: -block.a)):
        for side, first in zip(sides, (block.a, block.b), strict=True):
            place = first + block.size // 2
            indent = re.match(" *", side[place])[0]  # type: ignore[index]
            side.insert(place, f"{indent}# ours {number}\n")
    return "".join(sides[0]), "".join(sides[1])


def formatted(file: Path) -> None:
    style = ["--config=line-length=60", "--config=format.quote-style='single'"]
    command = [sys.executable, "-m", "ruff", "format", "-q", "--isolated", *style, str(file)]
    subprocess.run(command, check=True)


@pytest.mark.parametrize(
    "is_formatted", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["", "formatted"]
)
@pytest.mark.parametrize(("version", "variant"), SETS)
def test_edited(old: Old, is_formatted: bool) -> None:
    text, expected = commented(old.harness, old.newest)
    (old.top / HARNESS).write_text(text, "utf-8")
    if is_formatted:
        formatted(old.top / HARNESS)

    assert run("upgrade", old.top).code == 0

    assert says_the_same(old.harness, expected)
    if not is_formatted:
        assert old.harness == expected
    assert run("check", old.top).code == 0


@pytest.mark.parametrize(("version", "variant"), SETS)
def test_edited_where_the_newest_changed_too(old: Old) -> None:
    """An edit of each line that is no more: all of it is shown as a conflict, or kept."""
    lines = old.harness.splitlines()
    gone = [line for line in set(lines) - set(old.newest.splitlines()) if line.strip()]
    edited = [f"{line}  # ours" if line in gone else line for line in lines]
    (old.top / HARNESS).write_text("\n".join(edited) + "\n", "utf-8")

    done = run("upgrade", old.top)

    assert done.code == 3
    after = old.harness.splitlines()
    assert {f"{line}  # ours" for line in gone} <= set(after)
    assert done.stderr.count(": conflict: ") == sum(line.startswith("<<<<<<< ") for line in after)
    assert tomllib.loads((old.top / RECORD).read_text("utf-8"))["version"] != NEWEST
    text = re.sub(r"<<<<<<< .*?\n=======\n(.*?)>>>>>>> [^\n]*\n", r"\1", old.harness, flags=re.S)
    (old.top / HARNESS).write_text(text, "utf-8")
    assert run("upgrade", old.top).code == 0
    assert is_python(old.harness)
    assert run("check", old.top).code == 0


# The habits of a release


def released() -> list[str]:
    """Return the versions that CHANGELOG.md gives a date."""
    return re.findall(r"^## \[([\d.]+)\] - \d{4}-\d\d-\d\d$", CHANGELOG, re.MULTILINE)


def test_each_release_has_its_set_of_templates() -> None:
    assert set(released()) == {version for version in VERSIONS if "dev" not in version}
    assert set(PROJECTS) == set(VARIANTS)
    for version in VERSIONS:
        names = {folder.name for folder in (HISTORY / version).iterdir()}
        assert names == set(VARIANTS) if version == NEWEST else USUAL in names <= set(VARIANTS)


@pytest.mark.parametrize("variant", VARIANTS)
def test_templates_of_the_newest_version_change_only_before_its_release(variant: str) -> None:
    answers: dict[str, Any] = VARIANTS[variant]
    rendered = render_harness(**answers)
    file = HISTORY / NEWEST / variant / "conftest.py.txt"
    if os.environ.get("RELEASE"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(rendered.encode())

    if NEWEST in released():
        assert file.read_bytes().decode() == rendered, (
            f"{NEWEST} is released: a change of a template needs a new version in pyproject.toml"
        )


def test_migration_notes_are_of_versions_in_the_changelog() -> None:
    versions = [version for version, _ in NOTES]

    assert versions == sorted(versions, key=Version)
    for version, note in NOTES:
        assert f"## [{version}]" in CHANGELOG
        assert note == " ".join(note.split())
