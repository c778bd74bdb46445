"""A pytest plugin that ``devicegen doctor`` loads into the target's pytest, for one run.

It runs on the target's Python and pytest, so the standard library only, and nothing newer than
Python 3.9. It changes no file; ``DEVICEGEN_DOCTOR`` names the file that its answer goes to.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

KINDS = ("cpu", "gpu", "distributed")
OURS = "Written by devicegen "
ANSWER: dict[str, Any] = {
    "harnesses": [],
    "options": [],
    "items": {},
    "unscoped": [],
    "shadowed": [],
}


def _harnesses(config: Any) -> Iterator[tuple[str, Any]]:
    """Yield the path and the module of each harness that is loaded."""
    for _, plugin in config.pluginmanager.list_name_plugin():
        file = getattr(plugin, "__file__", None) or ""
        if file.endswith("conftest.py") and hasattr(plugin, "device_scope"):
            with open(file, encoding="utf-8", errors="replace") as stream:  # noqa: PTH123
                if OURS in stream.read():
                    yield os.path.realpath(file), plugin


def pytest_configure(config: Any) -> None:
    """Note what was loaded before the options were parsed."""
    ANSWER["is_worker"] = hasattr(config, "workerinput")
    ANSWER["harnesses"] = [path for path, _ in _harnesses(config)]
    ANSWER["options"] = [name for name in ("gpu_simulate",) if hasattr(config.option, name)]
    ANSWER["rootdir"] = str(config.rootpath)
    ANSWER["inifile"] = str(config.inipath) if config.inipath else None
    ANSWER["pytest"] = sys.modules["pytest"].__version__
    ANSWER["python"] = sys.version.split()[0]
    ANSWER["xdist"] = config.pluginmanager.hasplugin("xdist")


def pytest_collection_finish(session: Any) -> None:
    """Count the items of each device; note those that have none and those with another fixture."""
    harnesses = dict(_harnesses(session.config))
    counts = dict.fromkeys((*KINDS, "none"), 0)
    for item in session.items:
        own = {mark.name for mark in item.iter_markers()}
        kinds = [kind for kind in KINDS if kind in own]
        closest = next((m.name for m in item.iter_markers() if m.name in _MARKERS), "")
        if kinds:
            counts[kinds[0]] += 1
        elif closest == "no_device_scope":
            counts["none"] += 1
        else:
            ANSWER["unscoped"].append(item.nodeid)
        info = getattr(item, "_fixtureinfo", None)
        definitions = info.name2fixturedefs.get("device_scope") if info else None
        if definitions:
            file = os.path.realpath(definitions[-1].func.__code__.co_filename)
            if file not in harnesses:
                ANSWER["shadowed"].append([item.nodeid, file])
    ANSWER["items"] = counts


_MARKERS = ("run_on", "no_device_scope")


def pytest_collectreport(report: Any) -> None:
    """Note what could not be collected."""
    if report.failed:
        ANSWER.setdefault("uncollected", []).append(report.nodeid)


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Select nothing when only the mapping of the workers is asked for."""
    if os.environ.get("DEVICEGEN_DOCTOR_MAPPING"):
        del items[:]


def pytest_unconfigure() -> None:
    """Write the answer."""
    file = os.environ.get("DEVICEGEN_DOCTOR")
    if file and not ANSWER.get("is_worker"):
        with open(file, "w", encoding="utf-8") as stream:  # noqa: PTH123
            json.dump(ANSWER, stream)
