"""The harness is active in each layout, however pytest is started: decided by real runs.

For ``pytest`` at the top, with one file, from inside a sub folder, and with ``-n 2``; its options
are known in each, its fixture and its marker act. The quick tests take a few layouts, the slow
ones all of them, with four versions of pytest.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator
from pathlib import Path

import pytest

from devicegen.facts.pytest_startup import VERSIONS, ways_to
from devicegen.facts.repository import gather_facts
from generator import run
from kit import environment, write_tree
from kit.forked_runs import Job, run_forked
from kit.processes import run_process
from kit.runs import PytestRun
from layouts import LAYOUTS, TEST, Layout

FAKE = Path(__file__).parent / "harness" / "fake_tensorflow.py"
# pytest of an environment, and its version.
PYTESTS = {"pytest-9": (9, 2), "pytest-8": (8, 4), "tf-2.15": (7, 4), "pytest-7": (7, 0)}
QUICK = (
    "tests, nothing else",
    "next to sources, a bare pyproject",
    "both taken",
    "two packages, a bare pyproject each",
)
PARTS = 6  # in which all layouts are run, so that one on a loaded machine takes no hour
OPTIONS = ("--gpu-simulate", "2", "-p", "no:cacheprovider")


def modules_of(layout: Layout) -> list[str]:
    return [path for path, text in layout.files.items() if "test_marked" in str(text)]


def started(top: Path, layout: Layout) -> Iterator[tuple[str, Job]]:
    """Yield the ways to start pytest, and what each is called."""
    test = next(path for path in modules_of(layout) if not path.startswith(("build/", "dist/")))
    folder = posixpath.dirname(test)
    args = (*OPTIONS, *layout.args)
    yield "at the top", Job(top, args)
    yield "one file", Job(top, (*args, test))
    if posixpath.basename(test).startswith(("test_", "check_")) or "_test." in test:
        yield "from its folder", Job(top / folder, args)
    if "/" in folder:
        first = folder.split("/")[0]
        yield "from a folder above it", Job(top / first, args)
        yield "one folder", Job(top, (*args, first))


def make(top: Path, layout: Layout) -> str:
    """Write the layout, run init, and return what it printed."""
    write_tree(top, {".git/HEAD": "", **layout.files})
    done = run("init", top, *layout.init)
    assert done.code == 0, done
    return done.stdout + done.stderr


def assert_active(name: str, way: str, done: PytestRun) -> None:
    said = f"{name}, {way}: {done}"
    passed = {nodeid for nodeid, outcome in done.outcomes.items() if outcome == "passed"}
    assert done.returncode == 0, said
    for end in ("test_marked[cpu]", "test_marked[gpu]", "test_plain"):
        assert any(nodeid.endswith(end) for nodeid in passed), said
    assert not set(done.outcomes) - passed, said


@pytest.fixture(scope="module")
def fake_tensorflow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fake")
    return write_tree(folder, {"tensorflow.py": FAKE.read_bytes()})


def run_layouts(folder: Path, names: list[str], env: str, fake: Path) -> None:
    """Start pytest in every way with the newest and the oldest, in the telling ones otherwise."""
    jobs: list[tuple[str, str, Job]] = []
    is_between = env not in ("pytest-9", "pytest-7")
    for number, name in enumerate(names):
        top = folder / str(number)
        make(top, LAYOUTS[name])
        jobs += [
            (name, way, job)
            for way, job in started(top, LAYOUTS[name])
            if way in ("one file", "from its folder") or not is_between
        ]
        if env == "pytest-9" and len(names) > len(QUICK):
            jobs.append((name, "-n 2", Job(top, (*OPTIONS, *LAYOUTS[name].args, "-n", "2"))))
    runs = run_forked(
        environment(env),
        [job for _, _, job in jobs],
        path=[fake],
        env={"DIARY": "/dev/null", "PATH": str(folder)},
    )
    wrong = []
    for (name, way, _), done in zip(jobs, runs, strict=True):
        try:
            assert_active(name, way, done)
        except AssertionError as error:
            wrong.append(str(error))
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.slow
def test_the_harness_is_active(tmp_path: Path, fake_tensorflow: Path) -> None:
    run_layouts(tmp_path, list(QUICK), "pytest-9", fake_tensorflow)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("env", PYTESTS)
def test_the_harness_is_active_in_every_layout(
    tmp_path: Path, fake_tensorflow: Path, env: str, part: int
) -> None:
    names = [name for name, layout in LAYOUTS.items() if layout.newer <= PYTESTS[env]]

    run_layouts(tmp_path, names[part::PARTS], env, fake_tensorflow)


@pytest.mark.slow
def test_each_project_of_a_monorepo_has_its_own(tmp_path: Path, fake_tensorflow: Path) -> None:
    """Where each is a rootdir: the top is refused and names them, and each is right by itself."""
    files = {
        "a/pytest.ini": "[pytest]\n",
        "a/tests/test_a.py": TEST,
        "b/setup.cfg": "[tool:pytest]\n",
        "b/p/test_b.py": TEST,
    }
    write_tree(tmp_path, {".git/HEAD": "", **files})
    refused = run("init", tmp_path)
    assert refused.code == 2
    projects = [tmp_path / name for name in ("a", "b")]
    assert all(f"{project.name}`" in refused.stderr for project in projects)
    for project in projects:
        assert run("init", project).code == 0

    jobs = [Job(project, OPTIONS) for project in projects]
    jobs += [Job(tmp_path, (*OPTIONS, test)) for test in files if test.endswith(".py")]
    runs = run_forked(
        environment("pytest-9"), jobs, path=[fake_tensorflow], env={"DIARY": "/dev/null"}
    )

    for done in runs:
        assert_active("monorepo", "each", done)


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in LAYOUTS],
)
def test_place(tmp_path: Path, name: str) -> None:
    layout = LAYOUTS[name]
    before = layout.files

    printed = make(tmp_path, layout)

    action = "update" if layout.shared else "create"
    assert f"\n{action}  {layout.place}\n" in printed
    data = (tmp_path / layout.place).read_bytes()
    assert (b"# >>> devicegen" in data) == layout.shared
    if layout.shared:
        owned = before[layout.place]
        assert data.startswith(owned if isinstance(owned, bytes) else owned.encode())
    if layout.added:
        assert (
            f"marker registry     {layout.added}  (none is in force, and without one `" in printed
        )
    else:
        assert "without one" not in printed
    assert run("check", tmp_path).code == 0


def test_there_are_enough_layouts() -> None:
    assert len(LAYOUTS) >= 60
    assert set(QUICK) <= set(LAYOUTS)


# The model of pytest's start, against pytest

ASK_PYTEST = """
import json, os, sys
from _pytest.config import _prepareconfig

def ask(folder, args, root):
    os.chdir(folder)
    path, known = list(sys.path), set(sys.modules)
    config = None
    try:
        config = _prepareconfig(args, [])
        names = [str(name) for name, plugin in config.pluginmanager.list_name_plugin()]
        return [str(config.rootpath), sorted(n for n in names if n.endswith("conftest.py"))]
    except BaseException as error:
        return [repr(error), []]
    finally:
        if config:
            config._ensure_unconfigure()
        sys.path[:] = path
        for name, module in list(sys.modules.items()):
            if name not in known and (getattr(module, "__file__", None) or root).startswith(root):
                del sys.modules[name]

asked, root = json.load(open(sys.argv[1])), sys.argv[2]
print("\\n" + json.dumps([ask(*each, root) for each in asked]))
"""
# Two conftests that are in no package are one to the import mode `append`.
NOT_PROBED = ("--import-mode=append", "--import-mode=append, tests taken")


def ask_pytest(folder: Path, env: str, names: list[str]) -> list[tuple[str, ...]]:
    """Return where the model of pytest's start and pytest differ over these layouts."""
    version = next(each for each in reversed(VERSIONS) if each <= PYTESTS[env])
    questions, expected = [], []
    for number, name in enumerate(names):
        top = write_tree(folder / str(number), LAYOUTS[name].files)
        facts = gather_facts(top)
        folders = {above for test in facts.test_files for above in folders_above(test)}
        write_tree(top, {posixpath.join(each, "conftest.py"): "" for each in folders})
        for way in ways_to(facts.test_files):
            args = ["no-such-file"] if way.separate_value else []
            args += [way.argument] if way.argument is not None else []
            questions.append((str(top / way.folder), args))
            loaded = {
                str(top / each / "conftest.py")
                for each in folders
                if facts.layout.loads(each, way, version)
            }
            root = facts.layout.rootdir(way, version)
            expected.append((name, str(way), str(top / root), sorted(loaded)))
    file = folder / "questions.json"
    file.write_text(json.dumps(questions))
    done = run_process([environment(env), "-c", ASK_PYTEST, file, folder], folder)
    answers = json.loads(done.stdout.splitlines()[-1])
    assert len(expected) == len(answers) > len(names)
    return [
        (name, way, f"{root} {loaded}", str(answer))
        for (name, way, root, loaded), answer in zip(expected, answers, strict=True)
        if [root, loaded] != answer
    ]


def test_the_model_of_the_start_is_right(tmp_path: Path) -> None:
    assert ask_pytest(tmp_path, "pytest-9", list(QUICK)) == []


@pytest.mark.slow
@pytest.mark.parametrize("env", PYTESTS)
def test_the_model_of_the_start_is_right_in_every_layout(tmp_path: Path, env: str) -> None:
    names = [name for name, layout in LAYOUTS.items() if layout.newer <= PYTESTS[env]]

    assert ask_pytest(tmp_path, env, [n for n in names if n not in NOT_PROBED]) == []


def folders_above(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[:length]) for length in range(len(parts) + 1)]
