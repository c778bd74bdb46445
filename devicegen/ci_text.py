"""A workflow for GitHub Actions, to copy from: devicegen writes no workflow."""

from __future__ import annotations

from devicegen import __version__
from devicegen.decisions import HARNESS_PYTHON, Decisions
from devicegen.facts.repository import RepoFacts
from devicegen.templates_folder import environment

USUAL_PYTHON = (3, 11)


def ci_text(facts: RepoFacts, decisions: Decisions) -> str:
    """Return the workflow: simulated GPUs, a GPU that is required, ``devicegen check``."""
    floor = facts.python_floor.version
    python = USUAL_PYTHON if floor is None else max(floor, HARNESS_PYTHON)
    template = environment().get_template("ci.yml.j2")
    text = template.render(
        version=__version__,
        python=f"{python[0]}.{python[1]}",
        install=" ".join(facts.installed_by),
        workers=" -n auto" if decisions.xdist else "",
    )
    return decisions.names.renamed(text).rstrip("\n")
