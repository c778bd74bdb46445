"""From decisions to the text of the harness."""

from __future__ import annotations

from pathlib import Path

from devicegen.decisions import Decisions
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


def render_conftest(decisions: Decisions, version: str, overrides: Path | None = None) -> str:
    r"""Return the text of the harness, with ``\n`` line endings.

    ``version`` is the devicegen version that its header names; a template in the folder
    ``overrides`` comes before ours. Raises ``jinja2.TemplateError`` for one that is wrong.
    """
    text = (
        environment(overrides)
        .get_template("conftest.py.j2")
        .render(
            version=version,
            markers=decisions.markers,
            tf_config=LOGICAL_DEVICE_NAMES[decisions.logical_device_api],
            xdist=decisions.xdist,
            split=decisions.split,
            durations_history=decisions.durations_history,
            memory_limit_mb=decisions.memory_limit_mb,
            rocm=decisions.rocm,
            bazel=decisions.main is not None,
            strategies=decisions.strategies,
            aliases=decisions.aliases,
            seeds=decisions.seeds,
            plain_prefix=decisions.names.plain_prefix,
        )
    )
    return decisions.names.renamed(text)


def render_texts(
    decisions: Decisions, version: str, overrides: Path | None = None
) -> dict[str, str]:
    """Return all that is written as it is rendered: path -> text, the harness first."""
    texts = {decisions.conftest: render_conftest(decisions, version, overrides)}
    if decisions.main is not None:
        texts[decisions.main] = render_main(decisions, version, overrides)
    return texts


def render_main(decisions: Decisions, version: str, overrides: Path | None = None) -> str:
    r"""Return the text of the ``py_test`` main, with ``\n`` line endings."""
    return (
        environment(overrides)
        .get_template("pytest_main.py.j2")
        .render(
            version=version,
            conftest=decisions.conftest,
            depth=(decisions.main or "").count("/"),
            option_word=decisions.names.option_word,
        )
    )
