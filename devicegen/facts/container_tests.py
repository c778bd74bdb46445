"""Tests whose subject runs in containers or on a cluster, and tests that are no Python at all."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator

from devicegen.facts.source_tree import Location, SourceTree

# Clients of Docker, Podman and Kubernetes, the fixtures of pytest-docker, and commands in strings.
DRIVES = re.compile(
    rb"""^[ \t]*(?:import|from)[ \t]+(?:docker|testcontainers|kubernetes|kubernetes_asyncio|kr8s
    |podman|aiodocker|python_on_whales|pytest_docker\w*|pytest_kind)\b
    |\bdocker_(?:services|compose_file|ip)\b
    |["'](?:sudo[ ])?(?:docker|docker-compose|nvidia-docker|podman|kubectl|helm|minikube|k3d)
    (?:["']|[ ]+(?:-\S+[ ]+)*(?:run|exec|build|compose|up|apply|create|get|install|rollout|wait)\b)
    """,
    re.MULTILINE | re.VERBOSE,
)
IMPORTED = re.compile(rb"^[ \t]*(?:import|from)[ \t]+(\w+)", re.MULTILINE)
TEST_FOLDER = r"(?:.*/)?(?:tests?|e2e|testing|[\w-]*integration[\w-]*|[\w-]*tests?)/"
COMPOSE = r"(?:docker-)?compose[\w.-]*"
# What runs tests that are no Python -> the files by which it is known.
OTHERS = {
    "bats": re.compile(r".*\.bats"),
    "shell scripts": re.compile(rf"{TEST_FOLDER}.*\.sh|(?:.*/)?(?:[\w-]+_)?tests?[\w-]*\.sh"),
    "docker-compose": re.compile(
        rf"{TEST_FOLDER}(?:.*/)?{COMPOSE}\.ya?ml|(?:.*/)?{COMPOSE}[.-](?:tests?|e2e|ci)\.ya?ml"
    ),
    "Kubernetes": re.compile(rf"{TEST_FOLDER}.*\.ya?ml"),
}
MANIFEST = re.compile(r"^kind:[ ]*\w", re.MULTILINE)


def container_tests(
    tree: SourceTree, test_files: Iterable[str], imports: Iterable[Location]
) -> tuple[Location, ...]:
    """Return where each test file drives containers or a cluster; () unless all of them do.

    A file does so itself, or by a conftest above it when it imports nothing of the project; one
    that imports TensorFlow (``imports``) does not count.
    """
    paths = list(test_files)
    if {where.path for where in imports} & {*paths}:
        return ()
    own = _modules(tree, paths)
    found = []
    for path in paths:
        data = tree.data(path) or b""
        where = _driven(tree, path)
        if where is None and not own & {each.decode() for each in IMPORTED.findall(data)}:
            where = next(filter(None, (_driven(tree, each) for each in _above(tree, path))), None)
        if where is None:
            return ()
        found.append(where)
    return tuple(found)


def other_tests(tree: SourceTree) -> tuple[tuple[str, Location, int], ...]:
    """Return what runs tests here that are no Python, with its first file and how many it has."""
    found = []
    for runner, name in OTHERS.items():
        paths = [path for path in tree.files if name.fullmatch(path)]
        if runner == "Kubernetes":
            paths = [path for path in paths if MANIFEST.search(tree.text(path) or "")]
        if paths:
            found.append((runner, Location(paths[0], 1), len(paths)))
    return tuple(found)


def _driven(tree: SourceTree, path: str) -> Location | None:
    data = tree.data(path) or b""
    found = DRIVES.search(data)
    return Location(path, data.count(b"\n", 0, found.start()) + 1) if found else None


def _above(tree: SourceTree, path: str) -> Iterator[str]:
    while path:
        path = posixpath.dirname(path)
        conftest = posixpath.join(path, "conftest.py")
        if conftest in tree.lookup:
            yield conftest


def _modules(tree: SourceTree, test_files: list[str]) -> frozenset[str]:
    """Return the names by which the project's own modules are imported; not those of its tests."""
    tests = {posixpath.dirname(path) for path in test_files}
    names = set()
    for path in tree.python_files():
        parts = path.removeprefix("src/").split("/")
        if posixpath.dirname(path) not in tests and parts[-1] not in ("conftest.py", "setup.py"):
            names.add(parts[0].removesuffix(".py"))
    return frozenset(names)
