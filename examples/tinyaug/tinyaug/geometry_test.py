import numpy as np
import pytest
import tensorflow as tf

from tinyaug import geometry

# Four images that say where each pixel came from: 100 * row + column.
GRID = tf.tile(
    tf.cast(100 * tf.range(6)[:, tf.newaxis] + tf.range(8), tf.float32)[
        tf.newaxis, ..., tf.newaxis
    ],
    [4, 1, 1, 1],
)


def same_device(name, other):
    name, other = tf.DeviceSpec.from_string(name), tf.DeviceSpec.from_string(other)
    return (name.device_type, name.device_index) == (other.device_type, other.device_index)


@pytest.fixture
def generator():
    return tf.random.Generator.from_seed(5)


@pytest.mark.run_on(["cpu", "gpu"])
@pytest.mark.parametrize(("probability", "flipped"), [(0.0, 0), (1.0, 4)])
def test_flip_never_and_always(generator, probability, flipped):
    result = geometry.random_flip(GRID, generator, probability)

    assert np.sum(result.numpy()[:, 0, 0, 0] == 7.0) == flipped


@pytest.mark.run_on(["cpu", "gpu"])
def test_flipping_runs_in_the_scope(generator, device_scope):
    result = geometry.random_flip(GRID, generator)

    assert same_device(result.device, device_scope.devices[0])
    assert same_device(generator.state.device, device_scope.devices[0])


@pytest.mark.statistics
@pytest.mark.run_on(["cpu", "gpu"])
def test_flip_is_fair(generator):
    marked = tf.tile(tf.constant([[[[1.0], [0.0]]]]), [2000, 1, 1, 1])

    share = tf.reduce_mean(geometry.random_flip(marked, generator)[:, 0, 0, 0])

    assert share.numpy() == pytest.approx(0.5, abs=0.05)


@pytest.mark.run_on(["cpu", "gpu"])
def test_crop_takes_each_image_at_its_own_offset():
    offsets = [[0, 0], [1, 2], [4, 0], [4, 6]]

    windows = geometry.crop(GRID, offsets, (2, 2))

    assert windows[:, 0, 0, 0].numpy().tolist() == [0.0, 102.0, 400.0, 406.0]
    assert windows[3, :, :, 0].numpy().tolist() == [[406.0, 407.0], [506.0, 507.0]]


@pytest.mark.run_on(["cpu", "gpu"])
@pytest.mark.parametrize("size", [(1, 1), (3, 5), (6, 8)], ids="{0[0]}x{0[1]}".format)
def test_random_crop_gives_a_connected_window(generator, size):
    windows = geometry.random_crop(GRID, generator, size).numpy()[..., 0]

    assert windows.shape == (4, *size)
    assert (np.diff(windows, axis=1) == 100).all()
    assert (np.diff(windows, axis=2) == 1).all()


def test_a_window_larger_than_the_images_is_refused(generator):
    with pytest.raises(tf.errors.InvalidArgumentError, match="larger than the images"):
        geometry.random_crop(GRID, generator, (7, 2))


@pytest.mark.run_on(["distributed strategy"])
def test_replicas_draw_different_crops(device_scope):
    strategy = device_scope.strategy
    generator = tf.random.Generator.from_seed(11)  # made in the scope: a stream for each replica

    @tf.function
    def offsets():
        return strategy.run(lambda: geometry.random_crop(GRID, generator, (1, 1))[:, 0, 0, 0])

    draws = np.array([strategy.experimental_local_results(offsets()) for _ in range(4)])

    assert draws.shape == (4, 2, 4)  # calls, replicas, images
    assert not np.array_equal(draws[:, 0], draws[:, 1])
