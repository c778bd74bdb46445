"""Small damages to the harness, each with the behaviour that must notice it.

Every change of the templates keeps this list alive: a mutant whose text is not found (or found
more than once) fails the gate, and is then rewritten for the new text, not deleted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness import behaviours as b
from harness import placement_behaviours as p
from harness.scheduling_behaviours import WITH_PLUGINS
from kit.harness import VARIANTS, render_harness

Behaviour = Callable[[str, Path], None]


# Modules of behaviours that run real TensorFlow.
WITH_TENSORFLOW = (
    "harness.placement_behaviours",
    "harness.shapes_behaviours",
    "harness.isolation_behaviours",
    "harness.strategy_behaviours",
)


class StaleMutant(Exception):
    """The text that a mutant replaces is not in the harness, or not just once."""


@functools.cache
def _rendered(variant: str) -> str:
    return render_harness(**VARIANTS[variant])


@dataclass(frozen=True)
class Mutant:
    """Replacements of text, and the behaviour that they break."""

    name: str
    killer: Behaviour
    edits: tuple[tuple[str, str], ...]
    variant: str = "usual"

    @property
    def environment(self) -> str:
        if self.killer in WITH_PLUGINS:
            return "plugins"
        return "tf-2.21" if self.killer.__module__ in WITH_TENSORFLOW else "pytest-9"

    @property
    def slow(self) -> bool:
        """Whether judging it takes TensorFlow or several processes: a second or more."""
        return self.killer.__module__ != b.__name__ or self.killer in b.WITH_WORKERS

    def harness(self) -> str:
        """Return the damaged text; raises ``StaleMutant``."""
        text = _rendered(self.variant)
        for old, new in self.edits:
            if text.count(old) != 1:
                raise StaleMutant(f"{self.name}: found {text.count(old)} times: {old}")
            text = text.replace(old, new)
        return text


def mutant(name: str, killer: Behaviour, *edits: str, variant: str = "usual") -> Mutant:
    """Make a mutant of ``edits``: old text, new text, old text, new text ..."""
    return Mutant(name, killer, tuple(zip(edits[::2], edits[1::2], strict=True)), variant)


MARKERS = [
    mutant(
        "device is not first in the brackets",
        b.each_listed_device_is_an_item,
        "@pytest.hookimpl(tryfirst=True)  # first, so",
        "@pytest.hookimpl(trylast=True)  # first, so",
    ),
    mutant(
        "devices are sorted",
        b.each_listed_device_is_an_item,
        "kinds = [devices[arg] for arg in args if arg not in wrong]",
        "kinds = sorted(devices[arg] for arg in args if arg not in wrong)",
    ),
    mutant(
        "tests without a marker are multiplied",
        b.each_listed_device_is_an_item,
        'return [] if kinds == ["none"] else kinds',
        'return [] if kinds == ["none"] else kinds or ["cpu"]',
        "    if not _marks(node) or any(",
        "    if any(",
    ),
    mutant(
        "module marker wins over function marker",
        b.closest_marker_wins,
        "while not marks and level:",
        "while level:",
    ),
    mutant(
        "base class marker is lost",
        b.class_markers_are_inherited,
        "            if own:\n                return own",
        "            return own",
    ),
    mutant(
        "base class marker is added to the class's own",
        b.class_markers_are_inherited,
        "if marks and isinstance(closest, pytest.Class):",
        "if not marks and isinstance(closest, pytest.Class):",
    ),
    mutant(
        "TestCase methods are not multiplied",
        b.test_cases_have_an_item_per_device,
        "for variant in _variants(item)]",
        "for variant in [item]]",
    ),
    mutant(
        "TestCase variant has no brackets in its id",
        b.test_cases_have_an_item_per_device,
        "variant._id = item.parent.id.child(item.name).with_params(kind)",
        "variant._id = item.parent.id.child(item.name)",
    ),
    mutant(
        "plain mark is missing",
        b.plain_marks_select,
        "item.add_marker(_plain_mark(kind))",
        "pass",
    ),
    mutant(
        "plain mark of the first listed device only",
        b.plain_marks_select,
        "item.add_marker(_plain_mark(kind))",
        'item.add_marker((_listed_kinds(item) or ["cpu"])[0])',
    ),
    mutant(
        "markers are not registered",
        b.markers_are_registered,
        'config.addinivalue_line("markers", line)',
        "pass",
    ),
    mutant(
        "unknown device is dropped",
        b.wrong_markers_are_errors,
        "    elif wrong:\n",
        "    elif wrong and not kinds:\n",
    ),
    mutant(
        "empty list is no marker",
        b.wrong_markers_are_errors,
        "    elif not kinds:\n",
        "    elif not kinds and args is None:\n",
    ),
    mutant(
        "device may be listed twice",
        b.wrong_markers_are_errors,
        "        return kinds\n    taken =",
        "        return kinds\n    if 'twice' in fault:\n        return kinds[:1]\n    taken =",
    ),
    mutant(
        "both markers at once: the first counts",
        b.wrong_markers_are_errors,
        "    if len(marks) > 1:\n",
        "    if not marks:\n",
    ),
    mutant(
        "keyword is ignored",
        b.wrong_markers_are_errors,
        "    if kwargs or name ==",
        "    if name ==",
    ),
    mutant(
        "no_device_scope may have arguments",
        b.wrong_markers_are_errors,
        'if name == "no_device_scope" and not args and not kwargs:',
        'if name == "no_device_scope":',
    ),
    mutant(
        "wrong marker is a skip",
        b.wrong_markers_are_errors,
        'pytest.fail(f"{problem} ({item.nodeid})", pytrace=False)',
        'pytest.skip(f"{problem} ({item.nodeid})")',
    ),
    mutant(
        "wrong marker is a skip on a worker",
        b.wrong_markers_are_errors_with_workers_too,
        'pytest.fail(f"{problem} ({item.nodeid})", pytrace=False)',
        'fail = pytest.skip if "PYTEST_XDIST_WORKER" in os.environ else pytest.fail\n'
        '        fail(f"{problem} ({item.nodeid})")',
    ),
    mutant(
        "a mark that only selects is ignored where it is written by hand",
        b.wrong_markers_are_errors,
        'if mark.name in PLAIN and "set_by" not in mark.kwargs:',
        "if mark.name in ():",
    ),
    mutant(
        "a mark that only selects is an error of our own",
        b.gpu_tests_are_skipped_with_a_reason,
        'return getattr(pytest.mark, plain)(set_by="run_on")',
        "return getattr(pytest.mark, plain)",
    ),
    mutant(
        "a class's marker gives way where one of its bases has it",
        b.class_markers_are_inherited,
        "            if own[: len(inherited)] == inherited:  # pytest 7.0 copies them\n"
        "                own = own[len(inherited) :]\n",
        "            bases = [m for c in cls.__mro__[1:] for m in _class_marks(c)]\n"
        "            own = [mark for mark in own if mark not in bases]\n",
    ),
    mutant(
        "a class is asked for what it is outside of its collection",
        b.a_class_that_pytest_refuses_is_one_error,
        "    collect = collector.collect\n",
        "    collect = collector.collect if collector.obj else None\n",
    ),
    mutant(
        "wrong marker does not name its test",
        b.wrong_markers_are_errors,
        'pytest.fail(f"{problem} ({item.nodeid})", pytrace=False)',
        "pytest.fail(problem, pytrace=False)",
    ),
]

WITHOUT_A_GPU = [
    mutant(
        "GPU test without a GPU passes on the CPU",
        b.gpu_tests_are_skipped_with_a_reason,
        "pytest.skip(assigned.reason)",
        'item.stash[KIND] = "cpu"',
    ),
    mutant(
        "skip without a reason",
        b.gpu_tests_are_skipped_with_a_reason,
        "pytest.skip(assigned.reason)",
        'pytest.skip("")',
    ),
    mutant(
        "distributed test is not skipped but on the CPU",
        b.gpu_tests_are_skipped_with_a_reason,
        "pytest.skip(assigned.reason)",
        'if item.stash[KIND] == "gpu":\n                pytest.skip(assigned.reason)\n'
        '            item.stash[KIND] = "cpu"',
    ),
    mutant(
        "CPU tests are skipped too",
        b.gpu_tests_are_skipped_with_a_reason,
        'needs_gpu = kind not in ("", "cpu", "none")',
        'needs_gpu = kind not in ("", "none")',
    ),
    mutant(
        "ids depend on the machine",
        b.ids_are_the_same_with_a_gpu,
        "    kinds = _variant_kinds(metafunc.definition)\n",
        "    kinds = _variant_kinds(metafunc.definition)\n"
        "    if metafunc.config.stash[RUN].simulate:\n"
        '        kinds = [kind for kind in kinds if kind != "cpu"]\n',
    ),
    mutant(
        "halves of a card are joined by NCCL",
        b.halves_of_a_real_card_are_asked_for,
        "devices, tf.distribute.ReductionToOneDevice()",
        "devices",
    ),
    mutant(
        "gpu is the second half of a real card",
        b.halves_of_a_real_card_are_asked_for,
        'else ("GPU", 0)',
        'else ("GPU", 1)',
    ),
    mutant(
        "card that TensorFlow does not see is no matter",
        b.framework_that_sees_no_card_is_named,
        'return dataclasses.replace(assigned, card="", reason=reason)',
        'return dataclasses.replace(assigned, card="", reason="no GPU")',
    ),
    mutant(
        "memory limit may be negative",
        b.unknown_free_memory_is_no_obstacle,
        "MEMORY_LIMIT_MB or max(LEAST_MB, limit)",
        "limit",
    ),
    mutant(
        "GPUs are asked for on --collect-only",
        b.gpus_are_not_asked_for_without_tests_to_run,
        '"collectonly", "setupplan"',
        '"setupplan"',
    ),
    mutant(
        "GPUs are asked for on --help",
        b.gpus_are_not_asked_for_without_tests_to_run,
        'others = ["help", "version", ',
        'others = ["version", ',
    ),
    mutant(
        "PYTEST_GPU_SIMULATE is not read",
        b.simulation_can_be_asked_for_in_the_environment,
        "given = os.environ.get(source) or str(default)",
        "given = str(default)",
    ),
    mutant(
        "PYTEST_GPU_SIMULATE wins over the option",
        b.simulation_can_be_asked_for_in_the_environment,
        "given, source = getattr(options, name),",
        'given, source = os.environ.get(f"PYTEST_{name.upper()}") or getattr(options, name),',
    ),
    mutant(
        "what is no number simulates nothing",
        b.simulation_can_be_asked_for_in_the_environment,
        'raise pytest.UsageError(f"{source}: {given!r} is not a number, 0 to 999999")',
        "return 0",
    ),
    mutant(
        "process of -n auto --pdb takes itself for a controller",
        b.auto_with_pdb_runs_in_one_process,
        "if run.controller and not _is_controller(config.option):",
        "if False:",
    ),
    mutant(
        "process without workers keeps the controller's mask",
        b.auto_may_be_no_workers,
        "with --pdb\n        _take_card(config, config.option)\n",
        "with --pdb\n",
    ),
    mutant(
        "marker that comes too late is ignored",
        b.marker_that_comes_too_late_is_an_error,
        "    if kind not in kinds:  #",
        "    if kind and kind not in kinds:  #",
    ),
    mutant(
        "harness imports TensorFlow without a card",
        b.project_imports_stay_the_projects,
        '    config.stash[ASSIGNED] = Assignment(reason="no test is run")\n',
        '    config.stash[ASSIGNED] = Assignment(reason="no test is run")\n'
        "    import tensorflow\n",
    ),
    mutant(
        "GPU that nobody listed gets the unmarked tests",
        b.unlisted_gpus_get_no_test,
        'not (tf and tf.config.list_physical_devices("GPU"))',
        "True",
    ),
    mutant(
        "hidden device_scope passes silently",
        b.hidden_device_scope_is_an_error,
        'pytest.fail(f"{item.nodeid}: {hidden}", pytrace=False)',
        "pass",
    ),
    mutant(
        "-n with a harness that maps no workers",
        b.a_harness_without_xdist_says_so,
        'raise pytest.UsageError(f"{__file__} {lacks}")',
        "pass",
        variant="without_xdist",
    ),
]

PROCESSES = [
    mutant(
        "workers get no mask from the controller",
        b.each_worker_has_its_own_card,
        "spec.env.setdefault(name, value)",
        "spec.env.setdefault(name, value) if name != MASK else None",
    ),
    mutant(
        "worker without a card has no mask",
        b.each_worker_has_its_own_card,
        "        if LINUX:\n            card =",
        "        if LINUX and self.card:\n            card =",
    ),
    mutant(
        "worker beyond the cards shares the first",
        b.each_worker_has_its_own_card,
        "given += [none] * (workers - len(given))",
        "given += (given or [none])[:1] * (workers - len(given))",
    ),
    mutant(
        "two workers have the same card",
        b.each_worker_has_its_own_card,
        "given.append(Assignment(card.name, card.key,",
        "given.append(Assignment(leased[0].name, leased[0].key,",
    ),
    mutant(
        "worker's card is found by the digits in its name",
        b.mapping_does_not_read_worker_names,
        "    for spec, assigned in zip(local, given):\n",
        "    for spec in local:\n"
        "        digits = int('0' + ''.join(filter(str.isdigit, spec.id)))\n"
        "        assigned = given[digits % len(given)]\n",
    ),
    mutant(
        "controller sees the cards",
        b.controller_sees_no_card,
        "            self.masked.setenv(name, value)",
        '            value = "0" if self.controller and name == MASK else value\n'
        "            self.masked.setenv(name, value)",
    ),
    mutant(
        "TensorFlow is imported in the controller",
        b.tensorflow_is_imported_only_with_a_card,
        "    if assigned.card:\n        names",
        "    if assigned.card or run.controller:\n        names",
    ),
    mutant(
        "TensorFlow is imported in a worker without a card",
        b.tensorflow_is_imported_only_with_a_card,
        "    if assigned.card:\n        names",
        "    if assigned.card or assigned.owner:\n        names",
    ),
    mutant(
        "TensorFlow is imported before the mask is set",
        b.mask_is_set_when_tensorflow_is_imported,
        "{**threads, **assigned.environment()}.items():",
        "{**threads, HANDED: assigned.environment()[HANDED]}.items():",
        "    run.hand_on(assigned)\n",
        "    if assigned.card:\n        import tensorflow  # noqa: F401\n\n"
        "    run.hand_on(assigned)\n",
    ),
    mutant(
        "card is not split",
        b.each_card_is_split_in_two,
        "tf.config.set_logical_device_configuration(physical[0], logical)",
        "pass",
    ),
    mutant(
        "card is split into one",
        b.each_card_is_split_in_two,
        "for _ in range(2)]",
        "for _ in range(1)]",
    ),
    mutant(
        "each half may take all of the memory",
        b.each_card_is_split_in_two,
        "sharers - RESERVED_MB) // 2",
        "sharers - RESERVED_MB) // 1",
    ),
    mutant(
        "GPUs are asked for twice",
        b.gpus_are_asked_for_once,
        "        if self.found is None:\n",
        "        if self.caller:\n",
    ),
    mutant(
        "-n auto does not count the cards",
        b.there_is_a_worker_for_each_card,
        "max(outcome.get_result(), len(cards))",
        "outcome.get_result()",
    ),
    mutant(
        "mapping is not printed",
        b.mapping_is_printed,
        "    _say(config, _summary(dict(zip([spec.id for spec in local], given)), run))",
        "    pass",
    ),
    mutant(
        "card is not printed without workers",
        b.mapping_is_printed,
        "        _say(session.config, session.config.stash[SUMMARY])",
        "        pass",
    ),
    mutant(
        "cores are not shared",
        b.workers_share_the_cores,
        "len(usable(0)) // len(specs)",
        "len(usable(0))",
    ),
    mutant(
        "workers are told no number of threads",
        b.workers_share_the_cores,
        "{**threads, **assigned.environment()}.items()",
        "assigned.environment().items()",
    ),
    mutant(
        "thread counts of the caller are overridden",
        b.thread_counts_of_the_caller_stay,
        "threads = {name: n for name, n in threads.items() if name not in os.environ}",
        "threads = dict(threads)",
    ),
    mutant(
        "mask is numbered from 0 again",
        b.mask_of_the_caller_bounds_the_cards,
        "units = units or [dataclasses.replace(named[0], name=entry)]",
        "units = units or [dataclasses.replace(named[0], name=str(len(cards)))]",
    ),
    mutant(
        "mask of the caller is ignored",
        b.mask_of_the_caller_bounds_the_cards,
        '_masked(known, mask), f"{source}; CUDA driver: {error}"',
        '_masked(known, None), f"{source}; CUDA driver: {error}"',
    ),
    mutant(
        "mask goes on after an entry that names no card",
        b.mask_ends_at_the_first_entry_that_names_no_card,
        "        if len(named) != 1:\n            break\n",
        "        if len(named) != 1:\n            continue\n",
    ),
    mutant(
        "short uuid names no card",
        b.mask_ends_at_the_first_entry_that_names_no_card,
        "if entry and gpu.name.startswith(entry)]",
        "if entry and gpu.name == entry]",
    ),
    mutant(
        "mask that hides all cards is not mentioned",
        b.mask_ends_at_the_first_entry_that_names_no_card,
        "    if mask is not None and not cards:\n",
        "    if mask is not None and cards:\n",
    ),
    mutant(
        "one simulated card too many",
        b.simulated_cards_are_counted,
        "for index in range(simulate)]",
        "for index in range(simulate + 1)]",
    ),
    mutant(
        "simulated card is split in two",
        b.simulated_cards_are_counted,
        "for _ in range(3)]",
        "for _ in range(2)]",
    ),
    mutant(
        "real cards stay visible in a simulation",
        b.simulated_cards_are_counted,
        'card = "" if self.simulated else self.card',
        'card = "0" if self.simulated else self.card',
    ),
    mutant(
        "pytest inside a test maps cards again",
        b.pytest_inside_a_test_shares_its_card,
        'if handed and handed["taken"] and options.gpu_simulate is not None:',
        'if handed and handed["taken"]:',
    ),
]

PLACEMENT = [
    mutant(
        "graphs know nothing of their scope",
        p.graphs_are_kept_off_the_gpu,
        "    _place_graphs(tf)\n",
        "",
    ),
    mutant(
        "graphs are on the CPU in every scope",
        p.graphs_are_kept_off_the_gpu,
        '(HOST if (scope or "").endswith(HOST) else "")',
        "(HOST if device_of else scope)",
    ),
    mutant(
        "device of a graph's own is overruled",
        p.graphs_are_kept_off_the_gpu,
        "return op.device or (",
        "return (",
    ),
    mutant(
        "no scope for gpu",
        p.gpu_tests_are_on_the_gpu,
        'place = "" if kind in ("none", *STRATEGIES) else devices[0]',
        'place = HOST if kind == "cpu" else ""',
    ),
    mutant(
        "no scope for cpu",
        p.cpu_tests_are_on_the_cpu,
        'place = "" if kind in ("none", *STRATEGIES) else devices[0]',
        'place = devices[0] if kind == "gpu" else ""',
    ),
    mutant(
        "gpu is the CPU",
        p.gpu_tests_are_on_the_gpu,
        '("CPU", 1) if assigned.simulated',
        '("CPU", 0) if assigned.simulated',
    ),
    mutant(
        "gpu is the second half",
        p.gpu_tests_are_on_the_gpu,
        '"gpu": halves[:1]',
        '"gpu": halves[1:]',
    ),
    mutant(
        "test without a scope has the one before's",
        p.scopes_are_left,
        "before = _values(), _place(device),",
        "before = _values(), device and _place(device),",
        'now = _place(before or "")',
        'now = _place(device) if before else ""',
    ),
    mutant(
        "strategy is not left",
        p.scopes_are_left,
        "            scope.__exit__(None, None, None)",
        "            pass",
        "    if _has_strategy() and not held:\n",
        "    if not item:\n",
    ),
    mutant(
        "strategy is not entered",
        p.distributed_tests_are_in_a_strategy,
        "    scope = strategy.scope()\n",
        "    scope = contextlib.nullcontext()\n",
    ),
    mutant(
        "strategy over one device",
        p.distributed_tests_are_in_a_strategy,
        "        devices, tf.distribute.ReductionToOneDevice()\n",
        "        devices[:1], tf.distribute.ReductionToOneDevice()\n",
    ),
    mutant(
        "strategy over the CPU and one half",
        p.distributed_tests_are_in_a_strategy,
        "        devices, tf.distribute.ReductionToOneDevice()\n",
        '        ["/device:CPU:0", devices[0]], tf.distribute.ReductionToOneDevice()\n',
    ),
    mutant(
        "TestCase methods run in no scope",
        p.test_cases_are_in_their_scopes,
        "    return _enter(RUNNING[0])",
        "    if isinstance(RUNNING[0], _Variant):\n"
        "        RUNNING[0].stash[SCOPED] = True\n"
        "        return DeviceScope('none', ())\n"
        "    return _enter(RUNNING[0])",
    ),
    mutant(
        "strategy is entered before a TestCase's setUp",
        p.test_cases_are_in_their_scopes,
        "item.obj = _distributed(item, call)",
        "item.obj = call if isinstance(item, _Variant) else _distributed(item, call)",
    ),
    mutant(
        "strategy that a fixture dropped stays away",
        p.strategy_survives_the_projects_fixtures,
        "item.obj = _distributed(item, call)",
        "item.obj = _distributed(item, call) if isinstance(item, _Variant) else call",
    ),
    mutant(
        "fixtures run outside the strategy",
        p.strategy_survives_the_projects_fixtures,
        "        scope.enter_context(_strategy_scope(tf, strategy))\n",
        "        assert scope\n",
    ),
    mutant(
        "strategy that a fixture's end drops is held against the test",
        p.strategy_survives_the_projects_fixtures,
        "_strategy_scope(tf, strategy))\n",
        "_strategy_scope(tf, strategy, checked=True))\n",
    ),
    mutant(
        "strategy that a test drops is not missed",
        p.dropped_strategy_is_an_error,
        "strategy, checked=True)\n",
        "strategy, checked=False)\n",
    ),
    mutant(
        "scope that a test leaves open stays",
        p.scope_that_a_test_leaves_open_ends_with_it,
        "    if place != device:\n        left.append",
        "    if place != device:\n        _place(now)\n        left.append",
    ),
    mutant(
        "scope that a test leaves open is not missed",
        p.scope_that_a_test_leaves_open_ends_with_it,
        '        left.append("tf.device")\n',
        "        pass\n",
    ),
    mutant(
        "an unmarked test starts the runtime before its set-up",
        p.runtime_is_not_started_without_a_card,
        "    before = _values(),",
        '    tf = sys.modules.get("tensorflow")\n'
        "    if tf:\n        tf.config.list_logical_devices()\n"
        "    before = _values(),",
    ),
    mutant(
        "TestCase variant runs under its item's name",
        p.test_cases_are_in_their_scopes,
        "name, self.name = self.name, self.originalname",
        "name = self.name",
    ),
    mutant(
        "late split goes unnoticed",
        p.late_split_is_an_error,
        "        return dataclasses.replace(assigned, problem=problem)\n    return assigned",
        "        assert problem\n    return assigned",
        "        if not set(devices) <= set(found):\n",
        "        if not found:\n",
    ),
    mutant(
        "late split does not name the conftest",
        p.late_split_is_an_error,
        'culprit = " or ".join(earlier) or "a plugin"',
        'culprit = "a plugin"',
    ),
    mutant(
        "split comes after other conftests",
        p.split_is_ahead_of_every_other_conftest,
        "    _take_card(config, options)\n",
        "    assert options\n",
        "def pytest_configure(config: pytest.Config) -> None:\n",
        "def pytest_configure(config: pytest.Config) -> None:\n"
        "    _take_card(config, config.option)\n",
    ),
    mutant(
        "split that was undone goes unnoticed",
        p.split_that_was_undone_is_an_error,
        "        if not set(devices) <= set(found):\n",
        "        if not found:\n",
    ),
]

MUTANTS = (*MARKERS, *WITHOUT_A_GPU, *PROCESSES, *PLACEMENT)
