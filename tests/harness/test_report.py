"""What a run says about devices holds for the harness as it is rendered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.report_behaviours import QUICK, REPORT
from kit import environment
from kit.environments import PYTESTS
from kit.harness import render_harness

Behaviour = Callable[[str, Path], None]
NEWEST, *OLDER = PYTESTS


def name_of(behaviour: Behaviour) -> str:
    return behaviour.__name__


@pytest.mark.parametrize("behaviour", QUICK, ids=name_of)
def test_holds(behaviour: Behaviour) -> None:
    behaviour(render_harness(), environment(NEWEST))


@pytest.mark.slow
@pytest.mark.parametrize("behaviour", [each for each in REPORT if each not in QUICK], ids=name_of)
def test_holds_slowly(behaviour: Behaviour) -> None:
    behaviour(render_harness(), environment(NEWEST))


@pytest.mark.slow
@pytest.mark.parametrize("name", OLDER)
@pytest.mark.parametrize("behaviour", REPORT, ids=name_of)
def test_holds_on_older_pytest(behaviour: Behaviour, name: str) -> None:
    behaviour(render_harness(), environment(name))
