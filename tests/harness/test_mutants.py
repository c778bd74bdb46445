"""The mutation gate: each damage to the harness is noticed by the behaviour that it breaks.

A behaviour test that passes says little until it has been seen to fail. Here each is run on a
harness that was damaged on purpose. Judged at once, as many at a time as there are cores, when
the first of them is asked for.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.bazel_behaviours import BAZEL
from harness.bazel_mutants import BAZEL_MUTANTS
from harness.behaviours import WITHOUT_TENSORFLOW
from harness.discovery_behaviours import DISCOVERY
from harness.discovery_mutants import DISCOVERY_MUTANTS
from harness.isolation_behaviours import ISOLATED
from harness.lease_behaviours import LEASE
from harness.lease_mutants import LEASE_MUTANTS
from harness.mutants import MUTANTS as OTHER_MUTANTS
from harness.mutants import Mutant
from harness.names_behaviours import ALIASED, RENAMED
from harness.placement_behaviours import PLACEMENT
from harness.rank_behaviours import RANKED
from harness.rank_mutants import RANK_MUTANTS
from harness.report_behaviours import REPORT
from harness.report_mutants import REPORT_MUTANTS
from harness.rocm_behaviours import ROCM
from harness.rocm_mutants import ROCM_MUTANTS
from harness.scheduling_behaviours import SCHEDULING
from harness.scheduling_mutants import SCHEDULING_MUTANTS
from harness.scheduling_properties import ALL_PROPERTIES
from harness.shape_mutants import SHAPE_MUTANTS
from harness.shapes_behaviours import SHAPED
from harness.strategy_behaviours import STRATEGIC
from kit import clean_environ, environment

Verdict = Callable[[Mutant], "str | None"]
MUTANTS = (
    *OTHER_MUTANTS,
    *SHAPE_MUTANTS,
    *DISCOVERY_MUTANTS,
    *LEASE_MUTANTS,
    *RANK_MUTANTS,
    *REPORT_MUTANTS,
    *ROCM_MUTANTS,
    *SCHEDULING_MUTANTS,
    *BAZEL_MUTANTS,
)


def mutant_param(mutant: Mutant) -> object:
    return pytest.param(mutant, id=mutant.name.replace(" ", "-"), marks=pytest.mark.slow)


def judge(mutant: Mutant) -> str | None:
    """Return what the killer says about the mutant, None where it says nothing."""
    try:
        mutant.killer(mutant.harness(), environment(mutant.environment))
    except AssertionError as error:
        return str(error)
    return None


@pytest.fixture(scope="module")
def verdict(request: pytest.FixtureRequest) -> Iterator[Verdict]:
    """Return a function that gives a mutant's verdict; those of this module run side by side."""
    selected = [item.callspec.params.get("mutant") for item in request.session.items
                if item.path == request.path and hasattr(item, "callspec")]  # fmt: skip
    # A worker of pytest-xdist runs some of what it collected: it judges one by one.
    ahead = [] if "PYTEST_XDIST_WORKER" in os.environ else [m for m in selected if m]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        futures: dict[str, Future[str | None]] = {m.name: pool.submit(judge, m) for m in ahead}
        yield (
            lambda mutant: (
                futures[mutant.name].result() if mutant.name in futures else judge(mutant)
            )
        )
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("mutant", [mutant_param(mutant) for mutant in MUTANTS])
def test_is_killed(mutant: Mutant, verdict: Verdict) -> None:
    said = verdict(mutant)

    assert said is not None, f"survives {mutant.killer.__name__}: {mutant.name}"


def test_mutants_apply_and_differ() -> None:
    """Each still finds its text, and is unlike every other."""
    texts = [mutant.harness() for mutant in MUTANTS]

    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert len(set(texts)) == len(MUTANTS)


@pytest.mark.slow
def test_mutants_use_no_undefined_name(tmp_path: Path) -> None:
    """A harness that falls over a name proves nothing about the behaviour that it breaks.

    Nor does one that is no Python, which ruff says too.
    """
    for number, mutant in enumerate(MUTANTS):
        (tmp_path / f"mutant_{number}.py").write_text(mutant.harness(), "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--isolated", "--select=E9,F821,F823", tmp_path],
        env=clean_environ(),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout


def test_every_behaviour_kills_a_mutant() -> None:
    """A behaviour that no mutant breaks may be one that cannot fail."""
    behaviours = {
        *WITHOUT_TENSORFLOW,
        *PLACEMENT,
        *DISCOVERY,
        *LEASE,
        *RANKED,
        *REPORT,
        *ROCM,
        *BAZEL,
    }
    behaviours |= {*SCHEDULING, *ALL_PROPERTIES}
    behaviours |= {*SHAPED, *ISOLATED, *STRATEGIC, *ALIASED, *RENAMED}

    assert behaviours <= {mutant.killer for mutant in MUTANTS}
