"""Where the repository asks for pytest-xdist."""

from __future__ import annotations

import re
from collections.abc import Iterator

from devicegen.facts.requirement_record import Requirements
from devicegen.facts.source_tree import Location, SourceTree

RUNNER_NAMES = re.compile(
    r"""(?:.*/)?(?:Makefile|GNUmakefile|makefile|Justfile|justfile|[\w.-]*Dockerfile[\w.-]*
    |noxfile\.py|tasks\.py|[\w.-]+\.(?:sh|mk))
    |\.github/workflows/[^/]+\.ya?ml|\.gitlab-ci\.yml|\.circleci/config\.yml|\.travis\.yml
    |azure-pipelines[\w.-]*\.yml""",
    re.VERBOSE,
)
PYTEST_FILES = {"pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml"}
CONFIGURATION_NAMES = frozenset({*PYTEST_FILES, "tox.ini", "setup.cfg", "tox.toml"})
PLUGIN = re.compile(r"pytest[-_]xdist\b")
# https://pytest-xdist.readthedocs.io/en/stable/distribution.html. ``-n 4`` means many things to
# many programs, so it counts only where pytest is near; ``-n auto`` is xdist's own.
OWN_OPTION = re.compile(
    r"""(?<![\w-])(?:-n[ =]?["', ]*(?:auto|logical)\b|--numprocesses\b
    |--dist[ =]["', ]*(?:load\w*|worksteal|each)\b)""",
    re.VERBOSE,
)
COUNT_OPTION = re.compile(r"(?<![\w-])-n[ =]?[\"', ]*(?:\d+|\$[\w({]+)")
PYTEST = re.compile(r"(?:\bpytest|\bpy\.test|addopts|PYTEST_ADDOPTS)\b")
LIST_ITEM = re.compile(r"\s*[\"']?(?=-)")


def xdist_mentions(tree: SourceTree, requirements: Requirements) -> tuple[Location, ...]:
    """Return where pytest-xdist is required, or its options are given, sorted.

    The requirements, and by a text search the pytest and tox configuration at the top, make
    files, shell scripts, Dockerfiles, nox files and CI workflows.
    """
    required = (fact.where for fact in requirements.named("pytest-xdist"))
    return tuple(sorted({*required, *_in_runners(tree)}))


def _in_runners(tree: SourceTree) -> Iterator[Location]:
    for path in tree.files:
        is_configuration = path in CONFIGURATION_NAMES
        if not is_configuration and not RUNNER_NAMES.fullmatch(path):
            continue
        for number, line in enumerate((tree.text(path) or "").splitlines(), 1):
            if _asks_for_xdist(line, is_configuration):
                yield Location(path, number)


def _asks_for_xdist(line: str, is_configuration: bool) -> bool:
    if line.lstrip().startswith(("#", ";")):
        return False
    if PLUGIN.search(line) or OWN_OPTION.search(line):
        return True
    return any(
        (
            after := PYTEST.search(command)
            or (LIST_ITEM.match(command) if is_configuration else None)
        )
        and COUNT_OPTION.search(command, after.end())
        for command in re.split(r"[|;&]+", line)
    )
