"""What a new conftest at the top would change for the imports of the tests."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from devicegen.facts.pytest_config import PytestConfig
from devicegen.facts.source_tree import Location, SourceTree

COMPILED = (".c", ".cc", ".cpp", ".cu", ".pyx")
EXTENSION_WORDS = ("ext_modules", "has_ext_modules", "CMakeExtension")


def harm_of_a_conftest_at_top(
    tree: SourceTree, config: PytestConfig, test_files: Iterable[str]
) -> str | None:
    """Say in words what a conftest at the top would break, None where nothing.

    In the import modes ``prepend`` (the default) and ``append`` the folder of a conftest that is
    in no package comes onto ``sys.path``:
    https://docs.pytest.org/en/stable/explanation/pythonpath.html.
    """
    if text := tree.text("__init__.py") if "__init__.py" in tree.files else None:
        code = [line for line in text.splitlines() if line.strip() and line[0] not in "#\"' "]
        if code:
            return "a conftest at the top would import the top's own __init__.py first"
    mode = (config.options("--import-mode") or ["prepend"])[-1]
    if mode != "prepend" or {".", ""} & set(config.pythonpath):
        return None
    if any(_import_folder(tree, test) == "" for test in test_files):
        return None
    compiled = _compiled(tree)
    if compiled is None:
        return None
    return (
        f"a new conftest at the top would import the checkout before the installed package, "
        f"whose compiled code ({compiled}) is not in it"
    )


def _import_folder(tree: SourceTree, path: str) -> str:
    """Return the folder that pytest puts on ``sys.path`` for a module."""
    folder = posixpath.dirname(path)
    while folder and f"{folder}/__init__.py" in tree.lookup:
        folder = posixpath.dirname(folder)
    return folder


def _compiled(tree: SourceTree) -> Location | None:
    packages = {path.split("/")[0] for path in tree.files if path.count("/") == 1}
    packages = {name for name in packages if f"{name}/__init__.py" in tree.lookup}
    for path in tree.files:
        if path.endswith(COMPILED) and path.split("/")[0] in packages:
            return Location(path, 1)
    if packages and "setup.py" in tree.lookup:
        for number, line in enumerate((tree.text("setup.py") or "").splitlines(), 1):
            if any(word in line for word in EXTENSION_WORDS) and not line.lstrip().startswith("#"):
                return Location("setup.py", number)
    return None
