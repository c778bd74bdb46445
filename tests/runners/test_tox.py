"""tox itself, 4 and 3: what it passes, before the printed lines are there and after."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from devicegen.facts.source_tree import SourceTree
from devicegen.facts.tox_environments import NEEDED, tox_gaps
from devicegen.facts.tox_files import read_tox_file
from facts.tox_cases import CASES, Case, add_lines
from kit import environment, write_tree
from kit.environments import REPOSITORY
from kit.processes import run_process

pytestmark = pytest.mark.slow
Lacks = dict[str, tuple[str, ...]]
# One variable for each that is needed, for tox 3 says only what it would pass now.
EXAMPLES = {name: name.replace("*", "EXAMPLE") for name in NEEDED}
# Asks tox about one folder after the other in one process: each start takes a second.
ASK = {
    4: """
import contextlib, io, os, sys
from tox.run import main
for folder, names in zip(sys.argv[1::2], sys.argv[2::2]):
    os.chdir(folder)
    print(f"=== {folder}", flush=True)
    assert main(["config", "-k", "pass_env", "set_env", "-e", names]) == 0
""",
    3: """
import os, sys
from tox.session import cmdline
for folder, names in zip(sys.argv[1::2], sys.argv[2::2]):
    os.chdir(folder)
    print(f"=== {folder}", flush=True)
    try:
        cmdline(["--showconfig", "-e", names])
    except SystemExit as stop:
        assert not stop.code
""",
}


def ask(version: int, folders: dict[Path, str]) -> dict[Path, Lacks]:
    """Return folder -> environment -> what of ``NEEDED`` does not reach it."""
    python = environment({3: "tox-3", 4: "runners"}[version])
    words = [str(word) for pair in folders.items() for word in pair]
    done = run_process(
        [python, "-c", ASK[version], *words], next(iter(folders)),
        env=dict.fromkeys(EXAMPLES.values(), "1"),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    parts = re.split(r"^=== (.+)$", done.stdout, flags=re.MULTILINE)
    result = {}
    for folder, text in zip(parts[1::2], parts[2::2], strict=True):
        sections = re.split(r"^\[testenv:(.+)\]$", text, flags=re.MULTILINE)
        pairs = zip(sections[1::2], sections[2::2], strict=True)
        result[Path(folder)] = {name: lacks(version, values) for name, values in pairs}
    return result


def lacks(version: int, text: str) -> tuple[str, ...]:
    if version == 3:
        lines = re.findall(r"^(?:passenv|setenv) = (.*)$", text, re.MULTILINE)
        known = re.findall(r"'(\w+)'", " ".join(lines))
        return tuple(name for name, example in EXAMPLES.items() if example not in known)
    known = re.findall(r"^  ([^\s=]+)(?:=.*)?$", text, re.MULTILINE)
    return tuple(
        name for name in NEEDED if not any(fnmatchcase(name.upper(), p.upper()) for p in known)
    )


Answer = Callable[[Case, int], tuple[Lacks, Lacks, str]]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answer:
    """Return a function: a case and a version of tox -> what it says before and after."""
    found = {}
    for version in ASK:
        folders = {}
        for case in CASES:
            top = tmp_path_factory.mktemp("case")
            if version in case.versions:
                folders[write_tree(top, {case.path: case.text.encode()})] = case
        names = {top: ",".join(case.lacks) for top, case in folders.items()}
        before = ask(version, names)
        for top in folders:
            add_lines(top, tox_gaps(read_tox_file(SourceTree.list(top))))
        after = ask(version, names)
        for top, case in folders.items():
            text = (top / case.path).read_text("utf-8")
            found[case.name, version] = before[top], after[top], text
    return lambda case, version: found[case.name, version]


@pytest.mark.parametrize(
    ("case", "version"),
    [pytest.param(c, v, id=f"{c.name}-{v}") for c in CASES for v in c.versions],
)
def test_tox_passes_what_the_facts_say(case: Case, version: int, answers: Answer) -> None:
    before, after, text = answers(case, version)

    assert before == case.lacks
    assert after == dict.fromkeys(case.lacks, ()), text


def test_the_matrix_of_this_project() -> None:
    """Every Python, pytest and TensorFlow that is promised is in it, and xdist's absence."""
    done = run_process([environment("runners"), "-m", "tox", "-l"], REPOSITORY)
    names = [name.partition("-") for name in done.stdout.split()]

    assert {python for python, _, _ in names} == {f"py3{minor}" for minor in range(9, 15)}
    assert {rest for _, _, rest in names} == {
        "pytest7", "pytest8", "pytest9", "noxdist", *(f"tf2.{minor}" for minor in range(12, 22))
    }  # fmt: skip
