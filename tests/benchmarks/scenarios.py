"""What owners do to a generated file between two versions of its template: fifty scenarios.

The template's two versions are the harness of two sets in ``tests/history``: see ``peers.py``.
"""

# ruff: noqa: E501 (a row a scenario)

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HARNESS = "tests/conftest.py"
DELETED = "the file stays deleted"
MOVED = "the file is where it was moved to, and new"
REPLACED = "what took its place is untouched"
ANSWER = "MEMORY_LIMIT_MB = 2048"


@dataclass(frozen=True)
class Scenario:
    """A name, what is done to the project, the words that must survive, and what is special.

    ``conflicts`` tells that both sides changed one place: showing that is then the right end.
    ``expects`` is one of the ends above, where the words alone do not say it.
    """

    name: str
    do: Callable[[Path], None]
    words: tuple[str, ...] = ()
    conflicts: bool = False
    expects: str = ""
    answer: bool = False
    uncommitted: bool = False


def replaced(*pairs: tuple[str, str]) -> Callable[[Path], None]:
    """Return an edit: each text, which is there once, becomes another."""

    def do(top: Path) -> None:
        text = (top / HARNESS).read_bytes().decode()
        for old, new in pairs:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        (top / HARNESS).write_bytes(text.encode())

    return do


def rewritten(change: Callable[[str], str]) -> Callable[[Path], None]:
    """Return an edit of the whole text."""

    def do(top: Path) -> None:
        (top / HARNESS).write_bytes(change((top / HARNESS).read_bytes().decode()).encode())

    return do


def formatted(*command: str) -> Callable[[Path], None]:
    """Return a formatter's run."""

    def do(top: Path) -> None:
        before = (top / HARNESS).read_bytes()
        subprocess.run([sys.executable, "-m", *command, str(top / HARNESS)], check=True)
        assert (top / HARNESS).read_bytes() != before

    return do


def both(*steps: Callable[[Path], None]) -> Callable[[Path], None]:
    """Return several steps as one."""

    def do(top: Path) -> None:
        for step in steps:
            step(top)

    return do


IMPORT = ("import copy\n", "import copy\nimport colorsys\n")
COMMENT = ("import copy\n", "import copy  # ours: for options\n")
DEFAULT = ('        metavar="N",\n', '        metavar="CARDS",\n')
FUNCTION = (
    "\n\n# ---- Report ---",
    "\n\ndef pytest_sessionstart(session):\n    session.ours = True\n\n\n# ---- Report ---",
)
MESSAGE = ('"no device is listed"', '"list a device, please"')
NAMED = ('names = " and ".join(mark.name', 'names = " plus ".join(mark.name')
SAME_LINE = ("variant.stash[KIND] = kind\n", "variant.stash[KIND] = str(kind)\n")

RUFF_NARROW = formatted(
    "ruff", "format", "-q", "--isolated", "--config=line-length=60",
    "--config=format.quote-style='single'",
)  # fmt: skip
RUFF_TABS = formatted("ruff", "format", "-q", "--isolated", "--config=format.indent-style='tab'")
RUFF_TWO = formatted("ruff", "format", "-q", "--isolated", "--config=indent-width=2")
BLACK = formatted("black", "-q", "--line-length=120")
YAPF = formatted("yapf", "-i", "--style={based_on_style: google, column_limit: 80}")
ISORT = formatted("isort", "-q", "--profile=google", "--force-sort-within-sections")
AUTOPEP8 = formatted("autopep8", "-i", "--aggressive", "--max-line-length=88", "--select=E,W")
CRLF = rewritten(lambda text: text.replace("\n", "\r\n"))
NO_FINAL_NEWLINE = rewritten(lambda text: text.rstrip("\n"))
BYTE_ORDER_MARK = rewritten(lambda text: "\ufeff" + text)


def append(text: str) -> Callable[[Path], None]:
    """Return an edit at the end of the file."""
    return rewritten(lambda before: before + text)


def without(start: str, stop: str) -> Callable[[Path], None]:
    """Return a deletion, from one text up to another."""
    pattern = re.escape(start) + ".*?(?=" + re.escape(stop) + ")"
    return rewritten(lambda text: re.sub(pattern, "", text, count=1, flags=re.DOTALL))


def delete(top: Path) -> None:
    (top / HARNESS).unlink()


def move(top: Path) -> None:
    (top / HARNESS).rename(top / "conftest.py")


def rename_folder(top: Path) -> None:
    (top / "tests").rename(top / "test_all")


def replace_by_own(top: Path) -> None:
    (top / HARNESS).write_text("import pytest\n\nOUR_OWN = True\n", "utf-8")


def replace_by_link(top: Path) -> None:
    (top / "shared.py").write_text("OUR_SHARED = True\n", "utf-8")
    (top / HARNESS).unlink()
    (top / HARNESS).symlink_to("../shared.py")


def replace_by_folder(top: Path) -> None:
    (top / HARNESS).unlink()
    (top / HARNESS).mkdir()
    (top / HARNESS / "ours.txt").write_text("ours\n", "utf-8")


def make_read_only(top: Path) -> None:
    (top / HARNESS).chmod(0o444)


def make_executable(top: Path) -> None:
    replaced(COMMENT)(top)
    (top / HARNESS).chmod(0o755)


TAKEN = 'names = " and ".join(mark.name for mark in marks)\n        raise ValueError(f"{names} on one and the same test: keep one of them")'
NEW = 'raise ValueError(f"{marks[0].name} and {marks[1].name} on one test: keep one")'
LINE = "-- ours: a rule --\n=======\n"

SCENARIOS = (
    # one edit
    Scenario("nothing", lambda top: None),
    Scenario("a comment", replaced(COMMENT), ("# ours: for options",)),
    Scenario("an import", replaced(IMPORT), ("import colorsys",)),
    Scenario("a default", replaced(DEFAULT), ('"CARDS"',)),
    Scenario("a message", replaced(MESSAGE), ("list a device, please",)),
    Scenario("a hook in the middle", replaced(FUNCTION), ("session.ours = True",)),
    Scenario("a function at the end", append("\n\ndef ours():\n    return 'x'\n"), ("def ours():",)),
    Scenario(
        "a parameter",
        replaced(("def _class_marks(cls: type)", "def _class_marks(cls: type, ours: int = 1)")),
        ("ours: int = 1",),
    ),
    Scenario(
        "a decorator",
        replaced(("\ndef _class_marks(", "\n@functools.cache\ndef _class_marks(")),
        ("@functools.cache",),
    ),
    Scenario("a docstring", replaced(('"""The scope that', '"""Our own scope, that')), ("Our own",)),
    Scenario("a docstring taken out", replaced(('    """Return the closest device markers: function over class over module."""\n', ""))),
    Scenario("a function taken out", without("def _class_marks(", "def _listed_kinds")),
    Scenario("five edits", replaced(COMMENT, DEFAULT, MESSAGE, FUNCTION), ("# ours", "CARDS", "list a device, please", "session.ours")),
    Scenario("a block indented", replaced(("    if not kinds:\n        yield item\n", "    if True:\n        if not kinds:\n            yield item  # ours\n")), ("yield item  # ours",)),
    # a formatter and nothing else
    Scenario("black", BLACK),
    Scenario("ruff, 60 columns, single quotes", RUFF_NARROW),
    Scenario("ruff, tabs", RUFF_TABS),
    Scenario("ruff, two spaces", RUFF_TWO),
    Scenario("yapf", YAPF),
    Scenario("isort", ISORT),
    Scenario("CRLF", CRLF),
    Scenario("no final newline", NO_FINAL_NEWLINE),
    Scenario("a byte order mark", BYTE_ORDER_MARK),
    # a formatter and an edit
    Scenario("black and a comment", both(replaced(COMMENT), BLACK), ("# ours: for options",)),
    Scenario("ruff, single quotes, and a default", both(replaced(DEFAULT), RUFF_NARROW), ("CARDS",)),
    Scenario("tabs and a hook", both(replaced(FUNCTION), RUFF_TABS), ("session.ours = True",)),
    Scenario("two spaces and a message", both(replaced(MESSAGE), RUFF_TWO), ("list a device, please",)),
    Scenario("yapf and a function", both(append("\n\ndef ours():\n    return 'x'\n"), YAPF), ("def ours():",)),
    Scenario("isort and an import", both(replaced(IMPORT), ISORT), ("import colorsys",)),
    Scenario("CRLF and a comment", both(replaced(COMMENT), CRLF), ("# ours: for options",)),
    Scenario("all at once", both(replaced(COMMENT, DEFAULT, MESSAGE, FUNCTION), BLACK, CRLF), ("# ours", "CARDS", "list a device, please", "session.ours")),
    # both changed it
    Scenario("the same line", replaced(SAME_LINE), ("str(kind)",), conflicts=True),
    Scenario("a message that is new too", replaced(NAMED), ('" plus "',), conflicts=True),
    Scenario("lines beside new ones", replaced(("def pytest_configure(config: pytest.Config)", "def pytest_configure(config: Any)")), ("config: Any",), conflicts=True),
    Scenario("an import at the same place", replaced(("import os\n", "import os\nimport random\n")), ("import random",), conflicts=True),
    Scenario("what is taken out was edited", replaced(('\nMARKER_NAMES = ("run_on", "no_device_scope")', '\nMARKER_NAMES = ("run_on", "no_device_scope", "ours")')), ('"ours")',), conflicts=True),
    Scenario("what was taken out is edited", replaced((f"        {TAKEN}\n", "        pass  # ours\n")), ("pass  # ours",), conflicts=True),
    Scenario("the same line, and black", both(replaced(SAME_LINE), BLACK), ("str(kind)",), conflicts=True),
    Scenario("the same line, and CRLF", both(replaced(SAME_LINE), CRLF), ("str(kind)",), conflicts=True),
    Scenario("the same change on both sides", replaced((TAKEN, NEW)), ("on one test: keep one",)),
    Scenario("lines that look like a marker", append('\n\nRULE = """\n' + LINE + '"""\n'), ("-- ours: a rule --",)),
    # the file
    Scenario("deleted", delete, expects=DELETED),
    Scenario("moved", move, expects=MOVED),
    Scenario("moved and edited", both(replaced(COMMENT), move), ("# ours: for options",), expects=MOVED),
    Scenario("its folder renamed", rename_folder, expects=MOVED),
    Scenario("a file of their own there", replace_by_own, ("OUR_OWN",), expects=REPLACED),
    Scenario("a link there", replace_by_link, ("OUR_SHARED",), expects=REPLACED),
    Scenario("a folder there", replace_by_folder, ("ours",), expects=REPLACED),
    Scenario("executable", make_executable, ("# ours: for options",)),
    Scenario("an answer given at first", replaced(COMMENT), ("# ours: for options", ANSWER), answer=True),
)  # fmt: skip
assert len(SCENARIOS) == 50
