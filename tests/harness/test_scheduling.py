"""The scheduler holds to its promises: in virtual time, and under real pytest and xdist."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.scheduling_behaviours import WITH_DURATIONS, WITH_PLUGINS, WITH_XDIST
from harness.scheduling_properties import PROPERTIES, WITH_HISTORY
from kit import environment
from kit.environments import PYTESTS
from kit.harness import render_harness

Behaviour = Callable[[str, Path], None]
NEWEST, *OLDER = PYTESTS


def name_of(behaviour: Behaviour) -> str:
    return behaviour.__name__


@pytest.mark.parametrize("behaviour", PROPERTIES, ids=name_of)
def test_property(behaviour: Behaviour) -> None:
    behaviour(render_harness(), Path())


@pytest.mark.slow
@pytest.mark.parametrize("behaviour", WITH_HISTORY, ids=name_of)
def test_property_with_history(behaviour: Behaviour) -> None:
    behaviour(render_harness(durations_history=True), Path())


@pytest.mark.parametrize("behaviour", WITH_XDIST, ids=name_of)
def test_holds(behaviour: Behaviour) -> None:
    behaviour(render_harness(), environment(NEWEST))


@pytest.mark.slow
@pytest.mark.parametrize("name", OLDER)
@pytest.mark.parametrize("behaviour", WITH_XDIST, ids=name_of)
def test_holds_on_older_xdist(behaviour: Behaviour, name: str) -> None:
    behaviour(render_harness(), environment(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pytest-9", "pytest-7"])
@pytest.mark.parametrize("behaviour", WITH_DURATIONS, ids=name_of)
def test_holds_with_durations(behaviour: Behaviour, name: str) -> None:
    behaviour(render_harness(durations_history=True), environment(name))


@pytest.mark.slow
@pytest.mark.parametrize("behaviour", WITH_PLUGINS, ids=name_of)
def test_holds_with_other_plugins(behaviour: Behaviour) -> None:
    behaviour(render_harness(), environment("plugins"))
