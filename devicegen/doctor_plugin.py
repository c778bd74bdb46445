"""A pytest plugin that ``devicegen doctor`` loads into the target's pytest, for one run.

It runs on the target's Python and pytest, so the standard library only, and nothing newer than
Python 3.9. It changes no file; ``DEVICEGEN_DOCTOR`` names the file that its answer goes to, and
``DEVICEGEN_DOCTOR_NAMES`` holds the names that the harness goes by, as JSON.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

KINDS = ("cpu", "gpu", "distributed")
OURS = ("Written by devicegen ", "\nclass DeviceScope:")  # the second after `devicegen eject`
NAMES: dict[str, Any] = {
    "fixture": "device_scope",
    "option": "gpu_simulate",
    "plain_prefix": "",
    "no_scope": ["no_device_scope"],
    **json.loads(os.environ.get("DEVICEGEN_DOCTOR_NAMES", "{}")),
}
ANSWER: dict[str, Any] = {
    "harnesses": [],
    "options": [],
    "items": {},
    "unscoped": [],
    "shadowed": [],
    "uncollected": [],
}


def _harnesses(config: Any) -> Iterator[tuple[str, Any]]:
    """Yield the path and the module of each harness that is loaded."""
    for _, plugin in config.pluginmanager.list_name_plugin():
        file = getattr(plugin, "__file__", None) or ""
        if file.endswith("conftest.py") and hasattr(plugin, NAMES["fixture"]):
            with open(file, encoding="utf-8", errors="replace") as stream:  # noqa: PTH123
                text = stream.read()
            if any(each in text for each in OURS):
                yield os.path.realpath(file), plugin


def pytest_configure(config: Any) -> None:
    """Note what was loaded before the options were parsed."""
    ANSWER["is_worker"] = hasattr(config, "workerinput")
    ANSWER["harnesses"] = [path for path, _ in _harnesses(config)]
    ANSWER["options"] = [NAMES["option"]] if hasattr(config.option, NAMES["option"]) else []
    ANSWER["rootdir"] = str(config.rootpath)
    ANSWER["inifile"] = str(config.inipath) if config.inipath else None
    ANSWER["pytest"] = sys.modules["pytest"].__version__
    ANSWER["python"] = sys.version.split()[0]
    ANSWER["xdist"] = config.pluginmanager.hasplugin("xdist")


def _scope_fixtures(item: Any) -> Any:
    """Return what of the harness's fixture's name an item that uses it will get, the last one."""
    if NAMES["fixture"] not in getattr(item, "fixturenames", ()):
        return None
    get = item.session._fixturemanager.getfixturedefs  # of a node id before pytest 8.1
    takes_nodes = "node" in inspect.signature(get).parameters
    return get(NAMES["fixture"], item if takes_nodes else item.parent.nodeid)


def pytest_collection_finish(session: Any) -> None:
    """Count the items of each device; note those that have none and those with another fixture."""
    harnesses = dict(_harnesses(session.config))
    counts = dict.fromkeys((*KINDS, "none"), 0)
    for item in session.items:
        own = {mark.name for mark in item.iter_markers()}
        kinds = [kind for kind in KINDS if NAMES["plain_prefix"] + kind in own]
        if kinds:
            counts[kinds[0]] += 1
        elif own & {*NAMES["no_scope"]}:
            counts["none"] += 1
        else:
            ANSWER["unscoped"].append(item.nodeid)
        definitions = _scope_fixtures(item)
        if definitions:
            file = os.path.realpath(definitions[-1].func.__code__.co_filename)
            if file not in harnesses:
                ANSWER["shadowed"].append([item.nodeid, file])
    ANSWER["items"] = counts


def pytest_collectreport(report: Any) -> None:
    """Note what could not be collected, and what was raised there."""
    if report.failed:
        ANSWER["uncollected"].append([report.nodeid, _reason(str(report.longrepr))])


def _reason(text: str) -> str:
    """Return the line of a traceback, as pytest shows it, that says what was raised last."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    marked = [line[1:].strip() for line in lines if line.startswith("E ")]
    raised = [line for line in marked if re.match(r"[\w.]+: ", line)]
    return (raised or marked or lines or [""])[-1]


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
