"""``.pre-commit-hooks.yaml``, used as a project uses it: by the real pre-commit, from a clone."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from generator import HARNESS, LIBRARY, make_older, run
from kit import clean_environ, write_tree
from kit.processes import run_process

pytestmark = pytest.mark.slow

TOP = Path(__file__).parents[1]
WHAT_A_RELEASE_HOLDS = (
    *("pyproject.toml", "README.md", "LICENSE", ".pre-commit-hooks.yaml"),
    *("devicegen", "templates"),
)


def git(top: Path, *args: str) -> str:
    done = subprocess.run(
        ["git", *args], cwd=top, env=clean_environ(), capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def commit(top: Path) -> str:
    git(top, "init", "-q")
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", "x")
    return git(top, "rev-parse", "HEAD")


def test_the_hook_fails_only_for_what_is_wrong(tmp_path: Path) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in WHAT_A_RELEASE_HOLDS:
        source = TOP / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, hooks / name)
    revision = commit(hooks)
    config = f"repos:\n- repo: {hooks.as_uri()}\n  rev: {revision}\n  hooks:\n"
    top = write_tree(
        tmp_path / "top",
        {**LIBRARY, ".pre-commit-config.yaml": f"{config}  - id: devicegen-check\n"},
    )
    assert run("init", top).code == 0
    commit(top)
    env = {"PRE_COMMIT_HOME": str(tmp_path / "home")}

    def pre_commit(*args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pre_commit", "run", "--all-files", *args]
        return run_process(command, top, env=env)

    good = pre_commit()
    assert good.returncode == 0, good
    assert "devicegen check" in good.stdout
    assert "Passed" in good.stdout

    make_older(top)
    bad = pre_commit()
    assert bad.returncode == 1, bad
    assert f"FAIL  {HARNESS}: out of date; run `devicegen upgrade`" in bad.stdout

    assert run("upgrade", top).code == 0
    (top / HARNESS).write_text((top / HARNESS).read_text("utf-8") + "x = 1\n", "utf-8")
    assert pre_commit().returncode == 0
    config = (top / ".pre-commit-config.yaml").read_text("utf-8")
    (top / ".pre-commit-config.yaml").write_text(f"{config}    args: [--strict]\n", "utf-8")
    strict = pre_commit()
    assert strict.returncode == 1, strict
    assert f"FAIL  {HARNESS}: edited since devicegen wrote it" in strict.stdout
