"""``devicegen doctor`` asks the target's own pytest whether the harness is active."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import sys
from pathlib import Path

import pytest

from devicegen.facts.tox_environments import NEEDED
from generator import TAKEN, Done, run
from harness.lease_behaviours import GPU, UUIDS, machine
from kit import environment, write_tree
from kit.harness import render_harness

FAKE = (Path(__file__).parent / "harness" / "fake_tensorflow.py").read_bytes()
TEST = """
    import pytest
    import tensorflow

    @pytest.mark.run_on(["cpu", "gpu", "distributed"])
    def test_marked(): pass

    def test_plain(): pass

    @pytest.mark.no_device_scope
    def test_free(): pass
"""
FILES: dict[str, str | bytes] = {
    "pytest.ini": "[pytest]\n",
    "tensorflow.py": FAKE,
    "tests/test_a.py": TEST,
}


@pytest.fixture(autouse=True)
def diary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIARY", "/dev/null")
    monkeypatch.setenv("PYTHONPATH", ".")


def examine(top: Path, *args: str, env: str = "pytest-9") -> Done:
    return run("doctor", top, "--python", environment(env), *args)


def test_an_active_harness(tmp_path: Path) -> None:
    write_tree(tmp_path, FILES)
    assert run("init", tmp_path).code == 0

    done = examine(tmp_path)

    assert (done.code, done.stderr) == (0, ""), done
    assert "harness      tests/conftest.py, loaded before options are parsed\n" in done.stdout
    assert "options      known: --gpu-simulate\n" in done.stdout
    assert "items        2 cpu, 1 gpu, 1 distributed, 1 none\n" in done.stdout
    assert re.search(r"^mapping      devices: .*gw0.*gw1.*\(-n 2\)$", done.stdout, re.MULTILINE)
    assert done.stdout.endswith("The harness is active.\n")


@pytest.mark.slow
def test_other_names(tmp_path: Path) -> None:
    """Where the project has had the usual names, and a marker that stands for one of ours."""
    test = TEST.replace("mark.run_on", "mark.on_dev").replace("mark.no_device_scope", "mark.own")
    write_tree(tmp_path, {**FILES, "plugin.py": TAKEN})
    done = run("init", tmp_path, "--marker-alias=own=no_device_scope")
    assert done.code == 0, done
    assert done.stdout.endswith("pytest --dev-simulate 2\n")
    write_tree(tmp_path, {"tests/test_a.py": test})  # not before: it would be a use of the name

    done = examine(tmp_path)

    assert (done.code, done.stderr) == (0, ""), done
    assert "options      known: --dev-simulate\n" in done.stdout
    assert "items        2 cpu, 1 gpu, 1 distributed, 1 none\n" in done.stdout


@pytest.mark.slow
def test_without_xdist_and_with_an_older_pytest(tmp_path: Path) -> None:
    write_tree(tmp_path, FILES)
    assert run("init", tmp_path).code == 0

    without, older = examine(tmp_path, env="no-xdist"), examine(tmp_path, env="pytest-7")

    assert (without.code, older.code) == (0, 0), (without, older)
    assert "in the way   pytest-xdist is not installed there" in without.stdout
    assert "pytest       7.0.1 on Python 3" in older.stdout


WRONG: dict[str, tuple[dict[str, str | bytes], str]] = {
    "no harness": ({"tests/conftest.py": ""}, "there is no harness in "),
    "not loaded": (
        {"tests/pytest.ini": "[pytest]\n", "pytest.ini": "[pytest]\naddopts = --noconftest\n"},
        "tests/conftest.py is not loaded before pytest parses its options",
    ),
    "pytest stops": ({"pytest.ini": "[pytest]\naddopts = --nonsense\n"}, "pytest stops (exit cod"),
    "a fixture of the same name": (
        {"tests/test_b.py": "import pytest\n@pytest.fixture\ndef device_scope(): pass\n"
         "def test_b(device_scope): pass\n"
         "@pytest.mark.run_on(['gpu'])\ndef test_c(): pass\n"},
        "another fixture device_scope hides the harness's in 2 items: tests/test_b.py",
    ),
    "a wrong marker": (
        {"tests/test_b.py": "import pytest\n@pytest.mark.run_on('tpu')\ndef test_b(): pass\n"},
        "1 item without a device: tests/test_b.py::test_b",
    ),
    "does not import": (
        {"tests/test_b.py": "1 / 0\n"},
        "tests/test_b.py: not collected: ZeroDivisionError: division by zero\n"
        "The harness is active, but not all tests can be collected.\n",
    ),
    "a missing module": (
        {f"tests/test_{name}.py": "import none_such\n" for name in "bcde"},
        "tests/test_b.py, tests/test_c.py and 2 more: not collected: ModuleNotFoundError: "
        "No module named 'none_such'\n",
    ),
    "a conftest that does not import": (
        {"tests/unit/conftest.py": "import none_such\n", "tests/unit/test_b.py": ""},
        "tests/unit: not collected: ModuleNotFoundError: No module named 'none_such'\n",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_exit_code_1_and_what_is_wrong(tmp_path: Path, name: str) -> None:
    files, words = WRONG[name]
    write_tree(tmp_path, FILES)
    assert run("init", tmp_path).code == 0
    write_tree(tmp_path, files)

    done = examine(tmp_path)

    assert done.code == 1, done
    assert f"\nwrong        {words}" in done.stdout, done


@pytest.mark.slow
def test_what_stands_in_the_way(tmp_path: Path) -> None:
    write_tree(tmp_path, FILES)
    assert run("init", tmp_path).code == 0
    mask = "import os\ndef pytest_configure(config): os.environ['CUDA_VISIBLE_DEVICES'] = '-1'\n"
    write_tree(
        tmp_path,
        {
            "pytest.ini": "[pytest]\naddopts = -p no:xdist -p no:randomly\n",
            "conftest.py": mask,
            "tox.ini": "[tox]\nenvlist = a,b\n[testenv]\ncommands = pytest --confcutdir=tests\n",
        },
    )

    done = examine(tmp_path)

    for words in (
        "conftest.py:2: sets which GPUs a process sees (`",
        "pytest.ini: addopts hold -p no:xdist",
        f"tox.ini:3: a, b pass no {', '.join(NEEDED)}; add pass_env",
        "tox.ini:4: starts pytest with --confcutdir=tests",
    ):
        assert f"in the way   {words}" in done.stdout, done
    assert "randomly" not in done.stdout, "which the harness does not need"


@pytest.mark.slow
def test_leases_of_others_and_the_mapping_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which card, who has it and since when; a worker of a killed run has it, too."""
    project = write_tree(tmp_path / "own", FILES)
    assert run("init", project).code == 0
    with machine(render_harness(), environment("pytest-9"), GPU, count=3) as m:
        for name, value in m.environ.items():
            monkeypatch.setenv(name, value)
        assert f"leases       no GPU is leased by another run ({m.leases})\n" in run(
            "doctor", project, "--python", environment("pytest-9")
        ).stdout  # fmt: skip
        first = m.start(CUDA_VISIBLE_DEVICES="1").holding()
        used = m.leases / f"pytest-gpu-{UUIDS[2]}.use"
        used.mkdir(parents=True)
        orphan = (
            f"import fcntl, os, time; lock = os.open({str(used)!r}, 0); "
            "fcntl.flock(lock, fcntl.LOCK_SH); print(flush=True); time.sleep(3600)"
        )
        with subprocess.Popen([sys.executable, "-c", orphan], stdout=subprocess.PIPE) as worker:
            assert worker.stdout
            assert worker.stdout.readline()
            done = examine(project)
            worker.kill()
        first.finish()

    user = pwd.getpwuid(os.getuid()).pw_name
    lines = [line for line in done.stdout.splitlines() if line.startswith(("leases", "mapping"))]
    assert len(lines) == 3, done
    year = r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d"
    who = rf"pid {first.process.pid} \({user}, since {year}, \S+python\S* -m pytest -rA "
    assert re.match(rf"leases       {UUIDS[1]}: leased by {who}", lines[0]), lines
    pid = worker.pid
    assert lines[1].startswith(f"leases       {UUIDS[2]}: used by pid {pid} ({user}, since "), (
        lines
    )
    assert lines[1].endswith("), whose run has ended"), lines
    assert f"gw0 has {UUIDS[0]}; no GPU for gw1; {UUIDS[1]} passed over: leased by" in lines[2]


def test_an_interpreter_that_is_none(tmp_path: Path) -> None:
    write_tree(tmp_path, FILES)

    assert run("doctor", tmp_path, "--python", "no-such-python") == Done(
        2, "", "devicegen: --python no-such-python: no such program\n"
    )
