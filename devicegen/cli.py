"""The command line: parses and dispatches, and prints each error once."""

from __future__ import annotations

import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from devicegen import __version__
from devicegen.commands.check import check
from devicegen.commands.init import init
from devicegen.commands.upgrade import upgrade
from devicegen.errors import DevicegenError
from devicegen.record import Answers

REFUSED = 2
INTERRUPTED = 130

app = typer.Typer(
    name="devicegen",
    help="Write a tailored pytest harness for TensorFlow tests into a repository.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
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
        min=1,
        help="Memory of each of a GPU's two logical devices. [default: fitted to the card]",
    ),
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
    config_edit: ConfigEdit = None,
) -> None:
    answers = Answers(xdist, memory_limit_mb, config_edit)
    _exit_with(lambda: init(path, answers, dry_run=dry_run, diff=diff))


@app.command("upgrade", help="Renew what was written, with newer templates or other answers.")
def _upgrade(
    path: PathArgument = Path(),
    dry_run: DryRun = False,
    diff: Diff = False,
    xdist: Xdist = None,
    memory_limit_mb: MemoryLimit = None,
    config_edit: ConfigEdit = None,
) -> None:
    answers = Answers(xdist, memory_limit_mb, config_edit)
    _exit_with(lambda: upgrade(path, answers, dry_run=dry_run, diff=diff))


@app.command("check", help="Is what is committed current and complete? Exit 1 when not.")
def _check(path: PathArgument = Path()) -> None:
    _exit_with(lambda: check(path))


def _exit_with(verb: Callable[[], int]) -> None:
    try:
        code = verb()
    except DevicegenError as error:
        typer.echo(f"devicegen: {error}", err=True)
        code = REFUSED
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as error:
        log = _write_log()
        typer.echo(f"devicegen: unexpected {error!r}; please report it with {log}", err=True)
        code = REFUSED
    raise typer.Exit(code)


def _write_log() -> str:
    with tempfile.NamedTemporaryFile(
        "w", prefix="devicegen-", suffix=".log", delete=False, encoding="utf-8"
    ) as log:
        log.write(f"devicegen {__version__}, Python {sys.version}\n{traceback.format_exc()}")
    return log.name


def main() -> None:
    """Run the command line; the exit code is the contract's."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
