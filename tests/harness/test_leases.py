"""Leases and the mapping of cards hold for the harness as it is rendered, and under stress."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.lease_behaviours import LEASE, QUICK, WITHOUT_XDIST
from harness.lease_stress import NO_LOCK, stress
from harness.rank_behaviours import RANKED
from kit import environment
from kit.environments import PYTESTS
from kit.harness import render_harness

Behaviour = Callable[[str, Path], None]
NEWEST, *OLDER = PYTESTS
# 16 rounds take 20 s; LEASE_STRESS=200 is what the leases were proved with.
ROUNDS = int(os.environ.get("LEASE_STRESS", "16"))


def name_of(behaviour: Behaviour) -> str:
    return behaviour.__name__


@pytest.mark.parametrize("behaviour", QUICK, ids=name_of)
def test_holds(behaviour: Behaviour) -> None:
    behaviour(render_harness(), environment(NEWEST))


@pytest.mark.slow
@pytest.mark.parametrize(
    "behaviour", [*(b for b in LEASE if b not in QUICK), *RANKED], ids=name_of
)
def test_holds_slowly(behaviour: Behaviour) -> None:
    behaviour(render_harness(), environment(NEWEST))


@pytest.mark.slow
@pytest.mark.parametrize("name", OLDER)
@pytest.mark.parametrize("behaviour", LEASE, ids=name_of)
def test_holds_on_older_pytest(behaviour: Behaviour, name: str) -> None:
    behaviour(render_harness(), environment(name))


@pytest.mark.slow
@pytest.mark.parametrize("behaviour", WITHOUT_XDIST, ids=name_of)
def test_holds_where_there_is_no_xdist(behaviour: Behaviour) -> None:
    behaviour(render_harness(xdist=False), environment("no-xdist"))


@pytest.mark.slow
def test_stress() -> None:
    result = stress(render_harness(), environment(NEWEST), ROUNDS)

    assert result.gpu_tests > 2 * ROUNDS, result
    assert not result.faults, "\n".join([str(result), *result.faults])


@pytest.mark.slow
def test_stress_without_the_lock() -> None:
    """The same must fail, or it shows nothing."""
    harness = render_harness()
    assert harness.count(NO_LOCK[0]) == 1
    result = stress(harness.replace(*NO_LOCK), environment(NEWEST), 8)

    assert result.violations, result
