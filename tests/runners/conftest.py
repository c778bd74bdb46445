"""Fixtures of the tests that run other runners than pytest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kit.bazel import Workspace, why_no_bazel, workspace


@pytest.fixture(scope="session")
def bazel() -> Iterator[Workspace]:
    """Return a workspace of the real Bazel, which is installed where it is missing."""
    why = why_no_bazel()
    if why:
        pytest.skip(why)
    with workspace() as made:
        yield made
