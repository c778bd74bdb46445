"""Changes of colour that leave every pixel where it is."""

import tensorflow as tf

# ITU-R BT.601 luma, as in JPEG
LUMA = (0.299, 0.587, 0.114)


def grayscale(images):
    """Replace the three channels by their luma.

    >>> grayscale(tf.constant([[[[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]]])).numpy().round(3).tolist()
    [[[[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]]]
    """
    luma = tf.reduce_sum(images * tf.constant(LUMA, images.dtype), axis=-1, keepdims=True)
    return tf.broadcast_to(luma, tf.shape(images))


def brightness_jitter(strength):
    """Return an operation that adds a random number to each image, up to ``strength`` each way."""

    def jitter(images, generator):
        shift = generator.uniform([tf.shape(images)[0], 1, 1, 1], -strength, strength)
        return tf.clip_by_value(images + tf.cast(shift, images.dtype), 0.0, 1.0)

    return jitter


def contrast_jitter(strength):
    """Return an operation that stretches each image about its own mean by a random factor."""
    if not 0.0 <= strength <= 1.0:
        raise ValueError(f"strength must lie between 0 and 1, not {strength}")

    def jitter(images, generator):
        factor = generator.uniform([tf.shape(images)[0], 1, 1, 1], 1.0 - strength, 1.0 + strength)
        mean = tf.reduce_mean(images, axis=[1, 2, 3], keepdims=True)
        return tf.clip_by_value(mean + tf.cast(factor, images.dtype) * (images - mean), 0.0, 1.0)

    return jitter
