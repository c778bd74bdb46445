"""What the repository's own files say that it needs; nothing of it is imported or run."""

from __future__ import annotations

from devicegen.facts.pyproject_requirements import read_pyproject
from devicegen.facts.requirement_files import (
    RequirementsFiles,
    read_environment_files,
    read_tox_ini,
)
from devicegen.facts.requirement_record import (
    Findings,
    PythonFloor,
    RequirementFact,
    Requirements,
)
from devicegen.facts.setup_requirements import read_setup_cfg, read_setup_py
from devicegen.facts.source_tree import SourceTree

__all__ = ["PythonFloor", "RequirementFact", "Requirements", "read_requirements"]


def read_requirements(tree: SourceTree) -> Requirements:
    """Read every file at the top, and in the conventional folders, that states requirements.

    A file that is broken, too large or not UTF-8 becomes a line in ``problems`` that begins with
    its path and line; nothing is raised. Where several files state the Python floor, the first of
    pyproject.toml, setup.py and setup.cfg counts, as it does for setuptools.
    """
    findings = Findings(tree)
    read_pyproject(findings)
    read_setup_py(findings)
    read_setup_cfg(findings)
    files = RequirementsFiles(findings)
    for name, group, where in findings.named_files:
        files.follow(name, "", group, where)
    files.add_conventional()
    read_tox_ini(findings, files)
    files.read()
    read_environment_files(findings)
    floor = findings.floors[0] if findings.floors else PythonFloor(None, None)
    # A file can be reached twice; each thing is said once, in the order found.
    facts = tuple(dict.fromkeys(findings.facts))
    problems, unread = (tuple(dict.fromkeys(x)) for x in (findings.problems, findings.unread))
    return Requirements(facts, floor, problems, unread)
