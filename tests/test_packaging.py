"""What users install: a wheel, an sdist and an editable install all carry the templates."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from kit import clean_environ, write_tree
from kit.environments import make_environment
from kit.processes import LIMIT, run_process

pytestmark = pytest.mark.slow

TOP = Path(__file__).parents[1]
VERSION = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))["project"]["version"]
TEMPLATES = {
    path.relative_to(TOP).as_posix() for path in (TOP / "templates").rglob("*") if path.is_file()
}


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Build the sdist, and the wheel from that sdist, as ``python -m build`` does by default."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--installer", "uv", "--outdir", str(folder), str(TOP)],
        env=clean_environ(),
        check=True,
        timeout=LIMIT,
    )
    (wheel,) = folder.glob("*.whl")
    (sdist,) = folder.glob("*.tar.gz")
    return {"wheel": wheel, "sdist": sdist, "editable": TOP}


def test_wheel_holds_the_package_and_its_templates(distributions: dict[str, Path]) -> None:
    with zipfile.ZipFile(distributions["wheel"]) as wheel:
        names = set(wheel.namelist())

    assert {f"devicegen/{template}" for template in TEMPLATES} <= names
    assert "devicegen/py.typed" in names
    outside = {name for name in names if not name.startswith("devicegen")}
    assert not outside


def test_sdist_holds_what_it_takes_to_build_and_test(distributions: dict[str, Path]) -> None:
    with tarfile.open(distributions["sdist"]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}

    assert names >= TEMPLATES
    assert names >= {"LICENSE", "README.md", "CHANGELOG.md", "tests/kit/environments.py"}
    assert not [name for name in names if name.startswith((".envs", ".venv", "build/"))]


@pytest.fixture(params=["wheel", "sdist", "editable"])
def devicegen(
    request: pytest.FixtureRequest, distributions: dict[str, Path], tmp_path: Path
) -> Path:
    """Return the console script of a fresh environment that holds devicegen and nothing else."""
    source = distributions[request.param]
    requirements = ["-e", source] if request.param == "editable" else [source]
    return make_environment(tmp_path / "environment", requirements).with_name("devicegen")


def test_every_kind_of_install_works_from_another_directory(
    devicegen: Path, tmp_path: Path
) -> None:
    target = write_tree(
        tmp_path / "target",
        {
            "pyproject.toml": """
                [project]
                name = "target"
                version = "1.0"
                requires-python = ">=3.9"
                dependencies = ["tensorflow>=2.12"]

                [tool.pytest.ini_options]
                testpaths = ["tests"]
            """,
            "tests/test_add.py": """
                import tensorflow as tf

                def test_add():
                    assert tf.add(1, 2).numpy() == 3
            """,
        },
    )

    shown = run_process([devicegen, "--version"], tmp_path)
    assert (shown.returncode, shown.stdout.split()[-1]) == (0, VERSION), shown

    helped = run_process([devicegen, "--help"], tmp_path)
    assert helped.returncode == 0, helped
    assert "init" in helped.stdout

    written = run_process([devicegen, "init", "."], target)
    assert written.returncode == 0, written
    harness = target / "tests/conftest.py"
    compile(harness.read_text("utf-8"), harness.name, "exec")
    record = tomllib.loads((target / ".devicegen/record.toml").read_text("utf-8"))
    assert VERSION in str(record)

    again = run_process([devicegen.with_name("python"), "-m", "devicegen", "init", "."], target)
    assert again.returncode == 0, again
