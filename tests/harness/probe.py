"""A pytest plugin for a project under test: each process of a run writes down what it sees.

Loaded with ``-p probe``, so before any conftest. The variable ``DIARY`` names its file.
"""

import json
import os
import sys


def _note(event):
    line = {
        "event": event,
        "worker": os.environ.get("PYTEST_XDIST_WORKER"),
        "mask": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "tensorflow": "tensorflow" in sys.modules,
        "intraop": os.environ.get("TF_NUM_INTRAOP_THREADS"),
        "interop": os.environ.get("TF_NUM_INTEROP_THREADS"),
    }
    with open(os.environ["DIARY"], "a") as file:  # noqa: PTH123 - as little as possible
        file.write(json.dumps(line) + "\n")


def pytest_sessionfinish():
    """Note what the process sees at its end."""
    _note("end")


_note("start")
