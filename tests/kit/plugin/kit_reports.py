"""pytest plugin of the test kit: one JSON line per report, in the process that prints results.

Loaded with ``-p kit_reports`` into pytest 7 to 9, with and without pytest-xdist. It must not
change the run that it watches, so it has two hooks and imports nothing but the standard library.
"""

import json
import os
from pathlib import Path


def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(Path(os.environ["KIT_REPORTS"])), "kit_recorder")


class Recorder:
    def __init__(self, path):
        self.path = path

    def pytest_runtest_logreport(self, report):
        self.write(report, report.when)

    def pytest_collectreport(self, report):
        if report.outcome != "passed":
            self.write(report, "collect")

    def write(self, report, when):
        node = getattr(report, "node", None)  # set by xdist in its controller
        line = {
            "nodeid": report.nodeid,
            "when": when,
            "outcome": report.outcome,
            "text": text_of(report),
            "worker": node.gateway.id if node else None,
            "keywords": sorted(getattr(report, "keywords", ())),
            "properties": [list(pair) for pair in getattr(report, "user_properties", ())],
            "xfail": hasattr(report, "wasxfail"),
            "duration": getattr(report, "duration", 0.0),
        }
        with self.path.open("a", 1 << 20, encoding="utf-8") as file:  # one write
            file.write(json.dumps(line, default=str) + "\n")


def text_of(report):
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2]  # a skip: path, line, reason
    return report.longreprtext if report.longrepr else ""
