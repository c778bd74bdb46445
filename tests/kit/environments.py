"""Python environments for the version matrix, made when first asked for and kept in ``.envs/``."""

from __future__ import annotations

import fcntl
import functools
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kit.processes import clean_environ

REPOSITORY = Path(__file__).parents[2]
ENVIRONMENTS = REPOSITORY / ".envs"

REQUIREMENTS = {
    "tf-2.21": ("tensorflow-cpu==2.21.*", "pytest==9.2.*", "pytest-xdist==3.8.*"),
    "tf-2.15": ("tensorflow-cpu==2.15.1", "pytest==7.4.4", "pytest-xdist==3.5.0"),
    "tf-2.12": ("tensorflow-cpu==2.12.1", "pytest==8.3.5", "pytest-xdist==3.0.2"),
    "pytest-7": ("pytest==7.0.1", "pytest-xdist==3.0.2"),
    "pytest-8": ("pytest==8.4.*", "pytest-xdist==3.5.*"),
    "pytest-9": ("pytest==9.2.*", "pytest-xdist==3.8.*"),
    "no-xdist": ("pytest==9.2.*",),
    "plugins": (
        "pytest==9.2.*",
        "pytest-xdist==3.8.*",
        "pytest-randomly==4.*",
        "pytest-rerunfailures==16.*",
    ),
    "plugins-9": ("pytest==9.2.*", "pytest-asyncio==1.*", "anyio==4.*"),
    "plugins-8": ("pytest==8.3.5", "pytest-asyncio==0.26.*", "anyio==4.*", "pytest-subtests"),
    "plugins-7": ("pytest==7.4.4", "pytest-asyncio==0.23.*", "anyio==4.*", "pytest-subtests"),
    "runners": ("pytest==9.2.*", "pytest-xdist==3.8.*", "tox>=4.21", "nox>=2024"),
    "tox-3": ("tox==3.28.*",),
    "sharders": ("pytest==8.*", "pytest-xdist==3.8.*", "pytest-split", "pytest-shard"),
}
TENSORFLOWS = ("tf-2.21", "tf-2.15", "tf-2.12")
PYTESTS = ("pytest-9", "pytest-8", "pytest-7")


@functools.cache
def environment(name: str) -> Path:
    """Return the interpreter of the environment ``name``, a key of ``REQUIREMENTS``.

    The first call on a machine installs it, which takes a second or two without TensorFlow and
    a minute with it. Workers of pytest-xdist may ask at once: one makes it, the others wait.
    ``KIT_PYTHON`` names an interpreter that stands for all of them: see ``tox.ini``.
    """
    if "KIT_PYTHON" in os.environ:
        return Path(os.environ["KIT_PYTHON"])
    requirements = REQUIREMENTS[name]
    folder = ENVIRONMENTS / name
    stamp = folder / "complete"
    made_from = "\n".join((sys.version, *requirements))
    with only_one_at_a_time(folder.with_suffix(folder.suffix + ".lock")):
        # The stamp is written last: without it, or with other pins, the folder is of no use.
        if not stamp.is_file() or stamp.read_text("utf-8") != made_from:
            make_environment(folder, requirements)
            stamp.write_text(made_from, "utf-8")
    return folder / "bin" / "python"


def make_environment(folder: Path, requirements: Sequence[str | Path]) -> Path:
    """Make a fresh environment in ``folder`` and return its interpreter.

    With uv where the running environment has it, else with venv and pip.
    """
    if folder.exists():
        shutil.rmtree(folder)
    python = folder / "bin" / "python"
    wanted = [str(requirement) for requirement in requirements]
    if importlib.util.find_spec("uv"):
        uv = [sys.executable, "-m", "uv", "--quiet"]
        _run(*uv, "venv", "--python", sys.executable, str(folder))
        # Bytecode now, for clean_environ() lets no run write any, and TensorFlow's takes long.
        _run(*uv, "pip", "install", "--compile-bytecode", "--python", str(python), *wanted)
    else:
        _run(sys.executable, "-m", "venv", str(folder))
        _run(str(python), "-m", "pip", "install", "--quiet", *wanted)
    return python


@contextmanager
def only_one_at_a_time(lock: Path) -> Iterator[None]:
    """Hold a file's lock: no other process of the machine is in such a block meanwhile."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _run(*command: str) -> None:
    done = subprocess.run(
        command, env=clean_environ(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
