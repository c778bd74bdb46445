"""Runs the target's pytest in the target's environment and reads what it says of the harness."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devicegen.errors import DevicegenError
from devicegen.marker_aliases import parse_alias
from devicegen.record import Record

PLUGIN = "devicegen_doctor_plugin"
ENVIRONMENTS = (".venv", "venv", "env")
TIMEOUT_S = 600
TELLING = re.compile(r"ERROR\b|\S*[Ee]rror:|ImportError while loading conftest|E {2}")
OF_A_RUN = ("PYTEST_XDIST_", "PYTEST_CURRENT_TEST", "PYTEST_GPU_ASSIGNED")


@dataclass(frozen=True)
class TargetAnswer:
    """What the target's pytest knows; paths are absolute, ``items`` device kind -> count.

    ``harnesses`` were loaded before the options were parsed; ``unscoped`` items carry none of the
    device marks; ``shadowed`` are items with the file of another fixture ``device_scope``;
    ``uncollected`` are what pytest could not collect, mostly files, with the last error there.
    ``failure`` is the end of pytest's output where it stopped before it had collected.
    """

    exit_code: int
    harnesses: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    items: Mapping[str, int] = field(default_factory=dict)
    unscoped: tuple[str, ...] = ()
    shadowed: tuple[tuple[str, str], ...] = ()
    uncollected: tuple[tuple[str, str], ...] = ()
    rootdir: str = ""
    inifile: str | None = None
    pytest: str = ""
    python: str = ""
    xdist: bool = False
    failure: str = ""


def find_python(top: Path, given: str | None) -> tuple[str, str]:
    """Return the interpreter that runs the target's tests, and why it is that one.

    Raises ``DevicegenError`` where the one given cannot be found.
    """
    if given is not None:
        found = shutil.which(given)
        if found is None:
            raise DevicegenError(f"--python {given}: no such program")
        return str(Path(found).absolute()), "--python"
    active = os.environ.get("VIRTUAL_ENV")
    candidates = [(Path(active), "the active environment")] if active else []
    candidates += [(top / name, f"{name}/ of the repository") for name in ENVIRONMENTS]
    for folder, why in candidates:
        for python in (folder / "bin" / "python", folder / "Scripts" / "python.exe"):
            if python.is_file():
                return str(python), why
    on_path = shutil.which("python3") or shutil.which("python")
    if on_path is not None:
        return on_path, "python on PATH; --python names another"
    return sys.executable, "that of devicegen; --python names another"


def ask_collection(
    python: str, top: Path, record: Record | None, arguments: Sequence[str] = ()
) -> TargetAnswer:
    """Collect the target's tests, run none, and return what its pytest knows of the harness.

    ``record`` knows which names the harness goes by; without one they are the usual. Raises
    ``DevicegenError`` where there is no pytest, or it takes longer than ten minutes.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = {"DEVICEGEN_DOCTOR_NAMES": json.dumps(_names(record))} if record else {}
        done = _run(python, top, folder, ["--collect-only", "-q", *arguments], env)
        answer = folder / "answer.json"
        if not answer.is_file() or not answer.read_text("utf-8"):
            return TargetAnswer(done.returncode, failure=_end(done))
        said = json.loads(answer.read_text("utf-8"))
    known = {each for each in TargetAnswer.__dataclass_fields__ if each in said}
    values = {each: _frozen(said[each]) for each in known}
    failure = _end(done) if done.returncode not in (0, 5) else ""
    return TargetAnswer(done.returncode, failure=failure, **values)


def _names(record: Record) -> dict[str, Any]:
    """Return the harness's names in the form that the plugin reads."""
    names = record.names
    strategies = record.answers.strategies or ()
    given = [each for each in record.answers.marker_aliases or () if "=" in each]
    aliases = [parse_alias(each, strategies) for each in given]
    own_scope = [alias.name for alias in aliases if alias.devices == ("none",)]
    return {
        "fixture": names.fixture,
        "option": f"{names.option_word}_simulate",
        "plain_prefix": names.plain_prefix,
        "no_scope": [names.no_device_scope, *own_scope],
    }


def ask_mapping(python: str, top: Path, workers: int) -> list[str]:
    """Start ``workers`` workers without a test and return the harness's own words on the GPUs."""
    with tempfile.TemporaryDirectory() as name:
        arguments = ["-n", str(workers)] if workers else []
        done = _run(python, top, Path(name), arguments, {"DEVICEGEN_DOCTOR_MAPPING": "1"})
    lines = done.stdout.splitlines()
    return [line.strip() for line in lines if re.match(r"devices?: ", line.strip())]


def _run(
    python: str, top: Path, folder: Path, arguments: Sequence[str], env: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    source = Path(__file__).with_name("doctor_plugin.py")
    (folder / f"{PLUGIN}.py").write_bytes(source.read_bytes())
    path = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    # Not what this very process would have from a pytest run that it is part of.
    kept = {k: v for k, v in os.environ.items() if not k.startswith(OF_A_RUN)}
    environ = {
        **kept,
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "DEVICEGEN_DOCTOR": str(folder / "answer.json"),
        **env,
    }
    command = [python, "-m", "pytest", "-p", PLUGIN, "-p", "no:cacheprovider", *arguments]
    try:
        done = subprocess.run(
            command,
            cwd=top,
            env=environ,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
    except OSError as error:
        raise DevicegenError(f"{python}: cannot be started ({error.strerror})") from error
    except subprocess.TimeoutExpired as error:
        raise DevicegenError(f"{python} -m pytest: no answer within {TIMEOUT_S} s") from error
    if "No module named pytest" in done.stderr:
        raise DevicegenError(
            f"{python}: has no pytest; name the interpreter that runs the tests with --python"
        )
    return done


def _end(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    telling = [line for line in lines if TELLING.match(line)]
    return " / ".join(re.sub(r"^E +", "", line) for line in (telling or lines)[-3:])[:600]


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_frozen(each) for each in value)
    return value
