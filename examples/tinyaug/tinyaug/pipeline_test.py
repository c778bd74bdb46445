import numpy as np
import pytest
import tensorflow as tf

import tinyaug

BATCH = tf.constant(np.random.default_rng(0).uniform(size=(6, 16, 16, 3)), tf.float32)


def build(seed=9):
    return tinyaug.Pipeline(
        tinyaug.random_flip,
        tinyaug.contrast_jitter(0.3),
        tinyaug.cutout(size=4),
        lambda images, generator: tinyaug.random_crop(images, generator, (12, 12)),
        seed=seed,
    )


@pytest.mark.run_on(["cpu", "gpu"])
def test_pipeline_runs_in_the_scope(device_scope):
    result = build()(BATCH)

    assert result.shape == (6, 12, 12, 3)
    placed = tf.DeviceSpec.from_string(result.device)
    wanted = tf.DeviceSpec.from_string(device_scope.devices[0])
    assert (placed.device_type, placed.device_index) == (wanted.device_type, wanted.device_index)
    assert device_scope.kind in ("cpu", "gpu")


@pytest.mark.run_on(["cpu", "gpu"])
def test_equal_seeds_give_equal_images_and_the_next_call_does_not():
    one, other = build(), build()

    np.testing.assert_array_equal(one(BATCH), other(BATCH))
    assert not np.array_equal(one(BATCH), build()(BATCH))


@pytest.mark.no_device_scope
def test_dataset_is_augmented_on_the_host():
    with tf.device("/CPU:0"):
        dataset = tf.data.Dataset.from_tensors(BATCH).repeat(3)
        batches = list(build().mapped(dataset))

    assert [batch.shape for batch in batches] == [(6, 12, 12, 3)] * 3
    assert not np.array_equal(batches[0], batches[1])


@pytest.mark.run_on(["distributed strategy"])
def test_one_pipeline_serves_all_replicas(device_scope):
    strategy = device_scope.strategy
    augment = build()

    results = strategy.experimental_local_results(strategy.run(augment, args=(BATCH,)))

    assert len(results) == len(device_scope.devices) == 2
    assert not np.array_equal(*results)
