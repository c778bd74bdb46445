"""Which frameworks a repository uses, by its requirements and its imports."""

from __future__ import annotations

import re
from typing import NamedTuple

from devicegen.facts.conftests import owners_data
from devicegen.facts.requirement_record import Requirements
from devicegen.facts.source_tree import Location, SourceTree
from devicegen.facts.tensorflow_use import TENSORFLOW_DISTRIBUTIONS, is_for_development

# Name, distributions, module.
FRAMEWORKS = (
    ("TensorFlow", TENSORFLOW_DISTRIBUTIONS, "tensorflow"),
    ("PyTorch", ("torch",), "torch"),
    ("JAX", ("jax", "jaxlib"), "jax"),
    ("Keras", ("keras", "keras-core", "tf-keras"), "keras"),
)


class Framework(NamedTuple):
    """One framework, where it is required (with the version range) and where imported."""

    name: str
    required: tuple[tuple[str, Location], ...]
    imported: tuple[Location, ...]


def read_frameworks(tree: SourceTree, requirements: Requirements) -> tuple[Framework, ...]:
    """Return the frameworks that are required or imported, in the order of ``FRAMEWORKS``.

    What devicegen wrote into the repository imports none.
    """
    imports: dict[str, list[Location]] = {name: [] for name, _, _ in FRAMEWORKS}
    patterns = {
        name: re.compile(rb"^[ \t]*(?:import|from)[ \t]+" + module.encode() + rb"\b", re.MULTILINE)
        for name, _, module in FRAMEWORKS
    }
    for path in tree.python_files():
        data = tree.data(path)
        if data is None:
            continue
        for name, _, module in FRAMEWORKS:
            if b" " + module.encode() not in data:
                continue
            own = owners_data(data)
            if found := patterns[name].search(own):
                line = own.count(b"\n", 0, found.start()) + 1
                imports[name].append(Location(path, line))
    found_ones = []
    for name, distributions, _ in FRAMEWORKS:
        required = tuple(
            (f"{fact.name}{fact.specifier}", fact.where)
            for fact in requirements.named(*distributions)
        )
        if required or imports[name]:
            found_ones.append(Framework(name, required, tuple(imports[name])))
    return tuple(found_ones)


def required_beside(requirements: Requirements) -> tuple[tuple[str, Location], ...]:
    """Return the frameworks other than TensorFlow that are required, each with its first place.

    Keras counts as TensorFlow's own.
    """
    found = []
    for name, distributions, _ in FRAMEWORKS[1:3]:
        if facts := requirements.named(*distributions):
            found.append((name, facts[0].where))
    return tuple(found)


def required_instead(requirements: Requirements) -> tuple[str, Location] | None:
    """Return the framework that is run on, where TensorFlow is there for development only."""
    if not all(map(is_for_development, requirements.named(*TENSORFLOW_DISTRIBUTIONS))):
        return None
    for name, distributions, _ in FRAMEWORKS[1:3]:
        for fact in requirements.named(*distributions):
            if fact.group == "dependencies":
                return name, fact.where
    return None
