import numpy as np
import pytest
import tensorflow as tf

from ringnorm import GroupNorm, RMSNorm, SyncBatchNorm


def images(*shape):
    return tf.constant(np.random.default_rng(7).normal(2.0, 3.0, shape), tf.float32)


@pytest.mark.run_on(["cpu", "gpu"])
def test_rms_norm_gives_unit_power(device_scope):
    y = RMSNorm(16)(images(8, 16))

    np.testing.assert_allclose(tf.reduce_mean(tf.square(y), axis=-1), np.ones(8), rtol=1e-4)
    device = tf.DeviceSpec.from_string(device_scope.devices[0])
    assert tf.DeviceSpec.from_string(y.device).device_type == device.device_type
    assert tf.DeviceSpec.from_string(y.device).device_index == device.device_index


@pytest.mark.run_on(["cpu", "gpu"])
def test_rms_norm_does_not_depend_on_the_scale_of_its_input():
    norm, x = RMSNorm(16), images(4, 16)

    np.testing.assert_allclose(norm(x), norm(1000.0 * x), rtol=1e-4)


@pytest.mark.numerics
@pytest.mark.run_on(["cpu", "gpu"])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_group_norm_matches_numpy(groups):
    x = images(2, 3, 3, 4)

    y = GroupNorm(channels=4, groups=groups)(x)

    reference = x.numpy().astype(np.float64).reshape(2, 9, groups, 4 // groups)
    reference -= reference.mean(axis=(1, 3), keepdims=True)
    reference /= np.sqrt(reference.var(axis=(1, 3), keepdims=True) + 1e-5)
    np.testing.assert_allclose(y, reference.reshape(2, 3, 3, 4), atol=1e-4)


def test_group_norm_refuses_unequal_groups():
    with pytest.raises(ValueError, match="10 channels cannot be split into 3"):
        GroupNorm(channels=10, groups=3)


@pytest.mark.run_on(["cpu", "gpu"])
class TestSyncBatchNormOnOneDevice:
    def test_training_normalises_the_batch(self):
        y = SyncBatchNorm(4)(images(64, 4), training=True)

        np.testing.assert_allclose(tf.reduce_mean(y, axis=0), np.zeros(4), atol=1e-5)
        np.testing.assert_allclose(tf.math.reduce_variance(y, axis=0), np.ones(4), atol=1e-4)

    def test_inference_uses_the_moving_statistics(self):
        norm = SyncBatchNorm(1, momentum=0.0, epsilon=0.0)
        norm(tf.constant([[1.0], [3.0]]), training=True)

        y = norm(tf.constant([[2.0], [4.0]]), training=False)

        np.testing.assert_allclose(y, [[0.0], [2.0]], atol=1e-6)

    def test_gradient_is_blind_to_a_shift_of_the_batch(self):
        norm, x = SyncBatchNorm(3), images(16, 3)
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.square(norm(x, training=True)) * images(16, 3))

        np.testing.assert_allclose(
            tf.reduce_sum(tape.gradient(loss, x), axis=0), np.zeros(3), atol=1e-3
        )


@pytest.mark.run_on(["distributed strategy"])
def test_replicas_normalise_as_one_device_would(device_scope):
    strategy = device_scope.strategy
    batch = images(8, 4)
    norm = SyncBatchNorm(4)

    @tf.function
    def normalise():
        def on_replica():
            rank = tf.distribute.get_replica_context().replica_id_in_sync_group
            return norm(tf.gather(tf.reshape(batch, [2, 4, 4]), rank), training=True)

        return strategy.run(on_replica)

    halves = strategy.experimental_local_results(normalise())

    whole = batch.numpy() - batch.numpy().mean(axis=0)
    whole /= np.sqrt(batch.numpy().var(axis=0) + 1e-5)
    np.testing.assert_allclose(tf.concat(halves, axis=0), whole, atol=1e-4)
    np.testing.assert_allclose(
        norm.moving_mean.read_value(), 0.1 * batch.numpy().mean(axis=0), rtol=1e-4
    )


class SavedNormTest(tf.test.TestCase):
    """Restoring goes through the file system and takes no side in the choice of device."""

    @pytest.mark.run_on(["cpu", "gpu"])
    def test_checkpoint_restores_the_statistics(self):
        norm = SyncBatchNorm(2, momentum=0.5)
        norm(tf.constant([[0.0, 2.0], [4.0, 2.0]]), training=True)
        path = tf.train.Checkpoint(norm=norm).write(f"{self.get_temp_dir()}/norm")

        fresh = SyncBatchNorm(2)
        tf.train.Checkpoint(norm=fresh).read(path).assert_consumed()

        self.assertAllClose(fresh.moving_mean, [1.0, 1.0])
        self.assertAllClose(fresh.moving_variance, [2.5, 0.5])

    @pytest.mark.run_on(["distributed"])
    def test_parameters_are_mirrored(self):
        strategy = tf.distribute.get_strategy()

        scale = RMSNorm(3).scale

        self.assertLen(strategy.experimental_local_results(scale), 2)
        self.assertAllEqual(scale, [1.0, 1.0, 1.0])
