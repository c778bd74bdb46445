"""Where tests really run: behaviours that ask real TensorFlow, on simulated cards.

Simulation has three logical CPUs, `cpu` on 0, `gpu` on 1, `distributed` on 1 and 2, so that a test
can see that its scope is there. All but the last share one run of one project.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from harness.behaviours import HarnessRun, run_harness

# What a test sees, as properties of its report. The context's device is no public API; the device
# of a result alone would not tell a scope on CPU:0 from none.
SEEN = {
    "seen.py": """
        def seen():
            import tensorflow as tf
            from tensorflow.python.eager import context

            scope = context.context().device_name or ""
            strategy = tf.distribute.get_strategy() if tf.distribute.has_strategy() else None
            return {
                "scope": scope.rpartition("device:")[2],
                "placed": tf.random.uniform([2]).device.rpartition("device:")[2],
                "traced": tf.function(lambda: tf.random.uniform([2]))().device.rpartition(
                    "device:"
                )[2],
                "replicas": strategy.num_replicas_in_sync if strategy else 0,
                "replica_devices": [
                    name.rpartition("device:")[2] for name in strategy.extended.worker_devices
                ] if strategy else [],
            }
    """,
}
SUITE = {
    **SEEN,
    # Module-level tensors bring the runtime up, here and in a conftest below the harness.
    "sub/conftest.py": "import tensorflow as tf\nHALF = tf.constant(0.5)\n",
    "sub/test_functions.py": """
        import tensorflow as tf
        import pytest
        from seen import seen
        run_on = pytest.mark.run_on
        ONE = tf.constant(1.0)

        def record(record_property):
            for name, value in seen().items():
                record_property(name, value)

        @run_on(["gpu"])
        def test_gpu(record_property, device_scope):
            record(record_property)
            assert device_scope.kind == "gpu"
            assert device_scope.devices == ("/device:CPU:1",)
            assert device_scope.strategy is None

        @pytest.mark.no_device_scope
        def test_free_after_gpu(record_property, device_scope):
            record(record_property)
            assert device_scope.kind == "none"
            assert device_scope.devices == ()

        @run_on(["distributed"])
        def test_distributed(record_property, device_scope):
            record(record_property)
            assert device_scope.strategy is tf.distribute.get_strategy()
            values = device_scope.strategy.run(lambda: tf.constant(2.0))
            total = device_scope.strategy.reduce("SUM", values, axis=None)
            record_property("total", float(total))
            record_property("variable", type(tf.Variable(1.0)).__name__)

        @pytest.mark.no_device_scope
        def test_free_after_distributed(record_property):
            record(record_property)

        def test_unmarked(record_property, device_scope):
            record(record_property)
            assert device_scope.kind == "cpu"
            assert device_scope.devices == ("/device:CPU:0",)

        @run_on(["gpu"])
        def test_fails_in_its_scope():
            raise ValueError("on purpose")

        @pytest.mark.no_device_scope
        def test_free_after_failure(record_property):
            record(record_property)
    """,
    "sub/test_cases.py": """
        import unittest
        import pytest
        import tensorflow as tf
        from seen import seen
        run_on = pytest.mark.run_on
        EXPECTED = {"cpu": ("CPU:0", 0), "gpu": ("CPU:1", 0), "distributed": ("", 2)}

        class Checks:
            def check(self, kind):
                scope, replicas = EXPECTED[kind]
                now = seen()
                assert now["replicas"] == replicas, now
                if scope:
                    assert now["scope"] == now["placed"] == scope, now

        class Cases(Checks, unittest.TestCase):
            @run_on(["gpu"])
            def test_gpu(self): self.check("gpu")

            @run_on(["distributed"])
            def test_distributed(self): self.check("distributed")

            def test_unmarked(self): self.check("cpu")

        class TensorFlowCases(Checks, tf.test.TestCase):
            @run_on(["gpu"])
            def test_gpu(self): self.check("gpu")

            @run_on(["distributed"])
            def test_distributed(self): self.check("distributed")
    """,
    "sub/test_graphs.py": """
        import pytest
        import tensorflow as tf
        from tensorflow.python.eager import context

        def here():
            return tf.constant(1.0).device

        with tf.Graph().as_default():
            AT_IMPORT = here()

        def of_a_graph():
            with tf.Graph().as_default(), tf.compat.v1.Session() as session:
                ones = tf.strings.length("one") + 1  # no kernel for a GPU, where it has one
                assert session.run(ones) == 4
                with tf.device("/device:CPU:2"):
                    other = here()
                return here(), other

        def test_unmarked():
            assert of_a_graph() == ("/device:CPU:0", "/device:CPU:2")
            assert AT_IMPORT == "/device:CPU:0"
            with context.graph_mode():  # the default graph, which others use too
                assert here() == "/device:CPU:0"

        @pytest.mark.run_on(["gpu"])
        def test_gpu():
            assert of_a_graph() == ("", "/device:CPU:2")
            with context.graph_mode():
                assert here() == ""

        @pytest.mark.run_on(["distributed"])
        def test_distributed(): assert of_a_graph()[0] == ""

        @pytest.mark.no_device_scope
        def test_free(): assert of_a_graph()[0] == ""

        class Sessions(tf.test.TestCase):
            @pytest.fixture(autouse=True)
            def find_place(self, device_scope): self.place = device_scope.devices[0][-5:]

            @pytest.mark.run_on(["cpu", "gpu"])
            def test_eager(self):
                with self.session(), self.cached_session():
                    assert tf.random.uniform([2]).device[-5:] == self.place

            def test_graph(self):
                with tf.Graph().as_default(), self.session() as session:
                    assert here() == "/device:CPU:0"
                    session.run(tf.random.uniform([2]))
    """,
    "test_late_import.py": """
        import pytest

        @pytest.mark.run_on(["gpu"])
        def test_late():
            from seen import seen
            assert seen()["scope"] == "CPU:1"
    """,
    "documented.py": '''
        """Its example runs on the CPU.

        >>> from seen import seen
        >>> seen()["scope"]
        'CPU:0'
        """
    ''',
}


@cache
def placed_run(harness: str, python: Path) -> HarnessRun:
    return run_harness(harness, python, SUITE, "--gpu-simulate=1", "--doctest-modules")


def seen_by(run: HarnessRun, nodeid: str) -> dict[str, object]:
    """Return what a test noted; empty where it did not get that far."""
    reports = [r for r in run.pytest.reports if r.nodeid == nodeid and r.when == "call"]
    return dict(reports[-1].properties) if reports else {}


def cpu_tests_are_on_the_cpu(harness: str, python: Path) -> None:
    """An unmarked test and a doctest are in the scope of the first CPU."""
    run = placed_run(harness, python)
    seen = seen_by(run, "sub/test_functions.py::test_unmarked")

    assert run.outcomes["sub/test_functions.py::test_unmarked"] == "passed", run
    assert seen["scope"] == seen["placed"] == seen["traced"] == "CPU:0", run
    assert run.outcomes["documented.py::documented"] == "passed", run


def gpu_tests_are_on_the_gpu(harness: str, python: Path) -> None:
    """Eagerly and in a tf.function; also where TensorFlow is imported in the test's body."""
    run = placed_run(harness, python)
    seen = seen_by(run, "sub/test_functions.py::test_gpu[gpu]")

    assert run.outcomes["sub/test_functions.py::test_gpu[gpu]"] == "passed", run
    assert seen["scope"] == seen["placed"] == seen["traced"] == "CPU:1", run
    assert seen["replicas"] == 0, run
    assert run.outcomes["test_late_import.py::test_late[gpu]"] == "passed", run


def distributed_tests_are_in_a_strategy(harness: str, python: Path) -> None:
    """It has two replicas, on the two halves, and they are reduced together."""
    run = placed_run(harness, python)
    seen = seen_by(run, "sub/test_functions.py::test_distributed[distributed]")

    assert run.outcomes["sub/test_functions.py::test_distributed[distributed]"] == "passed", run
    assert seen["replicas"] == 2, run
    assert seen["replica_devices"] == ["CPU:1", "CPU:2"], run
    assert seen["total"] == 4.0, run
    assert "Mirrored" in str(seen["variable"]), run


def scopes_are_left(harness: str, python: Path) -> None:
    """A test without a scope sees neither device nor strategy of the one before it."""
    run = placed_run(harness, python)

    for name in ("gpu", "distributed", "failure"):
        seen = seen_by(run, f"sub/test_functions.py::test_free_after_{name}")
        assert seen, run
        assert (seen["scope"], seen["replicas"]) == ("", 0), (name, str(run))


def test_cases_are_in_their_scopes(harness: str, python: Path) -> None:
    """Methods of unittest's and TensorFlow's TestCase; the latter's setUp drops strategies."""
    run = placed_run(harness, python)
    ids = [nodeid for nodeid in run.outcomes if nodeid.startswith("sub/test_cases.py")]

    assert len([nodeid for nodeid in ids if "[" in nodeid]) == 4, run
    for nodeid in ids:
        if not nodeid.endswith("test_session"):  # tf.test.TestCase's own, skipped
            assert run.outcomes[nodeid] == "passed", (nodeid, str(run))


def graphs_are_kept_off_the_gpu(harness: str, python: Path) -> None:
    """Of a test for the CPU and at import; tf.device within them wins, and a GPU test chooses."""
    run = placed_run(harness, python)

    for name in (
        *("test_unmarked", "test_gpu[gpu]", "test_distributed[distributed]", "test_free"),
        *("Sessions::test_eager[cpu]", "Sessions::test_eager[gpu]", "Sessions::test_graph"),
    ):
        assert run.outcomes.get(f"sub/test_graphs.py::{name}") == "passed", (name, str(run))


def late_split_is_an_error(harness: str, python: Path) -> None:
    """A conftest above the harness brought the runtime up: say so, with its path."""
    files = {
        **SEEN,
        "conftest.py": "import tensorflow as tf\nONE = tf.constant(1.0)\n",
        "tests/test_late.py": """
            import pytest

            @pytest.mark.run_on(["gpu", "distributed"])
            def test_scoped(): pass

            def test_unmarked(): pass
        """,
    }
    run = run_harness(
        harness, python, files, "--gpu-simulate=1", "tests", conftest="tests/conftest.py"
    )

    for kind in ("gpu", "distributed"):
        nodeid = f"tests/test_late.py::test_scoped[{kind}]"
        assert run.outcomes[nodeid] == "error", run
        assert "project/conftest.py" in run.pytest.text(nodeid), run
        assert "TensorFlow" in run.pytest.text(nodeid), run
    assert run.outcomes["tests/test_late.py::test_unmarked"] == "passed", run


def split_is_ahead_of_every_other_conftest(harness: str, python: Path) -> None:
    """Also of one that pytest loads at its start, right after the harness."""
    files = {
        "sub/conftest.py": "import tensorflow as tf\nONE = tf.constant(1.0)\n",
        "sub/test_gpu.py": """
            import pytest

            @pytest.mark.run_on(["gpu", "distributed"])
            def test_scoped(): pass
        """,
    }
    run = run_harness(harness, python, files, "--gpu-simulate=1", "sub")

    assert run.outcomes == {
        "sub/test_gpu.py::test_scoped[gpu]": "passed",
        "sub/test_gpu.py::test_scoped[distributed]": "passed",
    }, run


def split_that_was_undone_is_an_error(harness: str, python: Path) -> None:
    """A project that splits the device anew leaves the harness without its halves."""
    files = {
        "sub/conftest.py": """
            import tensorflow as tf

            cpu = tf.config.list_physical_devices("CPU")[0]
            one = [tf.config.LogicalDeviceConfiguration()]
            tf.config.set_logical_device_configuration(cpu, one)
        """,
        "sub/test_gpu.py": """
            import pytest

            @pytest.mark.run_on(["gpu"])
            def test_gpu(): pass
        """,
    }
    run = run_harness(harness, python, files, "--gpu-simulate=1")

    assert run.outcomes["sub/test_gpu.py::test_gpu[gpu]"] in ("failed", "error"), run
    assert "CPU:1" in run.pytest.text("sub/test_gpu.py::test_gpu[gpu]"), run


def runtime_is_not_started_without_a_card(harness: str, python: Path) -> None:
    """What has to come before TensorFlow's runtime still can, in set-up and in a test's body."""
    files = {
        "test_threads.py": """
            import tensorflow as tf

            def test_threads():
                tf.config.threading.set_intra_op_parallelism_threads(1)
        """,
        "test_devices.py": """
            import tensorflow as tf

            class FourTest(tf.test.TestCase):
                def setUp(self):
                    super().setUp()
                    cpu = tf.config.list_physical_devices("CPU")[0]
                    four = [tf.config.LogicalDeviceConfiguration()] * 4
                    tf.config.set_logical_device_configuration(cpu, four)

                def test_four(self):
                    self.assertLen(tf.config.list_logical_devices("CPU"), 4)
        """,
    }
    for file in files:  # each in a process of its own, since a runtime starts but once
        run = run_harness(harness, python, files, file)
        assert run.pytest.counts["passed"] == 1, run
        assert run.pytest.returncode == 0, run


STRATEGY_FILES = {
    "sub/conftest.py": """
        import pytest
        import tensorflow as tf

        @pytest.fixture(autouse=True)
        def fresh_session():
            tf.keras.backend.clear_session()
            yield
            tf.keras.backend.clear_session()
    """,
    "sub/test_fresh.py": """
        import unittest
        import pytest
        import tensorflow as tf

        pytestmark = pytest.mark.run_on(["distributed"])

        def replicas():
            assert "Mirrored" in type(tf.Variable(1.0)).__name__
            return tf.distribute.get_strategy().num_replicas_in_sync

        def test_function(): assert replicas() == 2

        class TestClass:
            @pytest.mark.parametrize("size", [1, 2])
            def test_method(self, size): assert replicas() == 2

        class TestUnit(unittest.TestCase):
            def test_unit(self): assert replicas() == 2

        class TestTensors(tf.test.TestCase):
            def tearDown(self):
                tf.keras.backend.clear_session()
                super().tearDown()

            def test_tensors(self): self.assertEqual(replicas(), 2)

        @pytest.mark.no_device_scope
        def test_free(): assert not tf.distribute.has_strategy()
    """,
    "test_fixture.py": """
        import pytest
        import tensorflow as tf

        @pytest.fixture
        def variable(): return tf.Variable(1.0)

        @pytest.mark.run_on(["distributed"])
        def test_variable(variable): assert "Mirrored" in type(variable).__name__
    """,
}


def strategy_survives_the_projects_fixtures(harness: str, python: Path) -> None:
    """Fixtures are in the strategy, and one that clears the session takes it from no test."""
    run = run_harness(harness, python, STRATEGY_FILES, "--gpu-simulate=1")
    counts = run.pytest.counts

    assert (counts["passed"], counts["skipped"]) == (7, 1), run  # skipped: test_session
    assert run.pytest.returncode == 0, run


def dropped_strategy_is_an_error(harness: str, python: Path) -> None:
    """A test that clears the session half-way does not pass undistributed."""
    test = """
        import unittest
        import pytest
        import tensorflow as tf

        pytestmark = pytest.mark.run_on(["distributed"])

        def test_function(): tf.keras.backend.clear_session()

        class TestUnit(unittest.TestCase):
            def test_unit(self): tf.keras.backend.clear_session()
    """
    run = run_harness(harness, python, {"test_drop.py": test}, "--gpu-simulate=1")

    assert set(run.outcomes.values()) == {"failed"}, run
    for nodeid in run.outcomes:
        assert "clear_session" in run.pytest.text(nodeid), run


def scope_that_a_test_leaves_open_ends_with_it(harness: str, python: Path) -> None:
    """The culprit is an error, and the device that it left is not there for the next test."""
    test = """
        import pytest
        import tensorflow as tf
        from seen import seen

        @pytest.mark.run_on(["gpu"])
        def test_culprit(): tf.device("/CPU:2").__enter__()

        @pytest.fixture(scope="module")
        def outside(): return seen()["scope"]

        @pytest.mark.no_device_scope
        def test_next(outside): assert (outside, seen()["scope"]) == ("CPU:0", "")
    """
    run = run_harness(harness, python, {**SEEN, "test_open.py": test}, "--gpu-simulate=1")

    assert run.outcomes == {
        "test_open.py::test_culprit[gpu]": "error",
        "test_open.py::test_next": "passed",
    }, run


PLACEMENT = (
    scope_that_a_test_leaves_open_ends_with_it,
    cpu_tests_are_on_the_cpu,
    gpu_tests_are_on_the_gpu,
    distributed_tests_are_in_a_strategy,
    scopes_are_left,
    test_cases_are_in_their_scopes,
    graphs_are_kept_off_the_gpu,
    late_split_is_an_error,
    split_is_ahead_of_every_other_conftest,
    split_that_was_undone_is_an_error,
    runtime_is_not_started_without_a_card,
    strategy_survives_the_projects_fixtures,
    dropped_strategy_is_an_error,
)
