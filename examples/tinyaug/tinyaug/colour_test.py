import unittest

import numpy as np
import pytest
import tensorflow as tf

from tinyaug import colour

IMAGES = np.random.default_rng(2).uniform(0.3, 0.7, (8, 5, 5, 3)).astype(np.float32)


class GrayscaleTest(unittest.TestCase):
    def test_channels_become_equal(self):
        gray = colour.grayscale(IMAGES).numpy()

        self.assertEqual(gray.shape, IMAGES.shape)
        np.testing.assert_array_equal(gray[..., 0], gray[..., 2])

    def test_green_is_brighter_than_blue(self):
        red, green, blue = colour.grayscale(tf.eye(3)[tf.newaxis, tf.newaxis])[0, 0, :, 0].numpy()

        self.assertGreater(green, red)
        self.assertGreater(red, blue)


@pytest.mark.run_on(["cpu", "gpu"])
class JitterTest(tf.test.TestCase):
    def setUp(self):
        super().setUp()
        self.generator = tf.random.Generator.from_seed(1)

    def test_brightness_shifts_a_whole_image(self):
        shift = colour.brightness_jitter(0.1)(IMAGES, self.generator) - IMAGES

        self.assertAllClose(shift, tf.broadcast_to(shift[:, :1, :1, :1], IMAGES.shape), atol=1e-6)
        self.assertAllInRange(shift, -0.1001, 0.1001)
        self.assertLen(set(shift[:, 0, 0, 0].numpy()), len(IMAGES))

    def test_contrast_keeps_the_mean(self):
        stretched = colour.contrast_jitter(0.4)(IMAGES, self.generator)

        self.assertAllClose(
            tf.reduce_mean(stretched, [1, 2, 3]), IMAGES.mean((1, 2, 3)), atol=1e-3
        )
        self.assertNotAllClose(stretched, IMAGES)

    def test_values_stay_between_zero_and_one(self):
        for jitter in colour.brightness_jitter(5.0), colour.contrast_jitter(1.0):
            with self.subTest(jitter=jitter.__qualname__):
                self.assertAllInRange(jitter(IMAGES, self.generator), 0.0, 1.0)

    def test_a_seed_fixes_the_result(self):
        jitter = colour.brightness_jitter(0.2)

        again = jitter(IMAGES, tf.random.Generator.from_seed(1))

        self.assertAllEqual(jitter(IMAGES, self.generator), again)


@pytest.mark.parametrize("strength", [-0.1, 1.5])
def test_contrast_refuses_a_strength_that_would_invert(strength):
    with pytest.raises(ValueError, match="between 0 and 1"):
        colour.contrast_jitter(strength)
