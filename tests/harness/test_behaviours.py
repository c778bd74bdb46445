"""Every behaviour holds for the harness as it is rendered, on every supported pytest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from devicegen.conftest_block import make_block
from harness.behaviours import (
    WITHOUT_TENSORFLOW,
    WITHOUT_WORKERS,
    a_harness_without_split_says_so,
    a_harness_without_xdist_says_so,
    gpus_are_asked_for_once,
    gpus_are_not_asked_for_without_tests_to_run,
    mapping_does_not_read_worker_names,
    mask_ends_at_the_first_entry_that_names_no_card,
    project_imports_stay_the_projects,
    pytest_inside_a_test_shares_its_card,
    simulated_cards_are_counted,
    simulation_can_be_asked_for_in_the_environment,
    thread_counts_of_the_caller_stay,
    wrong_markers_are_errors_with_workers_too,
)
from harness.isolation_behaviours import ISOLATED, strict_placement_can_be_asked_for
from harness.names_behaviours import ALIASED, RENAMED
from harness.placement_behaviours import PLACEMENT
from harness.shapes_behaviours import SHAPED
from harness.strategy_behaviours import (
    STRATEGIC,
    a_strategy_of_ones_own_is_a_line,
    strategies_distribute,
)
from kit import environment
from kit.environments import PYTESTS, TENSORFLOWS
from kit.harness import VARIANTS, render_harness
from layouts import OWNERS_HOOKS

Behaviour = Callable[[str, Path], None]
NEWEST, *OLDER = PYTESTS


# More than a run without workers each, and no more to be seen in it than in the others.
TAKE_LONG = (
    wrong_markers_are_errors_with_workers_too,
    gpus_are_asked_for_once,
    gpus_are_not_asked_for_without_tests_to_run,
    mapping_does_not_read_worker_names,
    mask_ends_at_the_first_entry_that_names_no_card,
    project_imports_stay_the_projects,
    pytest_inside_a_test_shares_its_card,
    simulated_cards_are_counted,
    simulation_can_be_asked_for_in_the_environment,
    thread_counts_of_the_caller_stay,
)


def behaviour_param(behaviour: Behaviour) -> object:
    marks = [pytest.mark.slow] * (behaviour in TAKE_LONG)
    return pytest.param(behaviour, id=behaviour.__name__, marks=marks)


@pytest.mark.parametrize(
    "name", [NEWEST, *(pytest.param(name, marks=pytest.mark.slow) for name in OLDER)]
)
@pytest.mark.parametrize("behaviour", [behaviour_param(each) for each in WITHOUT_TENSORFLOW])
def test_holds(behaviour: Behaviour, name: str) -> None:
    behaviour(render_harness(), environment(name))


def test_without_xdist() -> None:
    a_harness_without_xdist_says_so(render_harness(xdist=False), environment(NEWEST))


def test_without_split() -> None:
    a_harness_without_split_says_so(render_harness(split=False), environment(NEWEST))


@pytest.mark.parametrize(
    "name", [NEWEST, *(pytest.param(name, marks=pytest.mark.slow) for name in OLDER)]
)
@pytest.mark.parametrize(
    ("behaviour", "variant"),
    [*((each, "aliases") for each in ALIASED), *((each, "other_names") for each in RENAMED)],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_names(behaviour: Behaviour, variant: str, name: str) -> None:
    behaviour(render_harness(**VARIANTS[variant]), environment(name))


@pytest.mark.slow
@pytest.mark.parametrize("xdist", [True, False], ids=["for_xdist", "not_for_xdist"])
@pytest.mark.parametrize("behaviour", WITHOUT_WORKERS, ids=lambda behaviour: behaviour.__name__)
def test_holds_where_there_is_no_xdist(behaviour: Behaviour, xdist: bool) -> None:
    behaviour(render_harness(xdist=xdist), environment("no-xdist"))


@pytest.mark.slow
@pytest.mark.parametrize("name", TENSORFLOWS)
@pytest.mark.parametrize("api", ["stable", "experimental"])
@pytest.mark.parametrize("behaviour", PLACEMENT, ids=lambda behaviour: behaviour.__name__)
def test_placement(behaviour: Behaviour, api: str, name: str) -> None:
    behaviour(render_harness(logical_device_api=api), environment(name))


# Under each TensorFlow; three runs each, of what the versions do alike, under the newest only.
ALIKE = (strict_placement_can_be_asked_for, a_strategy_of_ones_own_is_a_line)


def under_each(*behaviours: Behaviour) -> pytest.MarkDecorator:
    pairs = [(each, name) for each in behaviours for name in TENSORFLOWS]
    return pytest.mark.parametrize(
        ("behaviour", "name"),
        [(each, name) for each, name in pairs if each not in ALIKE or name == TENSORFLOWS[0]],
        ids=lambda value: getattr(value, "__name__", value),
    )


@pytest.mark.slow
@under_each(*SHAPED, *ISOLATED)
def test_shapes_and_isolation(behaviour: Behaviour, name: str) -> None:
    behaviour(render_harness(), environment(name))


@pytest.mark.slow
@under_each(*STRATEGIC)
def test_strategies(behaviour: Behaviour, name: str) -> None:
    behaviour(render_harness(**VARIANTS["strategies"]), environment(name))


@pytest.mark.slow
def test_strategies_in_a_block() -> None:
    """Below a project's own conftest, whose hooks run too; by the names that were chosen."""
    block = make_block(render_harness(**VARIANTS["strategies"]), "")
    strategies_distribute(f"{OWNERS_HOOKS}\n\n{block}", environment(TENSORFLOWS[0]))
