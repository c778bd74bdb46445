"""Tox configurations and what they do not pass: for the facts, and for the real tox.

``tests/facts/test_tox_environments.py`` asks devicegen, ``tests/runners/test_tox.py`` asks tox
itself, before and after the lines that devicegen prints were added.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from devicegen.facts.tox_environments import NEEDED, ToxGap

ALL = NEEDED
MASK = "CUDA_VISIBLE_DEVICES"
BUT_MASK = tuple(name for name in NEEDED if name != MASK)
LINES = "".join(f"\n    {name}" for name in NEEDED)
TOML = ", ".join(f'"{name}"' for name in NEEDED)


@dataclass(frozen=True)
class Case:
    """A file, and environment -> what it does not pass (() for one that passes all).

    Environments that run no pytest are in ``silent``; ``versions`` are those of tox that read it.
    """

    name: str
    path: str
    text: str
    lacks: dict[str, tuple[str, ...]]
    silent: tuple[str, ...] = ()
    versions: tuple[int, ...] = (3, 4)


def ini(name: str, text: str, lacks: dict[str, tuple[str, ...]], *silent: str,
        versions: tuple[int, ...] = (3, 4)) -> Case:  # fmt: skip
    return Case(name, "tox.ini", f"[tox]\nskipsdist = true\n{text}", lacks, silent, versions)


CASES = (
    ini("nothing passed", "envlist = a\n[testenv]\ncommands = pytest\n", {"a": ALL}),
    ini("no section at all", "envlist = a\n[testenv:a]\ncommands = pytest\n", {"a": ALL}),
    ini(
        "some passed",
        f"envlist = a\n[testenv]\npassenv =\n    HOME\n    {MASK}\ncommands = pytest -q\n",
        {"a": BUT_MASK},
    ),
    ini(
        "all passed",
        f"envlist = a\n[testenv]\npassenv ={LINES}\ncommands = python -m pytest\n",
        {"a": ()},
    ),
    ini("a star", "envlist = a\n[testenv]\npassenv = *\ncommands = pytest\n", {"a": ()}),
    ini(
        "wider patterns",
        "envlist = a\n[testenv]\npassenv =\n    CUDA*\n    TF*\n    PYTEST_*\ncommands = pytest\n",
        {"a": ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "XLA_FLAGS")},
    ),
    ini(
        "narrower patterns",
        "envlist = a\n[testenv]\npassenv =\n    TF_CPP*\n    PYTEST_GPU_WAIT\ncommands = pytest\n",
        {"a": ALL},
    ),
    ini(
        "on one line, as tox 3 takes it",
        f"envlist = a\n[testenv]\npassenv = HOME {MASK}\ncommands = pytest\n",
        {"a": BUT_MASK},
        versions=(3,),
    ),
    ini(
        "with commas",
        f"envlist = a\n[testenv]\npassenv = HOME,{MASK}\ncommands = pytest\n",
        {"a": BUT_MASK},
        versions=(4,),
    ),
    ini(
        "tox 4's spelling",
        f"env_list = a\n[testenv]\npass_env =\n    {MASK}\ncommands = pytest\n",
        {"a": BUT_MASK},
        versions=(4,),
    ),
    ini(
        "tox 4's spelling, nothing passed",
        "env_list = a\n[testenv]\ncommands = pytest\n",
        {"a": ALL},
        versions=(4,),
    ),
    ini(
        "a section of its own",
        f"envlist = a,b\n[testenv]\npassenv ={LINES}\ncommands = pytest\n"
        "[testenv:b]\npassenv =\n    HOME\n",
        {"a": (), "b": ALL},
    ),
    ini(
        "no pytest",
        "envlist = a,lint,docs\n[testenv]\ncommands = pytest\n"
        "[testenv:lint]\ncommands = ruff check pytest.ini\n"
        "[testenv:docs]\ncommands =\n    pip install pytest pytest-xdist\n    sphinx-build docs\n",
        {"a": ALL},
        "lint",
        "docs",
    ),
    ini(
        "set, not passed",
        f"envlist = a\n[testenv]\nsetenv =\n    {MASK} = 0\n    TF_X=1\ncommands = pytest\n",
        {"a": BUT_MASK},
    ),
    ini(
        "factors",
        f"envlist = py-{{cpu,gpu}},lint\n[testenv]\npassenv =\n    gpu: {MASK}\n    HOME\n"
        "commands =\n    !lint: python -m pytest {posargs}\n    lint: ruff check\n",
        {"py-cpu": ALL, "py-gpu": BUT_MASK},
        "lint",
    ),
    ini(
        "factors without a list",
        "[testenv]\ncommands =\n    unit,slow: pytest tests\n    docs: make html\n",
        {"unit": ALL, "slow": ALL},
        "docs",
    ),
    ini(
        "generative sections",
        f"envlist = py{{311,312}}-gpu,other\n[testenv]\ncommands = true\n"
        f"[testenv:py{{311,312}}-gpu]\npassenv =\n    {MASK}\ncommands = pytest\n",
        {"py311-gpu": BUT_MASK, "py312-gpu": BUT_MASK},
        "other",
    ),
    ini(
        "references",
        f"envlist = a,b\n[common]\npassenv =\n    HOME\n    {MASK}\n"
        "commands = coverage run -m pytest\n"
        "[testenv]\npassenv =\n    {[common]passenv}\n    CI\ncommands = {[common]commands}\n"
        "[testenv:b]\npassenv = {[testenv]passenv}\n",
        {"a": BUT_MASK, "b": BUT_MASK},
    ),
    ini(
        "in posargs and with a path",
        "envlist = a,b,c\n[testenv]\ncommands = {posargs:pytest}\n"
        "[testenv:b]\ncommands = {envbindir}/pytest tests\n"
        "[testenv:c]\ncommands =\n    -py.test \\\n        tests\n",
        {"a": ALL, "b": ALL, "c": ALL},
    ),
    ini(
        "comments",
        f"envlist =\n    a # one\n    # b\n[testenv]\npassenv =\n    # {MASK}\n    HOME\n"
        "commands =\n    # a comment\n    pytest\n",
        {"a": ALL},
    ),
    ini(
        "a base of its own",
        f"envlist = a\n[gpu]\npassenv =\n    {MASK}\n[testenv:a]\nbase = gpu\ncommands = pytest\n",
        {"a": BUT_MASK},
        versions=(4,),
    ),
    Case(
        "setup.cfg",
        "setup.cfg",
        "[metadata]\nname = x\n\n[tox:tox]\nskipsdist = true\nenvlist = a\n\n"
        "[testenv]\ncommands = pytest\n",
        {"a": ALL},
    ),
    Case(
        "setup.cfg without tox",
        "setup.cfg",
        "[metadata]\nname = x\n\n[testenv]\ncommands = pytest\n",
        {},
        versions=(),
    ),
    Case(
        "legacy_tox_ini",
        "pyproject.toml",
        '[project]\nname = "x"\n\n[tool.tox]\nlegacy_tox_ini = """\n[tox]\nskipsdist = true\n'
        f'envlist = a\n\n[testenv]\npassenv =\n    {MASK}\ncommands = pytest\n"""\n',
        {"a": BUT_MASK},
    ),
    Case(
        "tox.toml",
        "tox.toml",
        'env_list = ["a", "lint"]\n\n[env_run_base]\ncommands = [["pytest", "-q"]]\n\n'
        '[env.lint]\ncommands = [["ruff", "check"]]\n',
        {"a": ALL},
        ("lint",),
        (4,),
    ),
    Case(
        "tox.toml without a base",
        "tox.toml",
        '[env.a]\ncommands = [["python", "-m", "pytest"]]\n',
        {"a": ALL},
        versions=(4,),
    ),
    Case(
        "tox.toml, some passed",
        "tox.toml",
        f'env_list = ["a", "b"]\n\n[env_run_base]\npass_env = ["HOME", "{MASK}"]\n'
        'commands = [["pytest", { replace = "posargs", default = ["tests"] }]]\n\n'
        '[env.b]\npass_env = [\n    "HOME", # where it is\n]\n',
        {"a": BUT_MASK, "b": ALL},
        versions=(4,),
    ),
    Case(
        "tox.toml with references",
        "tox.toml",
        f'env_list = ["a"]\n\n[env_run_base]\npass_env = ["{MASK}"]\n\n[env.a]\n'
        'pass_env = ["HOME", { replace = "ref", of = ["env_run_base", "pass_env"], extend = true }'
        ']\ncommands = [["pytest"]]\nset_env = { TF_X = "1" }\n',
        {"a": BUT_MASK},
        versions=(4,),
    ),
    Case(
        "pyproject.toml",
        "pyproject.toml",
        '[project]\nname = "x"\n\n[tool.tox]\nenv_list = ["a"]\n\n[tool.tox.env_run_base]\n'
        f'commands = [["pytest"]]\npass_env = ["{MASK}"]\n',
        {"a": BUT_MASK},
        versions=(4,),
    ),
    Case(
        "pyproject.toml, all passed",
        "pyproject.toml",
        '[project]\nname = "x"\n\n[tool.tox]\nenv_list = ["a"]\n\n[tool.tox.env_run_base]\n'
        f'commands = [["pytest"]]\npass_env = [{TOML}]\n',
        {"a": ()},
        versions=(4,),
    ),
    Case("broken ini", "tox.ini", "envlist = a\n[testenv]\ncommands = pytest\n", {}, versions=()),
    Case("broken toml", "tox.toml", "env_list = [\n", {}, versions=()),
)


def add_lines(top: Path, gaps: Iterable[ToxGap]) -> None:
    """Do what gaps say, as a user would with an editor, the last line first."""
    for gap in sorted(gaps, key=lambda gap: gap.where.line, reverse=True):
        _add(top, gap)


def _add(top: Path, gap: ToxGap) -> None:
    file = top / gap.where.path
    lines = file.read_text("utf-8").splitlines()
    place = gap.where.line  # the line after it, for it counts from 1
    if gap.place.startswith("this "):
        place = next((n for n, line in enumerate(lines) if line == '"""'), len(lines))
    elif gap.place.startswith("in place "):
        del lines[place - 1]
        place -= 1
    elif match := re.match(r"to `pass_env`", gap.place):
        before, bracket, after = lines[place - 1].partition("[")
        assert bracket, match
        lines[place - 1 : place] = [before + bracket, after]
    lines[place:place] = gap.lines
    file.write_text("\n".join(lines) + "\n", "utf-8")
