"""Where a harness would be of no use: a refusal that says why, and what to do instead."""

from __future__ import annotations

import re

from devicegen.errors import DevicegenError
from devicegen.facts.repository import RepoFacts

# Folders whose code is not the project's own, nor its tests.
ASIDE = re.compile(r"(?:.*/)?(?:examples?|docs?|notebooks?|tutorials?|benchmarks?)/")
MAX_UNREAD = 3
WITH_BAZEL = "; `devicegen init --bazel` makes py_test run it"


def refuse_unfit(facts: RepoFacts, *, is_asked: bool) -> None:
    """Raise ``DevicegenError`` where TensorFlow or pytest is not used, or there is no test.

    Where the place is asked for (``is_asked``) only what cannot work is refused.
    """
    _refuse_without_tensorflow(facts)
    if not facts.test_files:
        patterns = ", ".join(facts.pytest_config.python_files)
        raise DevicegenError(
            f"{facts.top}: no test file ({patterns}) here{_other_tests(facts)}; write a first "
            "test, then run `devicegen init` again"
        )
    if not is_asked:
        _refuse_beside_another(facts)
    if not is_asked and facts.container_tests:
        count = len(facts.container_tests)
        raise DevicegenError(
            f"{facts.container_tests[0]}: {_all(count)} containers or a cluster, and none "
            "imports TensorFlow: what is tested runs in other processes, where no harness of "
            "pytest's sets a device scope; their GPUs are docker's --gpus or Kubernetes' "
            "nvidia.com/gpu. What a harness can do here is to lease GPUs and to give each of "
            "pytest-xdist's workers one, in CUDA_VISIBLE_DEVICES, for a test to hand on: "
            "`devicegen init --no-split --conftest conftest.py` writes that, and the tests get "
            "the marker no_device_scope"
        )
    if not is_asked and facts.pytest_use is None and facts.other_test_runner is not None:
        raise DevicegenError(
            f"{facts.top}: nothing here runs pytest, without which a harness does nothing; the "
            f"{len(facts.test_files)} test files are run {facts.other_test_runner}. Where "
            "`pytest` can run them too, `devicegen init --conftest conftest.py` writes one"
            f"{WITH_BAZEL if facts.bazel.py_tests else ''}"
        )


def _all(count: int) -> str:
    return "the only test file drives" if count == 1 else f"all {count} test files drive"


def _other_tests(facts: RepoFacts) -> str:
    if not facts.other_tests:
        return ""
    said = ", ".join(
        f"{runner} ({where.path}{f' and {count - 1} more' if count > 1 else ''})"
        for runner, where, count in facts.other_tests
    )
    return (
        f"; its tests are run by {said}, where pytest has no part, and so a harness neither: GPUs "
        "are given out there by docker's --gpus, Kubernetes' nvidia.com/gpu or the scripts"
    )


def _refuse_beside_another(facts: RepoFacts) -> None:
    """Refuse where the project runs on another framework, and few of its tests on TensorFlow."""
    files = {where.path for where in facts.tensorflow_imports if not ASIDE.match(where.path)}
    own = [path for path in facts.test_files if not ASIDE.match(path)]
    few = [path for path in own if path in files]
    if facts.instead_of_tensorflow is not None and facts.tensorflow.where and own:
        name, where = facts.instead_of_tensorflow
        if 2 * len(few) < len(own):
            raise DevicegenError(
                f"{where}: the project runs on {name}; TensorFlow is required for development "
                f"only ({facts.tensorflow.where[0]}), and {len(few) or 'none'} of {len(own)} test "
                f"files import{'s' * (len(few) == 1)} it. A harness would give the others no "
                f"scope, and hide GPUs from {name} on workers without one; for the sake of those "
                "few, `devicegen init --conftest conftest.py` writes one"
            )


def _refuse_without_tensorflow(facts: RepoFacts) -> None:
    versions = facts.tensorflow
    if not versions.where and not facts.tensorflow_imports and facts.unread:
        more = len(facts.unread) - MAX_UNREAD
        said = [*facts.unread[:MAX_UNREAD], *([f"and {more} more"] if more > 0 else [])]
        raise DevicegenError(
            f"{'; '.join(said)}; what is required there is not known, and nothing else here "
            f"requires or imports TensorFlow{_but_ours(facts)}{_others(facts)}; mend that, then "
            "run this again"
        )
    if not versions.where and not facts.tensorflow_imports:
        raise DevicegenError(
            f"{facts.top}: TensorFlow is neither required nor imported here{_but_ours(facts)}"
            f"{_others(facts)}; devicegen writes harnesses for TensorFlow only so far"
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


def _but_ours(facts: RepoFacts) -> str:
    ours = [each.path for each in facts.described if each.owner != "project"]
    return f", but by devicegen's harness in {ours[0]}, which has no use then" if ours else ""


def _others(facts: RepoFacts) -> str:
    said = []
    for framework in facts.other_frameworks:
        places = [where for _, where in framework.required] or list(framework.imported)
        said.append(f"{framework.name} is ({places[0]})")
    return f", {', '.join(said)}" if said else ""
