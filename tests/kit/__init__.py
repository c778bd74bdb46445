"""The test kit: real environments, real process trees, outcomes read from pytest itself."""

from kit.environments import environment
from kit.processes import clean_environ, run_devicegen
from kit.runs import ItemReport, PytestRun, run_pytest
from kit.trees import read_tree, write_tree

__all__ = [
    "ItemReport",
    "PytestRun",
    "clean_environ",
    "environment",
    "read_tree",
    "run_devicegen",
    "run_pytest",
    "write_tree",
]
