import numpy as np
import pytest


def generator(seed=3):
    import tensorflow as tf

    return tf.random.Generator.from_seed(seed)


def ones(batch=16, height=12, width=12):
    return np.ones((batch, height, width, 3), np.float32)


@pytest.mark.run_on(["cpu", "gpu"])
@pytest.mark.parametrize("size", [1, 4, 5])
def test_the_hole_is_a_square_or_clipped_by_the_border(size):
    from tinyaug import cutout

    holes = cutout(size)(ones(), generator()).numpy()[..., 0] == 0.0

    areas = holes.sum(axis=(1, 2))
    assert areas.max() == size * size
    assert areas.min() >= (size // 2) ** 2
    for hole in holes:
        rows, columns = hole.any(axis=1), hole.any(axis=0)
        np.testing.assert_array_equal(hole, np.outer(rows, columns))


@pytest.mark.run_on(["gpu"])
def test_a_hole_may_have_any_colour(device_scope):
    import tensorflow as tf

    from tinyaug import cutout

    painted = cutout(3, value=0.25)(ones(), generator())

    assert set(np.unique(painted)) == {0.25, 1.0}
    assert tf.DeviceSpec.from_string(painted.device).device_index == (
        tf.DeviceSpec.from_string(device_scope.devices[0]).device_index
    )


def test_a_hole_larger_than_the_image_hides_it():
    from tinyaug import cutout

    assert not cutout(100)(ones(), generator()).numpy().any()
