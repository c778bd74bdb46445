"""Flips and crops."""

import tensorflow as tf


def random_flip(images, generator, probability=0.5):
    """Mirror each image left to right with the given probability."""
    drawn = generator.uniform([tf.shape(images)[0], 1, 1, 1])
    return tf.where(drawn < probability, tf.reverse(images, axis=[2]), images)


def crop(images, offsets, size):
    """Cut a window of ``size`` (height, width) from each image at its own (top, left) offset.

    >>> image = tf.reshape(tf.range(9.0), [1, 3, 3, 1])
    >>> crop(image, [[1, 0]], (2, 2))[0, :, :, 0].numpy().tolist()
    [[3.0, 4.0], [6.0, 7.0]]
    """
    height, width = size
    offsets = tf.convert_to_tensor(offsets, tf.int32)
    rows = offsets[:, 0, tf.newaxis] + tf.range(height)
    columns = offsets[:, 1, tf.newaxis] + tf.range(width)
    images = tf.gather(images, rows, axis=1, batch_dims=1)
    # batch_dims with axis=2 would pair rows with columns; bring the columns to the front instead
    images = tf.gather(tf.transpose(images, [0, 2, 1, 3]), columns, axis=1, batch_dims=1)
    return tf.transpose(images, [0, 2, 1, 3])


def random_crop(images, generator, size):
    """Cut a window of ``size`` from each image, every position being equally likely."""
    batch, height, width, _ = tf.unstack(tf.shape(images))
    room = tf.stack([height - size[0], width - size[1]])
    tf.debugging.assert_non_negative(room, "the window is larger than the images")
    # uniform floats and not integers: maxval of the integer draw must be one number, not two
    drawn = generator.uniform([batch, 2]) * tf.cast(room + 1, tf.float32)
    return crop(images, tf.minimum(tf.cast(drawn, tf.int32), room), size)
