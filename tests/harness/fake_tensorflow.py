"""A package ``tensorflow`` that keeps a diary, for questions about processes only.

Was it imported, in which process, with which mask, and what was it asked to split? It places
nothing: behaviours about placement run real TensorFlow. The variable ``DIARY`` names its file;
``FAKE_GPUS=0`` makes it a build that sees no GPU whatever the mask says;
``FAKE_TAKEN`` names a card
that another program has.
"""

import contextlib
import json
import os
import sys
from types import SimpleNamespace


def _note(event, **details):
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    line = {"event": event, "worker": worker, "mask": os.environ.get("CUDA_VISIBLE_DEVICES")}
    with open(os.environ["DIARY"], "a") as file:  # noqa: PTH123 - as little as possible
        file.write(json.dumps({**line, **details}) + "\n")


_logical = {"CPU": ["/device:CPU:0"], "GPU": []}
_masks = []  # the mask when first asked: as the real one, it asks CUDA once


def _mask():
    if not _masks:
        _masks.append(os.environ.get("CUDA_VISIBLE_DEVICES", "-1"))
    return _masks[0]


def _physical(kind):
    if kind == "CPU":
        return [SimpleNamespace(name="/physical_device:CPU:0", device_type="CPU")]
    count = 0 if _mask() in ("", "-1") else len(_mask().split(","))
    names = [f"/physical_device:GPU:{n}" for n in range(int(os.environ.get("FAKE_GPUS", count)))]
    return [SimpleNamespace(name=name, device_type="GPU") for name in names]


def _split(device, logical):
    limits = [each.memory_limit for each in logical]
    _note("split", device=device.name, limits=limits)
    kind = device.device_type
    _logical[kind] = [f"/device:{kind}:{n}" for n in range(len(logical))]


def _set_visible(devices, kind):
    if _up:
        raise RuntimeError("Visible devices cannot be modified after being initialized")
    _note("visible", devices=devices, kind=kind)


_up = []  # not empty: the runtime is up


def _list_logical(kind=None):
    if _mask() == os.environ.get("FAKE_TAKEN"):
        raise RuntimeError("CUDA-capable device(s)\nis/are busy or unavailable")
    _up.append(True)
    if not _logical["GPU"]:  # whole cards
        _logical["GPU"] = [each.name.replace("physical_", "") for each in _physical("GPU")]
    names = [name for names in _logical.values() for name in names]
    return [SimpleNamespace(name=name) for name in names if kind is None or kind in name]


config = SimpleNamespace(
    functions_run_eagerly=lambda: False,
    run_functions_eagerly=lambda value: None,
    LogicalDeviceConfiguration=lambda memory_limit=None: SimpleNamespace(
        memory_limit=memory_limit
    ),
    list_physical_devices=_physical,
    list_logical_devices=_list_logical,
    set_logical_device_configuration=_split,
    set_visible_devices=_set_visible,
)
errors = SimpleNamespace(OpError=RuntimeError)
_strategies = [None]


class _MirroredStrategy:
    def __init__(self, devices, cross_device_ops=None):
        _note("strategy", devices=list(devices), ops=cross_device_ops)

    @contextlib.contextmanager
    def scope(self):
        _strategies.append(self)
        yield
        _strategies.pop()


distribute = SimpleNamespace(
    MirroredStrategy=_MirroredStrategy,
    ReductionToOneDevice=lambda: "ReductionToOneDevice",
    get_strategy=lambda: _strategies[-1],
    has_strategy=lambda: _strategies[-1] is not None,
)


class Graph:
    """Something that is made."""


class DeviceSpec:
    """The name of a device, unread."""

    def __init__(self, name=""):
        self.name = name

    from_string = classmethod(lambda cls, name: cls(name))

    def to_string(self):
        return self.name


class _Context:
    """The eager context: where it is told to place."""

    device_spec = DeviceSpec()

    def _set_device(self, name, spec):
        self.device_spec = spec
        _note("device", name=name.rpartition("/task:0")[2])


_context = _Context()
sys.modules["tensorflow.python.eager.context"] = SimpleNamespace(context=lambda: _context)


def _importer():
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if file != __file__ and file.endswith(".py"):  # not the frozen importlib
            return os.path.relpath(file)
        frame = frame.f_back
    return None


_note("import", by=_importer())
