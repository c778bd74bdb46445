"""A small optimiser and one training step, for one replica or many."""

import tensorflow as tf

from ringnorm.reduce import global_mean
from ringnorm.variables import parameter


class Momentum(tf.Module):
    """Stochastic gradient descent with momentum; a velocity lives where its parameter lives."""

    def __init__(self, parameters, learning_rate=0.1, momentum=0.9, name=None):
        super().__init__(name=name)
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.parameters = list(parameters)
        self.velocities = [
            parameter(tf.zeros(p.shape), "velocity", trainable=False) for p in self.parameters
        ]

    def apply(self, gradients):
        """Update every parameter; gradients must be equal on all replicas."""
        for target, velocity, gradient in zip(self.parameters, self.velocities, gradients):
            step = self.momentum * velocity - self.learning_rate * gradient
            velocity.assign(step)
            target.assign_add(step)


def train_step(loss_of_batch, optimiser, batch):
    """Run one step on this replica's part of the batch; return the loss over all replicas."""
    with tf.GradientTape() as tape:
        loss = global_mean(loss_of_batch(batch))
    gradients = tape.gradient(loss, optimiser.parameters)
    replica = tf.distribute.get_replica_context()
    if replica.num_replicas_in_sync > 1:
        # Every replica differentiates the same global loss, hence the mean and not the sum.
        gradients = replica.all_reduce(tf.distribute.ReduceOp.MEAN, gradients)
    optimiser.apply(gradients)
    return loss
