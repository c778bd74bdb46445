"""Decisions become text: each one shows, nothing else does, and the text can be imported."""

from __future__ import annotations

import ast

import pytest

from devicegen.decisions import MARKERS
from devicegen.rendering import LOGICAL_DEVICE_NAMES
from kit.harness import ANSWERS, COMBINATIONS, VERSION, render_harness


@pytest.mark.parametrize("combination", COMBINATIONS)
def test_text_is_whole_lines_of_python(combination: str) -> None:
    text = render_harness(**COMBINATIONS[combination])

    compile(text, "conftest.py", "exec", dont_inherit=True)
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert "\r" not in text
    assert "{%" not in text
    assert text.isascii()


def test_rendering_is_repeatable() -> None:
    assert render_harness() == render_harness()


@pytest.mark.parametrize("decision", ANSWERS)
def test_each_decision_shows(decision: str) -> None:
    texts = {render_harness(**{decision: answer}) for answer in ANSWERS[decision]}

    assert len(texts) == len(ANSWERS[decision])


def test_header_names_the_version_and_the_command() -> None:
    docstring = ast.get_docstring(ast.parse(render_harness()))

    assert docstring is not None
    assert f"devicegen {VERSION}" in docstring
    assert "devicegen upgrade" in docstring


def test_marker_lines_are_those_of_the_registry() -> None:
    (assignment,) = [
        node
        for node in ast.parse(render_harness()).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "MARKERS"
    ]

    assert ast.literal_eval(assignment.value) == MARKERS


@pytest.mark.parametrize("api", LOGICAL_DEVICE_NAMES)
def test_only_the_chosen_names_of_the_api_are_used(api: str) -> None:
    text = render_harness(logical_device_api=api)

    for name, names in LOGICAL_DEVICE_NAMES.items():
        for used in names.values():
            assert (f"tf.config.{used}" in text) == (name == api), used


def test_without_xdist_there_is_none_of_its_hooks() -> None:
    assert "pytest_xdist_" in render_harness()
    assert "pytest_xdist_" not in render_harness(xdist=False)


def test_memory_limit_is_a_named_constant() -> None:
    assert "MEMORY_LIMIT_MB = 2048" in render_harness(memory_limit_mb=2048)
    assert "MEMORY_LIMIT_MB = 0 " in render_harness()
