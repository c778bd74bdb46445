"""Each case is a small repository (path -> text) and what must be read from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from devicegen.facts.pyproject_requirements import poetry_specifier
from devicegen.facts.pytest_modules import list_test_files
from devicegen.facts.requirements import Requirements, read_requirements
from devicegen.facts.source_tree import SourceTree
from devicegen.facts.tensorflow_use import (
    TENSORFLOW_DISTRIBUTIONS,
    scan_python,
    tensorflow_versions,
)
from devicegen.facts.version_ranges import lowest_admitted
from devicegen.facts.xdist_use import xdist_mentions

Tree = dict[str, str | bytes]
Plant = Callable[[Tree], SourceTree]


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    def write(tree: Tree) -> SourceTree:
        top = tmp_path / "repository"
        for path, content in tree.items():
            file = top / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.encode() if isinstance(content, str) else content)
        top.mkdir(exist_ok=True)
        return SourceTree.list(top)

    return write


def facts(requirements: Requirements) -> list[str]:
    """Show each fact as ``group | name specifier ; marker | place``."""
    return [
        f"{fact.group} | {fact.name}{fact.specifier}"
        + (f" ; {fact.marker}" if fact.marker else "")
        + f" | {fact.where}"
        for fact in requirements.all
    ]


PEP_621 = """\
[build-system]
requires = ["setuptools"]

[project]
name = "x"
# dependencies = ["tensorflow<1"]
requires-python = ">=3.9"
dependencies = [
  "numpy",  # "numpydoc"
  'TensorFlow >=2.12,<2.16; sys_platform == "linux"',
]

[project.optional-dependencies]
Test_Tools = ["pytest", "numpy"]
docs = ["sphinx"]

[dependency-groups]
test = ["pytest>=8"]
Dev.Tools = []
dev = ["ruff", {include-group = "test"}]
"""
POETRY = """\
[tool.poetry.dependencies]
python = "^3.8"
tensorflow = {version = "~2.10", optional = true}
numpy = "*"
scipy = [
  {version = "^1.7", python = "<3.10"},
  {version = "^1.9", markers = "sys_platform == 'linux'"},
]
local = {path = "../local"}

[tool.poetry.extras]
gpu = ["tensorflow"]

[tool.poetry.group.test.dependencies]
pytest = "8.1"

[tool.poetry.dev-dependencies]
black = "^22.3"
"""
SETUP_CFG = """\
[metadata]
name = x
[options]
python_requires = >=3.8
install_requires =
    numpy>=1.20
    # a comment
    tensorflow>=2.5 ; python_version < "3.12"  # why

[options.extras_require]
test = pytest; pytest-xdist
"""
SETUP_PY = """\
import os, setuptools
MIN = "2.4"
base = ["numpy",
        "tensorflow>=2.4,"
        "<3"]
base += ["scipy"]
TESTS = ("pytest",)
extras = {"test": [*TESTS, "pytest-xdist"], ":python_version<'3.8'": ["typing_extensions"]}
raise SystemExit("never run")
def run():
    setuptools.setup(
        install_requires=base + ["six"],
        extras_require=extras,
        tests_require=TESTS,
        python_requires=">=3.7",
    )
"""
REQUIREMENTS = """\
--index-url https://example.org/simple
-r requirements/base.txt
-c constraints.txt
numpy==1.26 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
pytest>=7 # tail  # more
git+https://example.org/x.git#egg=x
-e .
./local
.[test]
pkg @ https://example.org/pkg.whl
"""
ENVIRONMENT = """\
name: x
channels:
  - conda-forge
dependencies:
  - python=3.10
  - conda-forge::tensorflow=2.8
  - numpy>=1.20,<2  # [linux]
  - scipy=1.9=py310_0
  - pip:
    - pytest==8.1
    - -r other.txt
  - mkl
variables:
  - never
"""
TOX = """\
[tox]
envlist = py39
[testenv]
deps =
    pytest
    py39,tf{28,29}: tensorflow>=2.8
    -r tests/reqs-ci.txt
    {[base]deps}
[testenv:lint]
deps = ruff
"""

READ = {
    "PEP 621, PEP 735": (
        {"pyproject.toml": PEP_621},
        [
            "dependencies | numpy | pyproject.toml:9",
            'dependencies | tensorflow<2.16,>=2.12 ; sys_platform == "linux" | pyproject.toml:10',
            "extra:test-tools | pytest | pyproject.toml:14",
            "extra:test-tools | numpy | pyproject.toml:14",
            "extra:docs | sphinx | pyproject.toml:15",
            "group:test | pytest>=8 | pyproject.toml:18",
            "group:dev | ruff | pyproject.toml:20",
            "group:dev | pytest>=8 | pyproject.toml:18",
        ],
    ),
    "poetry": (
        {"pyproject.toml": POETRY},
        [
            "extra:gpu | tensorflow<2.11,>=2.10 | pyproject.toml:3",
            "dependencies | numpy | pyproject.toml:4",
            'dependencies | scipy<2,>=1.7 ; python_version < "3.10" | pyproject.toml:5',
            'dependencies | scipy<2,>=1.9 ; sys_platform == "linux" | pyproject.toml:5',
            "dependencies | local | pyproject.toml:9",
            "group:dev | black<23,>=22.3 | pyproject.toml:18",
            "group:test | pytest==8.1 | pyproject.toml:15",
        ],
    ),
    "setuptools' dynamic files": (
        {
            "pyproject.toml": '[tool.setuptools.dynamic]\ndependencies = {file = ["needs.txt"]}\n',
            "needs.txt": "\nnumpy\n-r more.txt\n",
            "more.txt": "scipy",
        },
        ["dependencies | numpy | needs.txt:2", "dependencies | scipy | more.txt:1"],
    ),
    "setup.cfg": (
        {"setup.cfg": SETUP_CFG},
        [
            "dependencies | numpy>=1.20 | setup.cfg:6",
            'dependencies | tensorflow>=2.5 ; python_version < "3.12" | setup.cfg:8',
            "extra:test | pytest | setup.cfg:11",
            "extra:test | pytest-xdist | setup.cfg:11",
        ],
    ),
    "setup.py": (
        {"setup.py": SETUP_PY},
        [
            "dependencies | numpy | setup.py:3",
            "dependencies | tensorflow<3,>=2.4 | setup.py:4",
            "dependencies | scipy | setup.py:6",
            "dependencies | six | setup.py:12",
            "extra:test | pytest | setup.py:7",
            "extra:test | pytest-xdist | setup.py:8",
            'dependencies | typing-extensions ; python_version < "3.8" | setup.py:8',
            "tests_require | pytest | setup.py:7",
        ],
    ),
    "setup.py, an f-string of a known name": (
        {"setup.py": 'V = "2.9"\nsetup(install_requires=[f"tensorflow>={V}"])'},
        ["dependencies | tensorflow>=2.9 | setup.py:2"],
    ),
    "setup.py, keywords in a dict": (
        {"setup.py": 'kw = dict(install_requires="a\\nb>1")\nsetup(name="x", **kw)'},
        ["dependencies | a | setup.py:1", "dependencies | b>1 | setup.py:1"],
    ),
    "requirements files": (
        {
            "requirements.txt": REQUIREMENTS,
            "requirements/base.txt": "scipy\n-r ../requirements.txt",
            "constraints.txt": "tensorflow==2.15.1",
            "docs/requirements.txt": "sphinx",
            "notes.txt": "see the manual",
        },
        [
            "requirements:requirements.txt | numpy==1.26 | requirements.txt:4",
            "requirements:requirements.txt | pytest>=7 | requirements.txt:7",
            "requirements:requirements.txt | pkg | requirements.txt:12",
            "requirements:requirements/base.txt | scipy | requirements/base.txt:1",
            "constraints:constraints.txt | tensorflow==2.15.1 | constraints.txt:1",
        ],
    ),
    "conda": (
        {"environment.yml": ENVIRONMENT},
        [
            "conda:environment.yml | tensorflow==2.8.* | environment.yml:6",
            "conda:environment.yml | numpy<2,>=1.20 | environment.yml:7",
            "conda:environment.yml | scipy==1.9.* | environment.yml:8",
            "conda:environment.yml | pytest==8.1 | environment.yml:10",
            "conda:environment.yml | mkl | environment.yml:12",
        ],
    ),
    "tox": (
        {"tox.ini": TOX, "tests/reqs-ci.txt": "pytest-xdist"},
        [
            "tox:testenv | pytest | tox.ini:5",
            "tox:testenv | tensorflow>=2.8 | tox.ini:6",
            "tox:testenv:lint | ruff | tox.ini:10",
            "requirements:tests/reqs-ci.txt | pytest-xdist | tests/reqs-ci.txt:1",
        ],
    ),
    "CRLF and BOM": (
        {
            "setup.cfg": b"\xef\xbb\xbf[options]\r\ninstall_requires =\r\n  numpy\r\n",
            "requirements.txt": b"\xef\xbb\xbfscipy\r\nsix\\\r\n >=1\r\n",
        },
        [
            "dependencies | numpy | setup.cfg:3",
            "requirements:requirements.txt | scipy | requirements.txt:1",
            "requirements:requirements.txt | six>=1 | requirements.txt:2",
        ],
    ),
    "nothing": ({"README": "tensorflow"}, []),
}


@pytest.mark.parametrize(("tree", "expected"), READ.values(), ids=READ)
def test_reads_every_format(plant: Plant, tree: Tree, expected: list[str]) -> None:
    requirements = read_requirements(plant(tree))
    assert facts(requirements) == expected
    assert requirements.problems == ()


BROKEN = {
    "TOML": ({"pyproject.toml": "[project]\nname = \n"}, ["pyproject.toml:2: not TOML"]),
    "deep TOML": ({"pyproject.toml": "a = " + "[" * 5000}, ["pyproject.toml:1: not TOML"]),
    "dependencies no list": (
        {"pyproject.toml": '[project]\n\ndependencies = "numpy"'},
        ["pyproject.toml:3: dependencies is no list"],
    ),
    "tables of the wrong type": (
        {"pyproject.toml": "project = 1\ndependency-groups = 2\n[tool]\npoetry = [3]\n"},
        [],
    ),
    "groups that include themselves": (
        {
            "pyproject.toml": "[dependency-groups]\na = [{include-group='b'}]\n"
            "b = [{include-group='a'}, {include-group='c'}]"
        },
        ["group:a includes itself", "group:a includes c", "group:b includes", "group:b includes"],
    ),
    "latin-1 setup.py": (
        {"setup.py": "# -*- coding: latin-1 -*-\n# \xe9\nsetup()".encode("latin-1")},
        ["setup.py:1: not read"],
    ),
    "syntax error": ({"setup.py": "import os\nsetup(\n"}, ["setup.py:2: not Python"]),
    "NUL in setup.py": ({"setup.py": "setup()\0"}, ["setup.py:1: not"]),
    "deep setup.py": (
        {"setup.py": "setup(install_requires=" + "+".join(["['a']"] * 3000) + ")"},
        ["setup.py:1: not read"],
    ),
    "computed": (
        {"setup.py": "setup(\n install_requires=open('r').read(),\n python_requires=f())"},
        [
            "setup.py:2: install_requires is computed: not known",
            "setup.py:3: python_requires is computed: not known",
        ],
    ),
    "setup.cfg without a section": ({"setup.cfg": "\na = 1\n"}, ["setup.cfg:2: not an ini-file"]),
    "tox.ini": ({"tox.ini": "[testenv]\ndeps = a\nwhat\n"}, ["tox.ini:3: not an ini-file"]),
    "loop": ({"requirements.txt": "-r requirements.txt\n-r ./requirements.txt"}, []),
    "outside": (
        {"requirements.txt": "a\n-r ../outside.txt\n-c /etc/passwd"},
        [
            "requirements.txt:2: not followed: ../outside.txt is outside",
            "requirements.txt:3: not followed: /etc/passwd is outside",
        ],
    ),
    "absent, remote": (
        {"requirements.txt": "-r no.txt\n-r https://example.org/r.txt\n-r ${X}/r.txt"},
        ["requirements.txt:1: not", "requirements.txt:2: not", "requirements.txt:3: not"],
    ),
    "5 MB": (
        {"requirements.txt": "numpy\n" * 900_000, "setup.py": b"#" * 5_000_000},
        ["setup.py:1: not read", "requirements.txt:1: not read"],
    ),
    "not UTF-8": ({"requirements.txt": "numpy\n".encode("utf-16")}, ["requirements.txt:1: not"]),
    "no requirements": (
        {
            "requirements.txt": "numpy\n<<<<<<< HEAD\nfoo >= what\n"
            + "(" * 900
            + "\n"
            + "9" * 90_000
        },
        ["requirements.txt:2: ", "requirements.txt:3: ", "requirements.txt:4: ", ":5: not a"],
    ),
    "markers nested deep": (
        {"requirements.txt": "a; " + "(" * 450 + "os_name=='nt'" + ")" * 450},
        [":1: not a"],
    ),
    "a version of 5000 digits": (
        {"requirements.txt": "a>=" + "9" * 5000},
        ["requirements.txt:1: not a requirement"],
    ),
    "white space without end": ({"requirements.txt": "a" + " " * 1_000_000 + "b"}, [":1: not a"]),
    "python floor": ({"setup.cfg": "[options]\npython_requires = 3.8\n"}, ["setup.cfg:2: not a"]),
}


@pytest.mark.parametrize(("tree", "problems"), BROKEN.values(), ids=BROKEN)
def test_says_in_a_line_what_it_cannot_read(plant: Plant, tree: Tree, problems: list[str]) -> None:
    found = read_requirements(plant(tree)).problems
    assert len(found) == len(problems), found
    for problem, expected in zip(found, problems, strict=True):
        assert expected in problem
        assert "\n" not in problem
        assert len(problem) < 200


def test_never_reads_through_a_link_out_of_the_repository(tmp_path: Path, plant: Plant) -> None:
    (tmp_path / "secret.txt").write_text("tensorflow==2.1")
    tree: Tree = {"a.txt": ""}
    top = plant(tree).top
    (top / "requirements.txt").symlink_to(tmp_path / "secret.txt")
    requirements = read_requirements(SourceTree.list(top))
    assert requirements.all == ()
    assert requirements.problems[0].startswith("requirements.txt:1: not read: a link")


def test_never_runs_the_targets_code(tmp_path: Path, plant: Plant) -> None:
    mark = tmp_path / "ran"
    code = f"open({str(mark)!r}, 'w')\nsetup()\n"
    read_requirements(plant({"setup.py": code, "conftest.py": code}))
    assert not mark.exists()


LITERALS = """\
REQUIRED = [open("x").read()]
TF = "tensorflow >= 2.16" if release else "tf-nightly"
HELP = "for example tensorflow~=2.1"
setup(install_requires=REQUIRED, extras_require={"gpu": ["tensorflow-gpu>={}".format(LOW)]})
"""


def test_takes_the_texts_of_a_setup_py_that_computes(plant: Plant) -> None:
    requirements = read_requirements(plant({"setup.py": LITERALS}))
    assert facts(requirements) == [
        "extra:gpu | tensorflow-gpu | setup.py:4",
        "literal | tensorflow>=2.16 | setup.py:2",
    ]
    assert requirements.problems == (
        "setup.py:1: install_requires is computed: not known",
        "setup.py:4: the version of tensorflow-gpu is computed: not known",
    )
    assert tensorflow_versions(requirements).lowest == (2, 16)


LOWEST = {
    "": None,
    ">=2.4": (2, 4),
    ">=2.5.0rc0": (2, 5),
    "~=2.12": (2, 12),
    "~=2.8.0": (2, 8),
    "==2.15.*": (2, 15),
    "==2.15.1": (2, 15),
    "===2.15.1": (2, 15),
    "===what": None,
    "<2.16,>=2.12": (2, 12),
    "<3": None,
    "!=2.3": None,
    ">2.5": (2, 5),
    ">=2.5,!=2.5.*": (2, 6),
    ">=2.5,!=2.5.0": (2, 5),
    ">=2.5,!=2.5.*,!=2.6.*": (2, 7),
    ">2,!=2.*": (3, 0),
    ">=2.16.0.dev20240101": (2, 16),
    ">=2.5,<2.4": None,
}


@pytest.mark.parametrize(("specifier", "lowest"), LOWEST.items(), ids=[*map(repr, LOWEST)])
def test_lowest_admitted_version(specifier: str, lowest: tuple[int, int] | None) -> None:
    assert lowest_admitted(SpecifierSet(specifier)) == lowest


POETRY_SPECIFIERS = {
    "^1.2.3": ">=1.2.3,<2",
    "^0.2.3": ">=0.2.3,<0.3",
    "^0.0.3": ">=0.0.3,<0.0.4",
    "^0.0": ">=0.0,<0.1",
    "^0": ">=0,<1",
    "~1.2.3": ">=1.2.3,<1.3",
    "~1": ">=1,<2",
    "~=1.2": "~=1.2",
    "1.2.*": "==1.2.*",
    "*": "",
    "1.2": "==1.2",
    "=1.2": "==1.2",
    ">= 1.2, < 2": ">=1.2,<2",
    ">=1.2 <2": ">=1.2,<2",
    "^1.15 || ^2.0": ">=1.15",
    "<2 || ^3.0": "",
    "^what": "^what",
}


@pytest.mark.parametrize(("constraint", "specifier"), POETRY_SPECIFIERS.items())
def test_poetry_constraint_as_pep_440(constraint: str, specifier: str) -> None:
    assert poetry_specifier(constraint) == specifier


def project(*dependencies: str, **extras: list[str]) -> Tree:
    lines = ["[project]", f"dependencies = {[*dependencies]}", "[project.optional-dependencies]"]
    return {"pyproject.toml": "\n".join([*lines, *(f"{k} = {v}" for k, v in extras.items())])}


PYPROJECT_2 = ("pyproject.toml:2",)
VERSIONS: dict[str, tuple[Tree, tuple[int, int] | None, bool, tuple[str, ...]]] = {
    "no mention": (project("numpy"), None, True, ()),
    "no version": (project("tensorflow"), None, True, PYPROJECT_2),
    "range": (project("tensorflow>=2.12,<2.16"), (2, 12), True, PYPROJECT_2),
    "other things of TensorFlow": (project("tensorflow-probability>=0.9"), None, True, ()),
    "only 1.x": (project("tensorflow~=1.15.0"), (1, 15), False, PYPROJECT_2),
    "1.x and 2.x": (project("tensorflow>=1.14"), (1, 14), True, PYPROJECT_2),
    "only below": (project("tensorflow<2.16"), None, True, PYPROJECT_2),
    "contradiction": (project("tensorflow>=2.5,<2.4"), None, False, PYPROJECT_2),
    "same list twice holds together": (
        project("tensorflow>=2.4", "tensorflow>=2.8"),
        (2, 8),
        True,
        PYPROJECT_2,
    ),
    "platforms are alternatives": (
        project(
            'tensorflow>=2.9; platform_system != "Darwin"',
            'tensorflow-macos>=2.7; platform_system == "Darwin"',
        ),
        (2, 7),
        True,
        PYPROJECT_2,
    ),
    "marker that cannot hold": (
        project('tensorflow==1.15; python_version < "3.8"', "tensorflow>=2.8"),
        (2, 8),
        True,
        PYPROJECT_2,
    ),
    "run-time outranks extras": (
        project("tensorflow>=2.10", test=["tensorflow>=2.4"], cpu=["tensorflow-cpu>=2.5"]),
        (2, 10),
        True,
        PYPROJECT_2,
    ),
    "extras outrank test extras": (
        project("numpy", test=["tensorflow>=2.12"], cpu=["tensorflow-cpu>=2.9"]),
        (2, 9),
        True,
        ("pyproject.toml:5",),
    ),
    "a bare name leaves it to the next": (
        project("tensorflow") | {"tests/requirements.txt": "tensorflow~=2.8.0"},
        (2, 8),
        True,
        ("tests/requirements.txt:1",),
    ),
    "files are alternatives": (
        {"requirements.txt": "tensorflow==2.15.1", "requirements/base.in": "tensorflow>=2.6"},
        (2, 6),
        True,
        ("requirements.txt:1", "requirements/base.in:1"),
    ),
    "constraints come last": (
        {
            "requirements.txt": "tensorflow\n-c constraints.txt",
            "constraints.txt": "tensorflow==2.14.0",
            "tox.ini": "[testenv]\ndeps = tensorflow>=2.11",
        },
        (2, 11),
        True,
        ("tox.ini:2",),
    ),
    "marker on the extra": (
        project("numpy", cpu=["tensorflow>=2.9; extra == 'cpu'"]),
        (2, 9),
        True,
        ("pyproject.toml:4",),
    ),
}


@pytest.mark.parametrize(("tree", "lowest", "admits_2x", "where"), VERSIONS.values(), ids=VERSIONS)
def test_tensorflow_versions(
    plant: Plant,
    tree: Tree,
    lowest: tuple[int, int] | None,
    admits_2x: bool,
    where: tuple[str, ...],
) -> None:
    versions = tensorflow_versions(read_requirements(plant(tree)))
    assert (versions.lowest, versions.admits_2x) == (lowest, admits_2x)
    assert tuple(map(str, versions.where)) == where


@pytest.mark.parametrize("name", TENSORFLOW_DISTRIBUTIONS)
def test_every_distribution_of_tensorflow_counts(plant: Plant, name: str) -> None:
    spelt = name.replace("-", "_").upper()
    versions = tensorflow_versions(read_requirements(plant(project(f"{spelt}>=2.7"))))
    assert versions.lowest == (2, 7)


FLOORS: dict[str, tuple[Tree, tuple[int, int] | None, str]] = {
    "none": ({}, None, "None"),
    "pyproject first": (
        {
            "pyproject.toml": '[project]\nrequires-python = ">=3.10, !=3.10.1"',
            "setup.py": 'setup(python_requires=">=3.7")',
        },
        (3, 10),
        "pyproject.toml:2",
    ),
    "setup.py before setup.cfg": (
        {
            "setup.cfg": "[options]\npython_requires = >=3.6",
            "setup.py": 'setup(\n python_requires="~=3.9")',
        },
        (3, 9),
        "setup.py:2",
    ),
    "setup.cfg": ({"setup.cfg": "[options]\npython_requires = >=3"}, (3, 0), "setup.cfg:2"),
    "poetry": (
        {"pyproject.toml": '[tool.poetry.dependencies]\na = "1"\npython = "^3.8"'},
        (3, 8),
        "pyproject.toml:3",
    ),
    "exact": (
        {"pyproject.toml": '[project]\nrequires-python = "==3.11.*"'},
        (3, 11),
        "pyproject.toml:2",
    ),
    "only below": (
        {"pyproject.toml": '[project]\nrequires-python = "<3.13"'},
        None,
        "pyproject.toml:2",
    ),
}


@pytest.mark.parametrize(("tree", "version", "where"), FLOORS.values(), ids=FLOORS)
def test_python_floor(
    plant: Plant, tree: Tree, version: tuple[int, int] | None, where: str
) -> None:
    floor = read_requirements(plant(tree)).python
    assert (floor.version, str(floor.where)) == (version, where)


XDIST: dict[str, tuple[Tree, list[str]]] = {
    "required": ({"requirements.txt": "pytest_xdist[psutil]>=3"}, ["requirements.txt:1"]),
    "Makefile": ({"Makefile": "test:\n\tpytest -n auto tests\n\thead -n 4 x\n"}, ["Makefile:2"]),
    "workflow": (
        {".github/workflows/ci.yml": "- run: pytest -n4 x\n- run: pytest x | tail -n 5\n"},
        [".github/workflows/ci.yml:1"],
    ),
    "addopts over lines": (
        {"setup.cfg": "[tool:pytest]\naddopts =\n  -v -n 4\n"},
        ["setup.cfg:3"],
    ),
    "addopts list": (
        {"pyproject.toml": '[tool.pytest.ini_options]\naddopts = ["-n", "4"]\n'},
        ["pyproject.toml:2"],
    ),
    "tox": ({"tox.ini": "[testenv]\ncommands = pytest --dist loadfile\n"}, ["tox.ini:2"]),
    "numprocesses": ({"ci/test.sh": "python -m pytest --numprocesses=$N\n"}, ["ci/test.sh:1"]),
    "installed in CI": ({".travis.yml": "- pip install pytest-xdist\n"}, [".travis.yml:1"]),
    "other programs": (
        {
            "Makefile": "# pytest -n 4\n\tsed -n 3p x\n\tmake -n 2\n",
            "a.sh": "ls | xargs -n 1 pytest",
        },
        [],
    ),
}


@pytest.mark.parametrize(("tree", "places"), XDIST.values(), ids=XDIST)
def test_xdist_mentions(plant: Plant, tree: Tree, places: list[str]) -> None:
    planted = plant(tree)
    assert [*map(str, xdist_mentions(planted, read_requirements(planted)))] == places


def test_tensorflow_imports(plant: Plant) -> None:
    tree = plant(
        {
            "a.py": "import os\nimport tensorflow as tf\nimport tensorflow\n",
            "b.py": b"# \xe9\r\ndef f():\r\n\tfrom tensorflow.python import x\r\n",
            "c.py": "from  tensorflow import keras",
            "no_1.py": "import tensorflow_addons\nfrom tensorflowx import y\n",
            "no_2.py": "# import tensorflow\nx = 'import tensorflow'\nimport tf\n",
            "no_3.txt": "import tensorflow",
        }
    )
    sought = (lambda data: b"x = " in data, lambda _: False)
    imports, (naming, none) = scan_python(tree, [b"x ="], *sought)

    assert [*map(str, imports)] == ["a.py:2", "b.py:3", "c.py:1"]
    assert (naming, none) == (["no_2.py"], [])


FILES = dict.fromkeys(
    [
        "conftest.py",
        "lib/a.py",
        "lib/a_test.py",
        "tests/test_a.py",
        "tests/helper.py",
        "tests/unit/test_b.py",
        "tests/unit/check_c.py",
        "tests/test_data.txt",
        "tests_more/test_d.py",
    ],
    "",
)
TEST_FILES = {
    "defaults": (
        {},
        ["lib/a_test.py", "tests/test_a.py", "tests/unit/test_b.py", "tests_more/test_d.py"],
    ),
    "testpaths": ({"testpaths": ["tests/"]}, ["tests/test_a.py", "tests/unit/test_b.py"]),
    "testpaths glob": ({"testpaths": ["t*/un*"]}, ["tests/unit/test_b.py"]),
    "testpaths recursive": ({"testpaths": ["**/unit"]}, ["tests/unit/test_b.py"]),
    "testpaths, a file": ({"testpaths": ["tests/helper.py"]}, ["tests/helper.py"]),
    "testpaths, top": (
        {"testpaths": ["."], "python_files": ["a*.py"]},
        ["lib/a.py", "lib/a_test.py"],
    ),
    "testpaths that match nothing": (
        {"testpaths": ["no"], "python_files": ["a.py"]},
        ["lib/a.py"],
    ),
    "testpaths outside": ({"testpaths": [".."]}, []),
    "python_files": ({"python_files": ["check_*"]}, ["tests/unit/check_c.py"]),
    "python_files with a folder": (
        {"python_files": ["unit/*.py"]},
        ["tests/unit/check_c.py", "tests/unit/test_b.py"],
    ),
}


@pytest.mark.parametrize(("options", "expected"), TEST_FILES.values(), ids=TEST_FILES)
def test_lists_test_modules(
    plant: Plant, options: dict[str, list[str]], expected: list[str]
) -> None:
    assert [*list_test_files(plant({**FILES}), **options)] == expected
