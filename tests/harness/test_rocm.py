"""What the harness makes of AMD's cards holds as it is rendered for ``tensorflow-rocm``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness import discovery_behaviours as d
from harness.rocm_behaviours import NODES_FOLDER, QUICK, ROCM
from kit import environment
from kit.environments import PYTESTS
from kit.harness import render_harness

Behaviour = Callable[[str, Path], None]
NEWEST, *OLDER = PYTESTS


def name_of(behaviour: Behaviour) -> str:
    return behaviour.__name__


@pytest.mark.parametrize("behaviour", QUICK, ids=name_of)
def test_holds(behaviour: Behaviour) -> None:
    behaviour(render_harness(rocm=True), environment(NEWEST))


@pytest.mark.slow
@pytest.mark.parametrize("behaviour", [each for each in ROCM if each not in QUICK], ids=name_of)
def test_holds_slowly(behaviour: Behaviour) -> None:
    behaviour(render_harness(rocm=True), environment(NEWEST))


@pytest.mark.slow
@pytest.mark.parametrize(
    "behaviour",
    [
        d.the_driver_says_what_a_mask_means,
        d.mig_instances_are_the_units,
        d.driver_files_are_the_last_source,
        d.busy_cards_are_passed_over,
    ],
    ids=name_of,
)
def test_nvidia_cards_are_found_as_ever(behaviour: Behaviour) -> None:
    harness = render_harness(rocm=True).replace(NODES_FOLDER, "/nowhere")
    behaviour(harness, environment(NEWEST))
