"""All or nothing, whatever fails and whenever the process dies."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from devicegen.apply import apply_changes
from devicegen.change_set import Action, Change, ChangeSet
from devicegen.errors import DevicegenError
from devicegen.journal import DONE, JOURNAL, clear
from generator import HARNESS, LIBRARY, PRISTINE, RECORD, Done, in_a_fork, make_older, run
from kit import write_tree

# What the operating system is asked for, by the modules that ask.
CALLS: dict[str, tuple[Any, str]] = {
    "mkdir": (os, "mkdir"),
    "open": (os, "open"),
    "fdopen": (os, "fdopen"),
    "fsync": (os, "fsync"),
    "chmod": (os, "chmod"),
    "replace": (os, "replace"),
    "unlink": (os, "unlink"),
}
BACK = "an earlier run was stopped while it wrote; the old files are back"
NO_SPACE = OSError(errno.ENOSPC, "No space left on device")


@dataclass(frozen=True)
class Scenario:
    """A command with its changes, the tree that it starts from, and the tree that it makes."""

    args: tuple[str, ...]
    changes: ChangeSet
    old: dict[str, bytes | None]
    new: dict[str, bytes | None]
    code: int

    def start(self, top: Path) -> Path:
        if top.exists():
            shutil.rmtree(top)
        top.mkdir()
        for name, data in self.old.items():
            if data is None:
                (top / name).mkdir(parents=True, exist_ok=True)
            else:
                write_tree(top, {name: data})
        return top

    def run(self, top: Path) -> Done:
        return run(*self.args, top)


def everything(top: Path) -> dict[str, bytes | None]:
    """Return the bytes of every file below ``top``, and None for every folder."""
    return {
        path.relative_to(top).as_posix(): None if path.is_dir() else path.read_bytes()
        for path in sorted(top.rglob("*"))
    }


@pytest.fixture(
    params=[
        "init",
        "upgrade",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("eject", "conflict", "move")),
    ],
    scope="module",
)
def scenario(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    """What is done to a tree, and the tree before and after; each writes several files."""
    top = write_tree(tmp_path_factory.mktemp("scenario"), LIBRARY)
    verb = str(request.param)
    args = (verb if verb in ("init", "upgrade", "eject") else "upgrade",)
    if verb != "init":
        run("init", top)
    if args == ("upgrade",):
        write_tree(top, {"pyproject.toml": LIBRARY["pyproject.toml"]})
        make_older(top)
    text = (top / HARNESS).read_text("utf-8") if verb != "init" else ""
    if verb == "conflict":
        (top / HARNESS).write_text(text + "# ours\n", "utf-8")
    elif verb == "move":
        (top / HARNESS).rename(top / "conftest.py")
    old = everything(top)
    with pytest.MonkeyPatch.context() as patch:
        taken: list[ChangeSet] = []

        def take(top: Path, change_set: ChangeSet) -> None:
            taken.append(change_set)
            apply_changes(top, change_set)

        for module in ("init", "upgrade", "eject"):
            patch.setattr(f"devicegen.commands.{module}.apply_changes", take)
        code = run(*args, top).code
    assert code == (3 if verb == "conflict" else 0)
    (changes,) = taken
    return Scenario(args, changes, old, everything(top), code)


@pytest.fixture
def patched() -> Iterator[Callable[[str, Callable[[int], None]], None]]:
    """Return a function that has ``before(n)`` called before the n-th call of a kind."""
    with pytest.MonkeyPatch.context() as patch:

        def install(kind: str, before: Callable[[int], None]) -> None:
            module, name = CALLS[kind]
            original, count = getattr(module, name), iter(range(10_000))

            def call(*args: Any, **kwargs: Any) -> Any:
                before(next(count))
                return original(*args, **kwargs)

            patch.undo()
            patch.setattr(module, name, call)

        install.undo = patch.undo  # type: ignore[attr-defined]
        yield install


@pytest.mark.parametrize(
    "error",
    [NO_SPACE, pytest.param(KeyboardInterrupt(), marks=pytest.mark.slow)],
    ids=["OSError", "Ctrl-C"],
)
@pytest.mark.parametrize("kind", [kind for kind in CALLS if kind != "unlink"])
def test_when_one_call_fails_the_tree_is_the_old_one(
    scenario: Scenario, kind: str, error: BaseException, tmp_path: Path, patched: Any
) -> None:
    failed = 0
    for number in range(100):

        def fail(count: int, number: int = number) -> None:
            if count == number:
                raise error

        top = scenario.start(tmp_path / "top")
        patched(kind, fail)
        try:
            apply_changes(top, scenario.changes)
            break
        except DevicegenError as caught:
            assert error is NO_SPACE
            path, _, rest = str(caught).partition(": ")
            assert path in {*scenario.old, *scenario.new, JOURNAL}
            assert rest == "cannot be written (No space left on device); nothing was changed"
        except KeyboardInterrupt:
            assert error is not NO_SPACE
        finally:
            patched.undo()
        failed += 1
        assert everything(top) == scenario.old
    assert everything(top) == scenario.new
    written = len(scenario.changes.written)
    if kind != "replace":  # a file that goes has no temporary one
        written -= sum(change.after is None for change in scenario.changes.written)
    folders = sum(data is None and name not in scenario.old for name, data in scenario.new.items())
    assert failed >= (folders if kind == "mkdir" else written)


@pytest.mark.parametrize("kind", ["open", "fsync", "chmod"])
def test_when_the_disk_stays_full_the_tree_is_the_old_one(
    scenario: Scenario, kind: str, tmp_path: Path, patched: Any
) -> None:
    for number in range(2):

        def fail(count: int, number: int = number) -> None:
            if count >= number:
                raise NO_SPACE

        top = scenario.start(tmp_path / "top")
        patched(kind, fail)
        with pytest.raises(DevicegenError, match=r"cannot be written .* nothing was changed$"):
            apply_changes(top, scenario.changes)
        patched.undo()

        assert everything(top) == scenario.old


def test_what_cannot_be_put_back_is_named(
    scenario: Scenario, tmp_path: Path, patched: Any
) -> None:
    def fail(count: int) -> None:
        if count >= 2:
            raise NO_SPACE

    top = scenario.start(tmp_path / "top")
    patched("replace", fail)
    with pytest.raises(DevicegenError) as caught:
        apply_changes(top, scenario.changes)
    patched.undo()

    now = everything(top)
    lost = [name for name, data in scenario.old.items() if now.get(name) != data]
    assert lost, "each scenario updates a file before the third replacement"
    said = str(caught.value).partition(" on device), and ")[2]
    names, _, rest = said.partition(" could not be put back; ")
    assert sorted(names.split(", ")) == lost
    assert rest == ("make room or allow writing, then run `devicegen upgrade` (or init) again")
    assert run("check", top).code == 2
    done = scenario.run(top)
    assert done.code == scenario.code
    assert f"devicegen: note: {BACK}\n" in done.stderr
    assert everything(top) == scenario.new


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (NO_SPACE, 2, "devicegen: {0}: cannot be written (No space left on device); "
                      "nothing was changed\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)  # fmt: skip
def test_the_command_line_says_so_in_one_line(
    scenario: Scenario, error: BaseException, code: int, message: str, tmp_path: Path, patched: Any
) -> None:
    def fail(count: int) -> None:
        if count == 1:
            raise error

    top = scenario.start(tmp_path / "top")
    patched("replace", fail)
    done = scenario.run(top)
    patched.undo()

    second = scenario.changes.written[1].path
    notes = [line for line in done.stderr.splitlines(True) if ": note: " in line]
    assert (done.code, done.stderr) == (code, "".join(notes) + message.format(second))
    assert "Done" not in done.stdout
    assert everything(top) == scenario.old


def test_temporary_files_that_cannot_be_removed_stop_nothing(
    scenario: Scenario, tmp_path: Path, patched: Any
) -> None:
    top = scenario.start(tmp_path / "top")

    def fail(_: int) -> None:
        raise NO_SPACE

    patched("unlink", fail)
    assert scenario.run(top).code == scenario.code
    patched.undo()
    assert scenario.new.items() <= everything(top).items()
    assert clear(top) is None
    assert everything(top) == scenario.new


# Processes that die, in a fork of this one


@pytest.mark.parametrize(
    "kind",
    [
        "replace",
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in CALLS if kind != "replace"),
    ],
)
def test_after_sigkill_the_next_run_puts_back_the_old_tree_or_has_the_new(
    scenario: Scenario, kind: str, tmp_path: Path, patched: Any
) -> None:
    kills = 0
    for number in range(100):

        def kill(count: int, number: int = number) -> None:
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)

        top = scenario.start(tmp_path / "top")

        def work(top: Path = top, kill: Callable[[int], None] = kill) -> int:
            patched(kind, kill)
            apply_changes(top, scenario.changes)
            return 0

        code = in_a_fork(work)
        if code == 0:
            break
        kills += 1
        assert code == -signal.SIGKILL
        left = everything(top)
        for name, data in left.items():
            is_temporary = ".devicegen" in Path(name).name and data is not None
            assert is_temporary or data in (scenario.old.get(name), scenario.new.get(name))
        is_mixed = any(
            left.get(name) != scenario.old.get(name)
            for name in scenario.old.keys() | scenario.new.keys()
            if scenario.new.get(name) is not None and JOURNAL in left
        )
        note = clear(top)
        assert note == (BACK if is_mixed else None)
        assert everything(top) in (scenario.old, scenario.new), (kind, number)
        if everything(top) == scenario.old:
            assert scenario.run(top).code == scenario.code, (kind, number)
        assert everything(top) == scenario.new, (kind, number)
    assert kills >= (2 if kind != "mkdir" else 2 * (scenario.args == ("init",)))


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        pytest.param(
            kind, number, marks=[pytest.mark.slow] * (kind != "replace" or number == signal.SIGHUP)
        )
        for kind in ("open", "replace", "unlink")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    ],
)
def test_a_signal_while_files_are_written_waits_for_the_end(
    scenario: Scenario, kind: str, number: signal.Signals, tmp_path: Path, patched: Any
) -> None:
    top = scenario.start(tmp_path / "top")

    def send(_: int) -> None:
        if (top / JOURNAL).exists() or (
            top / DONE
        ).exists():  # os.open is called by subprocess too
            os.kill(os.getpid(), number)

    def work() -> int:
        patched(kind, send)
        return scenario.run(top).code

    code = in_a_fork(work)

    assert code == (130 if number == signal.SIGINT else -number)
    assert everything(top) == scenario.new


def test_signals_are_let_through_again(tmp_path: Path) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())

    apply_changes(tmp_path, ChangeSet((Change("a", Action.CREATE, None, b"x"),)))

    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
    assert everything(tmp_path) == {"a": b"x"}


# Real refusals of the kernel


def test_a_write_that_the_kernel_refuses(scenario: Scenario, tmp_path: Path) -> None:
    """A file size limit stops a write in its middle, as a full disk does."""
    top = scenario.start(tmp_path / "top")
    output = tmp_path / "output"

    def work() -> int:
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000))
        done = scenario.run(top)
        output.write_text(done.stderr, "utf-8")
        return done.code

    assert in_a_fork(work) == 2
    first = scenario.changes.written[0].path
    assert output.read_text("utf-8").endswith(
        f"devicegen: {first}: cannot be written (File too large); nothing was changed\n"
    )
    assert everything(top) == scenario.old


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that any user can reach."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.parametrize(
    ("locked", "message"),
    [
        ("tests", f"{HARNESS}: cannot be written (Permission denied)"),
        (".", ".devicegen.journal: cannot be written (Permission denied)"),
        ("pyproject.toml", "pyproject.toml: is read-only"),
    ],
)
def test_what_the_user_may_not_write(public_folder: Path, locked: str, message: str) -> None:
    top = write_tree(public_folder / "top", LIBRARY)
    run("init", top)
    for name in (HARNESS, PRISTINE, RECORD):
        (top / name).unlink()
    shutil.rmtree(top / ".devicegen")
    write_tree(top, {"pyproject.toml": LIBRARY["pyproject.toml"]})
    old = everything(top)
    for path in (top, *top.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)
    (top / locked).chmod(0o555 if (top / locked).is_dir() else 0o444)
    output = public_folder / "output"
    output.touch()
    output.chmod(0o666)

    def work() -> int:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        done = run("init", top)
        output.write_text(done.stderr, "utf-8")
        return done.code

    assert in_a_fork(work) == 2
    assert output.read_text("utf-8") == f"devicegen: {message}; nothing was changed\n"
    assert everything(top) == old


# Others who write at the same time


@pytest.mark.parametrize("before", [None, b"old"], ids=["create", "update"])
@pytest.mark.parametrize("now", [b"theirs", None], ids=["changed", "gone"])
def test_what_changed_since_it_was_read_is_not_overwritten(
    tmp_path: Path, before: bytes | None, now: bytes | None
) -> None:
    if before is None and now is None:
        return
    write_tree(tmp_path, {"first": "old", **({"second": now} if now is not None else {})})
    action = Action.CREATE if before is None else Action.UPDATE
    changes = ChangeSet(
        (Change("first", Action.UPDATE, b"old", b"new"), Change("second", action, before, b"new"))
    )

    with pytest.raises(DevicegenError, match=r"^second: "):
        apply_changes(tmp_path, changes)

    left = {"first": b"old", "second": now}
    assert everything(tmp_path) == {name: data for name, data in left.items() if data is not None}


def test_a_second_run_that_wrote_the_same_keeps_it(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have planned before either writes; the one that comes second gives way."""
    top = scenario.start(tmp_path / "top")
    winners: list[Done] = []

    def after_another(top: Path, change_set: ChangeSet) -> None:
        monkeypatch.undo()
        winners.append(scenario.run(top))
        apply_changes(top, change_set)

    for module in ("init", "upgrade", "eject"):
        monkeypatch.setattr(f"devicegen.commands.{module}.apply_changes", after_another)
    loser = scenario.run(top)

    assert [winner.code for winner in winners] == [scenario.code]
    assert loser.code == 2
    assert loser.stderr.splitlines()[-1].endswith(
        ": was changed by another program just now; nothing of it was overwritten, run the "
        "command again"
    )
    assert everything(top) == scenario.new


def test_what_another_program_wrote_meanwhile_is_not_put_back(
    scenario: Scenario, tmp_path: Path, patched: Any
) -> None:
    """Not even where it has the very bytes that were to be written: only our own goes back."""
    top = scenario.start(tmp_path / "top")
    first, *others = scenario.changes.written

    def write(count: int) -> None:
        if count == 0:
            for change in others:
                if change.after is None:
                    (top / change.path).unlink()
                else:
                    (top / change.path).write_bytes(change.after)

    patched("replace", write)
    done = scenario.run(top)
    patched.undo()

    assert done.code == 2
    assert f"devicegen: {others[0].path}: was changed by another program" in done.stderr
    left = everything(top)
    assert {change.path: left.get(change.path) for change in others} == {
        change.path: change.after for change in others
    }
    assert left.get(first.path) == first.before
    assert not [name for name in left if name.endswith(".devicegen") and left[name] is not None]
    assert JOURNAL not in left


def test_a_journal_that_another_run_cleared_before_it_was_locked_is_given_up(
    scenario: Scenario, tmp_path: Path, patched: Any
) -> None:
    top = scenario.start(tmp_path / "top")

    def clear_it(_: int) -> None:
        if (top / JOURNAL).exists():
            assert clear(top) is None
            assert not (top / JOURNAL).exists()

    patched("fdopen", clear_it)
    done = scenario.run(top)
    patched.undo()

    assert done.code == 2
    assert done.stderr.splitlines()[-1] == (
        f"devicegen: {JOURNAL}: another devicegen writes here; nothing was changed, run this again"
    )
    assert everything(top) == scenario.old


def test_modes_of_new_files_follow_the_umask(tmp_path: Path) -> None:
    write_tree(tmp_path, LIBRARY)
    before = os.umask(0o027)
    try:
        run("init", tmp_path)
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)

    modes = {name: (tmp_path / name).stat().st_mode & 0o777 for name in (HARNESS, RECORD)}
    assert set(modes.values()) == {0o640}
