"""Where a harness would be of no use: a refusal that says why, and what to do instead."""

from __future__ import annotations

import re

from devicegen.errors import DevicegenError
from devicegen.facts.repository import RepoFacts

# Folders whose code is not the project's own, nor its tests.
ASIDE = re.compile(r"(?:.*/)?(?:examples?|docs?|notebooks?|tutorials?|benchmarks?)/")
WITH_BAZEL = "; `devicegen init --bazel` makes py_test run it"


def refuse_unfit(facts: RepoFacts, *, is_asked: bool) -> None:
    """Raise ``DevicegenError`` where TensorFlow or pytest is not used, or there is no test.

    Where the place is asked for (``is_asked``) only what cannot work is refused.
    """
    _refuse_without_tensorflow(facts)
    if not facts.test_files:
        patterns = ", ".join(facts.pytest_config.python_files)
        raise DevicegenError(
            f"{facts.top}: no test file ({patterns}) here; write a first test, then run "
            "`devicegen init` again"
        )
    if not is_asked and facts.pytest_use is None and facts.other_test_runner is not None:
        raise DevicegenError(
            f"{facts.top}: nothing here runs pytest, without which a harness does nothing; the "
            f"{len(facts.test_files)} test files are run {facts.other_test_runner}. Where "
            "`pytest` can run them too, `devicegen init --conftest conftest.py` writes one"
            f"{WITH_BAZEL if facts.bazel.py_tests else ''}"
        )


def _refuse_without_tensorflow(facts: RepoFacts) -> None:
    versions = facts.tensorflow
    if not versions.where and not facts.tensorflow_imports:
        raise DevicegenError(
            f"{facts.top}: TensorFlow is neither required nor imported here{_others(facts)}; "
            "devicegen writes harnesses for TensorFlow only so far"
        )
    if versions.where and not versions.admits_2x:
        raise DevicegenError(
            f"{versions.where[0]}: the requirement admits no TensorFlow 2; the harness needs "
            "TensorFlow 2, so raise the requirement first"
        )
    aside = [where for where in facts.tensorflow_imports if ASIDE.match(where.path)]
    if aside and len(aside) == len(facts.tensorflow_imports):
        raise DevicegenError(
            f"{aside[0]}: TensorFlow is imported in examples and documents only, not by the "
            "project or its tests; a harness would have nothing to scope"
        )


def _others(facts: RepoFacts) -> str:
    said = []
    for framework in facts.other_frameworks:
        places = [where for _, where in framework.required] or list(framework.imported)
        said.append(f"{framework.name} is ({places[0]})")
    return f", {', '.join(said)}" if said else ""
