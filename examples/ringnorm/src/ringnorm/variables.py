"""The three kinds of variable that this library keeps, each with its rule for many replicas."""

import tensorflow as tf


def parameter(initial, name=None, trainable=True):
    """Return a variable that is equal on all replicas, also after an update in ``strategy.run``.

    The replicas compute equal updates, so the first one may speak for all.
    """
    return tf.Variable(
        initial,
        trainable=trainable,
        aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
        name=name,
    )


def statistic(initial, name=None):
    """Return a variable that each replica writes for itself; reading it gives the mean."""
    return tf.Variable(
        initial,
        trainable=False,
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.MEAN,
        name=name,
    )


def counter(name=None):
    """Return a float that each replica adds to; reading it gives the sum over replicas."""
    return tf.Variable(
        0.0,
        trainable=False,
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.SUM,
        name=name,
    )
