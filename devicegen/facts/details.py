"""Facts that no decision needs, gathered for a person to read."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from devicegen.facts.frameworks import Framework, read_frameworks
from devicegen.facts.requirements import read_requirements
from devicegen.facts.runners import Runners, read_runners
from devicegen.facts.source_tree import SourceTree
from devicegen.facts.test_style import OUR_MARKS, TestStyle, read_test_style


class Details(NamedTuple):
    """Frameworks, runners and the style of the tests."""

    frameworks: tuple[Framework, ...]
    runners: Runners
    style: TestStyle


def gather_details(
    top: Path, test_files: tuple[str, ...], marks: tuple[str, ...] = OUR_MARKS
) -> Details:
    """Read the repository at ``top`` once more; ``marks`` are the harness's markers there."""
    tree = SourceTree.list(top)
    return Details(
        frameworks=read_frameworks(tree, read_requirements(tree)),
        runners=read_runners(tree),
        style=read_test_style(tree, test_files, marks),
    )
