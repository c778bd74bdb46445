"""Reductions over every replica of the current strategy.

Each function may be called inside ``strategy.run`` (it reduces over the replicas) and outside of any
strategy (there is one replica and the reduction is local).
"""

import tensorflow as tf


def _sum_over_replicas(tensor):
    replica = tf.distribute.get_replica_context()
    if replica is None:
        raise RuntimeError("call this inside strategy.run(), where there is a replica context")
    if replica.num_replicas_in_sync == 1:
        return tensor
    return replica.all_reduce(tf.distribute.ReduceOp.SUM, tensor)


def global_mean(values):
    """Return the mean of all elements on all replicas; replicas may differ in batch size."""
    values = tf.convert_to_tensor(values)
    count = tf.cast(tf.size(values), values.dtype)
    total, count = tf.unstack(_sum_over_replicas(tf.stack([tf.reduce_sum(values), count])))
    return tf.math.divide_no_nan(total, count)


def global_moments(x, axes):
    """Return mean and biased variance of ``x`` over ``axes`` and over all replicas.

    The mean is reduced first and the squares are summed around it: ``E[x^2] - E[x]^2`` would save
    one all-reduce and lose every digit when the mean is large.
    """
    axes = [axis % x.shape.rank for axis in axes]
    size = tf.cast(tf.reduce_prod(tf.gather(tf.shape(x), axes)), x.dtype)
    local_mean, local_variance = tf.nn.moments(x, axes)
    count, total = tf.unstack(
        _sum_over_replicas(tf.stack([tf.fill(tf.shape(local_mean), size), size * local_mean]))
    )
    mean = total / count
    spread = size * (local_variance + tf.square(local_mean - mean))
    return mean, _sum_over_replicas(spread) / count
