"""Bazel's sharding protocol holds for the harness as it is rendered for a Bazel repository."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.bazel_behaviours import BAZEL, an_empty_shard_succeeds, each_item_is_in_one_shard
from kit import environment
from kit.environments import PYTESTS
from kit.harness import VARIANTS, render_harness

Behaviour = Callable[[str, Path], None]


NEWEST, *OLDER = PYTESTS


@pytest.mark.slow
@pytest.mark.parametrize("behaviour", BAZEL, ids=lambda behaviour: behaviour.__name__)
def test_holds(behaviour: Behaviour) -> None:
    behaviour(render_harness(**VARIANTS["bazel"]), environment(NEWEST))


@pytest.mark.slow
@pytest.mark.parametrize("name", OLDER)
@pytest.mark.parametrize(
    "behaviour",
    [each_item_is_in_one_shard, an_empty_shard_succeeds],
    ids=lambda behaviour: behaviour.__name__,
)
def test_holds_on_older_pytest(behaviour: Behaviour, name: str) -> None:
    behaviour(render_harness(**VARIANTS["bazel"]), environment(name))
