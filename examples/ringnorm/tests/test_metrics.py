import numpy as np
import pytest
import tensorflow as tf

from ringnorm import RunningMean, TopKAccuracy

LOGITS = tf.constant([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2], [0.3, 0.4, 0.3]])


@pytest.mark.run_on(["cpu", "gpu"])
@pytest.mark.parametrize(("k", "accuracy"), [(1, 1 / 3), (2, 2 / 3), (3, 1.0)])
def test_top_k_accuracy(k, accuracy):
    metric = TopKAccuracy(k)

    metric.update([1, 1, 2], LOGITS + [0.0, 0.0, -0.1])

    assert metric.result().numpy() == pytest.approx(accuracy)


def test_running_mean_starts_and_restarts_at_zero():
    mean = RunningMean()
    assert mean.result().numpy() == 0.0

    mean.update([1.0, 5.0], weights=[3.0, 1.0])
    assert mean.result().numpy() == 2.0

    mean.reset()
    assert mean.result().numpy() == 0.0


@pytest.mark.run_on(["distributed strategy"])
def test_replicas_count_together(device_scope):
    strategy = device_scope.strategy
    mean = RunningMean()

    @tf.function
    def update():
        def on_replica():
            rank = tf.distribute.get_replica_context().replica_id_in_sync_group
            mean.update(tf.cast(tf.stack([rank, rank + 2]), tf.float32))

        strategy.run(on_replica)

    update()
    update()

    assert strategy.experimental_local_results(mean.weight)[0].numpy() == 4.0
    assert mean.result().numpy() == 1.5


@pytest.mark.no_device_scope
def test_metric_follows_the_device_that_its_owner_picks(device_scope):
    assert device_scope.devices == ()
    last = tf.config.list_logical_devices()[-1].name
    with tf.device(last):
        mean = RunningMean()
        mean.update(np.float32([2.0, 4.0]))
        assert mean.total.device.endswith(last.rpartition("/")[2])
        assert mean.result().numpy() == 3.0
