"""A hook of the project's that asks for a keyword meets our ids: it is named, in three places."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from generator import LIBRARY, run
from kit import environment, write_tree

HOOK = """
    import pytest

    def pytest_configure(config):
        config.addinivalue_line("markers", "gpu: slow there")

    def pytest_collection_modifyitems(items):
        for item in items:
            if {}:
                item.add_marker(pytest.mark.skip)
"""
INSTEAD = 'ask item.get_closest_marker("gpu") instead'


def line(source: str, rest: str = INSTEAD, line: int = 8, name: str = "gpu") -> str:
    return f"conftest.py:{line}: `{source}` finds every test_x[{name}] too; {rest}"


@pytest.mark.parametrize(
    ("condition", "source"),
    [
        ('"gpu" in item.keywords and True', '"gpu" in item.keywords'),
        ("'gpu' not in item.keywords", "'gpu' not in item.keywords"),
        ('item.keywords.get("gpu")', 'item.keywords.get("gpu")'),
        ('item.keywords["gpu"]', 'item.keywords["gpu"]'),
        ('"gpu" in set(item.keywords.keys())', '"gpu" in set(item.keywords.keys())'),
        ('any(m in item.keywords for m in ("big", "gpu"))', "m in item.keywords"),
    ],
)
def test_init_says_so_and_inspect(tmp_path: Path, condition: str, source: str) -> None:
    top = write_tree(tmp_path, {**LIBRARY, "conftest.py": HOOK.format(condition)})

    page = " ".join(run("inspect", top).stdout.split())
    facts = json.loads(run("inspect", top, "--json").stdout)["facts"]
    done = run("init", top)

    assert (done.code, done.stderr) == (0, "")
    assert f"\n\n{line(source)}\n" in done.stdout
    assert line(source) in page
    assert facts["conftests"][0]["keyword_checks"] == [
        {"name": "gpu", "line": 8, "source": source}
    ]
    assert "finds every test_x" not in run("upgrade", top).stdout  # which did nothing


def test_where_the_name_is_bound_elsewhere(tmp_path: Path) -> None:
    hook = """
        MARK = "distributed"

        def skips(request):
            words = request.node.keywords
            return MARK in words
    """
    top = write_tree(tmp_path, {**LIBRARY, "conftest.py": hook})

    said = line("MARK in words", "", 5, "distributed").removesuffix("; ")

    assert f"{said}, and the harness marks it distributed as well; ask for another name\n" in (
        run("init", top).stdout
    )


@pytest.mark.parametrize(
    "condition",
    ['"slow" in item.keywords', '"gpu" in item.nodeid.split()', 'item.get_closest_marker("gpu")'],
)
def test_other_conditions_are_none(tmp_path: Path, condition: str) -> None:
    top = write_tree(tmp_path, {**LIBRARY, "conftest.py": HOOK.format(condition)})

    assert "finds every test_x" not in run("inspect", top).stdout
    assert "finds every test_x" not in run("init", top).stdout


@pytest.mark.slow
def test_the_doctor_says_that_it_is_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = Path(__file__).parent / "harness/fake_tensorflow.py"
    monkeypatch.setenv("DIARY", "/dev/null")
    monkeypatch.setenv("PYTHONPATH", ".")
    condition = '"gpu" in item.keywords'
    files = {"tensorflow.py": fake.read_bytes(), "conftest.py": HOOK.format(condition)}
    top = write_tree(tmp_path, {**LIBRARY, **files})
    assert run("init", top).code == 0

    done = run("doctor", top, "--python", environment("pytest-9"))

    assert f"in the way   {line(condition)}\n" in done.stdout, done
