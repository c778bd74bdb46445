"""The command line as a process: output, exit codes, interrupts, pipes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess

import pytest

import devicegen.planning
from devicegen import __version__
from generator import HARNESS, LIBRARY, RECORD, Done, run, state
from kit import clean_environ, read_tree, write_tree
from kit.processes import LIMIT, run_process

Devicegen = Callable[..., CompletedProcess[str]]
SCRIPT = Path(sys.executable).with_name("devicegen")
VERBS = ("init", "upgrade", "check")
slow = partial(pytest.param, marks=pytest.mark.slow)


def test_version_of_the_script_and_of_the_module(devicegen: Devicegen, tmp_path: Path) -> None:
    module, script = devicegen(["--version"]), run_process([SCRIPT, "--version"], tmp_path)

    for done in (module, script):
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == f"devicegen {__version__}\n"


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help(option: str) -> None:
    done = run(option)

    assert (done.code, done.stderr) == (0, "")
    assert all(re.search(rf"^  {verb}  ", done.stdout, re.MULTILINE) for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb(verb: str) -> None:
    done = run(verb, "-h")

    assert (done.code, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: devicegen {verb} [OPTIONS] [path]\n")


def test_no_arguments_is_wrong_usage_and_shows_the_help() -> None:
    done = run()

    assert done.code == 2
    assert "Usage: " in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--nope"], "No such option: --nope"),
        (["nope"], "No such command 'nope'"),
        (["init", "--nope"], "No such option: --nope"),
        (["init", "a", "b"], "Got unexpected extra argument"),
        (["init", "--memory-limit-mb", "-1"], "--memory-limit-mb"),
        (["init", "--memory-limit-mb", "x"], "--memory-limit-mb"),
        (["init", "--memory-limit-mb", "1048577"], "--memory-limit-mb"),
        (["upgrade", "--memory-limit-mb", "9" * 30], "--memory-limit-mb"),
        (["check", "--dry-run"], "No such option: --dry-run"),
    ],
    ids=" ".join,
)
def test_wrong_usage(args: list[str], message: str) -> None:
    done = run(*args)

    assert (done.code, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_results_on_stdout_notes_and_errors_on_stderr(
    devicegen: Devicegen, tmp_path: Path
) -> None:
    write_tree(tmp_path, {**LIBRARY, "requirements.txt": b"\xff"})

    done = devicegen(["init"])
    refused = devicegen(["init", "gone"])

    assert done.returncode == 0
    assert done.stdout.startswith("repository top ")
    assert done.stdout.endswith("pytest --gpu-simulate 2\n")
    assert re.fullmatch(r"devicegen: note: requirements.txt:1: .*\n", done.stderr)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "devicegen: gone: does not exist; give the folder of a repository\n"


@pytest.mark.parametrize("shell", ["bash", slow("zsh"), slow("fish")])
def test_completion(shell: str, tmp_path: Path) -> None:
    told = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}  # not the parent's, if it is one
    shown = run_process([SCRIPT, "--show-completion", shell], tmp_path, env=told)
    asked = run_process(
        [SCRIPT],
        tmp_path,
        env={
            "_DEVICEGEN_COMPLETE": f"complete_{shell}",
            "COMP_WORDS": "devicegen up",
            "COMP_CWORD": "1",
            "_TYPER_COMPLETE_ARGS": "devicegen up",
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        },
    )

    assert shown.returncode == 0
    assert "_DEVICEGEN_COMPLETE" in shown.stdout
    assert "upgrade" in asked.stdout
    assert "init" not in asked.stdout


# A stream that breaks


@pytest.mark.parametrize(
    "verb", [slow("init"), "check", slow("upgrade --no-xdist"), slow("init --dry-run")]
)
def test_a_reader_who_has_gone_stops_nothing(verb: str, tmp_path: Path) -> None:
    write_tree(tmp_path, LIBRARY)
    if verb != "init":
        run("init", tmp_path)
    if verb == "check":
        (tmp_path / HARNESS).unlink()
    reading, writing = os.pipe()
    os.close(reading)

    done = subprocess.run(
        [sys.executable, "-m", "devicegen", *verb.split()],
        cwd=tmp_path, env=clean_environ(), stdout=writing, stderr=subprocess.PIPE, check=False,
    )  # fmt: skip
    os.close(writing)

    assert (done.returncode, done.stderr) == (1 if verb == "check" else 0, b"")
    assert ("xdist = false" in (tmp_path / RECORD).read_text("utf-8")) == ("--no-xdist" in verb)


@pytest.mark.parametrize("args", [["check"], slow(["--help"])], ids=" ".join)
def test_a_full_output_is_one_line(args: list[str], tmp_path: Path) -> None:
    run("init", write_tree(tmp_path, LIBRARY))

    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "devicegen", *args],
            cwd=tmp_path, env=clean_environ(), stdout=full, stderr=subprocess.PIPE, check=False,
        )  # fmt: skip

    assert done.stderr == b"devicegen: No space left on device\n"
    assert done.returncode == 2


@pytest.mark.slow
def test_an_output_that_cannot_show_a_name_shows_it_escaped(
    devicegen: Devicegen, tmp_path: Path
) -> None:
    write_tree(
        tmp_path, {"pyproject.toml": '[tool.pytest.ini_options]\n# \u2265\naddopts = "-q"\n'}
    )
    (tmp_path / os.fsdecode(b"test_\xff.py")).write_bytes(b"import tensorflow\n")

    done = devicegen(["init", "--diff"], env={"PYTHONIOENCODING": "latin-1"})
    decided = devicegen(["init"])

    assert (done.returncode, done.stderr) == (0, "")
    assert "\n # \\u2265\n" in done.stdout
    assert (decided.returncode, decided.stderr) == (0, "")
    assert "(imported (test_\\udcff.py:1))" in decided.stdout


# Interrupts


@pytest.mark.parametrize("verb", ["init", slow("upgrade"), slow("check")])
def test_ctrl_c_while_it_is_busy(verb: str, tmp_path: Path) -> None:
    top = write_tree(tmp_path / "top", LIBRARY)
    if verb != "init":
        run("init", top)
    before = state(top)
    ready = tmp_path / "ready"
    git = (
        write_tree(tmp_path, {"bin/git": f"#!/bin/sh\n: >{ready}\nexec sleep 3600\n"}) / "bin/git"
    )
    git.chmod(0o755)
    environ = clean_environ({"PATH": f"{git.parent}:{os.environ['PATH']}"})

    with subprocess.Popen(
        [sys.executable, "-m", "devicegen", verb],
        cwd=top, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            _wait_for(ready.exists)
            os.killpg(process.pid, signal.SIGINT)
            stdout, stderr = process.communicate(timeout=LIMIT)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    assert (process.returncode, stdout, stderr) == (130, "", "")
    assert state(top) == before


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# What nobody expected


@pytest.fixture
def crash(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Make every verb fail, and return the folder for logs."""

    def fail(path: Path) -> None:
        raise ZeroDivisionError("two\nlines")

    logs = tmp_path / "logs"
    logs.mkdir()
    monkeypatch.setattr(devicegen.planning, "gather_facts", fail)
    monkeypatch.setattr("tempfile.tempdir", str(logs))
    return logs


@pytest.mark.parametrize("verb", VERBS)
def test_a_crash_is_one_line_and_a_log(verb: str, crash: Path, tmp_path: Path) -> None:
    done = run(verb, write_tree(tmp_path / "top", LIBRARY))

    (log,) = crash.iterdir()
    assert done == Done(
        2,
        "",
        f"devicegen: unexpected ZeroDivisionError('two\\nlines'); please report it with {log}\n",
    )
    text = log.read_text("utf-8")
    assert text.startswith(f"devicegen {__version__}, Python 3.")
    assert 'raise ZeroDivisionError("two\\nlines")' in text


def test_a_crash_without_room_for_a_log(crash: Path, tmp_path: Path) -> None:
    crash.rmdir()

    done = run("check", tmp_path)

    assert done.code == 2
    assert done.stderr.endswith("its traceback (no log: No such file or directory)\n")
    assert len(done.stderr.splitlines()) == 1


def test_an_error_of_the_system_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(path: Path) -> None:
        raise PermissionError(13, "Permission denied", "/some/where")

    monkeypatch.setattr(devicegen.planning, "gather_facts", fail)

    assert run("check", tmp_path) == Done(2, "", "devicegen: /some/where: Permission denied\n")


def test_completion_and_help_import_no_verb(tmp_path: Path) -> None:
    """They are asked for at every press of a key."""
    script = (
        "import sys, devicegen.cli\n"
        "print(*sorted(set(sys.modules) & {'jinja2', 'packaging', 'devicegen.planning'}))"
    )

    assert run_process([sys.executable, "-c", script], tmp_path).stdout == "\n"


def test_a_killed_git_is_no_failure(tmp_path: Path) -> None:
    """Git that fails, as with a repository of another owner, is as good as none."""
    write_tree(tmp_path, {**LIBRARY, ".git": "broken"})

    assert run("init", tmp_path).code == 0
    assert HARNESS in read_tree(tmp_path)
