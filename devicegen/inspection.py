"""What ``inspect --json`` prints: facts with file and line, decisions with reasons.

The form is ``inspection_schema.json`` (JSON Schema 2020-12) beside this file; ``schema`` in the
output is its version. A field may be added without a new version; none is taken away, renamed or
given another meaning without one. A place is written ``path:line``, relative to ``top``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from devicegen import __version__
from devicegen.change_set import ChangeSet
from devicegen.decisions import Decisions
from devicegen.facts.conftests import Conftest
from devicegen.facts.details import Details
from devicegen.facts.pytest_config import PytestConfig
from devicegen.facts.repository import RepoFacts
from devicegen.harness_names import HarnessNames, needed_variables

SCHEMA = 1


class Inspection(NamedTuple):
    """Everything that is said of a repository; ``refusal`` is why there are no decisions."""

    facts: RepoFacts
    details: Details
    decisions: Decisions | None = None
    change_set: ChangeSet | None = None
    refusal: str | None = None

    @property
    def needed(self) -> tuple[str, ...]:
        """The variables of the caller that a run needs, by the names they have here."""
        return needed_variables(self.names)

    @property
    def names(self) -> HarnessNames:
        """The names of the harness, the usual ones where there are no decisions."""
        return self.decisions.names if self.decisions else HarnessNames()


def schema() -> dict[str, Any]:
    """Return the JSON Schema of the output."""
    text = (Path(__file__).parent / "inspection_schema.json").read_text("utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def as_json(inspection: Inspection) -> dict[str, Any]:
    """Return the inspection in the form of the schema."""
    facts, decisions = inspection.facts, inspection.decisions
    return {
        "schema": SCHEMA,
        "devicegen": __version__,
        "top": str(facts.top),
        "facts": {
            "top_reason": facts.top_reason,
            "pytest_configuration": _configuration(facts.pytest_config),
            "python_floor": _floor(facts),
            "frameworks": [
                {
                    "name": each.name,
                    "required": [{"range": text, "where": str(at)} for text, at in each.required],
                    "imported": _places(each.imported),
                }
                for each in inspection.details.frameworks
            ],
            "tests": _tests(inspection),
            "conftests": [_conftest(each) for each in facts.described],
            "device_setups": [
                {
                    "where": str(each.where),
                    "kind": each.kind,
                    "when": each.when,
                    "device": each.device,
                    "source": each.source,
                }
                for each in facts.device_setups
            ],
            "runners": _runners(inspection),
            "problems": list(facts.problems),
        },
        "decisions": [
            {"subject": each.subject, "answer": each.answer, "reason": each.reason}
            for each in (decisions.listed if decisions else ())
        ],
        "notes": [
            *(decisions.notes if decisions else ()),
            *(inspection.change_set.notes if inspection.change_set else ()),
        ],
        "changes": [
            {"path": change.path, "action": change.action.value, "reason": change.reason}
            for change in (inspection.change_set.changes if inspection.change_set else ())
        ],
        "refusal": inspection.refusal,
    }


def _places(places: Iterable[object]) -> list[str]:
    return [str(place) for place in places]


def _configuration(config: PytestConfig) -> dict[str, Any]:
    return {
        "in_force": f"{config.path}:{config.line}" if config.is_in_force else None,
        "table": config.table,
        "testpaths": list(config.testpaths),
        "python_files": list(config.python_files),
        "python_classes": list(config.python_classes),
        "python_functions": list(config.python_functions),
        "markers": list(config.markers),
        "addopts": list(config.addopts),
        "norecursedirs": list(config.norecursedirs),
        "minversion": ".".join(map(str, config.minversion)) if config.minversion else None,
        "problem": config.problem,
    }


def _floor(facts: RepoFacts) -> dict[str, Any] | None:
    floor = facts.python_floor
    if floor.version is None:
        return None
    version = ".".join(map(str, floor.version))
    return {"version": version, "where": str(floor.where) if floor.where else None}


def _tests(inspection: Inspection) -> dict[str, Any]:
    style = inspection.details.style
    return {
        "files": list(inspection.facts.test_files),
        "functions": style.functions,
        "test_cases": style.test_cases,
        "tensorflow_test_cases": style.tensorflow_test_cases,
        "files_with_main": style.mains,
        "files_with_markers": style.marked,
        "unreadable": list(style.unreadable),
        "look_like_gpu": [
            {"where": str(each.where), "test": each.name, "why": each.why}
            for each in style.gpu_like
        ],
    }


def _conftest(conftest: Conftest) -> dict[str, Any]:
    return {
        "path": conftest.path,
        "owner": conftest.owner,
        "obstacle": conftest.obstacle,
        "hooks": [{"name": each.name, "line": each.line} for each in conftest.hooks],
        "shadowed_hooks": [{"name": each.name, "line": each.line} for each in conftest.shadowed],
        "options": [{"name": each.name, "line": each.line} for each in conftest.options],
        "fixtures": [
            {"name": each.name, "line": each.line, "autouse": each.autouse}
            for each in conftest.fixtures
        ],
        "pytest_plugins": conftest.plugins,
        "imports": [{"name": each.name, "line": each.line} for each in conftest.imports],
        "keyword_checks": [
            {"name": each.name, "line": each.line, "source": each.source}
            for each in conftest.keyword_checks
        ],
        "ejected": conftest.ejected,
    }


def _runners(inspection: Inspection) -> dict[str, Any]:
    runners = inspection.details.runners
    return {
        "pytest": [
            {
                "where": str(each.where),
                "line": each.line,
                "telling": list(each.telling),
                "ranks": each.ranks,
            }
            for each in runners.commands
        ],
        "tox": [
            {
                "where": str(each.where),
                "name": each.name,
                "lacks": list(each.lacks(inspection.needed)),
            }
            for each in runners.tox
        ],
        "nox": str(runners.nox) if runners.nox else None,
        "bazel": str(runners.bazel) if runners.bazel else None,
        "bazel_tests": _places(runners.bazel_tests),
        "bazel_gpu": _places(runners.bazel_gpu),
        "setup_py_test": str(runners.setup_py_test) if runners.setup_py_test else None,
        "xdist": _places(inspection.facts.xdist),
    }
