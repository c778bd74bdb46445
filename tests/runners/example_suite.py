"""An example: one module a feature, under real TensorFlow, for any runner, and its results."""

from __future__ import annotations

SHAPES = '''
"""Shapes."""


def area(width, height):
    """Return the area.

    >>> area(3, 4)
    12
    """
    return width * height


def circumference(width, height):
    """Return the circumference, wrongly.

    >>> circumference(3, 4)
    15
    """
    return 2 * (width + height)
'''
SUITE: dict[str, str | bytes] = {
    "pyproject.toml": """
        [project]
        name = "example"
        version = "1"
        dependencies = ["tensorflow>=2.12"]

        [tool.pytest.ini_options]
        addopts = "--doctest-modules -p no:randomly"
        testpaths = ["tests", "shapes.py"]
    """,
    "shapes.py": SHAPES.lstrip("\n"),
    "tests/test_cpu.py": """
        import pytest
        import tensorflow as tf

        def test_unmarked():
            assert tf.constant(1.0).device.endswith("/device:CPU:0")

        @pytest.mark.run_on(["cpu"])
        @pytest.mark.parametrize("size", [2, 3])
        def test_marked(size):
            assert tf.zeros(size).device.endswith("/device:CPU:0")
    """,
    "tests/test_gpu.py": """
        import pytest
        import tensorflow as tf

        @pytest.mark.run_on(["cpu", "gpu"])
        def test_place(device_scope):
            (device,) = device_scope.devices
            assert tf.zeros(1).device.endswith(device)

        @pytest.mark.run_on(["gpu"])
        class TestClass:
            def test_method(self): assert tf.zeros(1).device.endswith("/device:CPU:1")

        @pytest.mark.no_device_scope
        def test_free():
            with tf.device("/device:CPU:2"):
                assert tf.zeros(1).device.endswith("/device:CPU:2")
    """,
    "tests/test_distributed.py": """
        import pytest
        import tensorflow as tf

        @pytest.mark.run_on(["distributed strategy"])
        def test_replicas(device_scope):
            variable = tf.Variable(1.0)
            assert device_scope.strategy.num_replicas_in_sync == 2
            assert len(variable.values) == 2
    """,
    "tests/test_case.py": """
        import unittest

        import pytest
        import tensorflow as tf

        class Case(unittest.TestCase):
            @pytest.mark.run_on(["cpu", "gpu"])
            def test_marked(self):
                self.assertIsNotNone(tf.zeros(1))

            def test_unmarked(self):
                self.assertTrue(tf.zeros(1).device.endswith("/device:CPU:0"))

            @unittest.skip("never")
            def test_skipped(self): pass
    """,
    "tests/test_failing.py": """
        import pytest

        @pytest.fixture
        def broken(): raise ValueError("in set-up")

        @pytest.mark.run_on(["gpu"])
        def test_fails(): assert 0

        def test_error(broken): pass

        @pytest.mark.xfail
        def test_expected(): assert 0

        @pytest.mark.run_on(["tpu"])
        def test_wrong_marker(): pass
    """,
    "tests/test_skipped.py": """
        import pytest

        @pytest.mark.skip(reason="never")
        @pytest.mark.run_on(["gpu"])
        def test_skipped(): pass

        def test_needs():
            pytest.importorskip("not_installed_anywhere")
    """,
}
# Node id -> the device property and the outcome, as pytest itself says them.
TABLE = {
    "tests/test_case.py::Case::test_marked[cpu]": ("cpu", "passed"),
    "tests/test_case.py::Case::test_marked[gpu]": ("gpu", "passed"),
    "tests/test_case.py::Case::test_skipped": ("cpu", "skipped"),
    "tests/test_case.py::Case::test_unmarked": ("cpu", "passed"),
    "tests/test_cpu.py::test_unmarked": ("cpu", "passed"),
    "tests/test_cpu.py::test_marked[cpu-2]": ("cpu", "passed"),
    "tests/test_cpu.py::test_marked[cpu-3]": ("cpu", "passed"),
    "tests/test_distributed.py::test_replicas[distributed]": ("distributed", "passed"),
    "tests/test_failing.py::test_fails[gpu]": ("gpu", "failed"),
    "tests/test_failing.py::test_error": ("cpu", "error"),
    "tests/test_failing.py::test_expected": ("cpu", "xfailed"),
    "tests/test_failing.py::test_wrong_marker": (None, "error"),
    "tests/test_gpu.py::test_place[cpu]": ("cpu", "passed"),
    "tests/test_gpu.py::test_place[gpu]": ("gpu", "passed"),
    "tests/test_gpu.py::TestClass::test_method[gpu]": ("gpu", "passed"),
    "tests/test_gpu.py::test_free": ("none", "passed"),
    "tests/test_skipped.py::test_skipped[gpu]": ("gpu", "skipped"),
    "tests/test_skipped.py::test_needs": ("cpu", "skipped"),
    "shapes.py::shapes.area": ("cpu", "passed"),
    "shapes.py::shapes.circumference": ("cpu", "failed"),
}
