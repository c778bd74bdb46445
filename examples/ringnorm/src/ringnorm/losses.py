"""Losses; each returns one value per example and leaves the reduction to the caller."""

import tensorflow as tf


@tf.function
def smoothed_cross_entropy(labels, logits, smoothing=0.1):
    """Softmax cross entropy against labels mixed with the uniform distribution."""
    classes = tf.shape(logits)[-1]
    targets = tf.one_hot(labels, classes, dtype=logits.dtype)
    targets = targets * (1.0 - smoothing) + smoothing / tf.cast(classes, logits.dtype)
    return -tf.reduce_sum(targets * tf.nn.log_softmax(logits), axis=-1)


@tf.function
def focal(labels, logits, gamma=2.0):
    """Binary focal loss (Lin et al., 2017): cross entropy that well-classified examples escape."""
    labels = tf.cast(labels, logits.dtype)
    entropy = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
    miss = tf.sigmoid(tf.where(labels > 0.5, -logits, logits))
    return tf.pow(miss, gamma) * entropy


@tf.function
def cosine_margin(anchors, positives, negatives, margin=0.5):
    """Triplet loss on cosine similarities."""
    anchors, positives, negatives = (
        tf.math.l2_normalize(x, axis=-1) for x in (anchors, positives, negatives)
    )
    near = tf.reduce_sum(anchors * positives, axis=-1)
    far = tf.reduce_sum(anchors * negatives, axis=-1)
    return tf.nn.relu(far - near + margin)
