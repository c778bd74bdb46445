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
        max=1_048_576,
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
REPEATABLE = "[repeatable; those of one call replace the recorded list, `none` takes it back]"
Strategies = Annotated[
    list[str] | None,
    typer.Option(
        "--strategy",
        metavar="NAME",
        help=f"A strategy that run_on takes too: one_device, central_storage. {REPEATABLE}",
    ),
]
MarkerAliases = Annotated[
    list[str] | None,
    typer.Option(
        "--marker-alias",
        metavar="NAME=run_on[:DEVICE]",
        help=f"A marker of yours that stands for run_on or no_device_scope. {REPEATABLE}",
    ),
]
Seeds = Annotated[
    bool | None,
    typer.Option("--seeds/--no-seeds", help="Set all seeds before each test. [default: yes]"),
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

Templates = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="Templates of your own, in the place of single ones."),
]
NoTemplates = Annotated[bool, typer.Option("--no-templates", help="Go back to devicegen's own.")]
AllowDirty = Annotated[
    bool,
    typer.Option("--allow-dirty", help="Write into edited files that git has not committed."),
]
Split = Annotated[
    bool | None,
    typer.Option(
        "--split/--no-split",
        help="Split each GPU into two logical devices. [default: unless the project sets it up]",
    ),
]
KeepDeviceSetup = Annotated[
    bool,
    typer.Option(
        "--keep-device-setup",
        help="Go on where the project masks or maps GPUs itself; it must be taken out later.",
    ),
]
ConftestPath = Annotated[
    str | None,
    typer.Option(
        "--conftest",
        metavar="PATH",
        help="Where the harness goes, relative to the top. [default: where it works best]",
    ),
]
Durations = Annotated[
    bool | None,
    typer.Option(
        "--durations-history/--no-durations-history",
        help="Keep how long tests took, to run long ones first next time. [default: no]",
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


def _listed(given: list[str] | None) -> tuple[str, ...] | None:
    return None if given is None else tuple(given)


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
    durations_history: Durations = None,
    templates: Templates = None,
    no_templates: NoTemplates = False,
    split: Split = None,
    strategy: Strategies = None,
    marker_alias: MarkerAliases = None,
    seeds: Seeds = None,
    conftest: ConftestPath = None,
    keep_device_setup: KeepDeviceSetup = False,
    ci_snippet: CiSnippet = False,
) -> None:
    from devicegen.commands.init import init, print_ci_snippet
    from devicegen.decisions import Asked
    from devicegen.record import Answers

    answers = Answers(
        xdist=xdist,
        memory_limit_mb=memory_limit_mb,
        config_edit=config_edit,
        rocm=rocm,
        bazel=bazel,
        templates="" if no_templates else templates,
        split=split,
        durations_history=durations_history,
        strategies=_listed(strategy),
        marker_aliases=_listed(marker_alias),
        seeds=seeds,
    )
    asked = Asked(conftest, keep_device_setup)
    if ci_snippet:
        raise typer.Exit(print_ci_snippet(path, answers, asked))
    raise typer.Exit(init(path, answers, asked, dry_run=dry_run, diff=diff))


@app.command("upgrade", help="Merge newer templates or other answers into what was written.")
def _upgrade(
    path: PathArgument = Path(),
    dry_run: DryRun = False,
    diff: Diff = False,
    xdist: Xdist = None,
    memory_limit_mb: MemoryLimit = None,
    rocm: Rocm = None,
    bazel: Bazel = None,
    config_edit: ConfigEdit = None,
    durations_history: Durations = None,
    templates: Templates = None,
    no_templates: NoTemplates = False,
    split: Split = None,
    strategy: Strategies = None,
    marker_alias: MarkerAliases = None,
    seeds: Seeds = None,
    restore: Annotated[
        bool, typer.Option("--restore", help="Bring back the harness that was deleted.")
    ] = False,
    allow_dirty: AllowDirty = False,
) -> None:
    from devicegen.commands.upgrade import upgrade
    from devicegen.record import Answers

    answers = Answers(
        xdist=xdist,
        memory_limit_mb=memory_limit_mb,
        config_edit=config_edit,
        rocm=rocm,
        bazel=bazel,
        templates="" if no_templates else templates,
        split=split,
        durations_history=durations_history,
        strategies=_listed(strategy),
        marker_aliases=_listed(marker_alias),
        seeds=seeds,
    )
    raise typer.Exit(
        upgrade(
            path,
            answers,
            dry_run=dry_run,
            diff=diff,
            restore=restore,
            allow_dirty=allow_dirty,
        )
    )


@app.command("check", help="Is what is committed current and complete? Exit 1 when not.")
def _check(
    path: PathArgument = Path(),
    strict: Annotated[bool, typer.Option("--strict", help="Fail for an edit too.")] = False,
) -> None:
    from devicegen.commands.check import check

    raise typer.Exit(check(path, strict=strict))


@app.command("diff", help="Print what an upgrade would change. Exit 1 when that is anything.")
def _diff(path: PathArgument = Path()) -> None:
    from devicegen.commands.diff import diff

    raise typer.Exit(diff(path))


@app.command("eject", help="Forget the record and keep the files.")
def _eject(
    path: PathArgument = Path(),
    dry_run: DryRun = False,
    diff: Diff = False,
    allow_dirty: AllowDirty = False,
) -> None:
    from devicegen.commands.eject import eject

    raise typer.Exit(eject(path, dry_run=dry_run, diff=diff, allow_dirty=allow_dirty))


@app.command("inspect", help="Say what is found here and what init would decide, and why.")
def _inspect(
    path: PathArgument = Path(),
    json: Annotated[bool, typer.Option("--json", help="As JSON, with all lists in full.")] = False,
    json_schema: Annotated[
        bool, typer.Option("--json-schema", help="Print the JSON Schema of --json.")
    ] = False,
) -> None:
    from devicegen.commands.inspect import inspect, print_schema

    raise typer.Exit(print_schema() if json_schema else inspect(path, as_json_text=json))


@app.command("doctor", help="Is the harness active in the target's pytest? Exit 1 when not.")
def _doctor(
    path: PathArgument = Path(),
    python: Annotated[
        str | None, typer.Option("--python", help="The interpreter that runs the tests.")
    ] = None,
    workers: Annotated[
        int, typer.Option("-n", min=0, help="Show the mapping for this many xdist workers.")
    ] = 2,
) -> None:
    from devicegen.commands.doctor import doctor

    raise typer.Exit(doctor(path, python=python, workers=workers))


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
