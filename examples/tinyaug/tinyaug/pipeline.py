"""Operations in a row, compiled together, with one generator."""

import tensorflow as tf


class Pipeline(tf.Module):
    """Call the given operations one after the other.

    >>> brighter = lambda images, generator: images + 0.25
    >>> Pipeline(brighter, brighter, seed=0)(tf.zeros([1, 1, 1, 1])).numpy().item()
    0.5
    """

    def __init__(self, *operations, seed=None, name=None):
        super().__init__(name=name)
        self.operations = operations
        if seed is None:
            self.generator = tf.random.Generator.from_non_deterministic_state()
        else:
            self.generator = tf.random.Generator.from_seed(seed)

    @tf.function
    def __call__(self, images):
        for operation in self.operations:
            images = operation(images, self.generator)
        return images

    def mapped(self, dataset):
        """Return ``dataset`` with its batches augmented; on the host, where tf.data runs."""
        return dataset.map(self)
