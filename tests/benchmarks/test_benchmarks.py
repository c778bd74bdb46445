"""The benchmarks run, and what they find does not depend on the machine's speed."""

from __future__ import annotations

import pytest

from benchmarks.scheduling import PEERS, run_suite
from benchmarks.suites import Work, bound, sized_tests

SMALL = (Work("gpu", 0.02, 12), Work("distributed", 0.05, 2), Work("cpu", (0.01, 0.05), 16))
SKIPS = ("load",)  # tests for a card that come to a worker without


@pytest.mark.slow
@pytest.mark.parametrize("peer", PEERS)
def test_no_two_tests_share_a_card(peer: str) -> None:
    tests = sized_tests(SMALL, "small")
    result = run_suite(tests, peer, 3, 2)

    assert result.overlaps == 0
    assert result.ran == len(tests) or peer in SKIPS
    assert result.span > bound(tests, 3, 2) * (peer not in SKIPS)
