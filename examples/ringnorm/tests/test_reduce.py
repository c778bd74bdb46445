import numpy as np
import pytest
import tensorflow as tf

from ringnorm import global_mean, global_moments

# Built when the module is imported, before any test has chosen a device.
FAR_FROM_ZERO = tf.constant([[10000.0, -3.0], [10001.0, -1.0], [10002.0, 1.0], [10003.0, 3.0]])


def spec(name):
    """Reduce a device's name, in whichever of TensorFlow's spellings, to its type and index."""
    parsed = tf.DeviceSpec.from_string(name)
    return parsed.device_type, parsed.device_index


def split(strategy, batch):
    """Give each replica its share of ``batch``."""
    shares = tf.split(batch, strategy.num_replicas_in_sync)
    return strategy.experimental_distribute_values_from_function(
        lambda context: shares[context.replica_id_in_sync_group]
    )


@pytest.mark.run_on(["cpu", "gpu"])
def test_mean_of_one_replica(device_scope):
    mean = global_mean(tf.constant([1.0, 2.0, 6.0]))

    assert mean.numpy() == pytest.approx(3.0)
    assert spec(mean.device) == spec(device_scope.devices[0])


@pytest.mark.run_on(["cpu", "gpu"])
def test_mean_of_nothing_is_zero():
    assert global_mean(tf.zeros([0])).numpy() == 0.0


@pytest.mark.numerics
@pytest.mark.run_on(["cpu", "gpu"])
@pytest.mark.parametrize("axes", [[0], [1], [0, 1], [-1]], ids=str)
def test_moments_match_numpy(axes):
    mean, variance = global_moments(FAR_FROM_ZERO, axes)

    reference = FAR_FROM_ZERO.numpy().astype(np.float64)
    np.testing.assert_allclose(mean, reference.mean(axis=tuple(axes)), rtol=1e-6)
    np.testing.assert_allclose(variance, reference.var(axis=tuple(axes)), rtol=1e-5)


@pytest.mark.run_on(["distributed strategy"])
def test_all_reduce_adds_the_replicas_up(device_scope):
    def rank():
        context = tf.distribute.get_replica_context()
        one_based = tf.cast(context.replica_id_in_sync_group, tf.float32) + 1.0
        return context.all_reduce(tf.distribute.ReduceOp.SUM, one_based)

    sums = device_scope.strategy.experimental_local_results(device_scope.strategy.run(rank))

    assert [float(total) for total in sums] == [3.0, 3.0]


@pytest.mark.run_on(["distributed strategy"])
def test_each_replica_computes_on_its_own_device(device_scope):
    strategy = device_scope.strategy

    # eager: what a tf.function returns may name the host, wherever it was computed
    results = strategy.experimental_local_results(
        strategy.run(lambda: tf.square(tf.random.uniform([4])))
    )

    assert [spec(result.device) for result in results] == [
        spec(name) for name in device_scope.devices
    ]
    assert len(set(device_scope.devices)) == 2


@pytest.mark.run_on(["distributed"])
def test_mean_weighs_replicas_by_their_examples(device_scope):
    strategy = device_scope.strategy

    def mean_of_uneven_shares():
        rank = tf.distribute.get_replica_context().replica_id_in_sync_group
        return global_mean(tf.range(1.0, tf.cast(rank, tf.float32) * 2.0 + 2.0))

    # replica 0 holds [1], replica 1 holds [1, 2, 3]
    means = strategy.experimental_local_results(strategy.run(mean_of_uneven_shares))

    assert [float(mean) for mean in means] == [1.75, 1.75]


@pytest.mark.numerics
@pytest.mark.run_on(["distributed"])
def test_moments_are_those_of_the_whole_batch(device_scope):
    strategy = device_scope.strategy

    @tf.function
    def moments(batch):
        return strategy.run(lambda share: global_moments(share, [0]), args=(batch,))

    means, variances = moments(split(strategy, FAR_FROM_ZERO))

    for mean in strategy.experimental_local_results(means):
        np.testing.assert_allclose(mean, [10001.5, 0.0], rtol=1e-6)
    for variance in strategy.experimental_local_results(variances):
        np.testing.assert_allclose(variance, [1.25, 5.0], rtol=1e-4)


@pytest.mark.run_on(["distributed"])
def test_reducing_outside_of_run_is_refused():
    with pytest.raises(RuntimeError, match=r"strategy\.run"):
        global_mean(tf.constant([1.0]))
