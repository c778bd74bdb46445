"""From decisions to the text of the harness."""

from __future__ import annotations

from devicegen.decisions import MARKERS, Decisions
from devicegen.templates_folder import environment

# TensorFlow's names for the same two things: https://www.tensorflow.org/api_docs/python/tf/config
LOGICAL_DEVICE_NAMES = {
    "stable": {
        "logical": "LogicalDeviceConfiguration",
        "set_logical": "set_logical_device_configuration",
    },
    "experimental": {
        "logical": "experimental.VirtualDeviceConfiguration",
        "set_logical": "experimental.set_virtual_device_configuration",
    },
}


def render_conftest(decisions: Decisions, version: str) -> str:
    r"""Return the text of the harness, with ``\n`` line endings.

    ``version`` is the devicegen version that its header names.
    """
    return (
        environment()
        .get_template("conftest.py.j2")
        .render(
            version=version,
            markers=MARKERS,
            tf_config=LOGICAL_DEVICE_NAMES[decisions.logical_device_api],
            xdist=decisions.xdist,
            memory_limit_mb=decisions.memory_limit_mb,
            rocm=decisions.rocm,
            bazel=decisions.main is not None,
        )
    )


def render_texts(decisions: Decisions, version: str) -> dict[str, str]:
    """Return all that is written as it is rendered: path -> text, the harness first."""
    texts = {decisions.conftest: render_conftest(decisions, version)}
    if decisions.main is not None:
        texts[decisions.main] = render_main(decisions, version)
    return texts


def render_main(decisions: Decisions, version: str) -> str:
    r"""Return the text of the ``py_test`` main, with ``\n`` line endings."""
    template = environment().get_template("pytest_main.py.j2")
    depth = (decisions.main or "").count("/")
    return template.render(version=version, conftest=decisions.conftest, depth=depth)
