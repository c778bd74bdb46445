"""Cutout (DeVries and Taylor, 2017): hide a square of each image."""

import tensorflow as tf


def cutout(size, value=0.0):
    """Return an operation that paints ``value`` over a square of ``size``, centred anywhere."""

    def cut(images, generator):
        batch, height, width, _ = tf.unstack(tf.shape(images))
        rows = _band(generator, batch, height, size)[:, :, tf.newaxis]
        columns = _band(generator, batch, width, size)[:, tf.newaxis, :]
        hidden = tf.logical_and(rows, columns)[..., tf.newaxis]
        return tf.where(hidden, tf.cast(value, images.dtype), images)

    return cut


def _band(generator, batch, length, size):
    """Return [batch, length]: true within ``size`` consecutive places, fewer at the borders."""
    length = tf.cast(length, tf.float32)
    start = tf.floor(generator.uniform([batch, 1]) * length) - float(size // 2)
    place = tf.range(length)
    return tf.logical_and(place >= start, place < start + float(size))
