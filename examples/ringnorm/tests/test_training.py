"""Whole optimisation steps: one device, and two that have to agree with it."""

import numpy as np
import pytest
import tensorflow as tf

from ringnorm import Momentum, SyncBatchNorm, train_step
from ringnorm.variables import parameter

pytestmark = [pytest.mark.training]


class Regressor(tf.Module):
    """Batch norm and one linear unit."""

    def __init__(self):
        super().__init__()
        self.norm = SyncBatchNorm(3)
        self.weights = parameter(tf.zeros([3, 1]), "weights")

    def loss(self, batch):
        features, target = batch
        predicted = self.norm(features, training=True) @ self.weights
        return tf.square(predicted - target)[:, 0]


def data(examples=32):
    generator = np.random.default_rng(3)
    features = generator.normal([5.0, -2.0, 0.0], [1.0, 4.0, 0.5], (examples, 3))
    target = (features - features.mean(0)) / features.std(0) @ [[1.0], [-2.0], [0.5]]
    return features.astype(np.float32), target.astype(np.float32)


def fit(model, steps, batch, run=lambda on_replica, batch: on_replica(batch)):
    """Return the loss of each step; ``run`` says on which replicas a step is taken."""
    optimiser = Momentum(model.trainable_variables, learning_rate=0.05)

    @tf.function
    def step(batch):
        return run(lambda share: train_step(model.loss, optimiser, share), batch)

    return [step(batch) for _ in range(steps)]


@pytest.mark.run_on(["cpu", "gpu"])
def test_loss_falls_by_two_orders_of_magnitude():
    losses = fit(Regressor(), steps=40, batch=data())

    assert losses[-1].numpy() < losses[0].numpy() / 100


@pytest.mark.run_on(["gpu"])
def test_parameters_stay_on_the_device_of_the_scope(device_scope):
    model = Regressor()
    fit(model, steps=1, batch=data())

    wanted = tf.DeviceSpec.from_string(device_scope.devices[0])
    for variable in model.trainable_variables:
        placed = tf.DeviceSpec.from_string(variable.device)
        assert (placed.device_type, placed.device_index) == (
            wanted.device_type,
            wanted.device_index,
        )


@pytest.fixture
def shares(device_scope):
    """Give each replica the examples that a slice, made from its rank, takes from the data."""

    def make(slice_of_rank):
        def share(context):
            chosen = slice_of_rank(context.replica_id_in_sync_group)
            return tuple(tf.constant(part[chosen]) for part in data())

        return device_scope.strategy.experimental_distribute_values_from_function(share)

    return make


@pytest.mark.run_on(["distributed strategy"])
def test_two_halves_of_a_batch_take_the_steps_of_the_whole(device_scope, shares):
    def run(on_replica, batch):
        per_replica = device_scope.strategy.run(on_replica, args=(batch,))
        return device_scope.strategy.experimental_local_results(per_replica)

    halves, whole = Regressor(), Regressor()
    losses = fit(halves, 5, shares(lambda rank: slice(rank, None, 2)), run)
    expected = fit(whole, 5, shares(lambda rank: slice(None)), run)

    np.testing.assert_allclose(losses, expected, rtol=1e-3)
    np.testing.assert_allclose(halves.weights, whole.weights, rtol=1e-2, atol=1e-4)


@pytest.mark.run_on(["distributed strategy"])
def test_replicas_never_drift_apart(device_scope, shares):
    strategy = device_scope.strategy
    model = Regressor()

    def noisy(on_replica, batch):
        def with_noise(features, target):
            return on_replica((features + tf.random.normal(tf.shape(features)), target))

        return strategy.run(with_noise, args=batch)

    fit(model, 3, shares(lambda rank: slice(rank, None, 2)), noisy)

    for variable in model.trainable_variables:
        first, second = strategy.experimental_local_results(variable)
        np.testing.assert_array_equal(first, second)
