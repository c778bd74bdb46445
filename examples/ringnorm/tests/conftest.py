"""Run each test on the device that its marker asks for.

Written by devicegen 0.1.0 for this repository. It needs pytest and TensorFlow, and
nothing of devicegen. `devicegen upgrade` renews it, `devicegen check` says if due.

    @pytest.mark.run_on(["cpu", "gpu"])            test_x[cpu], then test_x[gpu]
    @pytest.mark.run_on(["distributed strategy"])  in MirroredStrategy, on two devices
    @pytest.mark.no_device_scope                   the test handles devices itself
    (no marker)                                    once, on the CPU

    pytest -m gpu              select by device: cpu, gpu, distributed
    pytest --gpu-simulate 2    no GPU needed: CPU logical devices stand in for two GPUs
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import difflib
import inspect
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import unittest
from collections.abc import Generator, Iterator
from typing import Any

import pytest

MARKERS = (
    "run_on(devices): once per listed device: 'cpu', 'gpu', 'distributed strategy'",
    "no_device_scope: runs in no device scope; the test handles devices itself",
    "cpu: runs on the CPU (each such test has this mark, to select with -m)",
    "gpu: runs on a GPU (each such test has this mark, to select with -m)",
    "distributed: runs in a strategy (each such test has this mark, to select with -m)",
)
MARKER_NAMES = ("run_on", "no_device_scope")
DEVICES = {  # what run_on takes, and the device kind that it means
    "cpu": "cpu",
    "gpu": "gpu",
    "distributed": "distributed",
    "distributed strategy": "distributed",
}


def pytest_addoption(
    parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager
) -> None:
    parser.getgroup("devices", "devices that tests run on").addoption(
        "--gpu-simulate",
        metavar="N",
        help="run GPU and distributed tests without a GPU: simulate N of them on CPU "
        "logical devices (default: $PYTEST_GPU_SIMULATE)",
    )
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
    if config.stash[CONTROLLER] and not _is_controller(config.option):
        config.stash[ENVIRON].undo()  # -n auto came to no workers, as with --pdb
        _take_card(config, config.option)
    for line in MARKERS:
        if line not in config.getini("markers"):
            config.addinivalue_line("markers", line)


def _runs_tests(options: Any) -> bool:
    others = ["help", "version", "markers", "showfixtures", "show_fixtures_per_test"]
    others += ["collectonly", "setupplan", "cacheshow", "looponfail"]
    return not any(getattr(options, name, False) for name in others)


def _simulated_gpus(options: Any) -> int:
    given, source = options.gpu_simulate, "--gpu-simulate"
    if given is None:
        source = "PYTEST_GPU_SIMULATE"
        given = os.environ.get(source) or "0"
    if not given.isdecimal():
        raise pytest.UsageError(f"{source}: {given!r} is no number of GPUs (0 or more)")
    return int(given)


# ---- Markers, ids, one item per device ---------------------------------------

KIND: pytest.StashKey[str] = pytest.StashKey()  # of an item: as in DEVICES, or "none"


def _marks(node: pytest.Item | pytest.Collector) -> list[Any]:
    """Return the closest device markers: function over class over module."""
    for level in reversed(node.listchain()):
        marks = [mark for mark in level.own_markers if mark.name in MARKER_NAMES]
        if marks and isinstance(level, pytest.Class):  # its own over its bases'
            for cls in level.obj.__mro__:
                bases = [mark for base in cls.__bases__ for mark in _class_marks(base)]
                own = [mark for mark in _class_marks(cls) if mark not in bases]
                if own:
                    return own
        if marks:
            return marks
    return []


def _class_marks(cls: type) -> list[Any]:
    marks = getattr(cls, "pytestmark", [])
    marks = marks if isinstance(marks, (list, tuple)) else [marks]
    return [getattr(m, "mark", m) for m in marks if m.name in MARKER_NAMES]


def _listed_kinds(node: pytest.Item | pytest.Collector) -> list[str]:
    """Return the device kinds that the marker lists, in order; [] without a marker.

    Raises ValueError, with a message for the test's author, where the marker is wrong.
    """
    marks = _marks(node)
    if not marks:
        return []
    if len(marks) > 1:
        raise ValueError(f"{marks[0].name} and {marks[1].name} on one test: keep one")
    args, kwargs = marks[0].args, marks[0].kwargs
    if marks[0].name == "no_device_scope" and not args and not kwargs:
        return ["none"]
    if len(args) == 1 and isinstance(args[0], (list, tuple)):
        args = args[0]
    wrong = [arg for arg in args if not (isinstance(arg, str) and arg in DEVICES)]
    kinds = [DEVICES[arg] for arg in args if arg not in wrong]
    if kwargs or marks[0].name == "no_device_scope":
        fault = f"takes no {', '.join(map(repr, kwargs or args))}"
    elif wrong:
        near = difflib.get_close_matches(str(wrong[0]).lower(), DEVICES, n=1)
        fault = f"unknown device {wrong[0]!r}{f', maybe {near[0]!r}?' if near else ''}"
    elif not kinds:
        fault = "no device is listed"
    elif len(set(kinds)) < len(kinds):
        fault = f"a device is listed twice in {args!r}"
    else:
        return kinds
    allowed = "'cpu', 'gpu', 'distributed strategy' (short: 'distributed')"
    raise ValueError(f"{marks[0].name}: {fault}; run_on takes {allowed}")


def _kind(item: pytest.Item) -> str:
    """Return the device kind of an item, as its id says. Raises ValueError as above."""
    kinds = _listed_kinds(item)
    params = getattr(getattr(item, "callspec", None), "params", {})
    kind: str = getattr(item, "device_kind", params.get("device_scope", ""))
    if kinds in ([], ["none"]):
        return (kinds or ["cpu"])[0]
    if kind not in kinds:  # an item that has no variants; a marker that came too late
        kind = type(item).__name__
        raise ValueError(f"run_on cannot act on a {kind} that was collected without it")
    return kind


def _variant_kinds(node: pytest.Item | pytest.Collector) -> list[str]:
    try:
        kinds = _listed_kinds(node)
    except ValueError:
        return []  # one item with a plain id: pytest_runtest_setup reports the marker
    return [] if kinds == ["none"] else kinds


@pytest.hookimpl(tryfirst=True)  # first, so that the device comes first in the brackets
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    kinds = _variant_kinds(metafunc.definition)
    if kinds:
        metafunc.parametrize("device_scope", kinds, ids=kinds, indirect=True)


@pytest.hookimpl(hookwrapper=True)
def pytest_pycollect_makeitem() -> Generator[None, Any, None]:
    outcome = yield
    node = outcome.get_result()
    if isinstance(node, pytest.Class) and issubclass(node.obj, unittest.TestCase):
        collect = node.collect  # pytest cannot parametrise the methods of a TestCase

        def variants() -> list[Any]:
            return [variant for item in collect() for variant in _variants(item)]

        node.collect = variants  # type: ignore[method-assign]


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


def pytest_itemcollected(item: pytest.Item) -> None:
    with contextlib.suppress(ValueError):
        if _kind(item) != "none":
            item.add_marker(_kind(item))  # so that `-m gpu` selects


# ---- The split of a card, scopes, strategies ---------------------------------

STRATEGY: pytest.StashKey[Any] = pytest.StashKey()  # the session's MirroredStrategy


@dataclasses.dataclass(frozen=True)
class DeviceScope:
    """The scope that a test runs in: what the fixture `device_scope` yields."""

    kind: str  # "cpu", "gpu", "distributed" or "none"
    devices: tuple[str, ...]  # logical device names, such as "/device:GPU:0"
    strategy: Any = None  # the tf.distribute.Strategy that is entered, if distributed
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
    logical_device = tf.config.LogicalDeviceConfiguration
    if assigned.simulated:
        physical = tf.config.list_physical_devices("CPU")
        logical = [logical_device() for _ in range(3)]
    else:
        physical = tf.config.list_physical_devices("GPU")
        limit = assigned.memory_limit_mb
        logical = [logical_device(memory_limit=limit) for _ in range(2)]
    if not physical:
        build = "it was built without CUDA, or cannot load CUDA's libraries"
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


def _logical_devices(kind: str, assigned: Assignment) -> tuple[str, ...]:
    gpu, first = ("CPU", 1) if assigned.simulated else ("GPU", 0)
    halves = (f"/device:{gpu}:{first}", f"/device:{gpu}:{first + 1}")
    kinds = {"cpu": ("/device:CPU:0",), "gpu": halves[:1], "distributed": halves}
    return kinds.get(kind, ())


def _strategy(item: pytest.Item, tf: Any, devices: tuple[str, ...]) -> Any:
    stash = item.session.stash
    if STRATEGY not in stash:  # NCCL, the default, cannot join two halves of one card
        ops = tf.distribute.ReductionToOneDevice()
        stash[STRATEGY] = tf.distribute.MirroredStrategy(devices, ops)
    return stash[STRATEGY]


@contextlib.contextmanager
def _entered(item: pytest.Item) -> Iterator[DeviceScope]:
    kind, assigned = item.stash[KIND], item.config.stash[ASSIGNED]
    devices = _logical_devices(kind, assigned)
    tf: Any = sys.modules.get("tensorflow")  # None: there is no device but the CPU here
    strategy: Any = None
    scope: Any = contextlib.nullcontext()
    if kind in ("gpu", "distributed"):
        found = [device.name for device in tf.config.list_logical_devices()]
        if not set(devices) <= set(found):
            lost = f"needs {', '.join(devices)}, but TensorFlow has {', '.join(found)}"
            pytest.fail(f"{item.nodeid} {lost}: was it split anew?", pytrace=False)
    if kind == "distributed":
        strategy = _strategy(item, tf, devices)
        scope = _strategy_scope(tf, strategy)
    elif devices and tf and (assigned.card or tf.config.list_physical_devices("GPU")):
        scope = tf.device(devices[0])  # starts the runtime: not where all is on the CPU
    with scope:
        item.stash[SCOPED] = True
        yield DeviceScope(kind, devices, strategy, assigned.simulated)


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


def _distributed(session: pytest.Session, call: Any) -> Any:
    """Return a test's function within the strategy, which set-up may have dropped."""
    if inspect.iscoroutinefunction(call):
        return call
    tf, strategy = sys.modules["tensorflow"], session.stash[STRATEGY]
    return _strategy_scope(tf, strategy, checked=True)(call)


# ---- The run of a test -------------------------------------------------------

SCOPED: pytest.StashKey[bool] = pytest.StashKey()  # whether an item got its scope


@pytest.fixture(autouse=True)
def device_scope(request: pytest.FixtureRequest) -> Iterator[DeviceScope]:
    """Run the test in the scope of its device."""
    with _entered(request.node) as scope:
        yield scope


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[SCOPED] = False
    item.stash[KIND] = problem = ""
    assigned = item.config.stash[ASSIGNED]
    try:
        item.stash[KIND] = _kind(item)
    except ValueError as error:
        problem = str(error)
    if item.stash[KIND] in ("gpu", "distributed"):
        problem = assigned.problem
        if not assigned.card:
            pytest.skip(assigned.reason)
    if problem:
        pytest.fail(f"{item.nodeid}: {problem}", pytrace=False)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: Any) -> Generator[None, None, None]:
    if item.stash[SCOPED] and item.stash[KIND] == "distributed":
        call = item.obj
        item.obj = _distributed(item.session, call)
        yield
        item.obj = call
    elif item.stash[SCOPED]:
        yield
    elif item.stash[KIND] == "cpu":  # an item without fixtures, as some plugins' are
        with _entered(item):
            yield
    else:
        hidden = f"another fixture device_scope hides the one in {__file__}"
        pytest.fail(f"{item.nodeid}: {hidden}", pytrace=False)


# ---- The GPUs of this machine ------------------------------------------------

RESERVED_MB = 1024  # of a card's free memory: for CUDA's context and libraries
LEAST_MB = 512  # for a logical device, also where the free memory is not known


@dataclasses.dataclass(frozen=True)
class Assignment:
    """The card that one test process may use, or the reason why it has none."""

    card: str = ""  # as CUDA_VISIBLE_DEVICES names it
    memory_limit_mb: int = 0  # of each of the card's two logical devices
    simulated: bool = False
    reason: str = ""  # why there is no card: GPU tests are skipped
    problem: str = ""  # why the card cannot be used: GPU tests are errors
    taken: bool = False  # by the process it is for: pytest runs started there share it

    def environment(self) -> dict[str, str]:
        """Return the variables of the process; only Linux has a mask."""
        values = {HANDED: json.dumps(dataclasses.asdict(self))}
        if sys.platform.startswith("linux"):
            values[MASK] = "-1" if self.simulated else self.card or "-1"
        return values


def _find_cards(simulate: int, mask: str | None) -> tuple[list[Assignment], str]:
    """Return the cards that the caller's mask leaves, in its order, and the source."""
    if simulate:
        names = [f"simulated-{index}" for index in range(simulate)]
        cards = [Assignment(name, simulated=True) for name in names]
        return cards, f"--gpu-simulate {simulate}"
    if not sys.platform.startswith("linux"):
        return [], "GPUs are used on Linux only"
    cards, source = _query_nvidia_smi()
    visible = _visible(cards, mask)
    if cards and not visible:
        source = f"{MASK}={mask!r} hides all {len(cards)} that {source} lists"
    return visible, source


def _query_nvidia_smi() -> tuple[list[Assignment], str]:
    """Return all cards, in nvidia-smi's order, and "nvidia-smi" or what is wrong."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return [], "nvidia-smi is not on PATH"
    query = ["--query-gpu=uuid,memory.free", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(
            [program, *query],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return [], f"nvidia-smi gives no answer ({error})"
    lines = [line for line in done.stdout.splitlines() if line.startswith("GPU-")]
    if done.returncode or not lines:
        said = " ".join((done.stdout + done.stderr).split())
        return [], f"nvidia-smi lists none (exit code {done.returncode}: {said[:200]})"
    rows = [line.split(",") for line in lines]
    return [Assignment(row[0], _memory_limit(row[-1])) for row in rows], "nvidia-smi"


def _memory_limit(free: str) -> int:
    free_mb = int(free) if free.strip().isdecimal() else 0
    return max(LEAST_MB, (free_mb - RESERVED_MB) // 2)


def _visible(cards: list[Assignment], mask: str | None) -> list[Assignment]:
    """Return the cards that a CUDA_VISIBLE_DEVICES value names, by its names for them.

    The list ends at the first entry that names no card, and a uuid may be cut short:
    CUDA Programming Guide, 5.2.1.1 "CUDA_VISIBLE_DEVICES".
    """
    if mask is None:
        return cards
    found: list[Assignment] = []
    visible = []
    for token in (part.strip() for part in mask.split(",")):
        if token.isdecimal():
            named = cards[int(token) : int(token) + 1]
        elif token.startswith("MIG-"):  # a slice of a card: not in nvidia-smi's list
            named = [Assignment(token, _memory_limit(""))]
        else:
            named = [card for card in cards if token and card.card.startswith(token)]
        if len(named) != 1 or named[0] in found:
            break
        found += named
        visible.append(dataclasses.replace(named[0], card=token))
    return visible


# ---- Which process gets which card -------------------------------------------

MASK = "CUDA_VISIBLE_DEVICES"
HANDED = "PYTEST_GPU_ASSIGNED"  # from process to process: an Assignment, as JSON
ASSIGNED: pytest.StashKey[Assignment] = pytest.StashKey()  # of this process
CARDS: pytest.StashKey[tuple[list[Assignment], str]] = pytest.StashKey()  # of the run
CALLER: pytest.StashKey[tuple[int, str | None]] = pytest.StashKey()  # what bounds them
CONTROLLER: pytest.StashKey[bool] = pytest.StashKey()  # this process is xdist's
ENVIRON: pytest.StashKey[pytest.MonkeyPatch] = pytest.StashKey()  # and masks itself


def _take_card(config: pytest.Config, options: Any) -> None:
    """Take this process's card before project code can start TensorFlow's runtime."""
    config.stash[CALLER] = (_simulated_gpus(options), os.environ.get(MASK))
    config.stash[ASSIGNED] = Assignment(reason="no test is run")
    config.stash[CONTROLLER] = False
    if not _runs_tests(options):
        return
    handed = json.loads(os.environ.get(HANDED, "null"))
    if handed and handed["taken"] and options.gpu_simulate is not None:
        handed = None  # a pytest run inside a test, that asks for cards of its own
    config.stash[CONTROLLER] = controller = not handed and _is_controller(options)
    if handed:
        assigned = Assignment(**handed)
    elif controller:
        assigned = Assignment(reason="the controller runs no test")
    else:
        cards, source = _cards(config)
        assigned = cards[0] if cards else Assignment(reason=_no_card(source))
        config.stash[SUMMARY] = _summary({"this process": assigned}, source)
    config.stash[ASSIGNED] = assigned
    environ = pytest.MonkeyPatch()
    config.add_cleanup(environ.undo)
    config.stash[ENVIRON] = environ
    for name, value in dataclasses.replace(assigned, taken=True).environment().items():
        environ.setenv(name, value)
    if controller:  # its workers' cards: pytest_xdist_setupnodes
        environ.delenv(HANDED)
    if assigned.card:
        names = [name for name, _ in config.pluginmanager.list_name_plugin()]
        earlier = [name for name in names if name.endswith("conftest.py")]
        others = [name for name in earlier if not pathlib.Path(name).samefile(__file__)]
        config.stash[ASSIGNED] = _split(assigned, others)


def _cards(config: pytest.Config) -> tuple[list[Assignment], str]:
    if CARDS not in config.stash:
        config.stash[CARDS] = _find_cards(*config.stash[CALLER])
    return config.stash[CARDS]


def _no_card(source: str) -> str:
    return f"needs a GPU, and there is none: {source}; --gpu-simulate 1 runs it without"


def _is_controller(options: Any) -> bool:
    if "PYTEST_XDIST_WORKER" in os.environ and HANDED not in os.environ:
        return False  # a worker elsewhere: it finds the cards of its own machine
    workers = getattr(options, "numprocesses", None)
    if workers is None:
        return getattr(options, "dist", "no") != "no" and bool(options.tx)
    return bool(workers)


@pytest.hookimpl(optionalhook=True, hookwrapper=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> Generator[None, Any, None]:
    outcome = yield
    if HANDED not in os.environ and not config.option.collectonly:
        outcome.force_result(max(outcome.get_result(), len(_cards(config)[0])))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: list[Any]) -> None:
    """Put each local worker's card in its environment; a replacement inherits it."""
    if HANDED in os.environ:
        return  # a run inside a test: its workers share that test's card
    cards, source = _cards(config)
    share = str(max(1, _usable_cpus() // len(specs)))
    threads = {"TF_NUM_INTRAOP_THREADS": share, "TF_NUM_INTEROP_THREADS": share}
    threads = {name: n for name, n in threads.items() if name not in os.environ}
    reason = f"needs a GPU: {len(cards)} for {len(specs)} workers, this one has none"
    none = Assignment(reason=reason if cards else _no_card(source))
    given: dict[str, Assignment] = {}
    for spec in specs:
        if spec.popen and not spec.via:  # on this machine
            given[spec.id] = cards[len(given)] if len(given) < len(cards) else none
            for name, value in {**threads, **given[spec.id].environment()}.items():
                spec.env.setdefault(name, value)
    _write(config, _summary(given, source))


def _usable_cpus() -> int:
    affinity = getattr(os, "sched_getaffinity", None)  # on Linux
    return len(affinity(0)) if affinity else os.cpu_count() or 1


# ---- Report ------------------------------------------------------------------

SUMMARY: pytest.StashKey[str] = pytest.StashKey()  # the line at the start of a run


def _summary(given: dict[str, Assignment], source: str) -> str:
    owners = [f"{name} has {each.card}" for name, each in given.items() if each.card]
    others = [name for name, each in given.items() if not each.card]
    none = [f"no GPU for {', '.join(others)}"] if others else []
    return f"devices: {'; '.join(owners + none)} [{source}]"


def _write(config: pytest.Config, line: str) -> None:
    terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:
        terminal.write_line(line)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    if SUMMARY in session.config.stash:
        _write(session.config, session.config.stash[SUMMARY])
