"""Child processes that see neither the devices nor the settings of the machine they run on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

# Device masks, ranks, options of pytest and of the harness, Bazel's sharding, TensorFlow's
# switches, git's idea of the repository, and what would change the text that a tool prints.
DROPPED_PREFIXES = (
    "BUILD_",
    "CUDA_",
    "GIT_",
    "GPU_",
    "HIP_",
    "HOROVOD_",
    "MPI_LOCAL",
    "MV2_",
    "NVIDIA_",
    "OMPI_",
    "PMI_",
    "PYTEST_",
    "PYTHON",
    "ROCR_",
    "SLURM_",
    "TEST_",
    "TF_",
    "TOX_",
    "XLA_",
)
DROPPED = frozenset(
    {"CI", "COLUMNS", "FORCE_COLOR", "LINES", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NO_COLOR"}
    | {"PY_COLORS", "VIRTUAL_ENV"}
)
FIXED = {
    "GIT_AUTHOR_EMAIL": "test@example.com",
    "GIT_AUTHOR_NAME": "Test",
    "GIT_COMMITTER_EMAIL": "test@example.com",
    "GIT_COMMITTER_NAME": "Test",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    # A test that rewrites a module within a second must not run the old bytecode.
    "PYTHONDONTWRITEBYTECODE": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


# After which a process is held to be stuck: no verdict hangs on how long a machine takes.
LIMIT = 600.0  # seconds


def clean_environ(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment without what could leak into a test, then ``changes``."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in DROPPED and not name.startswith(DROPPED_PREFIXES)
    }
    return {**kept, **FIXED, **(changes or {})}


def run_process(
    command: Sequence[str | Path],
    cwd: Path,
    *,
    env: Mapping[str, str] | None = None,
    timeout: float = LIMIT,
) -> subprocess.CompletedProcess[str]:
    """Run ``command`` in a clean environment changed by ``env``; never raises for its exit code.

    After ``timeout`` seconds the whole process group is killed, workers too, and
    ``TimeoutError`` carries what was printed until then.
    """
    words = [str(word) for word in command]
    with subprocess.Popen(
        words,
        cwd=cwd,
        env=clean_environ(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            stdout, stderr = process.communicate()
            raise TimeoutError(
                f"not done after {timeout} s: {' '.join(words)}\n{stdout}{stderr}"
            ) from None
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(words, process.returncode, stdout, stderr)


def run_devicegen(
    args: Sequence[str | Path],
    cwd: Path,
    *,
    env: Mapping[str, str] | None = None,
    timeout: float = LIMIT,
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m devicegen ARGS`` in ``cwd``, with the interpreter that runs the tests."""
    return run_process([sys.executable, "-m", "devicegen", *args], cwd, env=env, timeout=timeout)
