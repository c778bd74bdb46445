"""``devicegen inspect``: the page, and the JSON in the form of its schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from devicegen import __version__
from devicegen.facts.pytest_config import DEFAULT_NORECURSEDIRS
from devicegen.facts.tox_environments import NEEDED
from generator import LIBRARY, run, state
from kit import write_tree

LACKS = [name for name in NEEDED if not name.startswith("CUDA_")]
REPOSITORY: dict[str, str | bytes] = {
    **LIBRARY,
    "pyproject.toml": """
        [project]
        name = "library"
        version = "1"
        requires-python = ">=3.10"
        dependencies = ["tensorflow>=2.8", "jax"]

        [tool.pytest.ini_options]
        addopts = "-q --strict-markers"
        markers = ["own: theirs"]
        testpaths = ["tests"]
    """,
    "library.py": "import tensorflow as tf\nimport keras\n",
    "tox.ini": """
        [tox]
        envlist = py

        [testenv]
        pass_env = CUDA_*
        commands = pytest -c other.ini tests
    """,
    ".github/workflows/ci.yml": "run: |\n  horovodrun -np 2 pytest tests -p no:randomly\n",
    "BUILD": 'py_test(\n    name = "a",\n    tags = ["requires-gpu-nvidia"],\n)\n',
    "noxfile.py": "",
    "Makefile": "test:\n\tpytest\n",
    "tests/conftest.py": """
        import pytest
        import tensorflow

        def pytest_configure(config): pass
        def pytest_configure(config): pass

        @pytest.fixture(autouse=True)
        def seed(): pass
    """,
    "tests/test_gpu.py": """
        import unittest
        import pytest
        import tensorflow as tf

        needs_gpu = pytest.mark.skipif(not tf.config.list_physical_devices("GPU"), reason="")

        @needs_gpu
        def test_decorated(): pass

        @pytest.mark.run_on(["gpu"])
        def test_marked():
            with tf.device("/GPU:0"): pass

        def test_scope():
            with tf.device("/device:GPU:0"): pass

        def test_strategy():
            tf.distribute.MirroredStrategy()

        def test_plain(): pass

        class TestThings(tf.test.TestCase):
            def test_on_gpu(self): pass
            def test_plain(self): pass

        if __name__ == "__main__":
            tf.test.main()
    """,
    "tests/test_masks.py": """
        import os

        def test_mask():
            os.environ["CUDA_VISIBLE_DEVICES"] = "0"
    """,
    "tests/test_broken.py": "def (:\n",
    "tests/test_latin.py": b"# \xe9\n",
}


def inspected(top: Path) -> dict[str, Any]:
    done = run("inspect", top, "--json")
    assert done.code == 0, done
    loaded: dict[str, Any] = json.loads(done.stdout)
    schema = json.loads(run("inspect", "--json-schema").stdout)
    jsonschema.validate(loaded, strict(schema), jsonschema.Draft202012Validator)
    return loaded


def strict(schema: Any) -> Any:
    """Forbid fields that the schema does not know: each must be documented."""
    if isinstance(schema, dict):
        made = {key: strict(value) for key, value in schema.items()}
        return {**made, "additionalProperties": False} if "properties" in made else made
    return [strict(each) for each in schema] if isinstance(schema, list) else schema


def test_facts_and_decisions_as_json(tmp_path: Path) -> None:
    write_tree(tmp_path, REPOSITORY)
    before = state(tmp_path)

    said = inspected(tmp_path)

    facts = said["facts"]
    assert (said["schema"], said["devicegen"], said["top"]) == (1, __version__, str(tmp_path))
    assert facts["pytest_configuration"] == {
        "in_force": "pyproject.toml:7",
        "table": "tool.pytest.ini_options",
        "testpaths": ["tests"],
        "python_files": ["test_*.py", "*_test.py"],
        "python_classes": ["Test"],
        "python_functions": ["test"],
        "markers": ["own: theirs"],
        "addopts": ["-q", "--strict-markers"],
        "norecursedirs": list(DEFAULT_NORECURSEDIRS),
        "minversion": None,
        "problem": None,
    }
    assert facts["python_floor"] == {"version": "3.10", "where": "pyproject.toml:4"}
    assert {each["name"]: each["required"] for each in facts["frameworks"]} == {
        "TensorFlow": [{"range": "tensorflow>=2.8", "where": "pyproject.toml:5"}],
        "JAX": [{"range": "jax", "where": "pyproject.toml:5"}],
        "Keras": [],
    }
    tests = facts["tests"]
    assert [(each["where"], each["test"]) for each in tests["look_like_gpu"]] == [
        ("tests/test_gpu.py:8", "test_decorated"),
        ("tests/test_gpu.py:14", "test_scope"),
        ("tests/test_gpu.py:17", "test_strategy"),
        ("tests/test_gpu.py:23", "TestThings::test_on_gpu"),
    ]
    assert tests["unreadable"] == ["tests/test_broken.py", "tests/test_latin.py"]
    assert (tests["functions"], tests["test_cases"], tests["tensorflow_test_cases"]) == (7, 1, 1)
    assert (tests["files_with_main"], tests["files_with_markers"]) == (1, 1)
    (conftest,) = facts["conftests"]
    assert conftest["shadowed_hooks"] == [{"name": "pytest_configure", "line": 4}]
    assert conftest["fixtures"] == [{"name": "seed", "line": 8, "autouse": True}]
    assert conftest["imports"] == [{"name": "tensorflow", "line": 2}]
    assert [(each["where"], each["kind"], each["when"]) for each in facts["device_setups"]] == [
        ("tests/test_masks.py:4", "mask", "test")
    ]
    runners = facts["runners"]
    assert runners["tox"] == [{"where": "tox.ini:5", "name": "py", "lacks": LACKS}]
    assert {each["where"]: (each["telling"], each["ranks"]) for each in runners["pytest"]} == {
        "Makefile:2": ([], False),
        "tox.ini:6": (["-c other.ini"], False),
        ".github/workflows/ci.yml:2": (["-p no:randomly"], True),
    }
    assert (runners["nox"], runners["bazel_tests"], runners["bazel_gpu"]) == (
        "noxfile.py:1", ["BUILD:1"], ["BUILD:3"],
    )  # fmt: skip
    assert [each["subject"] for each in said["decisions"]][:3] == [
        "repository top", "framework", "harness",
    ]  # fmt: skip
    assert said["changes"][0] == {"path": "conftest.py", "action": "create", "reason": ""}
    assert said["refusal"] is None
    assert state(tmp_path) == before


@pytest.mark.parametrize(
    "files",
    [
        {"a.py": ""},
        {"tests/test_a.py": "import torch\n"},
        {"pytest.ini": "broken", "tests/test_a.py": "import tensorflow\n"},
        {"pyproject.toml": "[tool", "tests/test_a.py": "import tensorflow\n", "setup.cfg": "x"},
        {"tests/conftest.py": b"\xff", "tests/test_a.py": "import tensorflow\n"},
    ],
    ids=["no TensorFlow", "PyTorch", "broken pytest.ini", "broken TOML", "conftest of bytes"],
)
def test_a_refusal_and_a_broken_file_are_facts(
    tmp_path: Path, files: dict[str, str | bytes]
) -> None:
    write_tree(tmp_path, files)

    said = inspected(tmp_path)

    assert (said["refusal"] is None) == bool(said["decisions"])
    assert run("inspect", tmp_path).code == 0


@pytest.mark.parametrize(
    "own",
    [
        {},
        pytest.param(
            {"tests/conftest.py": "import os\n", "conftest.py": ""}, marks=pytest.mark.slow
        ),
    ],
)
def test_what_devicegen_wrote_imports_no_framework(
    tmp_path: Path, own: dict[str, str | bytes]
) -> None:
    """A file of its own, and a block."""
    write_tree(tmp_path, {**LIBRARY, **own})
    before = inspected(tmp_path)["facts"]["frameworks"]
    assert run("init", tmp_path).code == 0

    assert inspected(tmp_path)["facts"]["frameworks"] == before


def test_the_page_says_the_same(tmp_path: Path) -> None:
    write_tree(tmp_path, REPOSITORY)
    (tmp_path / "tests/test_link.py").symlink_to("test_link.py")  # a loop

    done = run("inspect", tmp_path)

    assert (done.code, done.stderr) == (0, "")
    flat = " ".join(done.stdout.split())
    for words in (
        "pytest configuration pyproject.toml:7",
        "TensorFlow required: tensorflow>=2.8 (pyproject.toml:5); imported:",
        "JAX required: jax (pyproject.toml:5)",
        "pytest_configure at line 4 is replaced by a later one: it never runs",
        "4 tests look like GPU tests and carry no marker",
        "TestThings::test_on_gpu: ",
        f"py (tox.ini:5) passes no {', '.join(LACKS)}",
        "harness conftest.py",
    ):
        assert words in flat, done.stdout
    assert "\x1b" not in done.stdout


def test_markers_that_stand_for_ours(tmp_path: Path) -> None:
    test = "import pytest\n@pytest.mark.needs_gpu\ndef test_on_gpu(): pass\n"
    write_tree(tmp_path, {**LIBRARY, "tests/test_library.py": test})
    page = run("inspect", tmp_path, "--json").stdout
    assert len(json.loads(page)["facts"]["tests"]["look_like_gpu"]) == 1
    assert run("init", tmp_path, "--marker-alias=needs_gpu=run_on:gpu").code == 0

    page = run("inspect", tmp_path, "--json").stdout

    assert json.loads(page)["facts"]["tests"]["look_like_gpu"] == []
