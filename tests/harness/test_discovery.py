"""What the harness makes of a machine's cards holds for the harness as it is rendered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.discovery_behaviours import DISCOVERY
from kit import environment
from kit.environments import PYTESTS
from kit.harness import render_harness

NEWEST, *OLDER = PYTESTS


@pytest.mark.parametrize(
    "name", [NEWEST, *(pytest.param(name, marks=pytest.mark.slow) for name in OLDER)]
)
@pytest.mark.parametrize("behaviour", DISCOVERY, ids=lambda behaviour: behaviour.__name__)
def test_holds(behaviour: Callable[[str, Path], None], name: str) -> None:
    behaviour(render_harness(), environment(name))
