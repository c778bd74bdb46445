"""``init --ci-snippet``: a workflow that runs as it is printed, and nothing written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from devicegen import __version__
from generator import HARNESS, LIBRARY, run, state
from kit import environment, write_tree
from kit.nvidia_smi import StandInNvidiaSmi, cards
from kit.processes import run_process
from runners.projects import FAKE_TENSORFLOW


def workflow(top: Path, *args: str) -> dict[str, Any]:
    before = state(top)
    done = run("init", top, "--ci-snippet", *args)
    assert done.code == 0, done
    assert state(top) == before
    made: dict[str, Any] = yaml.safe_load(done.stdout)
    return made


def commands(made: dict[str, Any], job: str) -> list[str]:
    return [step["run"] for step in made["jobs"][job]["steps"] if "run" in step]


def test_a_job_on_simulated_gpus_and_one_that_requires_one(tmp_path: Path) -> None:
    write_tree(tmp_path, LIBRARY)
    made = workflow(tmp_path)
    install = "python -m pip install -e . pytest pytest-xdist"

    assert commands(made, "cpu") == [install, "python -m pytest -n auto --gpu-simulate 2"]
    assert commands(made, "gpu") == [install, "python -m pytest -n auto --gpu-require 1"]
    assert "self-hosted" in made["jobs"]["gpu"]["runs-on"]
    assert [step["uses"] for step in made["jobs"]["cpu"]["steps"] if "uses" in step] == [
        "actions/checkout@v4",
        "actions/setup-python@v5",
    ]


@pytest.mark.parametrize(
    ("files", "install", "python"),
    [
        (
            {"pyproject.toml": '[project]\nname = "x"\nversion = "1"\nrequires-python = ">=3.10"\n'
             'dependencies = ["tensorflow"]\n[project.optional-dependencies]\n'
             'dev = ["pytest", "pytest-xdist"]\ndocs = ["sphinx"]\n'},
            "-e '.[dev]'",
            "3.10",
        ),
        (
            {"requirements.txt": "tensorflow\n",
             "tests/requirements.txt": "pytest\npytest-xdist\n",
             "old/tests/requirements.txt": "pytest<7\n"},
            "-r tests/requirements.txt -r requirements.txt",
            "3.11",
        ),
        (
            {"pyproject.toml": '[dependency-groups]\ntest = ["pytest", "tensorflow"]\n'},
            "--group test pytest-xdist",
            "3.11",
        ),
    ],
    ids=["extra", "requirements", "group"],
)  # fmt: skip
def test_it_installs_what_the_repository_says(
    tmp_path: Path, files: dict[str, str], install: str, python: str
) -> None:
    write_tree(tmp_path, {**files, "tests/test_it.py": "import tensorflow\ndef test_it(): pass\n"})
    made = workflow(tmp_path)

    assert commands(made, "cpu")[0] == f"python -m pip install {install}"
    assert made["jobs"]["cpu"]["steps"][1]["with"] == {"python-version": python}


def test_a_job_that_checks(tmp_path: Path) -> None:
    """With the devicegen that printed it, on a Python that it runs on, whatever the project's."""
    floor = {"pyproject.toml": '[project]\nname = "x"\nrequires-python = ">=3.9"\n'
             'version = "1"\ndependencies = ["tensorflow"]\n'}  # fmt: skip
    top = write_tree(tmp_path, {**LIBRARY, **floor})
    made = workflow(top)
    install, check = commands(made, "check")

    assert install == f"python -m pip install devicegen=={__version__}"
    assert made["jobs"]["check"]["steps"][1]["with"] == {"python-version": "3.11"}
    program, *args = check.split()
    assert program == "devicegen"
    assert run(*args, top).code == 2  # not yet
    assert run("init", top).code == 0
    assert run(*args, top).code == 0
    (top / HARNESS).unlink()
    assert run(*args, top).code == 1


def test_without_xdist(tmp_path: Path) -> None:
    write_tree(tmp_path, LIBRARY)

    assert commands(workflow(tmp_path, "--no-xdist"), "cpu")[1] == (
        "python -m pytest --gpu-simulate 2"
    )


@pytest.mark.slow
def test_the_commands_do_what_the_jobs_say(tmp_path: Path) -> None:
    """The GPU job fails where there is no GPU."""
    test = "import pytest\n@pytest.mark.run_on(['gpu'])\ndef test_gpu(): pass\n"
    top = write_tree(tmp_path / "top", {**LIBRARY, **FAKE_TENSORFLOW, "tests/test_gpu.py": test})
    run("init", top)
    made = workflow(top)
    smi = StandInNvidiaSmi(tmp_path / "bin", cards(1))
    python = environment("pytest-9").parent
    leases = {"PYTEST_GPU_LOCK_DIR": str(tmp_path / "leases"), "DIARY": "/dev/null"}

    for job, folder, code in (("cpu", "", 0), ("gpu", "", 4), ("gpu", f"{smi.folder}:", 0)):
        done = run_process(
            ["/bin/bash", "-c", commands(made, job)[1]], top,
            env={**leases, "PATH": f"{folder}{python}:/usr/bin:/bin"},
        )  # fmt: skip
        assert done.returncode == code, (job, folder, done)
