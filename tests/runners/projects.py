"""Projects as devicegen finds them, and as a user leaves them after ``init``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from generator import run
from kit.trees import write_tree

TESTS = Path(__file__).parents[1]
FAKE_TENSORFLOW = {"tensorflow.py": (TESTS / "harness" / "fake_tensorflow.py").read_bytes()}
GPU_LOG = {"gpu_log.py": (TESTS / "harness" / "log_of_gpu_tests.py").read_bytes()}
PYPROJECT = """
    [project]
    name = "example"
    version = "1"
    dependencies = ["tensorflow>=2.12"]

    [tool.pytest.ini_options]
    testpaths = ["tests"]
"""


def initialised(top: Path, files: Mapping[str, str | bytes]) -> str:
    """Write ``files`` to ``top``, run ``devicegen init`` there, and return what it printed."""
    write_tree(top, {"pyproject.toml": PYPROJECT, **files})
    done = run("init", top)
    assert done.code == 0, done
    return done.stdout


def printed_build_texts(printed: str) -> dict[str, str]:
    """Return what ``init`` prints for a Bazel repository: where it goes -> the text."""
    parts = re.split(r"^# In ([^ ,:]+)[^:]*:\n", printed, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def add_build_texts(top: Path, printed: str) -> None:
    """Put the text into the BUILD files, as it stands."""
    for name, text in printed_build_texts(printed).items():
        if "BUILD" in name:
            file = top / name
            file.write_text((file.read_text() if file.exists() else "") + text)
