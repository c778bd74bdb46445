"""The scheduler holds to its promises: in virtual time, and under real pytest and xdist."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from harness import scheduling_behaviours as b
from harness import scheduling_properties as p
from kit import environment
from kit.environments import PYTESTS
from kit.harness import render_harness

Behaviour = Callable[[str, Path], None]
NEWEST, *OLDER = PYTESTS
# A second or less each, where nothing else runs.
QUICK = (
    p.what_waits_in_a_queue_is_taken_back,
    p.a_worker_may_die_when_it_is_asked_to_give_back,
    b.a_parameter_called_gpu_is_no_device,
)


def params(behaviours: Iterable[Behaviour]) -> list[object]:
    return [
        pytest.param(each, id=each.__name__, marks=[] if each in QUICK else pytest.mark.slow)
        for each in behaviours
    ]


@pytest.mark.parametrize("behaviour", params(p.PROPERTIES))
def test_property(behaviour: Behaviour) -> None:
    behaviour(render_harness(), Path())


@pytest.mark.parametrize("behaviour", params(p.WITH_HISTORY))
def test_property_with_history(behaviour: Behaviour) -> None:
    behaviour(render_harness(durations_history=True), Path())


@pytest.mark.parametrize("behaviour", params(b.WITH_XDIST))
def test_holds(behaviour: Behaviour) -> None:
    behaviour(render_harness(), environment(NEWEST))


@pytest.mark.slow
@pytest.mark.parametrize("name", OLDER)
@pytest.mark.parametrize("behaviour", params(b.WITH_XDIST))
def test_holds_on_older_xdist(behaviour: Behaviour, name: str) -> None:
    behaviour(render_harness(), environment(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pytest-9", "pytest-7"])
@pytest.mark.parametrize("behaviour", params(b.WITH_DURATIONS))
def test_holds_with_durations(behaviour: Behaviour, name: str) -> None:
    behaviour(render_harness(durations_history=True), environment(name))


@pytest.mark.slow
@pytest.mark.parametrize("behaviour", params(b.WITH_PLUGINS))
def test_holds_with_other_plugins(behaviour: Behaviour) -> None:
    behaviour(render_harness(), environment("plugins"))
