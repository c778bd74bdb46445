"""What a test changes does not reach the next one, and what it draws is always the same.

Under real TensorFlow. Two runs of one suite, in opposite orders, and one of a test alone.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from harness.behaviours import HarnessRun, run_harness
from harness.placement_behaviours import SEEN, seen_by

SUITE = {
    **SEEN,
    # Bring the runtime up in no test, and note where that is placed.
    "places.py": """
        import tensorflow as tf

        def place(): return tf.random.uniform([2]).device.rpartition("device:")[2]
        IMPORTED = None
    """,
    "sub/conftest.py": """
        import random
        import numpy as np
        import pytest
        import tensorflow as tf
        from seen import seen

        IMPORTED = seen()

        @pytest.fixture(scope="session")
        def session_draw():
            return random.random(), float(np.random.rand()), float(tf.random.uniform([]))

        @pytest.fixture(scope="module")
        def module_draw(): return float(tf.random.uniform([]))

        @pytest.fixture(scope="session")
        def outside(): return {"import": IMPORTED, "fixture": seen()}

        def pytest_collection_modifyitems(config, items):
            if config.getoption("verbose") < 0:  # -q: the other way round
                items.reverse()
    """,
    "sub/test_draws.py": """
        import random
        import numpy as np
        import pytest
        import tensorflow as tf

        def draw(record_property):
            keras = tf.keras.Sequential([tf.keras.layers.Input((2,)), tf.keras.layers.Dense(1)])
            record_property("drawn", [
                random.random(), float(np.random.rand()), float(tf.random.uniform([])),
                float(tf.function(lambda: tf.random.uniform([]))()),
                float(tf.reduce_sum(keras.weights[0])),
            ])

        def test_first(record_property): draw(record_property)

        def test_fixtures(record_property, session_draw, module_draw):
            record_property("session", list(session_draw))
            record_property("module", module_draw)
            draw(record_property)

        @pytest.mark.no_device_scope
        def test_free(record_property): draw(record_property)

        @pytest.mark.run_on(["gpu"])
        def test_gpu(record_property): draw(record_property)

        @pytest.mark.run_on(["distributed"])
        def test_distributed(record_property): draw(record_property)

        def test_more(record_property, module_draw):
            random.random(), np.random.rand(), tf.random.uniform([3])
            draw(record_property)
    """,
    "sub/test_leaks.py": """
        import numpy as np
        import pytest
        import tensorflow as tf

        def state():
            layer = tf.keras.layers.Dense(1)
            return [tf.config.functions_run_eagerly(), tf.keras.backend.floatx(),
                    str(layer.compute_dtype), tf.distribute.has_strategy()]

        FRESH = [False, "float32", "float32", False]

        # Each culprit between two that look, whichever the order is.
        def test_look_1(): assert state() == FRESH

        def test_eager():
            assert state() == FRESH
            tf.config.run_functions_eagerly(True)

        def test_look_2(): assert state() == FRESH

        def test_floatx():
            assert state() == FRESH
            tf.keras.backend.set_floatx("float64")

        def test_look_3(): assert state() == FRESH

        def test_policy():
            assert state() == FRESH
            tf.keras.mixed_precision.set_global_policy("mixed_float16")
            assert state()[2] == "float16"

        def test_look_4(): assert state() == FRESH

        def test_floatx_counts():
            tf.keras.backend.set_floatx("float64")
            assert state()[2] == "float64"

        def test_look_5(): assert state() == FRESH

        def test_open_strategy():
            tf.distribute.OneDeviceStrategy("/cpu:0").scope().__enter__()

        def test_look_6(): assert state() == FRESH

        def test_set_strategy():
            strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
            tf.distribute.experimental_set_strategy(strategy)

        def test_look_7(): assert state() == FRESH

        @pytest.mark.run_on(["gpu"])
        def test_open_device(): tf.device("/cpu:2").__enter__()

        @pytest.mark.no_device_scope
        def test_look_8():
            from seen import seen
            assert seen()["scope"] == ""
    """,
    "sub/test_wide.py": """
        import pytest
        import tensorflow as tf
        from seen import seen

        @pytest.fixture(scope="module")
        def strategy():
            with tf.distribute.OneDeviceStrategy("/cpu:2").scope():
                yield

        @pytest.fixture(scope="class")
        def device():
            with tf.device("/cpu:2"):
                yield

        def test_strategy_1(strategy): assert tf.distribute.has_strategy()

        def test_strategy_2(strategy): assert tf.distribute.has_strategy()

        class TestDevice:
            @pytest.mark.no_device_scope
            def test_1(self, device): assert seen()["scope"] == ""

            @pytest.mark.run_on(["gpu"])
            def test_2(self, device): assert seen()["scope"] == "CPU:1"
    """,
    "sub/test_outside.py": """
        import pytest
        import tensorflow as tf
        from seen import seen

        HERE = seen()

        @pytest.mark.run_on(["gpu"])
        def test_outside(outside):
            for where, now in {**outside, "module": HERE}.items():
                assert now["scope"] == now["placed"] == now["traced"] == "CPU:0", where
                assert not now["replicas"], where
            assert seen()["scope"] == "CPU:1"

        @pytest.mark.no_device_scope
        def test_free(): assert seen()["scope"] == ""
    """,
}
DRAWS = ("first", "fixtures", "free", "gpu[gpu]", "distributed[distributed]", "more")
LEFT_OPEN = {
    "test_open_strategy": "strategy",
    "test_set_strategy": "strategy",
    "test_open_device[gpu]": "tf.device",
}


@cache
def isolated_run(harness: str, python: Path, *args: str) -> HarnessRun:
    return run_harness(harness, python, SUITE, "--gpu-simulate=1", *args)


def a_test_draws_the_same_numbers(harness: str, python: Path) -> None:
    """Alone and in any order; so does a fixture of a wider scope, whoever asks for it first."""
    runs = [isolated_run(harness, python), isolated_run(harness, python, "-q")]
    alone = isolated_run(harness, python, "sub/test_draws.py::test_more")
    drawn = [
        {name: seen_by(run, f"sub/test_draws.py::test_{name}") for name in DRAWS} for run in runs
    ]
    more = seen_by(alone, "sub/test_draws.py::test_more")

    assert all(seen.get("drawn") for run in drawn for seen in run.values()), runs[0]
    assert drawn[0] == drawn[1], drawn
    assert more["drawn"] == drawn[0]["more"]["drawn"], (more, drawn)
    assert more["drawn"] != drawn[0]["first"]["drawn"], more  # else nothing was drawn before


def settings_are_taken_back(harness: str, python: Path) -> None:
    """Function mode, Keras's floats and policy, the strategy: as at first for the next test."""
    for args in ((), ("-q",)):
        run = isolated_run(harness, python, *args)
        leaks = {n: o for n, o in run.outcomes.items() if n.startswith("sub/test_leaks.py")}
        assert len(leaks) == 15, run
        for nodeid, outcome in leaks.items():
            expected = "error" if nodeid.partition("::")[2] in LEFT_OPEN else "passed"
            assert outcome == expected, (nodeid, str(run))


def what_is_left_open_is_named(harness: str, python: Path) -> None:
    """A device or a strategy that a test does not leave is an error of that test."""
    run = isolated_run(harness, python)

    for name, what in LEFT_OPEN.items():
        nodeid = f"sub/test_leaks.py::{name}"
        assert run.outcomes[nodeid] == "error", run
        assert f"{nodeid} left open: {what}" in run.pytest.text(nodeid).replace(
            "a strategy", "strategy"
        ), run


def outside_of_scopes_is_the_cpu(harness: str, python: Path) -> None:
    """On a worker with a card: imports of conftests and modules, fixtures of a wide scope."""
    run = isolated_run(harness, python)

    for name in ("test_outside[gpu]", "test_free"):
        assert run.outcomes[f"sub/test_outside.py::{name}"] == "passed", run


def fixtures_of_a_wide_scope_keep_what_they_enter(harness: str, python: Path) -> None:
    """A strategy or device that a fixture of a module or class holds is not a test's to leave."""
    for args in ((), ("-q",)):
        run = isolated_run(harness, python, *args)
        wide = [o for nodeid, o in run.outcomes.items() if nodeid.startswith("sub/test_wide.py")]
        assert wide == ["passed"] * 4, run


def a_test_that_imports_tensorflow_is_isolated(harness: str, python: Path) -> None:
    """Where nothing had imported it before: what it leaves does not reach the next one either."""
    test = """
        def test_settings():
            import tensorflow as tf
            tf.config.run_functions_eagerly(True)

        def test_look():
            import tensorflow as tf
            assert not tf.config.functions_run_eagerly()
    """
    other = (
        "def test_device():\n    import tensorflow as tf\n    tf.device('/cpu:0').__enter__()\n"
    )
    run = run_harness(harness, python, {"test_it.py": test})
    left = run_harness(harness, python, {"test_it.py": other})

    assert run.pytest.counts == {"passed": 2}, run
    assert left.outcomes == {"test_it.py::test_device": "error"}, left
    assert "left open: tf.device" in left.pytest.text("test_it.py::test_device"), left


def isolation_needs_no_tensorflow(harness: str, python: Path) -> None:
    """Where a project does not import it the harness does not; the seeds are set all the same."""
    test = """
        import random
        import sys

        def test_one():
            assert "tensorflow" not in sys.modules and "numpy" not in sys.modules
            assert random.random() == random.Random(0).random()

        def test_two(): assert random.random() == random.Random(0).random()
    """
    run = run_harness(harness, python, {"test_it.py": test})

    assert run.pytest.counts == {"passed": 2}, run


STRICT_SUITE = {
    **SEEN,
    "test_strict.py": """
        import pytest
        import tensorflow as tf

        made = tf.function(lambda: tf.random.uniform([2]))

        def elsewhere(function):
            with tf.device("/device:GPU:7"):
                return function()

        @pytest.mark.run_on(["gpu", "cpu"])
        def test_eager(): elsewhere(lambda: tf.random.uniform([2]))

        @pytest.mark.run_on(["gpu", "cpu"])
        def test_function(): elsewhere(made)

        @pytest.mark.run_on(["gpu"])
        def test_strings(): assert tf.strings.join(["a", "b"]).numpy() == b"ab"

        @pytest.mark.run_on(["gpu"])
        def test_data():
            data = tf.data.Dataset.from_tensor_slices([1.0, 2.0]).map(lambda x: x + 1)
            assert [float(x) for x in data] == [2.0, 3.0]
    """,
}


def strict_placement_can_be_asked_for(harness: str, python: Path) -> None:
    """Then a GPU test fails where an op cannot be on its device, and no other test does."""
    lenient = run_harness(harness, python, STRICT_SUITE, "--gpu-simulate=1")
    strict = run_harness(harness, python, STRICT_SUITE, "--gpu-simulate=1", "--gpu-strict=1")
    wrong = run_harness(harness, python, STRICT_SUITE, "--gpu-strict=yes", exit_codes=(0, 4))

    assert lenient.pytest.counts == {"passed": 6}, lenient
    assert strict.pytest.counts == {"passed": 4, "failed": 2}, strict
    for name in ("test_eager[gpu]", "test_function[gpu]"):
        assert strict.outcomes[f"test_strict.py::{name}"] == "failed", strict
    assert wrong.pytest.returncode == 4, wrong
    assert "--gpu-strict: 'yes'" in wrong.pytest.stderr, wrong


ISOLATED = (
    strict_placement_can_be_asked_for,
    a_test_draws_the_same_numbers,
    settings_are_taken_back,
    what_is_left_open_is_named,
    outside_of_scopes_is_the_cpu,
    fixtures_of_a_wide_scope_keep_what_they_enter,
    isolation_needs_no_tensorflow,
    a_test_that_imports_tensorflow_is_isolated,
)
