"""Who held which card: written by tests under a harness, read by a checker that shares no code.

Copied into projects under test as ``gpu_log.py``. Each line is one ``write`` to a file opened with
O_APPEND, so lines of many processes do not mix. The variable ``GPU_LOG`` names the file.
"""

import contextlib
import json
import os
import time


def note(event, **more):
    """Write down that this process now has, or no longer has, the card in its mask."""
    line = {
        "event": event,
        "time": time.monotonic(),  # one clock for all processes of the machine
        "pid": os.getpid(),
        "run": os.environ.get("GPU_RUN", ""),
        "card": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "worker": os.environ.get("PYTEST_XDIST_WORKER"),
        **more,
    }
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    file = os.open(os.environ["GPU_LOG"], flags, 0o666)
    os.write(file, (json.dumps(line) + "\n").encode())
    os.close(file)


@contextlib.contextmanager
def on_card(test):
    """Hold the card for as long as the block runs."""
    note("start", test=test)
    yield
    note("end", test=test)
