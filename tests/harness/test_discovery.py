"""What the harness makes of a machine's cards holds for the harness as it is rendered."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.discovery_behaviours import DISCOVERY, QUICK
from kit import environment
from kit.environments import PYTESTS
from kit.harness import render_harness

NEWEST, *OLDER = PYTESTS
QUICK_ONES = [(behaviour, NEWEST) for behaviour in QUICK]
SLOW_ONES = [
    pytest.param(behaviour, name, marks=pytest.mark.slow)
    for behaviour, name in itertools.product(DISCOVERY, PYTESTS)
    if (behaviour, name) not in QUICK_ONES
]


@pytest.mark.parametrize(
    ("behaviour", "name"),
    [*QUICK_ONES, *SLOW_ONES],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_holds(behaviour: Callable[[str, Path], None], name: str) -> None:
    behaviour(render_harness(), environment(name))
