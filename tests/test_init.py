"""``devicegen init`` on small repositories, compared as whole trees and whole outputs."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from devicegen import __version__
from devicegen.decisions import MARKERS
from devicegen.facts.pytest_config import marker_name, read_pytest_config
from generator import HARNESS, LIBRARY, PRISTINE, RECORD, Done, run, state
from kit import clean_environ, read_tree, write_tree

NAMES = [marker_name(line) for line in MARKERS]
TEST = "import tensorflow as tf\n\n\ndef test_nothing(): pass\n"
WRITTEN = f"""\
create  {HARNESS}
update  pyproject.toml
create  {PRISTINE}
create  {RECORD}
"""


def git(top: Path, *args: str) -> str:
    done = subprocess.run(
        ["git", *args], cwd=top, env=clean_environ(), capture_output=True, text=True, check=True
    )
    return done.stdout


def refused(done: Done) -> str:
    """Return the one line of a refusal, which must be all that is on stderr."""
    assert done.code == 2, done
    (line,) = done.stderr.splitlines()
    assert line.startswith("devicegen: ")
    return line.removeprefix("devicegen: ")


def test_prints_every_decision_with_its_reason_and_writes(tmp_path: Path) -> None:
    write_tree(tmp_path, LIBRARY)

    done = run("init", tmp_path)

    assert done == Done(
        0,
        f"""\
repository top      {tmp_path}  (it holds pyproject.toml)
framework           TensorFlow  (required (pyproject.toml:4))
harness             tests/conftest.py  (the only test file is there, and pytest loads \
test*/conftest.py)
marker registry     pyproject.toml  (the configuration in force (pyproject.toml:6))
logical-device API  tf.config.set_logical_device_configuration  (TensorFlow 2.8 is admitted \
(pyproject.toml:4); the names hold since 2.4)
pytest-xdist        mapped  (not mentioned here, but anyone may pass -n; --no-xdist leaves it out)
durations           not kept  (not asked for; --durations-history keeps them, to run long \
tests first)
GPUs                split in two  (two logical devices each; --no-split leaves them whole)
memory limit        fitted to the card  (half of its free memory for each half; --memory-limit-mb \
sets a number)
AMD GPUs            left out  (tensorflow-rocm is not required here; --rocm finds them all \
the same)
strategies          distributed  (--strategy adds one_device or central_storage; your own go into \
the harness, at STRATEGIES)
seeds               set before each test  (Python's, NumPy's, TensorFlow's; --no-seeds leaves \
them alone)
Python              3.9 and newer  (no floor is stated; the harness is made for Python 3.9 and \
newer)

{WRITTEN}
Done. Commit these files, then try: pytest --gpu-simulate 2
""",
        "",
    )
    tree = read_tree(tmp_path)
    assert set(tree) == {*LIBRARY, HARNESS, RECORD, PRISTINE}
    assert tree[HARNESS] == tree[PRISTINE]
    compile(tree[HARNESS], HARNESS, "exec")
    lines = "".join(f'    "{line}",\n' for line in MARKERS)
    assert tree["pyproject.toml"].decode() == (
        '[project]\nname = "library"\nversion = "1"\ndependencies = ["tensorflow>=2.8"]\n\n'
        f'[tool.pytest.ini_options]\naddopts = "-q"  # quiet\nmarkers = [\n{lines}]\n'
    )
    assert tree["library.py"] == LIBRARY["library.py"].encode()  # type: ignore[union-attr]
    assert re.fullmatch(
        f"""\
# What devicegen wrote .*
format = 1
version = "{re.escape(__version__)}"
registry = "pyproject.toml" # .*

\\[answers\\] # .*

\\[files\\] # .*
"tests/conftest.py" = "sha256:[0-9a-f]{{64}}"
""",
        tree[RECORD].decode(),
    )


@pytest.mark.parametrize(
    ("option", "line", "answers"),
    [
        (None, "found too  (tensorflow-rocm is required (requirements.txt:1))", ""),
        ("--rocm", "found too  (--rocm)", "rocm = true\n"),
        ("--no-rocm", "left out  (--no-rocm)", "rocm = false\n"),
    ],
)
def test_amd_gpus(tmp_path: Path, option: str | None, line: str, answers: str) -> None:
    write_tree(tmp_path, {**LIBRARY, "requirements.txt": "tensorflow-rocm\n"})

    done = run("init", tmp_path, *([option] if option else []))

    assert re.search(rf"^AMD GPUs +{re.escape(line)}$", done.stdout, re.MULTILINE)
    tree = read_tree(tmp_path)
    assert (b"ROCR_VISIBLE_DEVICES" in tree[HARNESS]) == line.startswith("found")
    given = tree[RECORD].decode().partition("[answers]")[2].partition("[files]")[0]
    assert given.partition("\n")[2].strip() == answers.strip()


def test_a_second_init_says_so_and_touches_nothing(tmp_path: Path) -> None:
    write_tree(tmp_path, LIBRARY)
    run("init", tmp_path)
    before = state(tmp_path)

    done = run("init", tmp_path)

    assert (done.code, done.stderr) == (0, "")
    assert done.stdout.endswith("\nNothing to do: the harness is here and current.\n")
    assert "(where the record says it is)" in done.stdout
    assert state(tmp_path) == before


def test_a_second_init_with_other_answers_points_to_upgrade(tmp_path: Path) -> None:
    write_tree(tmp_path, LIBRARY)
    run("init", tmp_path)
    before = state(tmp_path)

    line = refused(run("init", tmp_path, "--no-xdist"))

    assert line.endswith("there are changes for it; run `devicegen upgrade`")
    assert state(tmp_path) == before


def test_dry_run_prints_the_same_and_writes_nothing(tmp_path: Path) -> None:
    write_tree(tmp_path, LIBRARY)
    before = state(tmp_path)

    dry = run("init", tmp_path, "--dry-run")

    assert state(tmp_path) == before
    real = run("init", tmp_path)
    shown, _ = real.stdout.split("\nDone.")
    assert dry == Done(0, f"{shown}\nDry run: nothing was written.\n", "")


@pytest.mark.parametrize("ending", ["\n", ""], ids=["ended", "last line not ended"])
def test_diff_is_what_git_apply_takes_and_writes_nothing(tmp_path: Path, ending: str) -> None:
    config = '# Größe\N{LINE SEPARATOR}\n[tool.pytest.ini_options]\naddopts = "-q"' + ending
    top = write_tree(tmp_path / "top", LIBRARY | {"pyproject.toml": config})
    before = state(top)

    shown = run("init", top, "--diff")

    assert (shown.code, shown.stderr, state(top)) == (0, "", before)
    assert shown.stdout.startswith(f"--- /dev/null\n+++ b/{HARNESS}\n@@ -0,0 +1,")
    patch = tmp_path / "patch"
    patch.write_bytes(shown.stdout.encode())
    git(top, "init", "-q")
    git(top, "apply", "--whitespace=nowarn", str(patch))
    patched = read_tree(top)
    (top / HARNESS).unlink()
    write_tree(top, {"pyproject.toml": config})
    run("init", top)
    record = {RECORD, PRISTINE}
    assert {name: data for name, data in read_tree(top).items() if name not in record} == patched


CONFIGURATIONS = {
    "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "-q"\n',
    "pytest.toml": '[pytest]\naddopts = ["-q"]\n',
    "pytest.ini": "[pytest]\naddopts = -q\n",
    "tox.ini": "[tox]\nenvlist = py\n\n[pytest]\naddopts = -q\n",
    "setup.cfg": "[tool:pytest]\naddopts = -q\n\n[metadata]\nname = x\n",
    ".pytest.ini": "",
}


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_marker_lines_go_into_the_configuration_in_force(
    tmp_path: Path, name: str, newline: str
) -> None:
    text = CONFIGURATIONS[name].replace("\n", newline)
    write_tree(tmp_path, {name: text.encode(), "tests/test_a.py": TEST})

    done = run("init", tmp_path)

    assert f"update  {name}\n" in done.stdout, done
    after = (tmp_path / name).read_bytes().decode()
    assert after.count("\n") == after.count(newline if text else "\n")
    pairs = enumerate(zip(text, after, strict=False))
    kept = next((place for place, (old, new) in pairs if old != new), len(text))
    assert after.endswith(text[kept:])  # lines were added in one place, none was changed
    assert [marker_name(line) for line in read_pytest_config(tmp_path).markers] == NAMES
    assert f'registry = "{name}"' in (tmp_path / RECORD).read_text("utf-8")
    assert run("check", tmp_path).code == 0


def test_no_config_edit_leaves_the_configuration_alone_and_is_remembered(tmp_path: Path) -> None:
    write_tree(tmp_path, LIBRARY)
    before = state(tmp_path)

    done = run("init", tmp_path, "--no-config-edit")

    assert done.code == 0
    assert "in the harness only  (--no-config-edit; " in done.stdout
    after = state(tmp_path)
    assert {name: after[name] for name in before} == before
    record = (tmp_path / RECORD).read_text("utf-8")
    assert "config_edit = false" in record
    assert "registry" not in record
    assert run("upgrade", tmp_path) == Done(0, "Nothing to do: the harness is current.\n", "")


@pytest.mark.parametrize(
    ("files", "place"),
    [
        pytest.param({"tests/test_a.py": TEST, "src/p/a.py": ""}, HARNESS, id="src layout"),
        pytest.param({"setup.py": "", "p/a_test.py": TEST}, "conftest.py", id="next to sources"),
        pytest.param({"test_a.py": TEST, "a.py": ""}, "conftest.py", id="flat"),
        pytest.param(
            {"setup.py": "", "tests/test_a.py": TEST, "tests/conftest.py": "# theirs\n"},
            "conftest.py",
            id="tests/conftest.py taken",
        ),
    ],
)
def test_writes_where_pytest_loads_it(tmp_path: Path, files: dict[str, str], place: str) -> None:
    write_tree(tmp_path, files)

    done = run("init", tmp_path)

    assert done.code == 0, done
    tree = read_tree(tmp_path)
    assert set(tree) == {*files, place, f".devicegen/{place}.pristine", RECORD}
    assert {name: tree[name].decode() for name in files} == files
    assert run("check", tmp_path).code == 0


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"p/test_a.py": TEST, "conftest.py": "def broken(:\n"},
            "no place for the harness: p/conftest.py is not loaded in time by `pytest` at the "
            "top; conftest.py is no Python that can be parsed (line 1); free one of them, or ",
        ),
        ({"tests/test_a.py": "import numpy\n"}, "{top}: TensorFlow is neither required nor "),
        (
            {"tests/test_a.py": TEST, "requirements.txt": "tensorflow==1.15\n"},
            "requirements.txt:1: the requirement admits no TensorFlow 2; ",
        ),
        ({"p/a.py": TEST}, "{top}: no test file (test_*.py, *_test.py) here; write a first test"),
    ],
    ids=["the only level is broken", "no TensorFlow", "TensorFlow 1", "no tests"],
)
def test_refusals_are_one_line_and_write_nothing(
    tmp_path: Path, files: dict[str, str], message: str
) -> None:
    write_tree(tmp_path, files)
    before = state(tmp_path)

    line = refused(run("init", tmp_path))

    assert line.startswith(message.format(top=tmp_path))
    assert state(tmp_path) == before


CONFLICT = "<<<<<<< ours\n=======\n>>>>>>> theirs\n"


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        (
            "pyproject.toml",
            f'[project]\ndependencies = ["tensorflow"]\n{CONFLICT}',
            "pyproject.toml:3: not TOML: ",
        ),
        ("pyproject.toml", '[project]\ndependencies = "tensorflow"\n', "pyproject.toml:2: depend"),
        ("setup.cfg", "what\n[options]\n", "setup.cfg:1: not an ini-file; "),
        ("setup.py", f"import setuptools\n{CONFLICT}", "setup.py:2: not Python: "),
        ("tox.ini", f"[testenv]\n{CONFLICT}", "tox.ini:2: not an ini-file; "),
        (
            "requirements.txt",
            "tensorflow\n".encode("utf-16"),
            "requirements.txt:1: not read: a link, larger than 2 MB, or not UTF-8; ",
        ),
        (
            "requirements.txt",
            "numpy\ntensorflow=>2.8\n",
            "requirements.txt:2: not a requirement: 'tensorflow=>2.8'; ",
        ),
        ("environment.yml", b"dependencies:\n- \xe9\n", "environment.yml:1: not read: "),
    ],
)
def test_a_file_that_cannot_be_read_may_require_tensorflow(
    tmp_path: Path, name: str, data: str | bytes, said: str
) -> None:
    """What is required there is not known, and that is what is said; not that it is not."""
    write_tree(tmp_path, {"tests/test_a.py": "def test_a(): pass\n"})
    (tmp_path / name).write_bytes(data.encode() if isinstance(data, str) else data)
    before = state(tmp_path)

    line = refused(run("init", tmp_path))

    assert line.startswith(said)
    assert line.endswith(
        "; what is required there is not known, and nothing else here requires or imports "
        "TensorFlow; mend that, then run this again"
    )
    assert state(tmp_path) == before
    write_tree(tmp_path, {"tests/test_b.py": "import tensorflow as tf\n"})
    assert run("init", "--dry-run", "--no-config-edit", tmp_path).code == 0


def test_many_files_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    broken = ("setup.cfg", "setup.py", "tox.ini", "requirements.txt", "pyproject.toml")
    write_tree(tmp_path, {"tests/test_a.py": "", **dict.fromkeys(broken, b"\xff\xfe")})

    line = refused(run("init", tmp_path))

    assert line.startswith("pyproject.toml:1: not read: ")
    assert "; setup.py:1: not read: " in line
    assert "; setup.cfg:1: not read: " in line
    assert "; and 2 more; what is required there is not known" in line


def test_a_path_that_is_no_folder(tmp_path: Path) -> None:
    write_tree(tmp_path, {"file": ""})
    (tmp_path / "loop").symlink_to("loop")

    assert refused(run("init", tmp_path / "gone")) == (
        f"{tmp_path}/gone: does not exist; give the folder of a repository"
    )
    assert refused(run("init", tmp_path / "file")) == (
        f"{tmp_path}/file: is not a folder; give the folder of a repository"
    )
    assert "does not exist" in refused(run("init", tmp_path / "loop"))
    assert refused(run("init", "x" * 300)) == f"{'x' * 300}: File name too long"
    assert "two lines: does not exist" in refused(run("init", tmp_path / "two\nlines"))


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"pytest.ini": "markers\n"}, "pytest.ini:1: "),
        ({"pytest.ini": b"[pytest]\n# \xff\n"}, "pytest.ini:2: is not UTF-8"),
        ({"pyproject.toml": "[tool\n"}, "pyproject.toml:1: "),
        ({"pytest.toml": '[pytest]\nmarkers = "x"\n'}, "pytest.toml:2: markers must be a list"),
    ],
    ids=["ini", "bytes", "toml", "markers"],
)
def test_a_broken_configuration_is_a_note_and_stops_nothing(
    tmp_path: Path, files: dict[str, str | bytes], problem: str
) -> None:
    write_tree(tmp_path, files | {"tests/test_a.py": TEST})
    (broken,) = files
    before = (tmp_path / broken).read_bytes()

    done = run("init", tmp_path)

    assert done.code == 0
    assert done.stderr.startswith(f"devicegen: note: {problem}"), done
    assert done.stderr.count(problem) == 1
    assert (tmp_path / broken).read_bytes() == before
    assert "registry" not in (tmp_path / RECORD).read_text("utf-8")


# Where the top is


def test_a_sub_folder_finds_the_top(tmp_path: Path) -> None:
    write_tree(tmp_path, LIBRARY | {"src/p/a.py": ""})

    done = run("init", tmp_path / "src" / "p")

    assert done.stdout.startswith(f"repository top      {tmp_path}  (it holds pyproject.toml)\n")
    assert (tmp_path / HARNESS).is_file()


def test_the_current_folder_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(tmp_path, LIBRARY)
    monkeypatch.chdir(tmp_path / "tests")

    assert run("init").code == 0

    assert (tmp_path / HARNESS).is_file()


def test_a_project_inside_a_larger_repository(tmp_path: Path) -> None:
    write_tree(tmp_path, {"tests/test_top.py": TEST, "tests/conftest.py": "", "conftest.py": ""})
    git(tmp_path, "init", "-q")
    part = write_tree(tmp_path / "parts" / "one", LIBRARY)

    assert run("init", part).code == 0
    assert set(read_tree(part)) == {*LIBRARY, HARNESS, RECORD, PRISTINE}
    assert run("check", part / "tests").code == 0
    assert refused(run("check", tmp_path)) == (
        f"{tmp_path}: no record here; run `devicegen init` first"
    )


@pytest.mark.parametrize("first", ["a part", "the top"])
def test_two_harnesses_never_meet_in_one_run(tmp_path: Path, first: str) -> None:
    part = write_tree(tmp_path / "parts" / "one", LIBRARY)
    write_tree(tmp_path, {".git/HEAD": "", "tests/test_top.py": TEST})
    done = run("init", part if first == "a part" else tmp_path)
    assert done.code == 0, done

    line = refused(run("init", tmp_path if first == "a part" else part))

    path = "parts/one/tests/conftest.py" if first == "a part" else f"{tmp_path}/{RECORD}"
    assert line.startswith(f"{path}: ")
    write_tree(tmp_path, {"pytest.ini": "[pytest]\ntestpaths = tests\n"})
    assert run("init", tmp_path if first == "a part" else part).code == 0


@pytest.mark.parametrize("kind", ["git", "worktree", "no git"])
def test_ignored_files_are_not_the_project_s(tmp_path: Path, kind: str) -> None:
    top = write_tree(tmp_path / "top", LIBRARY)
    if kind != "no git":
        write_tree(top, {".gitignore": "generated/\n"})
        git(top, "init", "-q")
        git(top, "add", ".")
        git(top, "commit", "-qm", "x")
    if kind == "worktree":
        git(top, "worktree", "add", "-q", str(tmp_path / "tree"))
        top = tmp_path / "tree"
    write_tree(top, {"generated/test_more.py": TEST})

    done = run("init", top)

    assert done.code == 0, done
    place = "conftest.py" if kind == "no git" else HARNESS
    assert f"create  {place}\n" in done.stdout
    assert run("check", top).code == 0
    if kind != "no git":
        changed = git(top, "status", "--porcelain", "-uall").splitlines()
        assert changed == [
            " M pyproject.toml",
            f"?? {RECORD}",
            f"?? {PRISTINE}",
            f"?? {HARNESS}",
        ]


# Links and other things in the way


def test_a_linked_configuration_is_noted_and_not_written_through(tmp_path: Path) -> None:
    outside = write_tree(tmp_path / "outside", {"pyproject.toml": LIBRARY["pyproject.toml"]})
    top = write_tree(tmp_path / "top", {"tests/test_a.py": TEST})
    (top / "pyproject.toml").symlink_to("../outside/pyproject.toml")
    before = state(outside)

    done = run("init", top)

    assert done.code == 0
    assert "pyproject.toml: is a symbolic link, which is not followed" in done.stderr
    assert state(outside) == before
    assert (top / "pyproject.toml").is_symlink()
    assert "registry" not in (top / RECORD).read_text("utf-8")


def test_a_linked_conftest_is_the_project_s(tmp_path: Path) -> None:
    write_tree(tmp_path, LIBRARY | {"shared.py": "# theirs\n"})
    (tmp_path / HARNESS).symlink_to("../shared.py")

    assert "create  conftest.py\n" in run("init", tmp_path).stdout

    assert (tmp_path / "shared.py").read_bytes() == b"# theirs\n"


def test_a_dangling_conftest_is_left_alone(tmp_path: Path) -> None:
    write_tree(tmp_path, LIBRARY)
    (tmp_path / HARNESS).symlink_to("../made_by_devicegen.py")
    git(tmp_path, "init", "-q")  # which lists no dangling link

    done = run("init", tmp_path)

    assert done.stderr == (
        f"devicegen: note: {HARNESS} is a symbolic link to ../made_by_devicegen.py, so nothing "
        "is added to it\n"
    )
    assert "create  conftest.py\n" in done.stdout
    assert not (tmp_path / HARNESS).exists()


def test_a_tests_folder_that_leads_out_of_the_repository(tmp_path: Path) -> None:
    outside = write_tree(tmp_path / "outside", {"test_a.py": TEST})
    top = write_tree(tmp_path / "top", {".git/HEAD": "", "a.py": TEST})
    (top / "tests").symlink_to("../outside")

    assert "no test file" in refused(run("init", top))
    (top / "tests").unlink()
    write_tree(top, {"tests/test_a.py": TEST})
    run("init", top)
    (top / "tests").rename(tmp_path / "moved")
    (top / "tests").symlink_to("../moved")
    write_tree(top, {"test_b.py": TEST})
    before = state(tmp_path)

    assert "lies behind a link out of the repository" in refused(run("upgrade", top, "--no-xdist"))
    assert state(tmp_path) == before
    assert read_tree(outside) == {"test_a.py": TEST.encode()}


@pytest.mark.parametrize("name", [".devicegen", ".devicegen/record.toml"])
def test_a_file_or_folder_in_the_way_is_refused(tmp_path: Path, name: str) -> None:
    write_tree(tmp_path, LIBRARY)
    if name == ".devicegen":
        write_tree(tmp_path, {name: "a file"})
    else:
        (tmp_path / name).mkdir(parents=True)
    before = state(tmp_path)

    done = run("init", tmp_path)

    assert done.code == 2
    assert "is in the way" in done.stderr
    assert state(tmp_path) == before


def test_a_record_folder_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    top = write_tree(tmp_path / "top", LIBRARY)
    (tmp_path / "elsewhere").mkdir()
    (top / ".devicegen").symlink_to("../elsewhere")

    done = run("init", top)

    assert done.code == 2
    assert "lies behind a link out of the repository" in done.stderr
    assert not any((tmp_path / "elsewhere").iterdir())
    assert not (top / HARNESS).exists()


def test_an_ignored_conftest_is_not_overwritten(tmp_path: Path) -> None:
    write_tree(tmp_path, LIBRARY | {".gitignore": "conftest.py\n", HARNESS: "# mine\n"})
    git(tmp_path, "init", "-q")

    done = run("init", tmp_path)

    assert f"note: {HARNESS} is there, and git ignores it, so nothing is added" in done.stderr
    assert "create  conftest.py\n" in done.stdout
    assert (tmp_path / HARNESS).read_bytes() == b"# mine\n"


@pytest.mark.parametrize(
    ("args", "command"),
    [([], "pytest -n 2 --gpu-simulate 2"), (["--no-xdist"], "pytest --gpu-simulate 2")],
    ids=str,
)
def test_workers_are_tried_where_the_project_has_xdist(
    tmp_path: Path, args: list[str], command: str
) -> None:
    """Two GPUs are of use to two processes only."""
    top = write_tree(tmp_path, {**LIBRARY, "requirements-dev.txt": "pytest\npytest-xdist\n"})

    done = run("init", top, *args)

    assert done.stdout.endswith(f"Done. Commit these files, then try: {command}\n")


# A harness without a record: .devicegen/ was deleted, or an init was killed


def test_init_takes_up_its_own_harness_when_the_record_is_gone(tmp_path: Path) -> None:
    write_tree(tmp_path, LIBRARY)
    run("init", tmp_path)
    before = read_tree(tmp_path)
    for name in (RECORD, PRISTINE):
        (tmp_path / name).unlink()

    done = run("init", tmp_path)

    assert done.stdout.endswith(
        f"create  {PRISTINE}\ncreate  {RECORD}\n\nDone. Commit these "
        "files, then try: pytest --gpu-simulate 2\n"
    )
    assert read_tree(tmp_path) == before


def test_init_takes_up_its_own_harness_also_when_it_was_formatted(tmp_path: Path) -> None:
    write_tree(tmp_path, LIBRARY)
    run("init", tmp_path)
    text = (tmp_path / HARNESS).read_text("utf-8")
    (tmp_path / HARNESS).write_text(text.replace("\nimport os\n", "\n\nimport os;\n"), "utf-8")
    formatted = (tmp_path / HARNESS).read_bytes()
    assert formatted != text.encode()
    (tmp_path / RECORD).unlink()

    assert run("init", tmp_path).code == 0

    assert (tmp_path / HARNESS).read_bytes() == formatted
    assert run("check", tmp_path).code == 0


def test_an_edited_harness_without_a_record_is_refused(tmp_path: Path) -> None:
    write_tree(tmp_path, LIBRARY)
    run("init", tmp_path)
    for name in (RECORD, PRISTINE):
        (tmp_path / name).unlink()
    (tmp_path / HARNESS).write_bytes((tmp_path / HARNESS).read_bytes() + b"EDITED = 1\n")
    before = state(tmp_path)

    assert refused(run("init", tmp_path)) == (
        f"{HARNESS}: is a harness of devicegen that .devicegen/ does not know; restore "
        ".devicegen/, or delete this file and run `devicegen init`"
    )
    assert state(tmp_path) == before
