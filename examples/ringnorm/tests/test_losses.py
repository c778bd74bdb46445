import numpy as np
import pytest


def test_smoothing_raises_the_price_of_certainty():
    import tensorflow as tf

    from ringnorm import smoothed_cross_entropy

    certain = tf.constant([[20.0, 0.0, 0.0]])
    hard, soft = (smoothed_cross_entropy([0], certain, smoothing=s) for s in (0.0, 0.1))

    assert hard.numpy()[0] < 1e-6
    assert soft.numpy()[0] == pytest.approx(20.0 * 0.1 * 2 / 3, rel=1e-4)


@pytest.mark.run_on(["cpu", "gpu"])
def test_loss_is_computed_in_the_scope(device_scope):
    import tensorflow as tf

    from ringnorm import focal

    loss = focal([1.0, 0.0], tf.random.normal([2]))

    on, wanted = map(tf.DeviceSpec.from_string, (loss.device, device_scope.devices[0]))
    assert (on.device_type, on.device_index) == (wanted.device_type, wanted.device_index)


@pytest.mark.run_on(["cpu", "gpu"])
@pytest.mark.parametrize("label", [0, 1])
def test_focal_with_gamma_zero_is_cross_entropy(label):
    import tensorflow as tf

    from ringnorm import focal

    logits = tf.constant([-3.0, -0.5, 0.0, 2.0])

    entropy = np.log1p(np.exp(logits.numpy() * (1 - 2 * label)))
    np.testing.assert_allclose(focal([label] * 4, logits, gamma=0.0), entropy, rtol=1e-4)


@pytest.mark.run_on(["gpu"])
def test_cosine_margin_has_no_gradient_beyond_the_margin():
    import tensorflow as tf

    from ringnorm import cosine_margin

    anchor = tf.Variable([[1.0, 0.0]])
    with tf.GradientTape() as tape:
        loss = cosine_margin(anchor, [[2.0, 0.0]], [[-1.0, 0.0]])

    assert loss.numpy() == [0.0]
    np.testing.assert_allclose(tape.gradient(loss, anchor), [[0.0, 0.0]], atol=1e-7)
