"""What a formatter does is no edit; any other change of the code or of a comment is one."""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devicegen.python_code import says_the_same
from generator import HARNESS, LIBRARY, run
from kit import write_tree

STANDARD_LIBRARY = Path(json.__file__).parents[1]
# Modules with all kinds of statements, comments and docstrings; none larger than 40 kB.
MODULES = (
    "bisect.py", "calendar.py", "cmd.py", "codeop.py", "contextlib.py", "copy.py", "csv.py",
    "dataclasses.py", "fnmatch.py", "functools.py", "genericpath.py", "glob.py", "heapq.py",
    "json/decoder.py", "json/encoder.py", "keyword.py", "numbers.py", "operator.py", "pprint.py",
    "quopri.py", "queue.py", "reprlib.py", "sched.py", "selectors.py", "shlex.py", "shutil.py",
    "string.py", "tempfile.py", "textwrap.py", "unittest/case.py", "unittest/loader.py",
    "weakref.py", "zipapp.py",
)  # fmt: skip
SMALL_MODULES = ("bisect.py", "codeop.py", "fnmatch.py", "keyword.py", "quopri.py", "sched.py")
FORMATTERS = {
    "ruff": ["ruff", "format", "-q", "--isolated", "--config", "line-length={length}"],
    "ruff, single quotes": [
        *["ruff", "format", "-q", "--isolated", "--config", "line-length={length}"],
        *["--config", 'format.quote-style="single"'],
    ],
    "ruff, isort": ["ruff", "check", "-q", "--isolated", "--select", "I", "--fix"],
    "black": ["black", "-q", "--line-length={length}"],
    "black, preview": ["black", "-q", "--line-length={length}", "--preview", "--unstable"],
    "yapf": ["yapf", "-i", "--style={{based_on_style: google, column_limit: {length}}}"],
    "isort": ["isort", "-q", "--line-length={length}"],
    "isort, black": ["isort", "-q", "--profile=black"],
    "isort, google": ["isort", "-q", "--profile=google"],
    "autopep8": ["autopep8", "-i", "--max-line-length={length}"],
}
TAKE_LONG = {"black", "black, preview", "yapf", "autopep8"}
LEAVE_IT_ALONE = {"isort", "isort, black", "ruff, isort"}  # they find nothing to do


def formatted(text: str, tool: str, length: int, folder: Path) -> str:
    file = folder / "formatted.py"
    file.write_text(text, "utf-8")
    command = [word.format(length=length) for word in FORMATTERS[tool]]
    subprocess.run([sys.executable, "-m", *command, str(file)], check=True, cwd=folder)
    return file.read_text("utf-8")


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> str:
    top = write_tree(tmp_path_factory.mktemp("harness"), LIBRARY)
    run("init", top)
    return (top / HARNESS).read_text("utf-8")


@pytest.mark.parametrize(
    "tool",
    [
        pytest.param(tool, marks=[pytest.mark.slow] if tool in TAKE_LONG else [])
        for tool in FORMATTERS
    ],
)
def test_a_formatted_harness_is_not_an_edited_one(tmp_path: Path, harness: str, tool: str) -> None:
    texts = [formatted(harness, tool, length, tmp_path) for length in (60, 99)]

    assert all(says_the_same(harness, text) for text in texts)
    assert says_the_same(*texts)
    if tool not in LEAVE_IT_ALONE:
        assert texts[0] != harness


# autopep8 is not here: it makes functions of lambdas and moves imports, which are edits.
@pytest.mark.slow
@pytest.mark.parametrize("tool", [tool for tool in FORMATTERS if tool != "autopep8"])
@given(data=st.data())
@settings(max_examples=12, deadline=None)
def test_formatting_real_code_is_never_an_edit(
    tmp_path_factory: pytest.TempPathFactory, tool: str, data: st.DataObject
) -> None:
    text = data.draw(_snippets())
    length = data.draw(st.integers(40, 120))
    folder = tmp_path_factory.mktemp("formatted")

    assert says_the_same(text, formatted(text, tool, length, folder))


@st.composite
def _snippets(draw: st.DrawFn) -> str:
    """Draw a row of top-level statements of a module, with the comments between them."""
    text = (STANDARD_LIBRARY / draw(st.sampled_from(MODULES))).read_text("utf-8")
    lines = text.splitlines(keepends=True)
    starts = [
        number
        for number, line in enumerate(lines)
        if line[:1].isalpha() and (number == 0 or not lines[number - 1].strip())
        if _is_python("".join(lines[number:]))
    ]
    first = draw(st.integers(0, len(starts) - 1))
    last = draw(st.integers(first, len(starts) - 1))
    end = starts[last + 1] if last + 1 < len(starts) else len(lines)
    snippet = "".join(lines[starts[first] : end])
    return snippet if _is_python(snippet) else text


def _is_python(text: str) -> bool:
    try:
        compile(text, "", "exec")
    except SyntaxError:
        return False
    return True


@given(name=st.sampled_from(SMALL_MODULES), seed=st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_a_changed_token_or_comment_is_always_an_edit(name: str, seed: int) -> None:
    text = (STANDARD_LIBRARY / name).read_text("utf-8")
    changed = _change_one_token(text, random.Random(seed))

    assert not says_the_same(text, changed)
    assert not says_the_same(changed, text)


def _change_one_token(text: str, chance: random.Random) -> str:
    """Change a name, a number, a string, an operator or a comment, in its place."""
    tokens = [
        token
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type in (tokenize.NAME, tokenize.NUMBER, tokenize.COMMENT)
        or (token.type == tokenize.STRING and len(token.string) > 2)
        or token.string in ("+", "==", "<", "=", "-", "and")
    ]
    token = chance.choice(tokens)
    lines = text.splitlines(keepends=True)
    (row, start), (end_row, end) = token.start, token.end
    if token.type == tokenize.STRING:
        # A letter more, before the closing quotes.
        line, place, new = lines[end_row - 1], end - 1, "x"
        while line[place - 1] == line[end - 1]:
            place -= 1
        lines[end_row - 1] = line[:place] + new + line[place:]
    else:
        new = {"+": "-", "==": "!=", "<": ">", "=": "+=", "-": "+"}.get(
            token.string, f"{token.string}{'1' if token.type == tokenize.NUMBER else 'x'}"
        )
        line = lines[row - 1]
        lines[row - 1] = line[:start] + new + line[end:]
    return "".join(lines)


SAME = {
    "line endings": ("x = 1\ny = '''a\nb'''\n", "x = 1\r\ny = '''a\r\nb'''\r\n"),
    "quotes": ("x = 'a'\n", 'x = "a"\n'),
    "quotes inside": ("x = 'a\"b'\n", 'x = "a\\"b"\n'),
    "a prefix": ("x = u'a'\n", "x = 'a'\n"),
    "a split string": ("x = 'ab'\n", "x = (\n    'a'\n    'b'\n)\n"),
    "trailing comma": ("f(a, b)\n", "f(\n    a,\n    b,\n)\n"),
    "brackets": ("x = (1)\nfor y in (1, 2): pass\n", "x = 1\nfor y in 1, 2:\n    pass\n"),
    "del": ("del (a, b), (c)\n", "del a, b, c\n"),
    "numbers": ("x = 0XFF + 1E5 + 10L\n".replace("L", ""), "x = 0xFF + 1e5 + 10\n"),
    "semicolons": ("x = 1; y = 2  # c\n", "x = 1\ny = 2  # c\n"),
    "a backslash": ("x = 1 + \\\n    2\n", "x = 1 + 2\n"),
    "docstring": (
        'def f():\n    """ A.\n\n      B  \n    """\n',
        'def f():\n\t"""A.\n\n\t  B\n\t"""\n',
    ),
    "order of imports": ("import b\nimport a\nfrom c import z, y\n", "from c import y, z\n"
                         "import a\nimport b\n"),
    "one name an import": ("from c import z, y as x\n", "from c import y as x\nfrom c import z\n"),
    "imports twice": ("import a\nimport a\n", "import a\n"),
    "imports in a body": ("if x:\n    import b, a\n", "if x:\n    import a\n    import b\n"),
    "a comment that moves with its import": (
        "import b\n\n# why\nimport a\nx = 1\n", "# why\nimport a\nimport b\n\nx = 1\n"
    ),
    "a comment above sorted imports": (
        "# why\nimport b\nimport a\n", "# why\nimport a\nimport b\n"
    ),
    "a comment above semicolons": ("# c\nx = 1; y = 2\n", "# c\nx = 1\ny = 2\n"),
    "space in a comment": ("#c\nx = 1  #  d\n", "# c\nx = 1 # d\n"),
    "a comment beside or above": ("x = 1  # c\n", "# c\nx = 1\n"),
    "a comment beside or above, in a body": (
        "if x:\n    return_ = 1  # c\n", "if x:\n    # c\n    return_ = 1\n"
    ),
    "blank lines": ("x = 1\n\n\n\ny = 2", "\nx = 1\ny = 2\n\n"),
    "not Python, the same": ("x = (\n", "x = (\n"),
}  # fmt: skip
EDITS = {
    "a name": ("x = 1\n", "y = 1\n"),
    "a value": ("x = 1\n", "x = 2\n"),
    "a value's type": ("x = 1\n", "x = 1.0\n"),
    "true for one": ("x = 1\n", "x = True\n"),
    "bytes for a string": ("x = 'a'\n", "x = b'a'\n"),
    "a tuple for a value": ("x = 1\n", "x = 1,\n"),
    "space in a string": ("x = 'a b'\n", "x = 'a  b'\n"),
    "lines of a string": ("x = '''a\n  b'''\n", "x = '''a\n b'''\n"),
    "indentation": ("if x:\n    y\nz\n", "if x:\n    y\n    z\n"),
    "order": ("x = 1\ny = 2\n", "y = 2\nx = 1\n"),
    "an import more": ("import a\n", "import a\nimport b\n"),
    "an import's level": ("from . import a\n", "from .. import a\n"),
    "an import's alias": ("import a as b\n", "import a as c\n"),
    "an import elsewhere": ("import a\nx = 1\nimport b\n", "import a\nimport b\nx = 1\n"),
    "docstring's words": ('"""A."""\n', '"""B."""\n'),
    "docstring's indented lines": ('"""A.\n\n    b\n  c\n"""\n', '"""A.\n\n  b\n  c\n"""\n'),
    "a comment's words": ("x = 1  # a\n", "x = 1  # b\n"),
    "a comment more": ("x = 1\n", "x = 1  # a\n"),
    "a comment less": ("# a\n# b\nx = 1\n", "# a\nx = 1\n"),
    "comments in another order": ("# a\nx = 1\n# b\ny = 1\n", "# b\nx = 1\n# a\ny = 1\n"),
    "a comment at another statement": ("x = 1  # a\ny = 1\n", "x = 1\ny = 1  # a\n"),
    "a comment out of a body": (
        "if x:\n    # a\n    y = 1\nz = 1\n", "if x:\n    y = 1\n# a\nz = 1\n"
    ),
    "a comment at the end": ("x = 1\n# a\ny = 1\n", "x = 1\ny = 1\n# a\n"),
    "a decorator": ("@a\ndef f(): pass\n", "@b\ndef f(): pass\n"),
    "no longer Python": ("x = 1\n", "x = (\n"),
    "neither is Python": ("x = (\n", "x  = (\n"),
    "nul bytes": ("x = 1\n", "x = 1\0\n"),
    "brackets too deep": ("x = 1\n", f"x = {'(' * 5000}1{')' * 5000}\n"),
    "operators too deep": ("x = 1\n", f"x = {'-' * 50000}1\n"),
    "bad indentation": ("x = 1\n", "  x = 1\n y = 2\n"),
}  # fmt: skip


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME)
def test_layout_is_no_edit(one: str, other: str) -> None:
    assert says_the_same(one, other)
    assert says_the_same(other, one)


@pytest.mark.parametrize(("one", "other"), EDITS.values(), ids=EDITS)
def test_all_else_is_an_edit(one: str, other: str) -> None:
    assert not says_the_same(one, other)
    assert not says_the_same(other, one)


@pytest.mark.filterwarnings("error")
def test_an_invalid_escape_is_no_warning_of_ours() -> None:
    assert says_the_same("x = '\\d'\n", 'x = "\\d"\n')


def test_line_endings_do_not_count_where_it_is_no_python() -> None:
    assert says_the_same("def f(\r\n  x\r\n", "def f(\n  x\n")
    assert not says_the_same("def f(\r\n  x\r\n", "def f(\n x\n")
