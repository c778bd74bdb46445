"""The rendered scheduler without processes: workers of a model, and virtual time.

``Session`` does with the scheduler what xdist's controller does (``DSession`` in
xdist/dsession.py, 3.8), and its workers do what xdist's do (``WorkerInteractor`` in
xdist/remote.py): an item begins when the next one is there, or the word that there is none.
"""

from __future__ import annotations

import heapq
import itertools
import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import Any

from kit.harness import render_harness

SHUTDOWN = -1


@cache
def harness_module(text: str | None = None) -> ModuleType:
    """Return the rendered harness, or the text of a damaged one, as a module."""
    text = render_harness() if text is None else text
    module = ModuleType(f"rendered_harness_{abs(hash(text))}")
    sys.modules[module.__name__] = module  # dataclasses look themselves up
    exec(compile(text, module.__name__, "exec"), module.__dict__)
    return module


@dataclass(frozen=True)
class Item:
    """A test: its node id, kind and xdist_group, and how long it takes, in seconds."""

    nodeid: str
    kind: str = "cpu"
    seconds: float = 1.0
    group: str = ""


@dataclass(eq=False)
class Node:
    """A worker as the controller sees it, and the process behind it."""

    session: Session
    number: int
    card: str
    speed: float = 1.0
    handed: str | None = None  # the card that it was handed; None: as ``card``
    queue: list[int] = field(default_factory=list)  # of the process; may end in SHUTDOWN
    running: int | None = None
    dead: bool = False
    started: list[int] = field(default_factory=list)
    collection: list[str] | None = None

    def __post_init__(self) -> None:
        handed = self.card if self.handed is None else self.handed
        env = {"PYTEST_GPU_ASSIGNED": json.dumps({"card": handed, "late": []})}
        self.gateway = SimpleNamespace(id=f"gw{self.number}", spec=SimpleNamespace(env=env))
        self.workerinput = {"workercount": self.session.workers}
        self.shutting_down = False
        self.kinds = [item.kind for item in self.session.items]
        self.groups = [item.group for item in self.session.items]
        if self.session.steals:  # xdist 3.2 and newer
            self.send_steal = self.be_robbed

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        assert not self.shutting_down, "an item for a worker that was told to shut down"
        self.session.sent(self, list(indices))
        self.session.later(self.session.latency, self.receive, list(indices))

    def shutdown(self) -> None:
        if not self.shutting_down:
            self.session.just_shut_down.append(self)
        self.shutting_down = True
        self.session.later(self.session.latency, self.receive, [SHUTDOWN])

    def be_robbed(self, indices: Sequence[int]) -> None:
        assert not self.session.stealing, "two steals at a time"
        self.session.stealing = True
        self.session.steal_requests += 1
        self.session.later(self.session.latency, self.give_back, list(indices))

    def receive(self, indices: list[int]) -> None:
        if not self.dead:
            self.queue += indices
            self.begin()

    def give_back(self, indices: list[int]) -> None:
        """Give back all that is asked for, or nothing; xdist 3.2 to 3.5: what is still there."""
        if self.session.dies_when_robbed:
            self.session.dies_when_robbed = False
            self.die()
        if self.dead:
            return
        stolen = [index for index in indices if index in self.queue[1:]]
        if self.session.steals == "all or nothing" and len(stolen) < len(indices):
            stolen = []
        self.queue = [index for index in self.queue if index not in stolen]
        self.session.event(self.session.on_unscheduled, self, stolen)

    def begin(self) -> None:
        if self.running is not None or self.dead or not self.queue:
            return
        if self.queue[0] == SHUTDOWN:
            self.dead = True
            self.session.event(self.session.on_finished, self)
        elif len(self.queue) > 1:
            self.running = self.queue.pop(0)
            self.started.append(self.running)
            self.session.ran[self.running] += 1
            seconds = self.session.items[self.running].seconds / self.speed
            self.session.later(seconds, self.end, self.running)

    def end(self, index: int) -> None:
        if not self.dead:
            self.running = None
            seconds = self.session.items[index].seconds / self.speed
            self.session.finished_at = self.session.now
            self.session.event(self.session.on_complete, self, index, seconds)
            self.begin()

    def die(self) -> None:
        if not self.dead:
            self.dead = True
            self.session.event(self.session.on_crash, self)


class Session:
    """A run: items, one card name or "" a worker, and crashes at some times."""

    def __init__(
        self,
        items: Sequence[Item],
        cards: Sequence[str],
        *,
        dist: str = "load",
        steals: str = "all or nothing",  # or "some", or ""
        speeds: Sequence[float] = (),
        latency: float = 0.001,
        crashes: Sequence[tuple[float, int]] = (),  # seconds, number of the worker
        restarts: int = 100,
        module: ModuleType | None = None,
        check: Callable[[Session], None] | None = None,
        options: Mapping[str, Any] | None = None,
        cards_later: Callable[[str], str] = str,  # of a dead worker's card
        history: Mapping[bool, Mapping[str, float]] | None = None,  # for a card: id -> seconds
        dies_when_robbed: bool = False,  # the first worker that is asked to give back
        forgive: bool = False,  # whether workers that die are forgiven
    ) -> None:
        self.items, self.workers, self.steals = list(items), len(cards), steals
        self.latency, self.restarts, self.check = latency, restarts, check
        self.cards_later, self.forgive = cards_later, forgive
        self.dies_when_robbed = dies_when_robbed
        self.module = module or harness_module()
        self.reports: list[Any] = []
        option = SimpleNamespace(dist=dist, **(options or {}))
        hook = SimpleNamespace(pytest_collectreport=self.reports.append)
        config = SimpleNamespace(option=option, hook=hook)
        if history is None:
            self.scheduler = self.module.DeviceScheduling(config)
        else:
            self.scheduler = self.module.TimedScheduling(config, history)
            self.scheduler.clock = lambda: self.now
        self.now = self.finished_at = 0.0
        self.sequence = itertools.count()
        self.agenda: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self.ran: Counter[int] = Counter()
        self.completed: list[int] = []
        self.crashed: list[str] = []
        self.stealing = False
        self.steal_requests = 0
        self.shutting_down = False
        self.sends: list[tuple[Node, list[int]]] = []
        self.just_shut_down: list[Node] = []  # by what is being handled
        self.out_of_order: list[tuple[str, list[int]]] = []
        self.dead_nodes: set[Node] = set()
        self.owners: list[Node] = []  # of those that collected before the first item was sent
        speeds = [*speeds, *[1.0] * len(cards)]
        self.nodes = [Node(self, n, card, speeds[n]) for n, card in enumerate(cards)]
        self.active = list(self.nodes)
        for node in self.nodes:
            self.later(0, self.event, self.on_ready, node)
        for seconds, number in crashes:
            self.later(seconds, self.crash, number)

    # ---- time ----

    def later(self, seconds: float, call: Callable[..., None], *args: Any) -> None:
        heapq.heappush(self.agenda, (self.now + seconds, next(self.sequence), call, args))

    def event(self, call: Callable[..., None], *args: Any) -> None:
        """Send something to the controller, in order of what is sent."""
        self.later(self.latency, self.handle, call, *args)

    def run(self) -> Session:
        for _ in range(200 * len(self.items) + 10_000):
            if self.finished or not self.agenda:
                break
            self.now, _, call, args = heapq.heappop(self.agenda)
            call(*args)
        assert self.finished, f"it hangs at {self.now} s: {vars(self.scheduler)}"
        return self

    @property
    def finished(self) -> bool:
        return self.shutting_down and not self.active

    # ---- the controller ----

    def handle(self, call: Callable[..., None], *args: Any) -> None:
        call(*args)
        if self.scheduler.tests_finished:
            self.trigger_shutdown()
        if self.check:
            self.check(self)
        self.just_shut_down.clear()

    def trigger_shutdown(self) -> None:
        self.shutting_down = True
        for node in self.scheduler.nodes:
            if not node.dead:
                node.shutdown()

    def on_ready(self, node: Node) -> None:
        if self.shutting_down:
            node.shutdown()
            return
        self.scheduler.add_node(node)
        self.event(self.on_collected, node)

    def on_collected(self, node: Node) -> None:
        if self.shutting_down or node.dead:
            return
        ids = node.collection or [item.nodeid for item in self.items]
        self.scheduler.add_node_collection(node, ids)
        if self.scheduler.collection_is_completed:
            if not self.scheduler.started:
                self.owners = [node for node in self.scheduler.claims if node.card]
            self.scheduler.schedule()

    def on_complete(self, node: Node, index: int, seconds: float) -> None:
        self.completed.append(index)
        self.scheduler.mark_test_complete(node, index, seconds)

    def on_unscheduled(self, node: Node, indices: list[int]) -> None:
        self.stealing = False
        self.scheduler.remove_pending_tests_from_node(node, indices)

    def on_finished(self, node: Node) -> None:
        node.workeroutput = {"exitstatus": 0}  # type: ignore[attr-defined]
        node.shutting_down = True
        if node in self.scheduler.nodes:
            assert not self.scheduler.remove_node(node), "a crash item without a crash"
        self.active.remove(node)

    def on_crash(self, node: Node) -> None:
        node.shutting_down = True
        self.dead_nodes.add(node)
        self.stealing = self.stealing and self.scheduler.robbed is not node
        if self.forgive:
            self.scheduler.forgiven.add(node.gateway.id)
        try:
            crashed = self.scheduler.remove_node(node)
        except KeyError:
            crashed = None
        if crashed:
            self.crashed.append(crashed)
        if self.restarts == 0:
            self.trigger_shutdown()
        else:
            self.restarts -= 1
            self.shutting_down = False
            again = Node(self, len(self.nodes), self.cards_later(node.card), node.speed)
            self.nodes.append(again)
            self.active.append(again)
            self.later(0.1, self.event, self.on_ready, again)
        self.active.remove(node)

    def crash(self, number: int) -> None:
        self.nodes[number % len(self.nodes)].die()

    def sent(self, node: Node, indices: list[int]) -> None:
        """Note what is sent, and where a card's owner gets what is for the CPU too early."""
        kinds = {self.items[index].kind for index in indices}
        self.sends.append((node, indices))
        if kinds == {"cpu"} and node.card and self.scheduler.left[1]:
            self.out_of_order.append((node.gateway.id, indices))

    # ---- what came of it ----

    @property
    def not_run(self) -> list[str]:
        return [nodeid for nodeid, _ in self.scheduler.not_run()]
