"""Normalisation layers as plain modules; channels are the last axis."""

import tensorflow as tf

from ringnorm.reduce import global_moments
from ringnorm.variables import parameter, statistic


class RMSNorm(tf.Module):
    """Root mean square normalisation (Zhang and Sennrich, 2019): scale, but no centring."""

    def __init__(self, channels, epsilon=1e-6, name=None):
        super().__init__(name=name)
        self.epsilon = epsilon
        self.scale = parameter(tf.ones([channels]), "scale")

    def __call__(self, x):
        mean_square = tf.reduce_mean(tf.square(x), axis=-1, keepdims=True)
        return x * tf.math.rsqrt(mean_square + self.epsilon) * self.scale


class GroupNorm(tf.Module):
    """Group normalisation (Wu and He, 2018): moments over space and over each group of channels."""

    def __init__(self, channels, groups, epsilon=1e-5, name=None):
        super().__init__(name=name)
        if channels % groups:
            raise ValueError(f"{channels} channels cannot be split into {groups} equal groups")
        self.groups = groups
        self.epsilon = epsilon
        self.scale = parameter(tf.ones([channels]), "scale")
        self.offset = parameter(tf.zeros([channels]), "offset")

    def __call__(self, x):
        shape = tf.shape(x)
        grouped = tf.reshape(x, [shape[0], -1, self.groups, x.shape[-1] // self.groups])
        mean, variance = tf.nn.moments(grouped, [1, 3], keepdims=True)
        normalised = (grouped - mean) * tf.math.rsqrt(variance + self.epsilon)
        return tf.reshape(normalised, shape) * self.scale + self.offset


class SyncBatchNorm(tf.Module):
    """Batch normalisation whose statistics are those of the batch on all replicas."""

    def __init__(self, channels, momentum=0.9, epsilon=1e-5, name=None):
        super().__init__(name=name)
        self.momentum = momentum
        self.epsilon = epsilon
        self.scale = parameter(tf.ones([channels]), "scale")
        self.offset = parameter(tf.zeros([channels]), "offset")
        self.moving_mean = statistic(tf.zeros([channels]), "moving_mean")
        self.moving_variance = statistic(tf.ones([channels]), "moving_variance")

    def __call__(self, x, training):
        if training:
            mean, variance = global_moments(x, axes=range(x.shape.rank - 1))
            self._track(self.moving_mean, mean)
            self._track(self.moving_variance, variance)
        else:
            mean, variance = self.moving_mean, self.moving_variance
        return tf.nn.batch_normalization(x, mean, variance, self.offset, self.scale, self.epsilon)

    def _track(self, moving, value):
        moving.assign_sub((moving - tf.stop_gradient(value)) * (1.0 - self.momentum))
