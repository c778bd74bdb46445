"""Fixtures of all tests; the helpers behind them are in ``tests/kit``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess

import hypothesis
import pytest

from kit import clean_environ, environment, run_devicegen
from kit.environments import PYTESTS, TENSORFLOWS

# The same examples on every machine, however slow it is; EXPLORE=1 draws new ones.
hypothesis.settings.register_profile(
    "devicegen",
    deadline=None,
    derandomize="EXPLORE" not in os.environ,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("devicegen")

# What must not reach code that a test calls in its own process, for child processes have
# clean_environ(). pytest's own variables stay: this run needs them.
KEPT = ("GIT_", "PYTEST_", "PYTHON", "TF_")


@pytest.fixture(scope="session", autouse=True)
def no_settings_of_this_machine() -> Iterator[None]:
    """Take device masks, sharding and the like out of this process's environment."""
    clean = clean_environ()
    with pytest.MonkeyPatch.context() as patch:
        for name in set(os.environ) - set(clean):
            if name.startswith("PYTEST_GPU_") or not name.startswith(KEPT):
                patch.delenv(name)
        yield


@pytest.fixture
def devicegen(tmp_path: Path) -> Callable[..., CompletedProcess[str]]:
    """Return ``run_devicegen`` bound to ``tmp_path``: ``devicegen(["init"])``."""
    return partial(run_devicegen, cwd=tmp_path)


NEWEST, *OLDER = PYTESTS


@pytest.fixture(params=[NEWEST, *(pytest.param(name, marks=pytest.mark.slow) for name in OLDER)])
def each_pytest(request: pytest.FixtureRequest) -> Path:
    """Run the test once per supported major version of pytest; without TensorFlow, so quick."""
    return environment(request.param)


@pytest.fixture(params=TENSORFLOWS)
def each_tensorflow(request: pytest.FixtureRequest) -> Path:
    """Run the test once per supported TensorFlow, each with another pytest and xdist; slow."""
    return environment(request.param)
