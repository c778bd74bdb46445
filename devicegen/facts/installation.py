"""What ``pip install`` takes to install the repository with what its tests need."""

from __future__ import annotations

import re

from devicegen.facts.requirement_record import Requirements
from devicegen.facts.source_tree import SourceTree
from devicegen.facts.tensorflow_use import TENSORFLOW_DISTRIBUTIONS

PROJECT = re.compile(r"^\[(?:project|build-system|tool\.poetry)\]", re.MULTILINE)
METADATA = re.compile(r"^\[metadata\]", re.MULTILINE)
# Groups that pip has an option for, and whose name needs no quotes.
OPTION = re.compile(r"(?:requirements|group):[\w./-]+")
PLUGIN = "pytest-xdist"


def install_words(tree: SourceTree, requirements: Requirements) -> tuple[str, ...]:
    """Return the arguments of ``pip install``, quoted for a shell.

    The project itself with the extras that name pytest; then, for pytest, pytest-xdist and
    TensorFlow, where that does not bring them: a dependency group or a requirements file (of
    several, which may exclude one another, the one nearest to the top), or else their names.
    """
    words = []
    have = {"dependencies"}  # groups that are installed
    tested = [fact.group for fact in requirements.named("pytest")]
    if _is_project(tree):
        extras = sorted({group for group in tested if group.startswith("extra:")})
        have.update(extras)
        names = ",".join(extra.partition(":")[2] for extra in extras)
        words.append(f"-e '.[{names}]'" if names else "-e .")
    else:
        have = set()
    for name in ("pytest", PLUGIN, "tensorflow"):
        groups = {fact.group for fact in requirements.named(*_spellings(name))}
        if groups & have:
            continue
        usable = [group for group in groups if OPTION.fullmatch(group)]
        usable.sort(key=lambda group: (group.count("/"), len(group), group))
        if usable:
            kind, _, value = usable[0].partition(":")
            words.append(f"{'-r' if kind == 'requirements' else '--group'} {value}")
            have.add(usable[0])
        else:
            words.append(name)
    return tuple(words)


def _spellings(name: str) -> tuple[str, ...]:
    return TENSORFLOW_DISTRIBUTIONS if name == "tensorflow" else (name,)


def _is_project(tree: SourceTree) -> bool:
    return bool(
        "setup.py" in tree.files
        or PROJECT.search(tree.text("pyproject.toml") or "")
        or METADATA.search(tree.text("setup.cfg") or "")
    )
