"""Run each test on the device that its marker asks for.

Written by devicegen 0.1.0 for this repository. It needs pytest and TensorFlow, and
nothing of devicegen. `devicegen upgrade` renews it, `devicegen check` says if due.

    @pytest.mark.run_on(["cpu", "gpu"])            test_x[cpu], then test_x[gpu]
    @pytest.mark.run_on(["distributed strategy"])  in MirroredStrategy, on two devices
    @pytest.mark.no_device_scope                   the test handles devices itself
    (no marker)                                    once, on the CPU

    pytest -m gpu              select: cpu, gpu, distributed
    pytest --gpu-simulate 2    no GPU needed: CPU logical devices stand in for two GPUs
"""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import difflib
import functools
import inspect
import itertools
import json
import os
import pathlib
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time
import unittest
import warnings
from collections.abc import Callable, Generator, Iterator
from typing import Any
from xml.etree import ElementTree

import pytest

MARKERS = (
    "run_on([device, ...]): once per device: 'cpu', 'gpu', 'distributed strategy'",
    "no_device_scope: runs in no device scope; the test handles devices itself",
    "cpu: set on tests that run on the CPU, to select with -m; write run_on",
    "gpu: set on tests that run on a GPU, to select with -m; write run_on",
    "distributed: set on tests in a strategy, to select with -m; write run_on",
)
# Add a strategy of your own at the top: a name for run_on, and a function that returns
# it, given TensorFlow and two logical devices. NCCL cannot join two halves of one card.
STRATEGIES: dict[str, Callable[[Any, tuple[str, ...]], Any]] = {
    "distributed": lambda tf, devices: tf.distribute.MirroredStrategy(
        devices, tf.distribute.ReductionToOneDevice()
    ),
}
# What run_on takes, and the device kind that it means: the name in the test's id.
DEVICES = {name: name for name in ("cpu", "gpu", *STRATEGIES)}
DEVICES["distributed strategy"] = "distributed"
MARKER_NAMES = ("run_on", "no_device_scope")
OPTIONS = {
    "--gpu-simulate": ("N", "run GPU and distributed tests on N simulated GPUs"),
    "--gpu-require": ("N", "fail when fewer than N GPUs can be used"),
    "--gpu-wait": ("S", "seconds to wait for a GPU that another run holds"),
    "--gpu-strict": ("1", "fail a GPU test that does anything the GPU cannot do"),
    "--workers-per-gpu": ("K", "how many workers may share a GPU"),
}


def pytest_addoption(
    parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager
) -> None:
    group = parser.getgroup("devices", "devices that tests run on")
    for name, (metavar, meaning) in OPTIONS.items():
        variable = "PYTEST_" + name[2:].upper().replace("-", "_")
        help_text = f"{meaning} (default: ${variable})"
        group.addoption(name, metavar=metavar, help=help_text)
    # pytest calls this hook right after it has imported this file. The next conftest.py
    # may bring TensorFlow's runtime up, so the card must be taken and split here. The
    # options are not parsed yet: read them as pytest will.
    config = pluginmanager.get_plugin("pytestconfig")
    assert isinstance(config, pytest.Config)
    addopts = shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))
    args = [*config.getini("addopts"), *addopts, *config.invocation_params.args]
    options = parser.parse_known_args(args, namespace=copy.copy(config.option))
    _take_card(config, options)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    run = config.stash[RUN]
    if run.controller and not _is_controller(config.option):
        run.masked.undo()  # -n auto came to no workers, as with --pdb
        _take_card(config, config.option)
    _number(config.option, "gpu_strict", 0)
    for line in MARKERS:
        if line not in config.getini("markers"):
            config.addinivalue_line("markers", line)


def _runs_tests(options: Any) -> bool:
    others = ["help", "version", "markers", "showfixtures", "show_fixtures_per_test"]
    others += ["collectonly", "setupplan", "cacheshow", "looponfail"]
    return not any(getattr(options, name, False) for name in others)


def _number(options: Any, name: str, default: int) -> int:
    given, source = getattr(options, name), "--" + name.replace("_", "-")
    if given is None:
        source = f"PYTEST_{name.upper()}"
        given = os.environ.get(source) or str(default)
    if not given.isdecimal() or len(given) > 6:
        raise pytest.UsageError(f"{source}: {given!r} is not a number, 0 to 999999")
    return int(given)


# ---- Markers, ids, one item per device ---------------------------------------

KIND: pytest.StashKey[str] = pytest.StashKey()  # of an item, as in DEVICES; "none"; ""
PLAIN = ("cpu", "gpu", "distributed")  # for -m


def _marks(node: pytest.Item | pytest.Collector) -> list[Any]:
    """Return the closest device markers: function over class over module."""
    marks: list[Any] = []
    level: Any = node
    while not marks and level:
        closest, level = level, level.parent
        if closest.own_markers:
            marks = [mark for mark in closest.own_markers if mark.name in MARKER_NAMES]
    if marks and isinstance(closest, pytest.Class):  # its own over its bases'
        mro = [cls for cls in closest.obj.__mro__ if "pytestmark" in vars(cls)]
        for cls, base in zip(mro, [*mro[1:], object]):
            own, inherited = _class_marks(cls), _class_marks(base)
            if own[: len(inherited)] == inherited:  # pytest 7.0 copies them
                own = own[len(inherited) :]
            if own:
                return own
    return marks


def _class_marks(cls: type) -> list[Any]:
    marks = getattr(cls, "pytestmark", [])
    marks = marks if isinstance(marks, (list, tuple)) else [marks]
    return [getattr(m, "mark", m) for m in marks if m.name in MARKER_NAMES]


def _lost(node: Any) -> str:
    """Return a marker above a decorator that drops it, as absl's do, or ""."""
    call: Any = getattr(node, "obj", None)
    if not (hasattr(call, "__wrapped__") or hasattr(call, "place_as")):
        return ""
    function: Any = inspect.unwrap(getattr(call, "place_as", call))  # as pytest has it
    if function is call or not inspect.isfunction(function):
        return ""
    scope, above, found = {**function.__globals__, **vars(node.cls or object)}, "", []
    with contextlib.suppress(OSError):  # there is no source
        above = inspect.getsource(function).partition("def ")[0]
    for dotted in re.findall(r"^\s*@\s*([\w.]+)", above, re.MULTILINE):
        first, _, rest = dotted.partition(".")
        value = scope.get(first)  # an alias: mine, or theirs.mine
        value = getattr(value, "__dict__", {}).get(rest) if rest else value
        found.append(getattr(value, "name", "") if value else dotted.split(".")[-1])
    found = [name for name in found if name in MARKER_NAMES]
    return found[0] if len(found) > len(_class_marks(call)) else ""


def _listed_kinds(node: pytest.Item | pytest.Collector) -> list[str]:
    """Return the device kinds that the marker lists, in order; [] without a marker.

    Raises ValueError, with a message for the test's author, where the marker is wrong.
    """
    lost = _lost(node)
    if lost:
        raise ValueError(f"{lost} is lost above another decorator: write it below it")
    for mark in node.iter_markers():
        if mark.name in PLAIN and "set_by" not in mark.kwargs:
            raise ValueError(f"{mark.name} only selects tests: write run_on instead")
    marks = _marks(node)
    if not marks:
        return []
    if len(marks) > 1:
        raise ValueError(f"{marks[0].name} and {marks[1].name} on one test: keep one")
    name, args, kwargs = marks[0].name, marks[0].args, marks[0].kwargs
    if name == "no_device_scope" and not args and not kwargs:
        return ["none"]
    if len(args) == 1 and isinstance(args[0], (list, tuple)):
        args = args[0]
    devices: dict[str, str] = DEVICES
    wrong = [arg for arg in args if not (isinstance(arg, str) and arg in devices)]
    kinds = [devices[arg] for arg in args if arg not in wrong]
    if kwargs or name == "no_device_scope":
        fault = f"takes no {', '.join(map(repr, kwargs or args))}"
    elif wrong:
        near = difflib.get_close_matches(str(wrong[0]).lower(), devices, n=1)
        fault = f"unknown device {wrong[0]!r}{f', maybe {near[0]!r}?' if near else ''}"
    elif not kinds:
        fault = "no device is listed"
    elif len(set(kinds)) < len(kinds):
        fault = f"a device is listed twice in {args!r}"
    else:
        return kinds
    taken = ", ".join(map(repr, DEVICES)) if name != "no_device_scope" else "nothing"
    raise ValueError(f"{name}: {fault}; it takes {taken}")


def _kind(item: pytest.Item) -> str:
    """Return the device kind of an item, as its id says. Raises ValueError as above."""
    if item.stash.get(KIND, "") == "cpu" and not _marks(item):
        return "cpu"  # asked again: nothing has been marked since
    kinds = _listed_kinds(item)
    if kinds in ([], ["none"]):
        return (kinds or ["cpu"])[0]
    params = getattr(getattr(item, "callspec", None), "params", {})
    kind: str = getattr(item, "device_kind", params.get("device_scope", ""))
    if kind not in kinds:  # an item that has no variants; a marker that came too late
        why = "its own parameter device_scope is in the way: rename that"
        if not kind:
            why = f"it came too late for this {type(item).__name__}, as in pytest.param"
            why += "; mark the function, class or module"
        raise ValueError(f"{_marks(item)[0].name} cannot act: {why}")
    return kind


def _variant_kinds(node: pytest.Item | pytest.Collector) -> list[str]:
    own = node.iter_markers("parametrize")  # pytest stops at a second device_scope
    if not _marks(node) or any("device_scope" in str(mark.args[:1]) for mark in own):
        return []
    try:
        kinds = _listed_kinds(node)
    except ValueError:
        return []  # one item with a plain id: pytest_runtest_setup reports the marker
    return [] if kinds == ["none"] else kinds


@pytest.hookimpl(tryfirst=True)  # first, so that the device comes first in the brackets
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    kinds = _variant_kinds(metafunc.definition)
    if kinds:
        metafunc.fixturenames.append("device_scope")  # see pytest_itemcollected()
        metafunc.parametrize("device_scope", kinds, ids=kinds, indirect=True)


def pytest_collectstart(collector: Any) -> None:
    """Multiply the methods of a TestCase, which pytest cannot parametrise."""
    if not isinstance(collector, pytest.Class) or "collect" in vars(collector):
        return  # no class, or one that this was called for: pytest 7 does so twice
    collect = collector.collect

    def variants() -> list[Any]:
        items = list(collect())  # first: it says what is wrong with the class
        if issubclass(collector.obj, unittest.TestCase):
            return [variant for item in items for variant in _variants(item)]
        return items

    collector.collect = variants  # type: ignore[method-assign]


def _variants(item: Any) -> Iterator[Any]:
    kinds = _variant_kinds(item)
    if not kinds:
        yield item
    for kind in kinds:
        variant_type: Any = type("Variant", (_Variant, type(item)), {})
        variant = variant_type.from_parent(
            item.parent, name=f"{item.name}[{kind}]", originalname=item.name
        )
        if hasattr(variant, "_id"):  # pytest 9.2 and newer take no brackets from a name
            variant._id = item.parent.id.child(item.name).with_params(kind)
        variant.device_kind = kind
        yield variant


class _Variant:
    """A TestCase item `test_x[gpu]` for the method `test_x`."""

    device_kind: str
    name: str
    originalname: str
    parent: Any

    def _getinstance(self) -> Any:  # pytest 8.2 and newer
        return self.parent.obj(self.originalname)

    def setup(self) -> None:
        with self._named_as_the_method():
            super().setup()  # type: ignore[misc]

    def runtest(self) -> None:
        with self._named_as_the_method():
            super().runtest()  # type: ignore[misc]

    @contextlib.contextmanager
    def _named_as_the_method(self) -> Iterator[None]:
        name, self.name = self.name, self.originalname
        try:
            yield
        finally:
            self.name = name


@functools.cache  # to make one takes longer than all else here
def _plain_mark(kind: str) -> Any:
    plain = kind if kind in ("cpu", "gpu") else "distributed"
    return getattr(pytest.mark, plain)(set_by="run_on")


def _keep_kind(item: pytest.Item) -> tuple[str, str]:
    """Return an item's device kind, which it keeps, or "" and what is wrong."""
    try:
        kind, problem = _kind(item), ""
    except ValueError as error:
        kind, problem = "", str(error)
    item.stash[KIND] = kind
    return kind, problem


def pytest_itemcollected(item: Any) -> None:
    (kind, _), names = _keep_kind(item), getattr(item, "fixturenames", ())
    if kind not in ("", "none"):  # so that `-m gpu` selects
        item.add_marker(_plain_mark(kind))
    assigned = item.config.stash[ASSIGNED]
    bare = LINUX and not (assigned.card or assigned.late or "tensorflow" in sys.modules)
    spared = kind == "cpu" and bare and "device_scope" not in names
    if spared or not hasattr(item, "_fixtureinfo"):
        return  # nothing to keep it from; an autouse fixture would cost each such test
    names, after = [name for name in names if name != "device_scope"], 0
    for number, name in enumerate(names, start=1):  # after those of wider scopes
        fixtures = item._fixtureinfo.name2fixturedefs.get(name)
        after = number if fixtures and fixtures[-1].scope != "function" else after
    item.fixturenames = [*names[:after], "device_scope", *names[after:]]


# ---- The split of a card, scopes, strategies ---------------------------------

MADE: pytest.StashKey[dict[str, Any]] = pytest.StashKey()  # strategies, by name
HOST = "/device:CPU:0"


@dataclasses.dataclass(frozen=True)
class DeviceScope:
    """The scope that a test runs in: what the fixture `device_scope` yields."""

    kind: str  # "cpu", "gpu", "none" or a name in STRATEGIES, such as "distributed"
    devices: tuple[str, ...]  # logical device names, such as "/device:GPU:0"
    strategy: Any = None  # the tf.distribute.Strategy that is entered, if there is one
    simulated: bool = False  # whether CPU logical devices stand in for a GPU's


def _split(assigned: Assignment, earlier: list[str]) -> Assignment:
    """Split this process's card into two logical devices; return what came of it.

    Simulated: split the CPU into three, one for `cpu` and two in place of the card's.
    Source: https://www.tensorflow.org/guide/gpu#using_multiple_logical_gpus
    """
    try:
        import tensorflow as tf
    except ImportError as error:
        return dataclasses.replace(assigned, problem=f"no TensorFlow: {error}")
    _place(HOST)  # what is in no test's scope: imports, fixtures of wider scopes
    _place_graphs(tf)
    logical_device = tf.config.LogicalDeviceConfiguration
    if assigned.simulated:
        physical = tf.config.list_physical_devices("CPU")
        logical = [logical_device() for _ in range(3)]
    else:
        physical = tf.config.list_physical_devices("GPU")
        limit = assigned.memory_limit_mb
        logical = [logical_device(memory_limit=limit) for _ in range(2)]
    if not physical:
        build = (
            "it was built without CUDA, cannot load CUDA's libraries, or it looked "
            "before this run had the card"
        )
        reason = f"GPU {assigned.card} is there, but TensorFlow sees none: {build}"
        return dataclasses.replace(assigned, card="", reason=reason)
    try:
        tf.config.set_logical_device_configuration(physical[0], logical)
    except (RuntimeError, ValueError) as error:  # too late; memory growth
        culprit = " or ".join(earlier) or "a plugin"
        problem = (
            f"the device cannot be split any more ({error}): {culprit} was loaded "
            f"before {__file__} and set TensorFlow up; do that in a fixture instead"
        )
        return dataclasses.replace(assigned, problem=problem)
    return assigned


def _place_graphs(tf: Any) -> None:
    """Keep ops of a tf.Graph off the card where their scope is on the CPU.

    What tf.device says within it goes first. In a `gpu` scope TensorFlow chooses, which
    takes the first half if it can; a simulated one's name would get into saved models.
    """
    made = tf.Graph.__init__

    def device_of(op: Any) -> str:
        scope = sys.modules["tensorflow.python.eager.context"].context().device_name
        return op.device or (HOST if (scope or "").endswith(HOST) else "")

    @functools.wraps(made)
    def make(graph: Any, *args: Any, **kwargs: Any) -> None:
        made(graph, *args, **kwargs)
        if not graph.building_function:  # a tf.function's is in its scope
            graph._add_device_to_stack(device_of)

    tf.Graph.__init__ = make


def _logical_devices(kind: str, assigned: Assignment) -> tuple[str, ...]:
    gpu, first = ("CPU", 1) if assigned.simulated else ("GPU", 0)
    halves = (f"/device:{gpu}:{first}", f"/device:{gpu}:{first + 1}")
    return {"none": (), "cpu": (HOST,), "gpu": halves[:1]}.get(kind, halves)


def _enter(item: pytest.Item) -> DeviceScope:
    """Put a test in the scope of its device, which its tear-down leaves."""
    item.stash[SCOPED] = True
    kind, assigned = item.stash[KIND], item.config.stash[ASSIGNED]
    devices = _logical_devices(kind, assigned)
    tf: Any = sys.modules.get("tensorflow")
    if tf and assigned.card and devices and not assigned.simulated:
        _start_runtime(item, tf)
    if kind not in ("cpu", "none"):
        found = [device.name for device in tf.config.list_logical_devices()]
        if not set(devices) <= set(found):
            lost = f"needs {', '.join(devices)}, but TensorFlow has {', '.join(found)}"
            why = "was it split anew?"
            pytest.fail(f"{item.nodeid} {lost}: {why}", pytrace=False)
    place = "" if kind in ("none", *STRATEGIES) else devices[0]  # a strategy places
    if not assigned.card and not (tf and tf.config.list_physical_devices("GPU")):
        place = ""  # all is on the CPU
    _isolate(item, place)
    strategy: Any = None
    if kind in STRATEGIES:
        made = item.session.stash.setdefault(MADE, {})
        strategy = made[kind] = made.get(kind) or STRATEGIES[kind](tf, devices)
        scope = contextlib.ExitStack()
        scope.enter_context(_strategy_scope(tf, strategy))
        item.addfinalizer(scope.close)
    elif kind == "gpu" and _number(item.config.option, "gpu_strict", 0):
        tf.config.set_soft_device_placement(False)
    return DeviceScope(kind, devices, strategy, assigned.simulated)


def _start_runtime(item: pytest.Item, tf: Any) -> None:
    """Let TensorFlow make its context on the card, which another program may have."""
    why = ""
    try:
        tf.config.list_logical_devices()
    except (RuntimeError, ValueError, tf.errors.OpError) as error:
        why = " ".join(str(error).split())[:200]
    if why:
        _hand_in_card(item.config, why)
        card = item.config.stash[ASSIGNED].card
        pytest.fail(f"{item.nodeid}: {UNUSABLE} {card}: {why}", pytrace=False)


@contextlib.contextmanager
def _strategy_scope(tf: Any, strategy: Any, checked: bool = False) -> Iterator[None]:
    """Enter a strategy; tf.test.TestCase.setUp and clear_session() drop it silently."""
    scope = strategy.scope()
    scope.__enter__()
    try:
        yield
    finally:
        kept = tf.distribute.get_strategy() is strategy
        if kept:
            scope.__exit__(None, None, None)
    if checked and not kept:
        dropped = "the strategy was dropped on the way, as by clear_session()"
        pytest.fail(f"{dropped}: what came after it ran undistributed", pytrace=False)


def _distributed(item: pytest.Item, call: Any) -> Any:
    """Return a test's function within its strategy, which set-up may have dropped."""
    strategy = item.session.stash[MADE][item.stash[KIND]]
    within = _strategy_scope(sys.modules["tensorflow"], strategy, checked=True)
    if not inspect.iscoroutinefunction(call):
        return within(call)

    @functools.wraps(call)
    async def awaited(*args: Any, **kwargs: Any) -> Any:
        with within:
            return await call(*args, **kwargs)

    return awaited


# ---- The run of a test -------------------------------------------------------

SCOPED: pytest.StashKey[bool] = pytest.StashKey()  # whether an item got its scope
RUNNING: list[pytest.Item] = []  # the one that is set up or runs
UNDER_STRATEGY = r"^$|(?i:strategy|merge_call|all_reduce)"  # what TensorFlow says
EXPLANATION = """\
This test runs in a tf.distribute strategy. The models, variables and optimizers that it
uses have to be made there: in the test or in a fixture of function scope. It cannot be
in a strategy of its own too: use device_scope.strategy, or mark it no_device_scope."""


@pytest.fixture
def device_scope() -> DeviceScope:
    """Run the test in the scope of its device."""
    return _enter(RUNNING[0])  # to ask for `request` costs each test, on each worker


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    RUNNING[:] = [item]
    item.stash[SCOPED] = False
    _seed()
    kind, problem = _keep_kind(item)
    needs_gpu = kind not in ("", "cpu", "none")
    if needs_gpu:
        assigned = item.config.stash[ASSIGNED]
        problem = assigned.problem
        if not assigned.card and not problem:
            pytest.skip(assigned.reason)
    if problem:
        pytest.fail(f"{problem} ({item.nodeid})", pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: Any) -> None:
    kind, scoped = item.stash[KIND], item.stash[SCOPED]
    if scoped and kind in STRATEGIES:
        call = item.obj
        item.obj = _distributed(item, call)
        item.addfinalizer(lambda: setattr(item, "obj", call))
    elif not scoped and kind in ("cpu", "none"):  # it has no fixture, or was spared it
        if "tensorflow" in sys.modules:
            _enter(item)
    elif not scoped:
        hidden = f"another fixture device_scope hides the one in {__file__}"
        pytest.fail(f"{item.nodeid}: {hidden}", pytrace=False)


def pytest_runtest_makereport(item: Any, call: Any) -> pytest.TestReport | None:
    """Report what TensorFlow says about strategies with an explanation."""
    bare = call.when == "call" and not item.stash[SCOPED]
    if bare and "tensorflow" in sys.modules and item.stash[KIND] in ("cpu", "none"):
        first = [row[-1] for row in SETTINGS]  # the test itself has imported it
        item.addfinalizer(functools.partial(_undo, item, "", first, None, False))
    if not call.excinfo or item.stash.get(KIND, "") not in STRATEGIES:
        return None
    if not re.search(UNDER_STRATEGY, str(call.excinfo.value)):
        return None
    report = pytest.TestReport.from_item_and_call(item, call)
    report.sections.append(("device scope", EXPLANATION))
    return report


# ---- Isolation: what a test changes does not reach the next ------------------

SEED = 0
SEEDERS = (
    "numpy.random.seed",
    "tensorflow.random.set_seed",
    "keras.utils.set_random_seed",
    "tf_keras.utils.set_random_seed",
)
POLICY = ("_global_policy", "set_global_policy", None)  # of Keras 2
TRACKER = "keras.src.backend.common.global_state.GLOBAL_STATE_TRACKER"  # of Keras 3
CONFIG = "tensorflow.config"
SETTINGS = (  # where a setting is, what reads it, what sets it, its value at first
    (CONFIG, "functions_run_eagerly", "run_functions_eagerly", False),
    (CONFIG, "get_soft_device_placement", "set_soft_device_placement", True),
    ("keras.backend", "floatx", "set_floatx", "float32"),
    ("tf_keras.backend", "floatx", "set_floatx", "float32"),
    ("keras.mixed_precision.policy", *POLICY),
    ("keras.src.mixed_precision.policy", *POLICY),
    ("tf_keras.src.mixed_precision.policy", *POLICY),
    (TRACKER, "dtype_policy", "", None),
)


def _find(path: str) -> Any:
    """Return what a dotted path names, None where that is not imported or not there."""
    found: Any = sys.modules.get(path.partition(".")[0])
    for name in path.split(".")[1:]:
        found = getattr(found, name, None)
    return found


def _values() -> list[Any]:
    if "tensorflow" not in sys.modules:
        return [row[-1] for row in SETTINGS]
    found = [_find(f"{path}.{reader}") for path, reader, _, _ in SETTINGS]
    values = [value() if callable(value) else value for value in found]
    return [row[-1] if value is None else value for row, value in zip(SETTINGS, values)]


def _seed() -> None:
    """Let a test draw the same numbers alone, in any order, on any worker."""
    random.seed(SEED)
    if "numpy" in sys.modules:  # else there is no TensorFlow either
        for path in SEEDERS:
            (_find(path) or int)(SEED)


@pytest.hookimpl(hookwrapper=True)
def pytest_fixture_setup(fixturedef: Any) -> Generator[None, None, None]:
    yield
    if fixturedef.scope != "function":  # what comes next draws as if it had been there
        _seed()


def _place(device: Any) -> Any:
    """Put eager ops on a device, by name or spec, "" for none; return the spec before.

    As tf.device does, which starts TensorFlow's runtime; no public function does not.
    Nothing is done, and None returned, where TensorFlow is not imported.
    """
    eager: Any = sys.modules.get("tensorflow.python.eager.context")
    if not eager:
        return None
    context, new = eager.context(), device
    if isinstance(device, str):
        new = f"/job:localhost/replica:0/task:0{device}" if device else ""
        new = sys.modules["tensorflow"].DeviceSpec.from_string(new)
    before = context.device_spec
    context._set_device(new.to_string(), new)
    return before


def _has_strategy() -> bool:
    return bool((_find("tensorflow.distribute.has_strategy") or bool)())


def _isolate(item: pytest.Item, device: str) -> None:
    """Put a test on its device; let its tear-down undo what the test leaves behind."""
    before = _values(), _place(device), _has_strategy()
    item.addfinalizer(functools.partial(_undo, item, device, *before))


def _undo(item: Any, device: str, values: Any, before: Any, held: bool) -> None:
    """Take back what a test left; `held`: a fixture of a wider scope had a strategy."""
    if "tensorflow" not in sys.modules:
        return
    left = []
    for (path, reader, setter, _), now, value in zip(SETTINGS, _values(), values):
        if now != value:
            put = _find(f"{path}.{setter}")
            put(value) if put else setattr(_find(path), reader, value)
    now = _place(before or "")  # what is imported by now may not have been before
    _, _, place = now.to_string().rpartition("/task:0") if now else ("", "", device)
    if place != device:
        left.append("tf.device")
    if _has_strategy() and not held:
        _find("tensorflow.compat.v1.reset_default_graph")()
        left.append("a strategy's scope")
    if left:
        pytest.fail(f"{item.nodeid} left open: {', '.join(left)}", pytrace=False)


# ---- The GPUs of this machine ------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Card:
    """A GPU, or a MIG instance of one, that the caller's mask leaves to this run."""

    name: str  # as CUDA_VISIBLE_DEVICES takes it
    key: str  # its uuid, however a mask names it: what leases go by
    free_mb: int | None = None  # None: not known
    busy: str = ""  # why it is passed over
    instances: tuple[str, ...] = ()  # MIG: the names of what is used in its place


def _find_cards(simulate: int, environ: dict[str, str]) -> tuple[list[Card], str]:
    """Return the cards that the caller's mask leaves, in its order, and the source."""
    if simulate:
        names = [f"simulated-{index}" for index in range(simulate)]
        return [Card(name, name) for name in names], f"--gpu-simulate {simulate}"
    if not LINUX:
        return [], "GPUs are used on Linux only"
    cards, source = _find_nvidia_gpus(environ)
    return cards, source


DRIVER_FILES = "/proc/driver/nvidia/gpus"
ASK_SECONDS = 30  # how long nvidia-smi, or the driver, may take to answer


def _find_nvidia_gpus(environ: dict[str, str]) -> tuple[list[Card], str]:
    try:
        known, source = _ask_nvidia_smi(environ), "nvidia-smi"
    except (OSError, ElementTree.ParseError) as error:
        files = sorted(pathlib.Path(DRIVER_FILES).glob("*/information"))
        text = " ".join(file.read_text("utf-8", "replace") for file in files)
        known = {name: Card(name, name) for name in re.findall(r"GPU-[-0-9a-f]+", text)}
        source = f"nvidia-smi: {error}; {DRIVER_FILES} lists {len(known) or 'none'}"
    mask = environ.get(MASK)
    try:
        cards, source = _ask_driver(known, environ), f"libcuda.so.1; {source}"
    except (OSError, ValueError) as error:
        cards, source = _masked(known, mask), f"{source}; CUDA driver: {error}"
    if mask is not None and not cards:
        source = f"{MASK}={mask!r} leaves none; {source}"
    return cards, source


def _answer(command: list[str], environ: dict[str, str]) -> str:
    options: Any = {"encoding": "utf-8", "errors": "replace", "env": environ}
    options.update(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process: subprocess.Popen[str] = subprocess.Popen(command, **options)
    try:
        output, errors = process.communicate(timeout=ASK_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):  # it hangs in the kernel
            process.communicate(timeout=1)
        raise OSError(f"no answer in {ASK_SECONDS} s") from None
    if process.returncode:
        said = " ".join((output + errors).split())[-200:]
        raise OSError(f"{said} (exit code {process.returncode})")
    return output


def _ask_nvidia_smi(environ: dict[str, str]) -> dict[str, Card]:
    """Return all GPUs and MIG instances, in its order. Raises OSError, ParseError."""
    log = ElementTree.fromstring(_answer(["nvidia-smi", "-q", "-x"], environ))
    known: dict[str, Card] = {}
    for gpu in log.iter("gpu"):
        name, mode = gpu.findtext("uuid", ""), gpu.findtext("compute_mode", "")
        users = [u for u in gpu.iter("process_info") if "C" in u.findtext("type", "C")]
        pids = ", ".join(user.findtext("pid", "?") for user in users)
        closed = mode == "Prohibited" or (mode.startswith("Exclusive") and pids)
        busy = f"{mode} mode, pids: {pids or 'none'}" if closed else ""
        instances = {}
        for mig in gpu.iter("mig_device"):
            ids = [mig.findtext(f"{kind}_instance_id") for kind in ("gpu", "compute")]
            unit = f"MIG-{name}/{ids[0]}/{ids[1]}"
            instances[unit] = Card(unit, unit.replace("/", "_"), _free_mb(mig), busy)
        known[name] = Card(name, name, _free_mb(gpu), busy, tuple(instances))
        known.update(instances)
    return known


def _free_mb(node: ElementTree.Element) -> int | None:
    free = re.fullmatch(r"(\d+) MiB", node.findtext("fb_memory_usage/free", ""))
    return int(free[1]) if free else None


def _ask_driver(known: dict[str, Card], environ: dict[str, str]) -> list[Card]:
    """Return what CUDA itself makes of the caller's mask. Raises OSError.

    It shows a process one MIG instance at most, so there it is asked entry by entry:
    MIG User Guide, "CUDA Device Enumeration".
    """
    mask = environ.get(MASK)
    if not any("MIG-" in name for name in [mask or "", *known]):
        return _cuda_devices(known, environ)
    entries = [name for name in known if "MIG-" not in name]
    entries = entries if mask is None else mask.split(",")
    cards: dict[str, Card] = {}
    while entries:
        shown = _cuda_devices(known, {**environ, MASK: entries.pop(0)})
        if not shown:
            break
        entries = [name for card in shown for name in card.instances] + entries
        cards.update({card.key: card for card in shown if not card.instances})
    return list(cards.values())


def _cuda_devices(known: dict[str, Card], environ: dict[str, str]) -> list[Card]:
    program = f"{inspect.getsource(_print_cuda_devices)}\n_print_cuda_devices()"
    entry = environ.get(MASK, "").strip()
    cards = []
    for row in _answer([sys.executable, "-IS", "-c", program], environ).splitlines():
        name, mig, total_mb, mode = row.split()
        busy = "Prohibited mode" if mode == "2" else ""
        card = known.get(name, Card(name, name, int(total_mb), busy))
        if mig[4:] != name[4:] and (entry.startswith("MIG-") or not card.instances):
            card = known.get(entry, Card(mig, mig, int(total_mb), card.busy))
            card = dataclasses.replace(card, name=mig, key=mig)
        cards.append(card)
    return cards


def _print_cuda_devices() -> None:
    """Print GPU uuid, MIG uuid, MiB and compute mode of each device; no context on it.

    Runs in a process of its own: https://docs.nvidia.com/cuda/cuda-driver-api/
    """
    import ctypes
    import sys
    import uuid

    sys.tracebacklimit = 0  # of an error, the last line will do
    cuda = ctypes.CDLL("libcuda.so.1")
    number, device, total = ctypes.c_int(), ctypes.c_int(), ctypes.c_size_t()
    raw = (ctypes.c_ubyte * 16)()

    def call(function: str, *args: object) -> None:
        code = getattr(cuda, function)(*args)
        if code == 100:  # CUDA_ERROR_NO_DEVICE: the mask hides them all
            sys.exit()
        if code:
            raise OSError(f"{function} returns {code}")

    call("cuInit", 0)
    call("cuDeviceGetCount", ctypes.byref(number))
    for index in range(number.value):
        call("cuDeviceGet", ctypes.byref(device), index)
        row = []
        for kind, function in ("GPU", "cuDeviceGetUuid"), ("MIG", "cuDeviceGetUuid_v2"):
            call(function, ctypes.byref(raw), device)
            row.append(f"{kind}-{uuid.UUID(bytes=bytes(raw))}")
        call("cuDeviceTotalMem_v2", ctypes.byref(total), device)
        call("cuDeviceGetAttribute", ctypes.byref(number), 20, device)  # compute mode
        print(*row, total.value >> 20, number.value)


def _masked(known: dict[str, Card], mask: str | None) -> list[Card]:
    """Return what the mask leaves, by its own names: for want of the driver.

    The list ends at the first entry that names none, and a uuid may be cut short:
    CUDA Programming Guide, 5.2.1.1 "CUDA_VISIBLE_DEVICES". An entry that comes twice
    hides all: not documented, but so says PyTorch, torch/cuda/__init__.py.
    """
    gpus = [card for card in known.values() if not card.name.startswith("MIG-")]
    entries = [gpu.name for gpu in gpus] if mask is None else mask.split(",")
    cards: dict[str, Card] = {}
    for entry in map(str.strip, entries):
        if entry.isdecimal():
            named = gpus[int(entry) : int(entry) + 1]
        elif entry.startswith("MIG-"):
            named = [known.get(entry, Card(entry, entry.replace("/", "_")))]
        else:
            named = [gpu for gpu in gpus if entry and gpu.name.startswith(entry)]
        if len(named) != 1:
            break
        units = [known[name] for name in named[0].instances]
        units = units or [dataclasses.replace(named[0], name=entry)]
        if units[0].key in cards:
            return []
        cards.update({unit.key: unit for unit in units})
    return list(cards.values())


# ---- Leases: one run a card at a time, on the whole machine ------------------

SHARED_FOLDER = "/dev/shm"  # of all users, also where each has a /tmp of his own
CONTAINER_FILES = ("/.dockerenv", "/run/.containerenv")  # Docker's; Podman's
LEASED = "leased by pid"
HELD: dict[str, int] = {}  # the locks of this process: name -> descriptor


def _lease_folder() -> tuple[str, str]:
    """Return where leases are kept, and which runs they bind where that is not all."""
    given = os.environ.get("PYTEST_GPU_LOCK_DIR")
    if given:
        return given, ""
    if os.access(SHARED_FOLDER, os.W_OK):
        contained = any(map(os.path.exists, CONTAINER_FILES))
        return os.path.realpath(SHARED_FOLDER), "IN THIS CONTAINER" if contained else ""
    folder = os.path.realpath(tempfile.gettempdir())
    return folder, f"THAT SHARE {folder}"


def _lock(name: str, shared: bool = False) -> str:
    """Lock `name` until this process ends or `_unlock`; return why it could not.

    It is a flock on a folder, which any user may lock and nobody opens for writing. The
    kernel frees it with the last descriptor.
    """
    import fcntl  # not on Windows

    folder, _ = _lease_folder()
    path = f"{folder}/pytest-gpu-{name}"
    umask = os.umask(0)
    try:
        for made in (folder, path):
            if os.path.islink(made):
                raise OSError(f"{made} is a symbolic link")
            with contextlib.suppress(FileExistsError):
                os.mkdir(made, 0o1777)
        lock = os.open(path, os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        return f"no lease: {error}"
    finally:
        os.umask(umask)
    try:
        fcntl.flock(lock, fcntl.LOCK_NB | (fcntl.LOCK_SH if shared else fcntl.LOCK_EX))
        with contextlib.suppress(FileExistsError):  # not empty, so it stays when the
            os.mkdir(str(os.getuid()), dir_fd=lock)  # user who made it logs out
    except OSError as error:
        inode = f":{os.fstat(lock).st_ino} "
        os.close(lock)
        if not isinstance(error, BlockingIOError):
            return f"no lease: {path}: {error}"
        pids: set[str] = set()
        with contextlib.suppress(OSError):
            for line in pathlib.Path("/proc/locks").read_text("utf-8").splitlines():
                if inode in line and "->" not in line:
                    pids.add(line.split()[4])
        return f"{LEASED} {', '.join(sorted(pids)) or 'unknown'}"
    if not HELD:  # a forked child is no owner
        os.register_at_fork(after_in_child=lambda: _unlock(*HELD))
    HELD[name] = lock
    return ""


def _unlock(*names: str) -> None:
    for name in HELD.keys() & set(names):
        os.close(HELD.pop(name))  # never LOCK_UN: it frees what a fork shares, too


def _lease(key: str) -> str:
    """Take a card for this run; return why not.

    Two locks: a run holds `card`. Who uses it holds `use`, and may outlive the run.
    """
    why = _lock(f"{key}.card")
    if not why:  # what was locked here is unlocked here, and nothing else
        why = _lock(f"{key}.use")  # nobody's, or of what a killed run left behind
        _unlock(f"{key}.use", *([f"{key}.card"] if why else []))
    return why


def _joined(assigned: Assignment) -> Assignment:
    """Join in the use of the card that another process leased for this one."""
    if not assigned.card or assigned.simulated:
        return assigned
    why = _lock(f"{assigned.key}.use", shared=True)
    if not why and not _runs(assigned.owner):  # its lease may be another run's by now
        why = f"pid {assigned.owner}, which had leased it, is gone"
        _unlock(f"{assigned.key}.use")
    lost = Assignment(reason=f"needs a GPU: {assigned.card} was lost: {why}")
    return lost if why else assigned


def _runs(pid: int) -> bool:
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "XZ"  # a zombie holds no lock


@pytest.hookimpl(tryfirst=True)  # before xdist's, which tells the controller
def pytest_collection_finish(session: pytest.Session) -> None:
    """Give back a card that no item needs, or wait for one that is needed after all."""
    run, assigned = session.config.stash[RUN], session.config.stash[ASSIGNED]
    locks = {f"{assigned.key}.use", f"{assigned.key}.card"} & HELD.keys()
    # Again: the project may have marked some meanwhile.
    kinds = [_keep_kind(item)[0] for item in session.items]
    needed = not set(kinds) <= {"", "cpu"}
    if assigned.late and needed:
        run.found = [Card(**card) for card in assigned.late], "as when this run began"
        _use_card(run, run.assign(run.lease(1, run.patience), 1)[0])
        who = os.environ.get("PYTEST_XDIST_WORKER", "this process")
        _say(session.config, _summary({who: session.config.stash[ASSIGNED]}, run))
    elif locks and not needed and not assigned.taken:  # by a test around this run
        with contextlib.suppress(RuntimeError):  # TensorFlow has touched it already
            if "tensorflow" in sys.modules:
                sys.modules["tensorflow"].config.set_visible_devices([], "GPU")
            run.hand_on(Assignment(reason="needs a GPU: it was given back"))
            _unlock(*locks)
    card = session.config.stash[ASSIGNED].card or "none"
    if hasattr(session.config, "workerinput"):
        return  # its controller adds what follows
    said = {kind: [("device", kind), ("gpu", card)] for kind in kinds if kind}
    for item, kind in zip(session.items, kinds):
        item.user_properties += said.get(kind, [])  # in JUnit's file too


# ---- Ranks: one pytest each, under mpirun, horovodrun, torchrun, srun --------

# In which variables a launcher tells a process its rank on this machine, and of how
# many: Open MPI; MPICH and Intel MPI; MVAPICH2; HPE PALS and Slurm's plugin for it;
# Horovod; torchrun; Slurm, which lists them. Slurm's batch script is rank 0 of 1.
# https://docs.open-mpi.org/en/v5.0.x/tuning-apps/environment-var.html
# https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables
# https://slurm.schedmd.com/srun.html, horovod/runner/gloo_run.py in horovod/horovod
RANKS = {
    "OMPI_COMM_WORLD_LOCAL_RANK": "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALRANKID": "MPI_LOCALNRANKS",
    "MV2_COMM_WORLD_LOCAL_RANK": "MV2_COMM_WORLD_LOCAL_SIZE",
    "PMI_LOCAL_RANK": "PMI_LOCAL_SIZE",
    "HOROVOD_LOCAL_RANK": "HOROVOD_LOCAL_SIZE",
    "LOCAL_RANK": "LOCAL_WORLD_SIZE",
    "SLURM_LOCALID": "SLURM_GTIDS",
}


def _of_rank(run: Run, cards: list[Card], source: str) -> tuple[list[Card], str]:
    """Return this rank's share of the cards, and their source with the reason.

    Its first is the card of its rank, modulo; xdist's workers get the others, if any.
    Where ranks outnumber the cards of a machine none has one: in a test that all take
    part in, those with a card would wait for the rest. A mask may be each rank's own.
    """
    for name, number in RANKS.items() if cards and not run.simulate else ():
        rank, ranks = os.environ.get(name, ""), os.environ.get(number, "")
        if number == "SLURM_GTIDS":
            ranks = str(len(ranks.split(",")))
        if rank.isdecimal():
            of = max(int(rank) + 1, int(ranks) if ranks.isdecimal() else 0)
            if of > 1:
                mine = cards[int(rank) % len(cards) :: of]
                if of > len(cards):
                    run.crowded, run.patience = True, 0  # a lease may be another rank's
                    mine = mine if any(mask in run.caller for mask in MASKS) else []
                said = f"rank {rank} of {of} ({name}) has {len(mine)} of {len(cards)}"
                few = "" if mine else ", too few for all"
                return mine, f"{said} GPUs{few}; {source}"
    return cards, source


# ---- Which process gets which card -------------------------------------------

LINUX = sys.platform.startswith("linux")  # which alone has masks
MASK = "CUDA_VISIBLE_DEVICES"
MASKS = (MASK,)
HANDED = "PYTEST_GPU_ASSIGNED"  # from process to process: an Assignment, as JSON
CALLERS_MASK = "PYTEST_GPU_CALLERS_MASK"  # what a controller hides, as JSON
ASSIGNED: pytest.StashKey[Assignment] = pytest.StashKey()  # of this process
RUN: pytest.StashKey[Run] = pytest.StashKey()
TAKEN: dict[str, str] = {}  # card that TensorFlow could not start on -> what it said
UNUSABLE = "cannot be used: GPU"
RESERVED_MB = 1024  # of a card, for each worker: CUDA's context and libraries
LEAST_MB = 512  # of a logical device: a card without room for two is passed over
MEMORY_LIMIT_MB = 0  # of a logical device; 0: fitted to the card


@dataclasses.dataclass(frozen=True)
class Assignment:
    """The card that one test process may use, or the reason why it has none."""

    card: str = ""  # as CUDA_VISIBLE_DEVICES names it
    key: str = ""  # as its lease does, so no "/" in it
    memory_limit_mb: int = 0  # of each of its two logical devices
    simulated: bool = False
    reason: str = ""  # why there is no card: GPU tests are skipped
    problem: str = ""  # why the card cannot be used: GPU tests are errors
    owner: int = 0  # the pid of the process that leased it
    taken: bool = False  # by the process it is for: pytest runs started there share it
    late: tuple[dict[str, Any], ...] = ()  # Cards: one is leased when a test needs it

    def environment(self) -> dict[str, str]:
        """Return the variables of the process."""
        values = {HANDED: json.dumps(dataclasses.asdict(self))}
        if LINUX:
            card = "" if self.simulated else self.card
            values[MASK] = card or "-1"
        return values


class Run:
    """What a run asks for, the cards it finds, and why it passes some over."""

    def __init__(self, config: pytest.Config, options: Any) -> None:
        self.config = config
        self.simulate = _number(options, "gpu_simulate", 0)
        self.require = _number(options, "gpu_require", 0)
        worker = "PYTEST_XDIST_WORKER" in os.environ
        self.remote = worker and HANDED not in os.environ  # where its cards are its own
        # A remote worker does not wait: another one of this run may have the card.
        self.patience = 0 if self.remote else _number(options, "gpu_wait", 600)
        self.workers_per_gpu = max(1, _number(options, "workers_per_gpu", 1))
        only_cpu = r"\s*cpu(\s+and\s(?!.*\bor\b).*)?"
        self.needs_none = not self.require and re.fullmatch(only_cpu, options.markexpr)
        self.caller = dict(os.environ)  # the environment, with the caller's own mask
        if CALLERS_MASK in os.environ:
            for name in MASKS:
                self.caller.pop(name, None)
            self.caller.update(json.loads(os.environ[CALLERS_MASK]))
        self.controller = False
        self.masked = pytest.MonkeyPatch()  # what this run changes in the environment
        self.passed_over: dict[str, str] = {}
        self.found: tuple[list[Card], str] | None = None
        self.crowded = False  # whether ranks outnumber cards: see _of_rank()
        if self.simulate and self.require:
            raise pytest.UsageError("--gpu-require wants real GPUs, not --gpu-simulate")

    def find(self) -> tuple[list[Card], str]:
        """Return the cards of this run and their source; ask the machine once."""
        if self.found is None:
            cards, source = _of_rank(self, *_find_cards(self.simulate, self.caller))
            _, runs = _lease_folder()
            if cards and not self.simulate and runs:
                source += f"; LEASES HOLD ONLY AMONG RUNS {runs}"
            self.found = cards, source
        return self.found

    def over(self) -> str:
        """Return the cards that are passed over, each with the reason."""
        return ", ".join(f"{name} ({why})" for name, why in self.passed_over.items())

    def share_out(self, workers: int) -> list[Assignment]:
        """Lease cards and give each worker one, breadth first, or else a reason."""
        cards, source = self.find()
        required = 0 if self.remote else self.require
        patience = self.patience if required else 0
        leased = cards[:workers] if self.simulate else self.lease(workers, patience)
        over = self.over()
        if len(leased) < required:
            said = f"--gpu-require {required}: {len(leased)} GPUs can be used"
            raise pytest.UsageError(f"{said}; not: {over or 'any other'} [{source}]")
        given = self.assign(leased, workers)
        if not leased and LEASED in over and self.patience:
            late = tuple(map(dataclasses.asdict, cards))  # it may turn out to need none
            given[0] = dataclasses.replace(given[0], late=late)
        return given

    def assign(self, leased: list[Card], workers: int) -> list[Assignment]:
        """Give each of `workers` one of the cards `leased`, or the reason why not."""
        over, (_, source) = self.over(), self.find()
        reason = f"{len(leased)} for {workers} workers, this one has none"
        if not leased:
            reason = f"there is none: {source}; --gpu-simulate 1 runs it without"
        if not leased and over:
            reason = f"none can be used: {over} [{source}]"
        given = []
        for card in (leased * self.workers_per_gpu)[:workers]:
            sharers = min(self.workers_per_gpu, -(-workers // len(leased)))
            limit = ((card.free_mb or 0) // sharers - RESERVED_MB) // 2
            limit = MEMORY_LIMIT_MB or max(LEAST_MB, limit)
            given.append(Assignment(card.name, card.key, limit, bool(self.simulate)))
        reason = f"needs a GPU: {reason}"
        problem = reason if self.crowded and not leased else ""
        none = Assignment(reason=reason, problem=problem)
        given += [none] * (workers - len(given))
        return [dataclasses.replace(one, owner=os.getpid()) for one in given]

    def lease(self, workers: int, patience: float) -> list[Card]:
        """Lease what is free; wait `patience` seconds while that is none or too few."""
        end, told = time.monotonic() + patience, False
        leased: list[Card] = []
        while not self.needs_none:
            leased, self.passed_over = [], {}
            for card in self.find()[0]:
                why = self._unfit(card)
                if not why and len(leased) < workers:
                    why = _lease(card.key)
                    leased += [] if why else [card]
                if why:
                    self.passed_over[card.name] = why
            taken = [why for why in self.passed_over.values() if why.startswith(LEASED)]
            enough = len(leased) >= max(1, self.require)
            if enough or not taken or time.monotonic() >= end:
                break
            _unlock(*(f"{card.key}.card" for card in leased))
            if not told:
                _say(self.config, f"devices: GPUs are {', '.join(taken)}; waiting")
            told = True
            time.sleep(0.3)
        return leased

    def _unfit(self, card: Card) -> str:
        least = 2 * max(LEAST_MB, MEMORY_LIMIT_MB) + RESERVED_MB
        least *= self.workers_per_gpu
        if card.name in TAKEN:
            return TAKEN[card.name]
        if not card.busy and card.free_mb is not None and card.free_mb < least:
            return f"{card.free_mb} MiB free of the {least} needed"
        return card.busy

    def hand_on(self, assigned: Assignment) -> None:
        """Let this process, and those it starts, have what is assigned."""
        self.config.stash[ASSIGNED] = assigned
        shared = dataclasses.replace(assigned, taken=True)
        for name, value in shared.environment().items():
            self.masked.setenv(name, value)


def _take_card(config: pytest.Config, options: Any) -> None:
    """Take this process's card before project code can start TensorFlow's runtime."""
    run = config.stash[RUN] = Run(config, options)
    config.stash[ASSIGNED] = Assignment(reason="no test is run")
    if not _runs_tests(options):
        return
    handed = json.loads(os.environ.get(HANDED, "null"))
    if handed and handed["taken"] and options.gpu_simulate is not None:
        handed = None  # a pytest run inside a test, that asks for cards of its own
    run.controller = not (handed or run.remote) and _is_controller(options)
    if handed:
        assigned = _joined(Assignment(**handed))
    elif run.controller:
        assigned = Assignment(reason="the controller runs no test")
    else:
        try:
            (assigned,) = run.share_out(1)
        except KeyboardInterrupt:  # pytest would not catch it so early
            sys.exit(pytest.ExitCode.INTERRUPTED)
        config.stash[SUMMARY] = _summary({"this process": assigned}, run)
    config.add_cleanup(run.masked.undo)
    _use_card(run, assigned)
    if run.controller:  # its workers' cards: pytest_xdist_setupnodes
        run.masked.delenv(HANDED)
        masks = {name: run.caller[name] for name in MASKS if name in run.caller}
        run.masked.setenv(CALLERS_MASK, json.dumps(masks))


def _use_card(run: Run, assigned: Assignment) -> None:
    """Make what is assigned this process's own, and split it."""
    run.hand_on(assigned)
    promised = assigned.card or run.remote
    if assigned.card:
        names = [name for name, _ in run.config.pluginmanager.list_name_plugin()]
        earlier = [name for name in names if name.endswith("conftest.py")]
        others = [each for each in earlier if not pathlib.Path(each).samefile(__file__)]
        assigned = _split(assigned, others)
    if run.require and promised and assigned.reason:  # not known to the controller
        assigned = dataclasses.replace(assigned, problem=assigned.reason)
    run.config.stash[ASSIGNED] = assigned


def _is_controller(options: Any) -> bool:
    workers = getattr(options, "numprocesses", None)
    if workers is None:
        return getattr(options, "dist", "no") != "no" and bool(options.tx)
    return bool(workers)


@pytest.hookimpl(optionalhook=True, hookwrapper=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> Generator[None, Any, None]:
    outcome = yield
    if HANDED not in os.environ and not config.option.collectonly:
        cards, _ = config.stash[RUN].find()
        outcome.force_result(max(outcome.get_result(), len(cards)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: list[Any]) -> None:
    """Put each local worker's card in its environment; a replacement inherits it."""
    local = [spec for spec in specs if spec.popen and not spec.via]
    if HANDED in os.environ or not local:
        return  # a run inside a test: its workers share that test's card
    run = config.stash[RUN]
    usable = getattr(os, "sched_getaffinity", lambda pid: range(os.cpu_count() or 1))
    share = str(max(1, len(usable(0)) // len(specs)))
    threads = {"TF_NUM_INTRAOP_THREADS": share, "TF_NUM_INTEROP_THREADS": share}
    threads = {name: n for name, n in threads.items() if name not in os.environ}
    given = run.share_out(len(local))
    for spec, assigned in zip(local, given):
        for name, value in {**threads, **assigned.environment()}.items():
            spec.env.setdefault(name, value)
    _say(config, _summary(dict(zip([spec.id for spec in local], given)), run))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any) -> None:
    """Give a card back to the machine when its worker did, having collected."""
    run, env = node.config.stash[RUN], node.gateway.spec.env
    key = json.loads(env.get(HANDED, "{}")).get("key", "")
    if run.workers_per_gpu > 1 or f"{key}.card" not in HELD or _lock(f"{key}.use"):
        return  # of several workers one may not be there yet
    _unlock(f"{key}.use")
    with contextlib.suppress(EOFError, OSError):  # it died, and will be replaced
        node.gateway.remote_status()  # it lives: it has given the card back
        env.update(Assignment(reason="needs a GPU: it was given back").environment())
        _unlock(f"{key}.card")


def _hand_in_card(config: pytest.Config, why: str) -> None:
    """Let the controller replace this worker, whose card another program has."""
    assigned = config.stash[ASSIGNED]
    if assigned.owner == os.getppid() and not assigned.taken:
        warning = pytest.PytestWarning(f"{UNUSABLE} {assigned.card}: {why}")
        message = warnings.WarningMessage(warning, type(warning), __file__, 0)
        told = {"warning_message": message, "when": "runtest", "nodeid": ""}
        hook = config.hook.pytest_warning_recorded  # xdist passes it on
        hook.call_historic(kwargs={**told, "location": None})
        os._exit(1)


def pytest_warning_recorded(warning_message: warnings.WarningMessage) -> None:
    told = re.match(f"{UNUSABLE} (\\S+): (.*)", str(warning_message.message))
    TAKEN.update({told[1]: told[2]} if told else {})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Lease another card for the replacement of a worker that has handed in its own."""
    run, env = node.config.stash[RUN], node.gateway.spec.env
    if json.loads(env.get(HANDED, "{}")).get("card") in TAKEN:
        (assigned,) = run.assign(run.lease(1, 0), 1)
        problem = assigned.reason if run.require else ""
        env.update(dataclasses.replace(assigned, problem=problem).environment())
        if SCHEDULER in node.config.stash:  # the test that found out is run again
            node.config.stash[SCHEDULER].forgiven.add(node.gateway.id)


# ---- Scheduling: which worker runs which test --------------------------------

# What is relied on of pytest-xdist, 3.0 to 3.8. Its controller calls what is public in
# DeviceScheduling, and takes KeyError from `remove_node` for a node it never added. Of
# a node: `gateway.id`, `gateway.spec.env`, `workerinput["workercount"]`, `workeroutput`
# (where it did not crash), `shutting_down`, `shutdown`, `send_runtest_some` and, from
# 3.2 on, `send_steal`, after which `remove_pending_tests_from_node` is called with what
# it gives back. Of a worker: it begins an item when it has the next one or is told that
# there is none, and sends what it collected by `sendevent("collectionfinish", ids=)`.
SCHEDULER: pytest.StashKey[DeviceScheduling] = pytest.StashKey()  # of the controller
DISTRIBUTIONS = ("load", "worksteal", "loadscope", "loadfile", "loadgroup")
KINDS = ("distributed", "gpu", "none", "cpu")  # the order; all but cpu go to a card
CPU = 3
NO_CARD = "needs a GPU: no worker that has one"
AHEAD_SECONDS = 0.1  # of work that a worker has waiting, beside the next item


class DeviceScheduling:
    """Deals items to workers: those for a card only to workers that own one, and first.

    It does so unit by unit. In a scope mode a unit is all of a scope, never split, and
    goes to a card if any of its items does. Else it is what follows one another in a
    file, for a card or not, and is shared when a worker has nothing else to do.
    """

    def __init__(self, config: Any) -> None:
        self.config = config  # pytest-rerunfailures looks for it, too
        self.whole = config.option.dist not in ("load", "worksteal")
        self.coming = -1  # how many workers will still collect; not known yet
        self.collected: dict[Any, list[str]] = {}  # node -> its ids, to be compared
        self.claims: dict[Any, int] = {}  # node that has collected -> as _claim() says
        self.best = 0  # the claim of the workers for which the items for a card are
        self.started = False
        self.ids: list[str] = []  # what they all collected; an item is an index
        self.ranks: list[int] = []  # item -> index in KINDS
        self.keys: list[Any] = []  # item -> key, the same within a unit
        self.left = [0, 0]  # how many items are not sent: for the CPU, for a card
        self.waiting: list[collections.deque[list[int]]]  # units, of the same two
        self.waiting = [collections.deque(), collections.deque()]
        self.plans: dict[Any, list[int]] = {}  # (node, 0 or 1) -> of its unit, not sent
        self.queues: dict[Any, list[int]] = {}  # node -> what it was sent, in order
        self.depth = 2  # how long a queue may be
        self.mean = 1.0  # seconds that an item takes, of late
        self.robbed: Any = None  # the node that is asked to give items back
        self.forgiven: set[str] = set()  # ids of workers that no item has crashed

    @property
    def nodes(self) -> list[Any]:
        return list(self.queues)

    @property
    def collection_is_completed(self) -> bool:
        return self.started or self.coming == 0

    @property
    def tests_finished(self) -> bool:
        for queue in self.queues.values():  # this first: it is asked at each event
            if len(queue) > 1:
                return False
        if not self.collection_is_completed or self.robbed:
            return False
        # What is left when nobody can run it is reported: see not_run().
        return not (any(self.left) and (self.coming or self._live()))

    @property
    def has_pending(self) -> bool:
        return any(self.left) or any(self.queues.values())

    def add_node(self, node: Any) -> None:
        if self.coming < 0:
            self.coming = node.workerinput["workercount"]
        self.queues[node] = []

    def add_node_collection(self, node: Any, collection: Any) -> None:
        self.coming -= 1
        self.collected[node] = list(collection)
        self.claims[node] = _claim(node)

    def schedule(self) -> None:
        (first, ids), *others = self.collected.items()
        different = [(node, theirs) for node, theirs in others if theirs != ids]
        self.collected = {first: ids}
        for node, theirs in different:
            text = _difference(first, ids, node, theirs)
            report = pytest.CollectReport(node.gateway.id, "failed", text, [])
            self.config.hook.pytest_collectreport(report=report)
            del self.claims[node]
            node.shutdown()
        if not self.started and not different:
            self.ids, self.best = ids, max(self.claims.values())
            self._make_units(first)
        self.started = True
        if self.forgiven and not any(map(self._fits, self._live())):
            self.best = 0  # the cards are others' now: each test says so, being skipped
        self._deal()

    def mark_test_complete(
        self, node: Any, item_index: int, duration: float = 0
    ) -> None:
        self.queues[node].remove(item_index)
        self.mean += (duration - self.mean) / 8
        if len(self.queues[node]) < 2 + self.depth // 2:
            self._deal()

    def mark_test_pending(self, item: str) -> None:
        self._put_back([self.ids.index(item)])
        self._deal()

    def remove_pending_tests_from_node(self, node: Any, indices: Any) -> None:
        self.robbed, stolen = None, set(indices)
        self.queues[node] = [item for item in self.queues[node] if item not in stolen]
        self._put_back(indices)
        self._deal()

    def remove_node(self, node: Any) -> str | None:
        queue = self.queues.pop(node)
        self.robbed = None if self.robbed is node else self.robbed
        if not self.started:
            self.collected.pop(node, None)
        if node in self.claims and not hasattr(node, "workeroutput"):
            self.coming += 1  # or else xdist ends the run
        self.claims.pop(node, None)
        crashed = queue[:1] if node.gateway.id not in self.forgiven else []
        for card in (0, 1):
            plan = self.plans.pop((node, card), [])
            self.waiting[card].extendleft([plan] if plan else [])
        self._put_back(queue[len(crashed) :])
        self._deal()
        return self.ids[crashed[0]] if crashed else None

    def not_run(self) -> Iterator[tuple[str, str]]:
        """Yield node id and reason of each item that is left at the end."""
        units = [*self.waiting[1], *self.waiting[0], *self.plans.values()]
        for item in itertools.chain(*units, *self.queues.values()):
            need = "no worker" if self.ranks[item] == CPU else NO_CARD
            yield self.ids[item], f"not run: {need} is left (too many have died)"

    def _make_units(self, node: Any) -> None:
        places: dict[Any, int] = {}  # of keys
        groups = node.groups or [nodeid.rpartition("@")[2] for nodeid in self.ids]
        for nodeid, kind, group in zip(self.ids, node.kinds, groups):
            kind = kind or "cpu"  # the marker is wrong: it is an error anywhere
            path, _, name = nodeid.partition("::")
            scope = path, name.split("[")[0].rpartition("::")[0]
            keys = {"loadscope": scope, "loadfile": path, "loadgroup": group or nodeid}
            key = keys.get(self.config.option.dist, (kind == "cpu", path))
            places.setdefault(key, len(places) if self.whole else kind == "cpu")
            self.keys.append(key)
            # Any strategy is as the one that is always there.
            self.ranks.append(KINDS.index(kind) if kind in KINDS else 0)
        items = sorted(range(len(self.ids)), key=lambda item: places[self.keys[item]])
        self._put_back(list(itertools.chain(*self._in_order(self._split(items)))))

    def _in_order(self, units: list[list[int]]) -> list[list[int]]:
        rank = self.ranks.__getitem__
        if not self.whole:
            units = [sorted(unit, key=rank) for unit in units]
        elif getattr(self.config.option, "loadscopereorder", True):
            units.sort(key=len, reverse=True)  # as xdist does
        return sorted(units, key=lambda unit: min(map(rank, unit)))

    def _split(self, items: list[int]) -> list[list[int]]:
        units = itertools.groupby(items, self.keys.__getitem__)
        return [list(unit) for _, unit in units]

    def _put_back(self, items: list[int]) -> None:
        for unit in reversed(self._split(items)):
            self.left[self._for_card(unit)] += len(unit)
            self.waiting[self._for_card(unit)].appendleft(unit)

    def _for_card(self, items: list[int]) -> bool:
        return any(self.ranks[item] < CPU for item in items)

    def _fits(self, node: Any) -> bool:
        return self.claims[node] >= self.best

    def _live(self) -> list[Any]:
        return [node for node in self.claims if not node.shutting_down]

    def _load(self, node: Any) -> float:
        return len(self.queues[node])

    def _deal(self) -> None:
        nodes = self._live()
        share = sum(self.left) // (2 * len(nodes) or 1)
        self.depth = 2 + min(int(AHEAD_SECONDS / max(self.mean, 0.001)), share)
        for length in (1, 2, self.depth):  # one to each first: there may be few
            for node in sorted(nodes, key=self._load):
                queue = self.queues[node]
                sent, taken = len(queue), len(queue) < 2 + length // 2
                while taken and len(queue) < length:
                    taken = self._take(node, length - len(queue))
                if queue[sent:]:
                    self._send(node.send_runtest_some, queue[sent:])
        for node in nodes:
            if len(self.queues[node]) < 2 and not self._steal(node):
                node.shutdown()

    def _send(self, call: Any, items: list[int]) -> None:
        with contextlib.suppress(OSError):  # it died: remove_node will be called
            call(items)

    def _parts(self, node: Any) -> list[int]:
        return [1, 0] if self._fits(node) else [0]

    def _take(self, node: Any, count: int) -> bool:
        """Queue items of the node's own unit, of a new one, or of half of another's."""
        for card in self._parts(node):
            unit = self.plans.get((node, card))
            if not unit and self.waiting[card]:
                unit = self.waiting[card].popleft()
            if not unit:
                plans = (plan for key, plan in self.plans.items() if key[1] == card)
                most = max(plans, key=len, default=[])
                unit = most[len(most) // 2 :]
                del most[len(most) // 2 :]
            if unit:
                taken = unit if self.whole else unit[:count]
                self.plans[node, card] = unit[len(taken) :]
                self.left[card] -= len(taken)
                self.queues[node] += taken
                return True
        return False

    def _steal(self, thief: Any) -> bool:
        """Ask who has most to give for half of it; say whether anybody is asked."""
        if self.robbed is None and not self.whole:
            lowest = 0 if self._fits(thief) else CPU
            loot = {
                node: [item for item in queue[2:] if self.ranks[item] >= lowest]
                for node, queue in self.queues.items()
                if hasattr(node, "send_steal")
            }
            most = max(loot, key=lambda node: len(loot[node]), default=thief)
            if loot.get(most):
                self.robbed = most
                self._send(most.send_steal, loot[most][len(loot[most]) // 2 :])
        return self.robbed is not None


def _claim(node: Any) -> int:
    """Return 2 for a worker that says that it has a card, 1 where it should, else 0."""
    handed = json.loads(node.gateway.spec.env.get(HANDED, '{"card": "of its own"}'))
    return 2 if node.card else int(bool(handed["card"] or handed["late"]))


def _difference(one: Any, ids: list[str], other: Any, others: list[str]) -> str:
    """Say in words what two workers have collected that is not the same."""
    names = [f"{node.gateway.id} ({node.card or 'no GPU'})" for node in (one, other)]
    lines = [f"{names[0]} and {names[1]} did not collect the same tests: none is run"]
    for name, mine, rest in zip(names, (ids, others), (set(others), set(ids))):
        only = [nodeid for nodeid in mine if nodeid not in rest]
        lines += [f"only {name}: {nodeid}" for nodeid in only[:20]]
        lines += [f"only {name}: {len(only) - 20} more"] * (len(only) > 20)
    ask = "Let no parameter depend on the GPUs that a process sees, but mark run_on"
    return "\n".join([*lines, ask if lines[1:] else "Only their order differs"])


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let a worker tell its card, and of each item the kind and the xdist_group.

    This follows the first id, after "\\0": pytest escapes it, and no path has it.
    """

    def send_labelled(name: str, **details: Any) -> None:
        if name == "collectionfinish" and details["ids"]:
            card, items = session.config.stash[ASSIGNED].card, session.items
            grouped = items if session.config.getoption("loadgroup", True) else []
            label = card, [item.stash[KIND] for item in items], [*map(_group, grouped)]
            details["ids"][0] += "\0" + json.dumps(label)
        send(name, **details)

    for plugin in session.config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor":
            send, plugin.sendevent = plugin.sendevent, send_labelled


def _group(item: pytest.Item) -> str:
    marks = item.iter_markers("xdist_group")
    names = {str((*mark.args, mark.kwargs.get("name", "default"))[0]) for mark in marks}
    return "_".join(sorted(names))


@pytest.hookimpl(
    optionalhook=True, tryfirst=True, specname="pytest_xdist_node_collection_finished"
)
def pytest_devices_node_collection_finished(node: Any, ids: list[str]) -> None:
    """Take the label off again, before anybody else sees the ids."""
    label = ""
    if ids:
        ids[0], _, label = ids[0].partition("\0")
    # Without a label all are for a card: that costs time, no more.
    told = json.loads(label) if label else ("", ["none"] * len(ids), [])
    node.card, node.kinds, node.groups = told
    node.told = dict(zip(ids, node.kinds)) if label else {}


@pytest.hookimpl(tryfirst=True, specname="pytest_runtest_logreport")
def pytest_devices_runtest_logreport(report: Any) -> None:
    """Add what JUnit's file says: to send it with each report would cost each test."""
    node: Any = getattr(report, "node", None)  # a worker's, in its controller
    kind = getattr(node, "told", {}).get(report.nodeid)
    if kind:
        report.user_properties[:0] = [("device", kind), ("gpu", node.card or "none")]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config) -> Any:
    if config.option.dist in DISTRIBUTIONS:
        unknown = _unknown_in_xdist()
        if not unknown:
            config.stash[SCHEDULER] = DeviceScheduling(config)
            return config.stash[SCHEDULER]
        said = f"this pytest-xdist differs from those known ({', '.join(unknown)})"
        _say(config, f"devices: WARNING: {said}; GPU tests may land where no GPU is")
    return None


def _unknown_in_xdist() -> list[str]:
    """Return what is not as relied on: of nodes, and of what schedulers must have."""
    node = getattr(sys.modules.get("xdist.workermanage"), "WorkerController", None)
    protocol = getattr(sys.modules.get("xdist.dsession"), "Scheduling", object)
    calls = ("send_runtest_some", "shutdown", "shutting_down")
    unknown = [name for name in calls if not hasattr(node, name)]
    for name in vars(protocol):
        theirs, ours = getattr(protocol, name), getattr(DeviceScheduling, name, None)
        if not name.startswith("_") and _shape(theirs) != _shape(ours):
            unknown.append(name)
    return unknown


def _shape(member: Any) -> Any:
    function = inspect.isfunction(member)
    return list(inspect.signature(member).parameters) if function else type(member)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, Any, None]:
    """Report as failed what is left when nobody has stopped the run."""
    outcome = yield
    scheduler = session.config.stash.get(SCHEDULER, None)
    if scheduler and not outcome.excinfo:
        for nodeid, why in scheduler.not_run():
            place = (nodeid.partition("::")[0], None, nodeid)
            report = pytest.TestReport(nodeid, place, {}, "failed", why, "call")
            session.config.hook.pytest_runtest_logreport(report=report)


# ---- Report ------------------------------------------------------------------

SUMMARY: pytest.StashKey[str] = pytest.StashKey()  # the line at the start of a run


def _summary(given: dict[str, Assignment], run: Run) -> str:
    cards, source = run.find()
    owners = [f"{name} has {each.card}" for name, each in given.items() if each.card]
    others = [name for name, each in given.items() if not each.card]
    none = [f"no GPU for {', '.join(others)}"] if others else []
    over = [f"{name} passed over: {why}" for name, why in run.passed_over.items()]
    used = [each.card for each in given.values()] + list(run.passed_over)
    idle = [card.name for card in cards if card.name not in used]
    rest = [f"idle: {', '.join(idle)}"] if idle else []
    return f"devices: {'; '.join(owners + none + over + rest)} [{source}]"


def _say(config: pytest.Config, line: str) -> None:
    terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
    capture: Any = config.pluginmanager.get_plugin("capturemanager")
    if terminal and not hasattr(config, "workerinput"):  # nobody sees a worker's
        terminal.write_line(line)
        terminal.flush()  # it may be a file, and the run may wait now
    elif capture:  # or it is too early for one
        with capture.global_and_fixture_disabled():
            print(line, file=sys.stderr)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    if SUMMARY in session.config.stash:
        _say(session.config, session.config.stash[SUMMARY])


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Count tests by device and worker, and the skips for want of a GPU."""
    ran: dict[str, set[str]] = collections.defaultdict(set)  # what and where -> ids
    wanting = 0
    own_checks: set[str] = set()  # skipped themselves where there was no GPU
    for category in ("passed", "failed", "error", "xfailed", "xpassed", "skipped"):
        for report in terminalreporter.stats.get(category, []):
            said = dict(reversed(getattr(report, "user_properties", [])))
            node = getattr(report, "node", None)  # xdist's
            if "device" not in said:
                continue  # a module, a crash, a wrong marker
            if category != "skipped":
                who = node.gateway.id if node else "this process"
                ran[f"{said['device']} on {who}"].add(report.nodeid)
            elif said["gpu"] == "none" and said["device"] in ("gpu", *STRATEGIES):
                wanting += 1
            elif said["gpu"] == "none":
                why = str(report.longrepr).partition("Skipped: ")[2]  # without the path
                if re.search("(?i)gpu|cuda", why):
                    own_checks.add(report.nodeid)
    lines = [f"{what}: {len(ids)}" for what, ids in sorted(ran.items())]
    if wanting:
        lines.append(f"skipped for want of a GPU: {wanting}")
    run = config.stash[RUN]
    if own_checks and run.found and run.found[0] and not run.simulate:
        lines.append("skipped by own GPU check; this machine has one, the worker not:")
        lines += sorted(own_checks)
    if lines:
        terminalreporter.write_sep("=", "devices")
        terminalreporter.write_line("\n".join(lines))
