"""Streaming metrics; every replica counts its own examples, reading them adds the replicas up."""

import tensorflow as tf

from ringnorm.variables import counter


class RunningMean(tf.Module):
    """Weighted mean of everything passed to ``update`` since the last ``reset``."""

    def __init__(self, name=None):
        super().__init__(name=name)
        self.total = counter("total")
        self.weight = counter("weight")

    def update(self, values, weights=None):
        """Add ``values``, each counted ``weights`` times (once, when there are none)."""
        values = tf.cast(values, tf.float32)
        weights = tf.ones_like(values) if weights is None else tf.cast(weights, tf.float32)
        self.total.assign_add(tf.reduce_sum(values * weights))
        self.weight.assign_add(tf.reduce_sum(weights))

    def result(self):
        """Return the mean, 0 when nothing was added. Call it outside of ``strategy.run``."""
        return tf.math.divide_no_nan(self.total.read_value(), self.weight.read_value())

    def reset(self):
        """Forget everything."""
        self.total.assign(0.0)
        self.weight.assign(0.0)


class TopKAccuracy(tf.Module):
    """Share of examples whose label is among the ``k`` largest logits."""

    def __init__(self, k=1, name=None):
        super().__init__(name=name)
        self.k = k
        self.hits = RunningMean()

    def update(self, labels, logits):
        """Add one batch: integer labels [batch] and logits [batch, classes]."""
        _, best = tf.math.top_k(logits, k=self.k)
        hits = tf.reduce_any(best == tf.cast(labels, best.dtype)[:, tf.newaxis], axis=-1)
        self.hits.update(hits)

    def result(self):
        """Return the share of hits, 0 when nothing was added."""
        return self.hits.result()

    def reset(self):
        """Forget everything."""
        self.hits.reset()
