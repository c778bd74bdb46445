"""The command line: parses and dispatches, and prints each error once."""

from __future__ import annotations

import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from devicegen import __version__
from devicegen.console import set_up, silence, warn
from devicegen.errors import DevicegenError

# Each verb is imported where it is called: completion and --help need none, and Ctrl-C during
# the imports is one like any other.

REFUSED = 2
INTERRUPTED = 130

app = typer.Typer(
    name="devicegen",
    help="Write a tailored pytest harness for TensorFlow tests into a repository.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)

PathArgument = Annotated[Path, typer.Argument(help="A folder of the repository.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, write nothing.")]
Diff = Annotated[bool, typer.Option("--diff", help="Print a diff, write nothing.")]
Xdist = Annotated[
    bool | None,
    typer.Option("--xdist/--no-xdist", help="Map pytest-xdist workers to GPUs. [default: yes]"),
]
MemoryLimit = Annotated[
    int | None,
    typer.Option(
        "--memory-limit-mb",
        min=0,
        help="Memory of each of a GPU's two logical devices; 0, the default: fitted to the card.",
    ),
]
Rocm = Annotated[
    bool | None,
    typer.Option(
        "--rocm/--no-rocm",
        help="Find AMD's GPUs too. [default: where tensorflow-rocm is required]",
    ),
]
Bazel = Annotated[
    bool | None,
    typer.Option(
        "--bazel/--no-bazel",
        help="Write a py_test main and honour Bazel's shards. [default: where py_test is used]",
    ),
]
CiSnippet = Annotated[
    bool,
    typer.Option("--ci-snippet", help="Print a GitHub Actions workflow, write nothing."),
]
ConfigEdit = Annotated[
    bool | None,
    typer.Option(
        "--config-edit/--no-config-edit",
        help="Add the marker lines to the pytest configuration too. [default: yes]",
    ),
]


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"devicegen {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print it."),
    ] = False,
) -> None:
    pass


@app.command("init", help="Write the harness, the marker registry and the record, once.")
def _init(
    path: PathArgument = Path(),
    dry_run: DryRun = False,
    diff: Diff = False,
    xdist: Xdist = None,
    memory_limit_mb: MemoryLimit = None,
    rocm: Rocm = None,
    bazel: Bazel = None,
    config_edit: ConfigEdit = None,
    ci_snippet: CiSnippet = False,
) -> None:
    from devicegen.commands.init import init, print_ci_snippet
    from devicegen.record import Answers

    answers = Answers(xdist, memory_limit_mb, config_edit, rocm, bazel)
    if ci_snippet:
        raise typer.Exit(print_ci_snippet(path, answers))
    raise typer.Exit(init(path, answers, dry_run=dry_run, diff=diff))


@app.command("upgrade", help="Renew what was written, with newer templates or other answers.")
def _upgrade(
    path: PathArgument = Path(),
    dry_run: DryRun = False,
    diff: Diff = False,
    xdist: Xdist = None,
    memory_limit_mb: MemoryLimit = None,
    rocm: Rocm = None,
    bazel: Bazel = None,
    config_edit: ConfigEdit = None,
) -> None:
    from devicegen.commands.upgrade import upgrade
    from devicegen.record import Answers

    answers = Answers(xdist, memory_limit_mb, config_edit, rocm, bazel)
    raise typer.Exit(upgrade(path, answers, dry_run=dry_run, diff=diff))


@app.command("check", help="Is what is committed current and complete? Exit 1 when not.")
def _check(path: PathArgument = Path()) -> None:
    from devicegen.commands.check import check

    raise typer.Exit(check(path))


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line ``args``, of the process where None, and exit as the contract says."""
    set_up()
    try:
        app(args, prog_name="devicegen")
    except DevicegenError as error:
        _fail(str(error))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        silence(sys.stdout)  # which may be what failed
        _fail(f"{where}{error.strerror or error}")
    except Exception as error:
        _fail(f"unexpected {error!r}; please report it with {_write_log()}")


def _fail(message: str) -> NoReturn:
    warn(message)
    sys.exit(REFUSED)


def _write_log() -> str:
    """Write the traceback to a file and return its path, or words where there is no room."""
    text = f"devicegen {__version__}, Python {sys.version}\n{traceback.format_exc()}"
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="devicegen-", suffix=".log", delete=False, encoding="utf-8"
        ) as log:
            log.write(text)
    except OSError as error:
        return f"its traceback (no log: {error.strerror})"
    return log.name
