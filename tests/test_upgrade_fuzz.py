"""Random repositories, edits, formatters and template versions: nothing is lost, ever.

    FUZZ=2000 python -m pytest tests/test_upgrade_fuzz.py -s

runs as many and prints what they were; without ``FUZZ`` it is a small number. ``FUZZ_SEED`` is the
first case; a failure names its own, and ``FUZZ=1`` runs that alone.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import isort
import pytest

from devicegen import __version__
from devicegen.merge import conflict_lines
from devicegen.python_code import is_python
from devicegen.record import Answers, Record
from generator import LIBRARY, RECORD, run, state
from kit import clean_environ, write_tree
from kit.harness import VARIANTS, VERSION, render_harness

HISTORY = Path(__file__).parent / "history"
COUNT = int(os.environ.get("FUZZ", "40"))
FIRST = int(os.environ.get("FUZZ_SEED", "0"))
ANSWERS: dict[str, tuple[Answers, tuple[str, ...]]] = {
    "usual": (Answers(), ()),
    "without_xdist": (Answers(xdist=False), ("--no-xdist",)),
    "memory_limit": (Answers(memory_limit_mb=2048), ("--memory-limit-mb", "2048")),
}
CONFIGURATIONS: tuple[dict[str, str], ...] = (
    {},
    {"pytest.ini": "[pytest]\naddopts = -q\n"},
    {"setup.cfg": "[metadata]\nname = x\n\n[tool:pytest]\nmarkers =\n    slow: slow\n"},
    {"tox.ini": "[pytest]\n# ours\naddopts = -q\n"},
)
RUFF = (sys.executable, "-m", "ruff", "format", "-q", "--isolated")
FORMATTERS: dict[str, Any] = {
    "ruff": (*RUFF, "--config=line-length=60"),
    "ruff, single quotes": (*RUFF, "--config=format.quote-style='single'"),
    "ruff, tabs": (*RUFF, "--config=format.indent-style='tab'"),
    "ruff, two spaces": (*RUFF, "--config=indent-width=2"),
    "black": (sys.executable, "-m", "black", "-q", "-S", "--line-length=120"),
    "yapf": (sys.executable, "-m", "yapf", "-i", "--style={based_on_style: google}"),
    "isort": lambda text: isort.code(text, profile="google"),
    "carriage returns": lambda text: text.replace("\n", "\r\n"),
    "no final newline": lambda text: text.rstrip("\n"),
    "byte order mark": lambda text: "\ufeff" + text.removeprefix("\ufeff"),
}  # fmt: skip
OFTEN = [name for name in FORMATTERS if name not in ("black", "yapf")] * 3 + ["black", "yapf"]


@dataclass
class Case:
    """A repository with an older harness that its owner has edited."""

    seed: int
    top: Path
    done: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.tags: list[str] = []
        self.variant = self.chance.choice(list(ANSWERS))
        self.answers, self.options = ANSWERS[self.variant]
        config = dict(self.chance.choice(CONFIGURATIONS))
        files = {**LIBRARY, **config}
        if config:
            files["pyproject.toml"] = str(LIBRARY["pyproject.toml"]).partition("[tool.pytest")[0]
        if self.chance.random() < 0.3:
            files["library_test.py"] = files.pop("tests/test_library.py")
        write_tree(self.top, files)
        done = run("init", self.top, *self.options)
        assert done.code == 0, done
        record = tomllib.loads((self.top / RECORD).read_text("utf-8"))
        (self.path,) = record["files"]
        self.registry = record["registry"]
        self.newest = self.text
        self.base = self.older_text()
        old = Record(self.version, self.answers, {self.path: self.base}, self.registry)
        write_tree(self.top, {name: text.encode() for name, text in old.texts().items()})
        self.write(self.base)

    @property
    def text(self) -> str:
        return (self.top / self.path).read_bytes().decode()

    def write(self, text: str) -> None:
        (self.top / self.path).write_bytes(text.encode())

    def older_text(self) -> str:
        """Take a set of templates that was in use, or today's with random changes."""
        sets = sorted(folder.name for folder in HISTORY.iterdir())
        self.version = self.chance.choice([*sets, "0.0.1", "0.0.1"])
        if self.version != "0.0.1":
            file = HISTORY / self.version / self.variant / "conftest.py.txt"
            return file.read_text("utf-8").replace(VERSION, self.version)
        lines = render_harness(**VARIANTS[self.variant]).replace(VERSION, "0.0.1").splitlines(True)
        for _ in range(self.chance.randint(1, 12)):
            place = self.chance.randrange(len(lines))
            kind = self.chance.choice(["double", "drop", "change", "add"])
            changed = list(lines)
            if kind == "drop":
                del changed[place : place + self.chance.randint(1, 6)]
            elif kind == "change":
                changed[place] = re.sub(r"\b([a-z_]{4,})\b", r"\1_", changed[place], count=1)
            elif kind == "add":
                changed.insert(place, f"{indent_of(changed[place])}older = {place}\n")
            else:
                changed[place:place] = changed[place : place + 3]
            if is_python("".join(changed)) and "Written by devicegen 0.0.1 for" in "".join(
                changed
            ):
                lines = changed
        return "".join(lines)

    # What the owner does

    def edit(self) -> None:
        for _ in range(self.chance.choice([0, 1, 1, 2, 3, 5])):
            lines = self.text.splitlines(True)
            place = self.chance.randrange(len(lines))
            tag = f"ours_{len(self.tags)}_"
            kind = self.chance.choice(
                ["comment", "statement", "trailing", "function", "change", "drop"]
            )
            if kind == "drop":
                del lines[place : place + self.chance.randint(1, 3)]
            elif kind == "comment":
                lines.insert(place, f"{indent_of(lines[place])}# {tag}\n")
            elif kind == "statement":
                lines.insert(place, f"{indent_of(lines[place])}{tag} = 'it is', [1, 2]\n")
            elif kind == "trailing":
                lines[place] = f"{lines[place].rstrip()}  # {tag}\n"
            elif kind == "function":
                lines += [f"\n\ndef {tag}(a, b = 'x'):\n", "    return {'a':a}\n"]
            else:
                lines[place] = re.sub(r"\b[a-z_]{4,}\b", tag, lines[place], count=1)
            text = "".join(lines)
            if not all(earlier in text for earlier in self.tags) or "Written by" not in text:
                continue
            if is_python(text) or self.chance.random() < 0.1:
                self.write(text)
                self.done[f"edit: {kind}"] += 1
                if tag in text:
                    self.tags.append(tag)

    def format(self) -> None:
        if self.chance.random() < 0.4 or not is_python(self.text):
            return
        for name in self.chance.sample(OFTEN, self.chance.choice([1, 1, 2])):
            formatter = FORMATTERS[name]
            if callable(formatter):
                self.write(formatter(self.text))
            else:
                subprocess.run([*formatter, str(self.top / self.path)], check=True)
            self.done[f"formatter: {name}"] += 1

    def commit(self) -> None:
        if self.chance.random() < 0.1:
            for args in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
                command = ["git", "-C", str(self.top), *args]
                subprocess.run(command, check=True, env=clean_environ())
            self.done["git"] += 1


def indent_of(line: str) -> str:
    return re.match(" *", line)[0]  # type: ignore[index]


def others(case: Case) -> dict[str, tuple[bytes, int, int]]:
    """Return all files that no upgrade may touch."""
    return {
        name: data
        for name, data in state(case.top).items()
        if not name.startswith(".devicegen") and name not in (case.path, case.registry)
    }


def kept(case: Case, before: str) -> None:
    """Assert that all that the owner wrote is there."""
    text = case.text
    missing = [tag for tag in case.tags if tag in before and tag not in text]
    assert not missing


def check_case(case: Case) -> None:  # noqa: PLR0915
    case.edit()
    case.format()
    event = case.chance.choices(["", "deleted", "moved", "a link"], [90, 3, 4, 3])[0]
    before = case.text
    theirs_is_python = is_python(before)
    is_edited = bool(case.done.keys() - {f"formatter: {name}" for name in FORMATTERS})
    if event == "deleted":
        (case.top / case.path).unlink()
    elif event == "moved":
        new = "conftest.py" if "/" in case.path else "tests/conftest.py"
        (case.top / new).parent.mkdir(exist_ok=True)
        (case.top / case.path).rename(case.top / new)
        case.path = new
    elif event == "a link":
        (case.top / case.path).rename(case.top / "elsewhere.py")
        (case.top / case.path).symlink_to(case.top / "elsewhere.py")
    case.commit()
    untouched, all_before = others(case), state(case.top)

    dry = run("upgrade", case.top, "--dry-run")
    assert state(case.top) == all_before
    done = run("upgrade", case.top)
    assert "unexpected" not in done.stderr, done
    assert done.code == dry.code
    assert others(case) == untouched
    case.done[f"exit {done.code}{f', {event}' if event else ''}"] += 1

    if event in ("deleted", "a link"):
        assert done.code == (0 if event == "deleted" else 2)
        assert state(case.top) == all_before
        if event == "deleted":
            assert run("upgrade", case.top, "--restore").code == 0
            assert case.text == case.newest
        return
    if done.code == 2:  # not ours any more: so much was taken out
        assert "was replaced by" in done.stderr, done
        assert state(case.top) == all_before
        return
    kept(case, before)
    version = tomllib.loads((case.top / RECORD).read_text("utf-8"))["version"]
    places = conflict_lines(case.text.replace("\r\n", "\n"))
    if done.code == 3:
        assert version == case.version
        assert [f"{case.path}:{line}: conflict" in done.stderr for line in places].count(
            False
        ) == 0
        assert done.stderr.count(": conflict: ") == len(places) > 0
        assert run("check", case.top).code == 1
        resolve(case)
        places = []
    else:
        came = Counter(case.newest.splitlines()) - Counter(case.base.splitlines())
        assert came <= Counter(case.text.removeprefix("\ufeff").splitlines())
        if theirs_is_python:
            assert is_python(case.text)
    assert not places
    settled(case)
    if not is_edited and event != "moved":
        plain = case.text.removeprefix("\ufeff").replace("\r\n", "\n")
        assert plain == case.newest


def resolve(case: Case) -> None:
    """Resolve each conflict at random, and let devicegen take note of it."""

    def side(match: re.Match[str]) -> str:
        return case.chance.choice([match[1], match[2], match[1] + match[2]])

    pattern = r"^<<<<<<< [^\n]*\n((?:.*\n)*?)=======\r?\n((?:.*\n)*?)>>>>>>> [^\n]*\n"
    text = re.sub(pattern, side, case.text, flags=re.MULTILINE)
    assert not conflict_lines(text)
    case.write(text)
    done = run("upgrade", case.top, "--allow-dirty")
    assert (done.code, case.text) == (0, text), done


def settled(case: Case) -> None:
    """Assert that the record knows all, and that there is nothing to do."""
    record = tomllib.loads((case.top / RECORD).read_text("utf-8"))
    given = {name: value for name, value in vars(case.answers).items() if value is not None}
    assert record["version"] == __version__
    assert record["answers"] == given
    pristine = case.top / f".devicegen/{case.path}.pristine"
    assert pristine.read_text("utf-8") == case.newest
    before = state(case.top)
    assert run("check", case.top).code == 0
    assert run("upgrade", case.top).code == 0
    assert run("diff", case.top).code == 0
    assert state(case.top) == before


@pytest.mark.slow
def test_nothing_is_ever_lost(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    for seed in range(FIRST, FIRST + COUNT):
        top = tmp_path / "top"
        case = Case(seed, top)
        try:
            check_case(case)
        except BaseException as error:
            error.add_note(f"FUZZ=1 FUZZ_SEED={seed}: {dict(case.done)}")
            raise
        counts += case.done
        counts[f"template set {case.version}"] += 1
        shutil.rmtree(top)
    print(f"\n{COUNT} cases from {FIRST}:")
    for name, count in sorted(counts.items()):
        print(f"{count:6}  {name}")
