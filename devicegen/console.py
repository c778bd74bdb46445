"""Lines for the user: results to stdout, notes and errors to stderr."""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO

import typer


def set_up() -> None:
    """Show what a stream's encoding lacks, as in a path that is no text, escaped."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def say(line: str = "") -> None:
    """Print a line to stdout; a reader who has gone, as in ``| head -1``, stops nothing."""
    try:
        typer.echo(line)
    except BrokenPipeError:
        silence(sys.stdout)


def paint(line: str, colour: str | None) -> str:
    """Return the line in a colour (or "bold") where stdout is a terminal that wants any.

    ``NO_COLOR`` turns that off: https://no-color.org
    """
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if colour is None or is_plain or not sys.stdout.isatty():
        return line
    return typer.style(line, bold=True) if colour == "bold" else typer.style(line, fg=colour)


def warn(message: str) -> None:
    """Print one line to stderr, whatever line ends a path in it holds."""
    try:
        typer.echo(f"devicegen: {' '.join(message.split())}", err=True)
    except OSError:
        silence(sys.stderr)


def silence(stream: TextIO) -> None:
    """Let nothing more reach a stream that cannot be written, not even when Python exits."""
    if isinstance(stream, io.TextIOWrapper):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
