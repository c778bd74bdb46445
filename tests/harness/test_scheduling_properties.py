"""Properties of the rendered scheduler over random suites, speeds, crashes and steals."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.scheduling_model import Item, Node, Session

MODES = ("load", "worksteal", "loadscope", "loadfile", "loadgroup")
NEEDS_CARD = ("gpu", "distributed")
SECONDS = st.one_of(st.just(0.0002), st.floats(0.001, 0.2), st.floats(0.5, 20))


@st.composite
def suites(draw: st.DrawFn) -> list[Item]:
    """Draw the items of a few files, their kinds and groups, in the order of collection."""
    seconds = draw(st.lists(SECONDS, min_size=1, max_size=3))
    kinds = draw(st.lists(st.sampled_from(["cpu", "gpu", "distributed", "none"]), min_size=1))
    items = []
    for file in range(draw(st.integers(1, 5))):
        for number in range(draw(st.integers(0, 25))):
            cls = draw(st.sampled_from(["", "", "TestA::", "TestB::"]))
            nodeid = f"test_{file}.py::{cls}test_{number}"
            group = draw(st.sampled_from(["", "", "", "a", "b"]))
            kind, took = draw(st.sampled_from(kinds)), draw(st.sampled_from(seconds))
            items.append(Item(nodeid, kind, took, group))
    return draw(st.permutations(items)) if draw(st.booleans()) else items


@st.composite
def sessions(draw: st.DrawFn) -> dict[str, Any]:
    workers = draw(st.integers(1, 6))
    cards = draw(st.integers(0, workers))
    return {
        "items": draw(suites()),
        "cards": draw(st.permutations([f"card-{n}" for n in range(cards)] + [""] * workers))[
            :workers
        ],
        "dist": draw(st.sampled_from(MODES)),
        "steals": draw(st.sampled_from(["all or nothing", "some", ""])),
        "speeds": draw(st.lists(st.floats(0.2, 5), max_size=workers)),
        "latency": draw(st.sampled_from([0.0001, 0.001, 0.05])),
    }


CRASHES = st.lists(st.tuples(st.floats(0, 30), st.integers(0, 10)), max_size=6)
EXAMPLES = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


def every_item_once_or_reported(session: Session) -> None:
    ids = [item.nodeid for item in session.items]
    done = Counter(ids[index] for index in session.completed)
    reported = Counter([*session.crashed, *session.not_run])
    assert done + reported == Counter(ids)


def no_item_without_its_card(session: Session) -> None:
    """Where a worker had a card at the start, no item for one begins on a worker without."""
    if not session.owners:
        return
    for node in session.nodes:
        kinds = {session.items[index].kind for index in node.started}
        assert node.card or kinds <= {"cpu"}, (node.gateway.id, kinds)


def fits(session: Session, node: Node, kind: str) -> bool:
    return kind == "cpu" or not session.owners or bool(node.card)


def nobody_is_idle(session: Session) -> None:
    """No worker waits, or is told to end, while an item that it could run is not sent."""
    scheduler = session.scheduler
    if not scheduler.started or scheduler.robbed or session.shutting_down:
        return
    units = [*scheduler.waiting[0], *scheduler.waiting[1], *scheduler.plans.values()]
    uncommitted = {index for unit in units for index in unit}
    kinds = {session.items[index].kind for index in uncommitted}
    if scheduler.whole:  # a unit goes where its most demanding item can be
        kinds = {"gpu"} if scheduler.waiting[1] else set()
        kinds |= {"cpu"} if scheduler.waiting[0] else set()
    for node, queue in scheduler.queues.items():
        if node in scheduler.claims and len(queue) < 2 and not node.dead:
            assert not any(fits(session, node, kind) for kind in kinds), node.gateway.id


def items_for_cards_go_first(session: Session) -> None:
    """What is sent to a worker is for the CPU only when nothing for a card is left for it."""
    assert not session.out_of_order


@given(sessions())
@EXAMPLES
def test_without_crashes(arguments: dict[str, Any]) -> None:
    session = Session(**arguments, check=nobody_is_idle).run()

    assert sorted(session.completed) == list(range(len(session.items)))
    assert not session.not_run
    no_item_without_its_card(session)
    items_for_cards_go_first(session)


@given(sessions(), CRASHES, st.integers(0, 6))
@EXAMPLES
def test_with_crashes(
    arguments: dict[str, Any], crashes: list[tuple[float, int]], restarts: int
) -> None:
    session = Session(**arguments, crashes=crashes, restarts=restarts, check=nobody_is_idle)
    session.run()

    every_item_once_or_reported(session)
    no_item_without_its_card(session)


@given(sessions(), CRASHES)
@EXAMPLES
def test_with_cards_that_are_lost(
    arguments: dict[str, Any], crashes: list[tuple[float, int]]
) -> None:
    """The replacement of a worker has no card: what needs one is named at the end."""
    session = Session(**arguments, crashes=crashes, cards_later=lambda card: "").run()

    every_item_once_or_reported(session)
    no_item_without_its_card(session)


@given(sessions(), CRASHES)
@EXAMPLES
def test_units_stay_whole(arguments: dict[str, Any], crashes: list[tuple[float, int]]) -> None:
    """In the scope modes all of a unit runs on one worker, unless that one dies."""
    if arguments["dist"] in ("load", "worksteal"):
        arguments["dist"] = "loadfile"
    session = Session(**arguments, crashes=crashes).run()

    homes: dict[Any, list[Node]] = {}
    for node in session.nodes:
        for index in node.started:
            key = unit_of(session.items[index], arguments["dist"])
            homes.setdefault(key, []).append(node)
    for key, nodes in homes.items():
        survivors = {node for node in nodes if node not in session.dead_nodes}
        assert len(survivors) <= 1, (key, nodes)


def unit_of(item: Item, dist: str) -> str:
    if dist == "loadgroup":
        return item.group or item.nodeid
    return item.nodeid.partition("::")[0] if dist == "loadfile" else item.nodeid.rpartition("::")[0]
