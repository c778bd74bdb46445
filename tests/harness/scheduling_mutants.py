"""Damages to the scheduler, to what workers tell it, and to durations; see ``mutants.py``."""

from __future__ import annotations

from functools import partial

from harness import scheduling_behaviours as b
from harness import scheduling_properties as p
from harness.mutants import mutant

timed = partial(mutant, variant="durations_history")

DEALING = [
    mutant(
        "worker is told to end too early",
        p.every_item_runs_once,
        "if len(self.queues[node]) < 2 and not self._steal(node):",
        "if len(self.queues[node]) < 3 and not self._steal(node):",
    ),
    mutant(
        "only a new unit is begun",
        p.every_item_runs_once,
        "unit = most[len(most) // 2 :]",
        "unit = most[len(most) :]",
    ),
    mutant(
        "tests for a card come last",
        p.items_for_a_card_run_there_and_first,
        "return [1, 0] if self._fits(node) else [0]",
        "return [0, 1] if self._fits(node) else [0]",
    ),
    mutant(
        "tests for a card go to any worker",
        p.items_for_a_card_run_there_and_first,
        "return [1, 0] if self._fits(node) else [0]",
        "return [1, 0]",
    ),
    mutant(
        "stolen tests go to any worker",
        p.items_for_a_card_run_there_and_first,
        "return self.claims[node] >= self.best",
        "return self.claims[node] >= self.best or not self.claims[node] % 2",
    ),
    mutant(
        "replacement of a dead worker is not waited for",
        p.crashes_lose_no_item,
        "            self.coming += 1  # or else",
        "            self.coming += 0  # or else",
    ),
    mutant(
        "a dead worker's queue is lost",
        p.crashes_lose_no_item,
        "self._put_back(queue[len(crashed) :])",
        "self._put_back([])",
    ),
    mutant(
        "a dead worker's unit is lost",
        p.crashes_lose_no_item,
        "self.waiting[card].extendleft([plan] if plan else [])",
        "self.left[card] -= len(plan)",
    ),
    mutant(
        "what crashed is run again",
        p.crashes_lose_no_item,
        "self._put_back(queue[len(crashed) :])",
        "self._put_back(queue)",
    ),
    mutant(
        "a dead worker is waited for to give back",
        p.a_worker_may_die_when_it_is_asked_to_give_back,
        "self.robbed = None if self.robbed is node else self.robbed",
        "pass",
    ),
    mutant(
        "lost cards are waited for",
        p.lost_cards_hold_nothing_up,
        "return not (any(self.left) and (self.coming or self._live()))",
        "return not any(self.left)",
    ),
    mutant(
        "units are split in the scope modes",
        p.units_stay_whole,
        "taken = unit if self.whole else unit[:count]",
        "taken = unit[:count]",
    ),
    mutant(
        "scope modes steal",
        p.units_stay_whole,
        "if self.robbed is None and not self.whole:",
        "if self.robbed is None:",
    ),
    mutant(
        "a worker that is forgiven is blamed",
        p.a_worker_that_is_forgiven_crashed_no_item,
        "crashed = queue[:1] if node.gateway.id not in self.forgiven else []",
        "crashed = queue[:1]",
    ),
    mutant(
        "queues are long",
        p.spans_of_short_tests_are_near_the_bound,
        "AHEAD_SECONDS = 0.1",
        "AHEAD_SECONDS = 100.0",
        "share = sum(self.left) // (2 * len(nodes) or 1)",
        "share = sum(self.left)",
        "if self.robbed is None and not self.whole:",
        "if self.whole:",
    ),
    mutant(
        "nothing is taken back",
        p.what_waits_in_a_queue_is_taken_back,
        "if self.robbed is None and not self.whole:",
        "if self.whole:",
    ),
    mutant(
        "queues do not grow with short tests",
        p.short_tests_are_sent_together,
        "self.mean += (duration - self.mean) / 8",
        "self.mean += 0",
    ),
]
UNDER_XDIST = [
    mutant(
        "a distribution is forgotten",
        b.tests_for_a_card_reach_a_card,
        '"loadfile", "loadgroup")',
        '"loadgroup")',
    ),
    mutant(
        "distributed and gpu tests are not sorted",
        b.tests_for_a_card_come_first,
        "units = [sorted(unit, key=rank) for unit in units]",
        "units = [sorted(unit) for unit in units]",
    ),
    mutant(
        "workers with a card wait for nothing else",
        b.workers_with_a_card_help,
        "return [1, 0] if self._fits(node) else [0]",
        "return [1] if self._fits(node) else [0]",
    ),
    mutant(
        "what a worker tells is not heard",
        b.a_parameter_called_gpu_is_no_device,
        'json.loads(label) if label else ("", ["none"] * len(ids), [])',
        '("", ["none"] * len(ids), [])',
    ),
    mutant(
        "labels stay in the ids",
        b.without_a_card_left_tests_fail_by_name,
        "ids[0], _, label = ",
        "_, _, label = ",
    ),
    mutant(
        "groups are not told",
        b.scopes_stay_whole,
        '"loadgroup": group or nodeid}',
        '"loadgroup": nodeid}',
    ),
    mutant(
        "group named by keyword is not told",
        b.scopes_stay_whole,
        'mark.kwargs.get("name", "default")',
        '"default" + item.name',
    ),
    mutant(
        "parameter with colons is a scope",
        b.scopes_stay_whole,
        'scope = path, name.split("[")[0].rpartition("::")[0]',
        'scope = path, name.rpartition("::")[0]',
    ),
    mutant(
        "--dist each is ours",
        b.other_distributions_are_left_to_xdist,
        'DISTRIBUTIONS = ("load",',
        'DISTRIBUTIONS = ("each", "load",',
    ),
    mutant(
        "a crash ends the run",
        b.a_crash_loses_no_test,
        'if node in self.claims and not hasattr(node, "workeroutput"):',
        'if node in self.claims and hasattr(node, "workeroutput"):',
    ),
    mutant(
        "what is not run is not reported",
        b.without_a_card_left_tests_fail_by_name,
        "if scheduler and not outcome.excinfo:",
        "if scheduler and outcome.excinfo:",
    ),
    mutant(
        "neighbours are torn apart",
        b.neighbours_stay_together,
        '(kind == "cpu", path))',
        '(kind == "cpu", nodeid))',
    ),
    mutant(
        "failed tests wait for their file",
        b.failed_first_goes_after_the_device,
        'len(places) if self.whole else kind == "cpu"',
        "len(places)",
    ),
    mutant(
        "order of collection is lost",
        b.last_failed_and_stepwise_select,
        "units = [sorted(unit, key=rank) for unit in units]",
        "units = [unit[::-1] for unit in units]",
    ),
    mutant(
        "after -x what is not run is failed",
        b.max_fail_stops,
        "if scheduler and not outcome.excinfo:",
        "if scheduler:",
    ),
    mutant(
        "what both collected is named",
        b.ids_that_differ_are_explained,
        "only = [nodeid for nodeid in mine if nodeid not in rest]",
        "only = [nodeid for nodeid in mine if nodeid in rest]",
    ),
    mutant(
        "order that differs is not told from ids that do",
        b.an_order_that_differs_is_explained,
        'ask if lines[1:] else "Only their order differs"',
        "ask",
    ),
    mutant(
        "a replacement with other tests is used",
        b.a_replacement_that_differs_ends,
        "            del self.claims[node]\n            node.shutdown()\n",
        "",
    ),
    mutant(
        "any xdist will do",
        b.another_xdist_is_left_to_itself,
        "if not unknown:",
        "if not unknown or len(unknown) == 1:",
    ),
    mutant(
        "parameters of xdist's calls are not looked at",
        b.another_xdist_is_left_to_itself,
        "return list(inspect.signature(member).parameters) if function else type(member)",
        "return type(member)",
    ),
    mutant(
        "without a label all are for the CPU",
        b.tests_without_a_label_go_to_cards,
        '["none"] * len(ids)',
        '["cpu"] * len(ids)',
    ),
    mutant(
        "strategy of one's own is for the CPU",
        b.own_strategies_are_for_a_card,
        "KINDS.index(kind) if kind in KINDS else 0",
        "KINDS.index(kind) if kind in KINDS else CPU",
        '(kind == "cpu", path))',
        '(kind not in ("gpu", "distributed", "none"), path))',
    ),
    mutant(
        "crashed test is not run again",
        b.reruns_are_reruns,
        "self._put_back([self.ids.index(item)])",
        "self._put_back([])",
    ),
    mutant(
        "tests of a file are sorted",
        b.a_random_order_is_kept,
        "units = [sorted(unit, key=rank) for unit in units]",
        "units = [sorted(unit, key=self.ids.__getitem__) for unit in units]",
    ),
]
DURATIONS = [
    timed(
        "what is known to be long stays where it is",
        b.long_tests_go_first_the_next_time,
        "LONG = 1 / 40",
        "LONG = 40",
    ),
    timed(
        "all tests leave their neighbours",
        b.long_tests_go_first_the_next_time,
        "LONG = 1 / 40",
        "LONG = 0",
    ),
    timed(
        "long tests go before failed ones",
        b.what_was_asked_for_goes_before_what_took_long,
        'asked = ("failedfirst", "newfirst", "stepwise")',
        'asked = ("newfirst", "stepwise")',
    ),
    timed(
        "durations are of one device",
        b.durations_are_kept_by_device,
        'table = TOOK["cpu" if said["device"] == "cpu" else card]',
        'table = TOOK["cpu"]',
    ),
    timed(
        "durations of the other tests are forgotten",
        b.durations_are_kept_by_device,
        "tables[device] = {**tables.get(device, {}), **rounded}",
        "tables[device] = rounded",
    ),
    timed(
        "only set-up counts",
        b.durations_are_kept_by_device,
        "table[report.nodeid] = table.get(report.nodeid, 0) + report.duration",
        "table.setdefault(report.nodeid, report.duration)",
    ),
    timed(
        "worker that is full is asked to steal for ever",
        p.history_loses_no_item,
        "self.work[self._for_card(new)] -= self._duration(new)",
        "self.work[0] = self.work[1] = 0",
    ),
    timed(
        "short tests go behind a giant",
        p.spans_with_history_are_near_the_bound,
        "if not self.queues[node] or not self.timed:",
        "if True:",
    ),
    timed(
        "long tests are not first",
        p.spans_with_history_are_near_the_bound,
        "key=lambda item: self.seconds[item], reverse=True)",
        "key=lambda item: self.seconds[item])",
    ),
]
SCHEDULING_MUTANTS = (*DEALING, *UNDER_XDIST, *DURATIONS)
