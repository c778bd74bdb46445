"""What starts pytest, where, and whether once for each rank."""

from __future__ import annotations

from pathlib import Path

import pytest

from devicegen.facts.pytest_commands import pytest_commands
from devicegen.facts.source_tree import SourceTree
from kit import write_tree

# Name -> (path, text, [(line, whether there are ranks)]).
CASES: dict[str, tuple[str, str, list[tuple[int, bool]]]] = {
    "make": ("Makefile", "test:\n\tpytest\n\tmpirun -np 2 pytest\n", [(2, False), (3, True)]),
    "horovodrun": ("run.sh", "horovodrun -np 2 -H localhost:2 python -m pytest t\n", [(1, True)]),
    "torchrun": ("run.sh", "torchrun --nproc-per-node=2 -m pytest\n", [(1, True)]),
    "torch.distributed": ("run.sh", "python -m torch.distributed.run -m pytest\n", [(1, True)]),
    "srun in a batch script": ("job.sh", "#SBATCH -n 4\nsrun -n4 pytest\npytest\n",
                               [(2, True), (3, False)]),
    "mpiexec by its path": ("run.sh", "/opt/mpi/bin/mpiexec.hydra -n 2 .venv/bin/pytest a\n",
                            [(1, True)]),
    "in a shell": ("run.sh", "mpirun -np 2 bash -c 'cd x && pytest'\n", [(1, True)]),
    "another command": ("run.sh", "mpirun -np 2 hello && pytest\n", [(1, False)]),
    "all in a shell": ("run.sh", 'bash -c "mpirun -np 2 hello; pytest"\n', [(1, False)]),
    "for each file": ("run.sh", 'bash -c "ls test_*.py | xargs -n1 mpirun pytest"\n', [(1, True)]),
    "a variable": ("Makefile", "MPI ?= mpirun -np 2\ntest:\n\t$(MPI) pytest\n", [(3, True)]),
    "no such program": ("run.sh", "my-mpirun pytest\nmpirun-like.sh pytest\n",
                        [(1, False), (2, False)]),
    "lines that go on": ("run.sh", "# pytest\nmpirun -np 2 \\\n  -H a:2 \\\n  pytest tests\n",
                         [(4, True)]),
    "a workflow": (".github/workflows/ci.yml", "run: |\n  mpirun a\n  pytest\n  srun pytest\n",
                   [(3, False), (4, True)]),
    "folded": (".github/workflows/ci.yml", "x:\n- run: >-\n    mpirun -np 2\n    pytest\n- b: 1\n",
               [(4, True)]),
    "tox": ("tox.ini", "[testenv]\ndeps =\n    pytest\ncommands =\n    horovodrun -np 2 \\\n"
            "    pytest {posargs}\n    pytest -q\n", [(6, True), (7, False)]),
    "tox.toml": ("tox.toml", '[env_run_base]\ndeps = ["pytest"]\ncommands = [\n'
                 '  ["horovodrun", "-np", "2", "pytest"],\n]\n', [(4, True)]),
    "one of two in TOML": ("tox.toml", '[env_run_base]\ncommands = [["mpirun"], ["pytest"]]\n',
                           [(2, False)]),
    "setup.cfg": ("setup.cfg", "[x]\ncommands = pytest\n[testenv]\ncommands = mpirun pytest\n",
                  [(4, True)]),
    "pyproject.toml": ("pyproject.toml", '[project]\ndependencies = ["pytest"]\n'
                       '[tool.tox.env_run_base]\ncommands = [["srun", "pytest"]]\n', [(4, True)]),
    "an installation": ("run.sh", "pip install pytest\napt install mpirun\n", []),
    "a path": ("run.sh", "cat tests/pytest pytest.ini test-pytest\n", []),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_lines_that_start_pytest(tmp_path: Path, name: str) -> None:
    path, text, expected = CASES[name]
    tree = SourceTree.list(write_tree(tmp_path, {path: text.encode()}))

    found = list(pytest_commands(tree))

    assert [(each.where.line, each.ranks) for each in found] == expected, found
