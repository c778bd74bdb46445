"""Properties of the rendered scheduler over random suites, speeds, crashes and steals.

Each is a behaviour, as in ``behaviours.py``: it takes the text of a harness, which may be a
damaged one, and drives its scheduler in virtual time (``scheduling_model.py``).
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from harness.scheduling_model import Item, Node, Session, harness_module

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
def sessions(draw: st.DrawFn, least_cards: int = 0) -> dict[str, Any]:
    workers = draw(st.integers(1, 6))
    cards = draw(st.integers(least_cards, workers))
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


@st.composite
def sessions_with_history(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a session that knows of some items how long they take, or took."""
    session = draw(sessions())
    history: dict[bool, dict[str, float]] = {True: {}, False: {}}
    for item in session["items"]:
        known = draw(st.sampled_from([item.seconds, item.seconds, 0.5, None]))
        if known is not None:
            history[item.kind != "cpu"][item.nodeid] = known
    return {**session, "history": history}


WHEN = st.one_of(st.floats(0.05, 1), st.floats(0, 30))  # seconds
CRASHES = st.lists(st.tuples(WHEN, st.integers(0, 10)), max_size=6)
# Mutants are to be noticed quickly; SHRINK=1 for an example that is easy to read.
SHRINKS = (Phase.shrink,) if os.environ.get("SHRINK") else ()
EXAMPLES = settings(
    max_examples=int(os.environ.get("EXAMPLES", "100")),
    phases=(Phase.generate, *SHRINKS),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.nested_given],
)


def every_item_once_or_reported(session: Session) -> None:
    if not session.scheduler.started:  # the run ended before the items were known
        return
    ids = [item.nodeid for item in session.items]
    done = Counter(ids[index] for index in session.completed)
    reported = Counter([*session.crashed, *session.not_run])
    assert done + reported == Counter(ids)


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
        ending = node.shutting_down and node not in session.just_shut_down
        if node in scheduler.claims and len(queue) < 2 and not node.dead and not ending:
            assert not any(fits(session, node, kind) for kind in kinds), node.gateway.id


def session_of(harness: str, arguments: dict[str, Any], **more: Any) -> Session:
    """Run a session under the text of a harness."""
    return Session(**arguments, **more, module=harness_module(harness)).run()


def unit_of(item: Item, dist: str) -> str:
    if dist == "loadgroup":
        return item.group or item.nodeid
    return item.nodeid.partition("::" if dist == "loadfile" else "::test")[0]


def holds(check: Callable[..., None], *strategies: st.SearchStrategy[Any]) -> None:
    """Run a check on examples of the strategies; the same ones each time.

    A scheduler that raises has not kept its promise either.
    """
    try:
        EXAMPLES(given(*strategies)(check))()
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(repr(error)) from error


def every_item_runs_once(harness: str, python: Path) -> None:
    """Without a crash; a worker is never idle while an item that it may run is not sent."""

    def check(arguments: dict[str, Any]) -> None:
        session = session_of(harness, arguments, check=nobody_is_idle)
        assert sorted(session.completed) == list(range(len(session.items)))
        assert not session.not_run

    holds(check, sessions())


def items_for_a_card_run_there_and_first(harness: str, python: Path) -> None:
    """An owner of a card gets an item for the CPU only when none for a card is left."""

    def check(arguments: dict[str, Any], crashes: list[tuple[float, int]]) -> None:
        session = session_of(harness, arguments, crashes=crashes)
        for node in session.nodes:
            kinds = {session.items[index].kind for index in node.started}
            assert node.card or not session.owners or kinds <= {"cpu"}, node
        assert not session.out_of_order

    holds(check, sessions(), CRASHES)


def crashes_lose_no_item(harness: str, python: Path) -> None:
    """Each is run once, or reported: it crashed its worker, or the run ended before it."""

    def check(arguments: dict[str, Any], crashes: list[tuple[float, int]], restarts: int) -> None:
        session = session_of(
            harness, arguments, crashes=crashes, restarts=restarts, check=nobody_is_idle
        )
        every_item_once_or_reported(session)
        assert restarts < len(session.dead_nodes) or not session.not_run

    holds(check, sessions(), CRASHES, st.integers(0, 6))


def lost_cards_hold_nothing_up(harness: str, python: Path) -> None:
    """A replacement has no card: what no worker can run is named, all else is run."""

    def check(arguments: dict[str, Any], crashes: list[tuple[float, int]]) -> None:
        session = session_of(harness, arguments, crashes=crashes, cards_later=lambda card: "")
        every_item_once_or_reported(session)
        unit = session.scheduler.whole  # where a CPU item may go down with its unit
        kinds = {item.kind for item in session.items if item.nodeid in session.not_run}
        assert unit or "cpu" not in kinds, kinds

    holds(check, sessions(least_cards=1), CRASHES.filter(bool))


def history_loses_no_item(harness: str, python: Path) -> None:
    """With durations, right ones and wrong ones: the same promises."""

    def check(arguments: dict[str, Any], crashes: list[tuple[float, int]], restarts: int) -> None:
        session = session_of(harness, arguments, crashes=crashes, restarts=restarts)
        every_item_once_or_reported(session)
        assert restarts < len(session.dead_nodes) or not session.not_run
        for node in session.nodes:
            kinds = {session.items[index].kind for index in node.started}
            assert node.card or not session.owners or kinds <= {"cpu"}, node

    holds(check, sessions_with_history(), CRASHES, st.integers(0, 6))


def units_stay_whole(harness: str, python: Path) -> None:
    """In the scope modes all of a unit runs on one worker, unless that one dies."""

    def check(arguments: dict[str, Any], crashes: list[tuple[float, int]]) -> None:
        if arguments["dist"] in ("load", "worksteal"):
            arguments["dist"] = "loadfile"
        session = session_of(harness, arguments, crashes=crashes)
        homes: dict[str, set[Node]] = {}
        for node in session.nodes:
            for index in node.started:
                unit = unit_of(session.items[index], arguments["dist"])
                homes.setdefault(unit, set()).add(node)
        for unit, nodes in homes.items():
            assert len(nodes - session.dead_nodes) <= 1, unit

    holds(check, sessions(), CRASHES)


def a_worker_that_is_forgiven_crashed_no_item(harness: str, python: Path) -> None:
    """It died of something else: its item is run again, by another."""

    def check(arguments: dict[str, Any], crashes: list[tuple[float, int]]) -> None:
        session = session_of(harness, arguments, crashes=crashes, forgive=True)
        assert not session.crashed
        assert sorted(session.completed) == list(range(len(session.items)))

    holds(check, sessions(), CRASHES)


# ---- Spans -----------------------------------------------------------------------------------

# (kind, seconds or the two ends of a range, how many), of one suite; shuffled, 12 tests a file
SUITES: dict[str, list[tuple[str, float | tuple[float, float], int]]] = {
    "many short": [("gpu", 0.05, 80), ("cpu", 0.05, 320)],
    "many short, uneven": [("gpu", (0.01, 0.1), 80), ("cpu", (0.01, 0.1), 320)],
    "few long": [("gpu", (1, 3), 12), ("cpu", (1, 3), 28)],
    "mixed": [("gpu", 0.1, 40), ("gpu", 1, 4), ("cpu", 0.05, 200), ("cpu", 1.5, 6)],
    "one giant": [("gpu", 0.05, 40), ("cpu", 0.05, 160), ("cpu", 6, 1)],
    "a giant and few": [("gpu", 10, 1), ("cpu", 2, 5)],
    "GPU-heavy": [("gpu", 0.15, 100), ("distributed", 0.4, 20), ("cpu", 0.05, 60)],
    "CPU-heavy": [("gpu", 0.1, 10), ("cpu", 0.08, 400)],
}
MACHINES = ((2, 1), (4, 2), (10, 4))  # workers, cards


def suite(name: str) -> list[Item]:
    chance = random.Random(name)
    kinds = [
        (kind, chance.uniform(*seconds) if isinstance(seconds, tuple) else seconds)
        for kind, seconds, count in SUITES[name]
        for _ in range(count)
    ]
    chance.shuffle(kinds)
    return [Item(f"test_{n // 12}.py::test_{n}", *each) for n, each in enumerate(kinds)]


def bound(items: list[Item], workers: int, cards: int) -> float:
    """Return what no schedule can be shorter than, in seconds."""
    on_cards = sum(item.seconds for item in items if item.kind != "cpu")
    whole = sum(item.seconds for item in items)
    return max(on_cards / cards, whole / workers, *(item.seconds for item in items))


def span_over_bound(
    harness: str, items: list[Item], workers: int, cards: int, **more: Any
) -> float:
    owners = [f"card-{n}" for n in range(cards)]
    arguments = {"items": items, "cards": owners + [""] * (workers - cards), "latency": 0.002}
    session = session_of(harness, arguments, **more)
    return session.finished_at / bound(items, workers, cards)


def spans_of_short_tests_are_near_the_bound(harness: str, python: Path) -> None:
    for workers, cards in MACHINES:
        for name in ("many short", "many short, uneven"):
            ratio = span_over_bound(harness, suite(name), workers, cards)
            assert ratio < 1.05, (name, workers, cards, ratio)


def what_waits_in_a_queue_is_taken_back(harness: str, python: Path) -> None:
    """Long tests come after many quick ones, when queues are long, and one file has all."""
    seconds = [0.0002] * 300 + [0.5] * 100
    items = [Item(f"test_a.py::test_{n}", "cpu", each) for n, each in enumerate(seconds)]

    assert span_over_bound(harness, items, 4, 1) < 1.05
    assert span_over_bound(harness, items, 4, 1, steals="some") < 1.05


def a_worker_may_die_when_it_is_asked_to_give_back(harness: str, python: Path) -> None:
    seconds = [0.0002] * 300 + [0.5] * 100
    items = [Item(f"test_a.py::test_{n}", "cpu", each) for n, each in enumerate(seconds)]
    arguments = {"items": items, "cards": ["card-0", "", "", ""], "dies_when_robbed": True}
    session = session_of(harness, arguments)

    assert len(session.dead_nodes) == 1
    every_item_once_or_reported(session)
    assert not session.not_run


def spans_with_history_are_near_the_bound(harness: str, python: Path) -> None:
    for workers, cards in MACHINES:
        for name in SUITES:
            items = suite(name)
            history: dict[bool, dict[str, float]] = {True: {}, False: {}}
            for item in items:
                history[item.kind != "cpu"][item.nodeid] = item.seconds
            for steals in ("all or nothing", ""):
                ratio = span_over_bound(
                    harness, items, workers, cards, history=history, steals=steals
                )
                assert ratio < 1.10, (name, workers, cards, steals, ratio)


def short_tests_are_sent_together(harness: str, python: Path) -> None:
    """Sending each alone takes longer than the test: fewer than one in ten are sent alone."""
    items = [Item(f"test_{n % 50}.py::test_{n}", "cpu", 0.0003) for n in range(4000)]
    session = session_of(harness, {"items": items, "cards": ["", "", "", ""]})

    assert len(session.sends) < 400


PROPERTIES = (
    short_tests_are_sent_together,
    spans_of_short_tests_are_near_the_bound,
    what_waits_in_a_queue_is_taken_back,
    a_worker_may_die_when_it_is_asked_to_give_back,
    every_item_runs_once,
    items_for_a_card_run_there_and_first,
    crashes_lose_no_item,
    lost_cards_hold_nothing_up,
    units_stay_whole,
    a_worker_that_is_forgiven_crashed_no_item,
)
WITH_HISTORY = (history_loses_no_item, spans_with_history_are_near_the_bound)
ALL_PROPERTIES = (*PROPERTIES, *WITH_HISTORY)
