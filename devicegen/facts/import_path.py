"""What a new conftest at the top would change for the imports of the tests."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from devicegen.facts.pytest_config import PytestConfig
from devicegen.facts.source_tree import Location, SourceTree

COMPILED = (".c", ".cc", ".cpp", ".cu", ".pyx")
COMPILING_BACKENDS = ("scikit-build", "scikit_build", "mesonpy", "pybind11")
EXTENSION_WORDS = ("ext_modules", "has_ext_modules", "CMakeExtension")


def harms_of_new_conftests(
    tree: SourceTree,
    config: PytestConfig,
    test_files: Iterable[str],
    folders: Iterable[str],
) -> dict[str, str]:
    """Return those of ``folders`` where a new conftest would break imports, and how, in words."""
    mode = (config.options("--import-mode") or ["prepend"])[-1]
    conftests = [path for path in tree.files if posixpath.basename(path) == "conftest.py"]
    outside = [path for path in conftests if not _is_package(tree, posixpath.dirname(path))]
    harms = {}
    for folder in folders:
        others = [path for path in outside if posixpath.dirname(path) != folder]
        one_module = mode == "append" or (mode == "prepend" and _runs_doctests(config))
        if others and one_module and not _is_package(tree, folder):
            option = "--import-mode=append" if mode == "append" else "--doctest-modules"
            harms[folder] = f"with {option} a second conftest outside packages, beside {others[0]}"
            harms[folder] += ", cannot be imported"
    if (words := _harm_at_top(tree, config, mode, test_files)) is not None:
        harms.setdefault("", words)
    return harms


def _runs_doctests(config: PytestConfig) -> bool:
    return "--doctest-modules" in config.addopts


def _is_package(tree: SourceTree, folder: str) -> bool:
    return posixpath.join(folder, "__init__.py") in tree.lookup


def _harm_at_top(
    tree: SourceTree, config: PytestConfig, mode: str, test_files: Iterable[str]
) -> str | None:
    """Say in words what a conftest at the top would break, None where nothing.

    In the import mode ``prepend``, the default, the folder of a conftest that is in no package
    comes onto ``sys.path``: https://docs.pytest.org/en/stable/explanation/pythonpath.html.
    """
    if text := tree.text("__init__.py") if "__init__.py" in tree.lookup else None:
        code = [line for line in text.splitlines() if line.strip() and line[0] not in "#\"' "]
        if code:
            return "a conftest at the top would import the top's own __init__.py first"
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
    if packages and "pyproject.toml" in tree.lookup:
        for number, line in enumerate((tree.text("pyproject.toml") or "").splitlines(), 1):
            if any(word in line for word in COMPILING_BACKENDS):
                return Location("pyproject.toml", number)
    if packages and "setup.py" in tree.lookup:
        for number, line in enumerate((tree.text("setup.py") or "").splitlines(), 1):
            if any(word in line for word in EXTENSION_WORDS) and not line.lstrip().startswith("#"):
                return Location("setup.py", number)
    return None
