"""``--templates DIR``: single templates of a project's own."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from devicegen import __version__, template_overrides
from devicegen.templates_folder import templates_folder
from generator import HARNESS, LIBRARY, PRISTINE, RECORD, Done, make_older, run, state
from kit import read_tree, write_tree

REPORT = "harness/report.py.j2"
OURS = "OURS = 1\n"
WRAPPED = '{% include "devicegen/harness/report.py.j2" %}\n\n' + OURS
UP_TO_DATE = "Nothing to do: the harness is current.\n"


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A repository with a folder of templates, and no harness."""
    return write_tree(tmp_path / "top", {**LIBRARY, f"tools/templates/{REPORT}": WRAPPED})


def harness(top: Path) -> str:
    return (top / HARNESS).read_bytes().decode()


def recorded(top: Path) -> dict[str, object]:
    return tomllib.loads((top / RECORD).read_text("utf-8"))


def test_it_is_rendered_recorded_and_replayed(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(top)

    done = run("init", "--templates", "tools/templates")

    assert done.code == 0
    assert f"tools/templates  (instead of {REPORT})\n" in done.stdout
    assert harness(top).endswith(OURS)
    assert recorded(top)["answers"] == {"templates": "tools/templates"}
    assert list(recorded(top)["overrides"]) == [REPORT]  # type: ignore[call-overload]
    monkeypatch.chdir("/")
    assert run("upgrade", top).stdout == UP_TO_DATE
    assert run("check", top).code == 0
    make_older(top)
    assert run("upgrade", top).code == 0
    assert harness(top).endswith(OURS)


@pytest.mark.slow
def test_what_changes_in_it_is_merged(top: Path) -> None:
    run("init", top, "--templates", top / "tools/templates")
    text = harness(top).replace("\nimport os\n", "\nimport os  # ours\n")
    (top / HARNESS).write_text(text, "utf-8")
    write_tree(top, {f"tools/templates/{REPORT}": WRAPPED.replace("1", "2")})

    assert run("check", top).code == 1
    assert run("upgrade", top).code == 0
    assert harness(top) == text.replace("OURS = 1", "OURS = 2")


def test_it_can_be_taken_up_and_given_up(top: Path) -> None:
    run("init", top)
    plain = read_tree(top)

    assert run("upgrade", top, "--templates", top / "tools/templates").code == 0
    assert harness(top).endswith(OURS)
    assert run("upgrade", top, "--no-templates").code == 0
    assert read_tree(top) == plain


def test_a_folder_elsewhere_is_recorded_in_full(top: Path, tmp_path: Path) -> None:
    elsewhere = write_tree(tmp_path / "company", {REPORT: WRAPPED})

    assert run("init", top, "--templates", elsewhere).code == 0
    assert recorded(top)["answers"] == {"templates": elsewhere.as_posix()}
    assert run("upgrade", top).stdout == UP_TO_DATE
    (elsewhere / REPORT).unlink()
    (elsewhere / "harness").rmdir()
    elsewhere.rmdir()
    assert run("upgrade", top) == Done(
        2,
        "",
        f"devicegen: {elsewhere}: no folder of templates is here; give another with --templates, "
        "or go back to devicegen's own with --no-templates\n",
    )
    assert run("upgrade", top, "--no-templates").code == 0


@pytest.mark.slow
def test_a_changed_original_is_said_once(top: Path) -> None:
    run("init", top, "--templates", top / "tools/templates")
    before = read_tree(top)
    (line,) = [line for line in before[RECORD].decode().splitlines() if REPORT in line]
    (top / RECORD).write_bytes(before[RECORD].replace(line.encode(), f'"{REPORT}" = "x"'.encode()))

    assert run("check", top).code == 1
    done = run("upgrade", top)

    assert (done.code, done.stdout) == (0, f"update  {RECORD}\n")
    assert done.stderr == (
        f"devicegen: note: tools/templates/{REPORT}: devicegen's own {REPORT} is another now; see "
        "whether your override still says what it should\n"
    )
    assert read_tree(top) == before
    assert run("upgrade", top) == Done(0, UP_TO_DATE, "")


MARKERS = (templates_folder() / "harness/markers.py.j2").read_text("utf-8")
OPTIONS = (templates_folder() / "harness/options.py.j2").read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "harness/reprot.py.j2",
            "",
            "reprot.py.j2: devicegen {0} has no such template to override",
        ),
        ("record.toml.j2", "", "record.toml.j2: devicegen {0} has no such template to override"),
        (REPORT, "x = 1\n{{ nothing }}\n", f"{REPORT}:2: 'nothing' is undefined; "),
        (REPORT, "{% if %}\n", f"{REPORT}:1: Expected an expression, "),
        (REPORT, b"\xff", "can't decode byte 0xff"),
        (REPORT, "x = (\n", ": what is rendered is no Python ("),
        (REPORT, "{% include 'harness/report.py.j2' %}", "maximum recursion depth exceeded"),
        (REPORT, "{{ ''.__class__.__mro__ }}", f"{REPORT}:1: access to attribute '__class__' of "),
        (REPORT, "{{ 1 + 'x' }}", f"{REPORT}:1: unsupported operand "),
        (
            "harness/markers.py.j2",
            MARKERS.replace("MARKER_NAMES", "NAMES").replace("KIND", "KINDS"),
            ": nothing defines ",
        ),
        ("harness/options.py.j2", OPTIONS.replace("Written by devicegen", "Written"), "is gone; "),
    ],
)
def test_an_override_that_does_not_fit_is_one_line(
    top: Path, name: str, text: str | bytes, message: str
) -> None:
    run("init", top)
    folder = write_tree(top / "misfits", {name: text})
    before = state(top)

    done = run("upgrade", top, "--templates", folder)

    assert (done.code, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
    assert done.stderr.startswith("devicegen: misfits")
    assert message.format(__version__) in done.stderr
    assert state(top) == before


def test_an_empty_folder_is_one_line(top: Path) -> None:
    (top / "empty").mkdir()

    done = run("init", top, "--templates", top / "empty")

    assert (done.code, done.stdout) == (2, "")
    assert done.stderr.startswith("devicegen: empty: holds no template; there can be conftest.py")


def test_one_that_fits_no_longer_after_an_update(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("init", top, "--templates", top / "tools/templates")
    monkeypatch.setattr(template_overrides, "overridable", lambda: ("conftest.py.j2",))
    before = state(top)

    for verb in ("upgrade", "check", "diff"):
        done = run(verb, top)
        assert done.code == 2
        assert f"tools/templates/{REPORT}: devicegen {__version__} has no such" in done.stderr
    assert state(top) == before
    assert (top / PRISTINE).exists()
