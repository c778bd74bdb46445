"""Strategies really distribute, by name; where one stands in the way, the failure explains it.

Under real TensorFlow, for a harness with the strategies that devicegen offers. All but the last
share one run of one project.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from harness.behaviours import HarnessRun, run_harness
from harness.placement_behaviours import SEEN

SUITE = {
    **SEEN,
    "test_train.py": """
        import numpy as np
        import pytest
        import tensorflow as tf

        REPLICAS = {"distributed": 2, "one_device": 1, "central_storage": 2}

        @pytest.mark.run_on(["distributed strategy", "one_device", "central_storage"])
        def test_train(device_scope):
            strategy, replicas = device_scope.strategy, REPLICAS[device_scope.kind]
            assert device_scope.simulated
            assert strategy is tf.distribute.get_strategy()
            assert strategy.num_replicas_in_sync == replicas
            weight = tf.Variable(3.0)

            @tf.function
            def step(size):
                with tf.GradientTape() as tape:
                    loss = size * weight * weight
                grad = tape.gradient(loss, weight)
                return tf.distribute.get_replica_context().all_reduce("SUM", grad)

            def one_to_n(context): return tf.constant(1.0 + context.replica_id_in_sync_group)
            sizes = strategy.experimental_distribute_values_from_function(one_to_n)
            grads = strategy.experimental_local_results(strategy.run(step, (sizes,)))
            assert len(grads) == replicas
            assert {float(grad) for grad in grads} == {6.0 if replicas == 1 else 18.0}

            if device_scope.kind != "central_storage":
                weight.assign(1.5)
                assert [float(v) for v in strategy.experimental_local_results(weight)] == [
                    1.5
                ] * replicas

        @pytest.mark.run_on(["distributed"])
        def test_fit():
            model = tf.keras.Sequential([tf.keras.layers.Input((3,)), tf.keras.layers.Dense(1)])
            model.compile("sgd", "mse")
            before = model.get_weights()[0].copy()
            model.fit(np.ones((8, 3)), np.zeros((8, 1)), batch_size=4, verbose=0)
            assert not np.allclose(before, model.get_weights()[0])
            assert "Mirrored" in type(model.trainable_variables[0]).__name__ or (
                "Mirrored" in type(model.trainable_variables[0].value).__name__
            )

        @pytest.mark.run_on(["one_device"])
        def test_one_device(device_scope):
            assert tf.Variable(1.0).device.endswith("CPU:1")
            value = device_scope.strategy.run(lambda: tf.random.uniform([2]))
            assert value.device.endswith("CPU:1")

        @pytest.mark.run_on(["central_storage"])
        def test_central(device_scope):
            assert tf.Variable(1.0).device.endswith("CPU:0")
            assert [d[-5:] for d in device_scope.strategy.extended.worker_devices] == [
                "CPU:1", "CPU:2",
            ]

        @pytest.mark.no_device_scope
        def test_free(): assert not tf.distribute.has_strategy()
    """,
    "test_own_class.py": """
        import unittest
        import pytest
        import tensorflow as tf

        @pytest.mark.run_on(["one_device", "cpu"])
        class Cases(unittest.TestCase):
            def test_it(self):
                assert tf.Variable(1.0).device[-5:] in ("CPU:1", "CPU:0")
    """,
    "test_in_the_way.py": """
        import numpy as np
        import pytest
        import tensorflow as tf
        run_on = pytest.mark.run_on

        @pytest.fixture(scope="module")
        def model():
            model = tf.keras.Sequential([tf.keras.layers.Input((3,)), tf.keras.layers.Dense(1)])
            model.compile("sgd", "mse")
            return model

        @run_on(["distributed"])
        def test_model(model): model.fit(np.ones((8, 3)), np.zeros((8, 1)), verbose=0)

        @run_on(["distributed"])
        def test_own_strategy():
            with tf.distribute.OneDeviceStrategy("/cpu:0").scope():
                pass

        @pytest.fixture
        def own():
            with tf.distribute.OneDeviceStrategy("/cpu:0").scope():
                yield

        @run_on(["distributed"])
        def test_own_in_a_fixture(own): pass

        def test_own_on_the_cpu(own): pass

        @run_on(["distributed"])
        def test_plain_failure(): assert 1 == 2, "as any other"
    """,
}
EXPLAINED = {
    "test_model[distributed]": "failed",
    "test_own_strategy[distributed]": "failed",
    "test_own_in_a_fixture[distributed]": "error",
}


@cache
def strategies_run(harness: str, python: Path) -> HarnessRun:
    return run_harness(harness, python, SUITE, "--gpu-simulate=1")


def strategies_distribute(harness: str, python: Path) -> None:
    """Replicas, gradients, ``all_reduce``, a Keras model's training; by every offered name."""
    run = strategies_run(harness, python)
    tests = {n: o for n, o in run.outcomes.items() if n.startswith(("test_train", "test_own_c"))}

    assert len(tests) == 9, run
    assert set(tests.values()) == {"passed"}, run
    for kind in ("distributed", "one_device", "central_storage"):
        assert f"test_train.py::test_train[{kind}]" in tests, run


def strategies_in_the_way_are_explained(harness: str, python: Path) -> None:
    """A model that was made outside, a strategy of the test's own; nothing on other failures."""
    run = strategies_run(harness, python)
    _, _, printed = run.pytest.stdout.partition("= FAILURES =")
    explanation = "This test runs in a tf.distribute strategy"
    where = run.pytest.stdout.count(explanation)

    for name, outcome in EXPLAINED.items():
        assert run.outcomes[f"test_in_the_way.py::{name}"] == outcome, run
    assert run.outcomes["test_in_the_way.py::test_own_on_the_cpu"] == "passed", run
    assert run.outcomes["test_in_the_way.py::test_plain_failure[distributed]"] == "failed", run
    assert where == len(EXPLAINED), run
    assert "no_device_scope" in printed, run


def a_strategy_of_ones_own_is_a_line(harness: str, python: Path) -> None:
    """What an adopter adds at the place that says so works as those that are there."""
    line = '    "own": lambda tf, devices: tf.distribute.OneDeviceStrategy(devices[1]),\n'
    head, start, rest = harness.partition("STRATEGIES: dict[")
    opening, brace, entries = rest.partition("= {\n")
    test = """
        import pytest
        import tensorflow as tf

        @pytest.mark.run_on(["own", "cpu"])
        def test_it(device_scope):
            own = device_scope.kind == "own"
            assert tf.Variable(1.0).device.endswith("CPU:2" if own else "CPU:0")
    """
    own = head + start + opening + brace + line + entries
    run = run_harness(own, python, {"test_it.py": test}, "--gpu-simulate=1")
    selected = run_harness(
        own, python, {"test_it.py": test}, "--gpu-simulate=1", "-mdistributed", "--strict-markers",
        exit_codes=(0, 5),
    )  # fmt: skip
    none = run_harness(own, python, {"test_it.py": test})

    assert run.outcomes == dict.fromkeys(["test_it.py::test_it[own]", "test_it.py::test_it[cpu]"], "passed")  # fmt: skip # noqa: E501
    assert selected.outcomes == {"test_it.py::test_it[own]": "passed"}, selected
    assert none.outcomes["test_it.py::test_it[own]"] == "skipped", none


STRATEGIC = (
    strategies_distribute,
    strategies_in_the_way_are_explained,
    a_strategy_of_ones_own_is_a_line,
)
