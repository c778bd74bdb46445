"""Marker lines go into the configuration in force, and nothing else of it changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import iniconfig
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devicegen import marker_registry
from devicegen.errors import CannotEdit
from devicegen.facts.pytest_config import PytestConfig, read_pytest_config
from devicegen.marker_registry import add_markers, contains_markers, missing_markers
from devicegen.templates_folder import templates_folder, toml_string

LINES = ("run_on(devices): once per device", "no_device_scope: once, in no scope")
ONE, TWO = LINES
QUICK = settings(max_examples=120, deadline=None)


def added(tmp_path: Path, name: str, text: str, lines: tuple[str, ...] = LINES) -> str:
    """Write the file as it is, read the facts, and return the new text."""
    (tmp_path / name).write_bytes(text.encode())
    new = add_markers(text, read_pytest_config(tmp_path), lines)
    (tmp_path / name).write_bytes(new.encode())
    config = read_pytest_config(tmp_path)
    assert config.problem is None
    assert missing_markers(config, lines) == ()
    assert contains_markers(new, config, lines)
    assert add_markers(new, config, lines) == new
    return new


HEADER = "[tool.pytest.ini_options]\n"
# `+` begins a line that is ours; what is left without those lines is the old text.
TOML_TABLES = {
    "several lines, trailing comma": """\
[tool.pytest.ini_options]
markers = [
    "slow: is slow",  # a comment [
    # "old: gone",
+    "run_on(devices): once per device",
+    "no_device_scope: once, in no scope",
]
testpaths = ["tests"]
""",
    "indented by two": """\
[tool.pytest.ini_options]
markers = [
  "slow: is slow",
+  "run_on(devices): once per device",
+  "no_device_scope: once, in no scope",
]
""",
    "tabs": """\
[tool.pytest.ini_options]
markers = [
\t"slow: is slow",
+\t"run_on(devices): once per device",
+\t"no_device_scope: once, in no scope",
\t]
""",
    "single quotes": """\
[tool.pytest]
markers = [
    'slow: is "slow"', 'b',
+    'run_on(devices): once per device',
+    'no_device_scope: once, in no scope',
]
""",
    "several lines, nothing but a comment": """\
[tool.pytest.ini_options]
markers = [
    # none
+    "run_on(devices): once per device",
+    "no_device_scope: once, in no scope",
]
""",
    "missing key": """\
[project]
name = "x"

[tool.pytest.ini_options]
minversion = "6.0"
addopts = "-q"  # quiet
+markers = [
+    "run_on(devices): once per device",
+    "no_device_scope: once, in no scope",
+]
# xfail_strict = true

[tool.other]
markers = ["not", "ours"]
""",
    "missing key, the table's own style": """\
[tool.pytest.ini_options]
addopts=[
  "-q",
]
+markers=[
+  "run_on(devices): once per device",
+  "no_device_scope: once, in no scope",
+]
""",
    "missing key, indented table": """\
[tool.pytest.ini_options]
  addopts = "-q"
+  markers = [
+      "run_on(devices): once per device",
+      "no_device_scope: once, in no scope",
+  ]
[tool.x]
""",
    "missing key, empty table": """\
[tool.pytest.ini_options]  # empty
+markers = [
+    "run_on(devices): once per device",
+    "no_device_scope: once, in no scope",
+]

[tool.x]
a = '''
[tool.pytest.ini_options]
markers = [
]
'''
""",
    "missing key, dotted": """\
[tool]
pytest.ini_options.addopts = "-q"
+pytest.ini_options.markers = [
+    "run_on(devices): once per device",
+    "no_device_scope: once, in no scope",
+]
black.line-length = 99
""",
    "missing key, a table below": """\
[tool.pytest]
strict = true
+markers = [
+    "run_on(devices): once per device",
+    "no_device_scope: once, in no scope",
+]
[tool.pytest.of_a_plugin]
markers = []
""",
    "missing key, nan": """\
[tool.pytest.ini_options]
+markers = [
+    "run_on(devices): once per device",
+    "no_device_scope: once, in no scope",
+]
[tool.x]
a = nan
""",
    "missing table": """\
[project]
name = "x"
+
+[tool.pytest.ini_options]
+markers = [
+    "run_on(devices): once per device",
+    "no_device_scope: once, in no scope",
+]
""",
    "quoted key": """\
[tool."pytest".'ini_options']
"markers" = [
    "a]",
+    "run_on(devices): once per device",
+    "no_device_scope: once, in no scope",
]
""",
    "a string of several lines": '''\
[tool.pytest.ini_options]
markers = """
  slow: is slow
+  run_on(devices): once per device
+  no_device_scope: once, in no scope
"""
''',
}

INI_FILES = {
    ("pytest.ini", "continuation lines"): """\
[pytest]
markers =
    slow: is slow
    # a comment in the middle
  fast: is fast
+  run_on(devices): once per device
+  no_device_scope: once, in no scope

# about addopts
addopts = -q
""",
    ("pytest.ini", "first value on the key's line"): """\
[pytest]
markers = slow: is slow
+    run_on(devices): once per device
+    no_device_scope: once, in no scope
addopts = -q
""",
    ("pytest.ini", "tabs"): """\
[pytest]
markers: slow
\tfast ; no comment
+\trun_on(devices): once per device
+\tno_device_scope: once, in no scope
""",
    ("pytest.ini", "key without a value, style of the section"): """\
[pytest]
markers =
+  run_on(devices): once per device
+  no_device_scope: once, in no scope
addopts =
  -q
    # not this
""",
    ("tox.ini", "missing key"): """\
[tox]
envlist = a

[pytest]
addopts = -q
testpaths =
  a
  b
+markers =
+  run_on(devices): once per device
+  no_device_scope: once, in no scope
# trailing


# about the next
[testenv]
commands = pytest
""",
    ("setup.cfg", "header alone"): """\
[tool:pytest]
+markers =
+    run_on(devices): once per device
+    no_device_scope: once, in no scope

[pytest-not]
markers = x
""",
    (".pytest.ini", "no section"): """\
; nothing
[other]
a = 1
+
+[pytest]
+markers =
+    run_on(devices): once per device
+    no_device_scope: once, in no scope
""",
    ("pytest.ini", "nothing at all"): """\
+[pytest]
+markers =
+    run_on(devices): once per device
+    no_device_scope: once, in no scope
""",
}

PYTEST_TOML = {
    "nothing at all": """\
+[pytest]
+markers = [
+    "run_on(devices): once per device",
+    "no_device_scope: once, in no scope",
+]
""",
    "header alone": """\
[pytest]
+markers = [
+    "run_on(devices): once per device",
+    "no_device_scope: once, in no scope",
+]
""",
}

WHOLE_LINES = {
    **{("pyproject.toml", name): text for name, text in TOML_TABLES.items()},
    **{("pytest.toml", name): text for name, text in PYTEST_TOML.items()},
    **INI_FILES,
}


def old_and_new(marked: str) -> tuple[str, str]:
    lines = marked.splitlines(keepends=True)
    old = "".join(line for line in lines if not line.startswith("+"))
    return old, "".join(line.removeprefix("+") for line in lines)


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("case", WHOLE_LINES, ids=" / ".join)
def test_whole_lines(tmp_path: Path, case: tuple[str, str], newline: str) -> None:
    old, new = (text.replace("\n", newline) for text in old_and_new(WHOLE_LINES[case]))
    if newline == "\r\n" and not old:
        return  # an empty file has no line endings
    assert added(tmp_path, case[0], old) == new


@pytest.mark.parametrize("case", WHOLE_LINES, ids=" / ".join)
def test_no_final_newline(tmp_path: Path, case: tuple[str, str]) -> None:
    old, new = old_and_new(WHOLE_LINES[case])
    expected = new.removesuffix("\n") if old else new
    assert added(tmp_path, case[0], old.removesuffix("\n")) == expected


@pytest.mark.parametrize("case", INI_FILES, ids=" / ".join)
def test_a_byte_order_mark_and_lone_carriage_returns_stay(
    tmp_path: Path, case: tuple[str, str]
) -> None:
    old, new = old_and_new(INI_FILES[case])
    assert added(tmp_path, case[0], "\ufeff" + old) == "\ufeff" + new
    if old:
        expected = new.replace("\n", "\r")
        assert added(tmp_path, case[0], old.replace("\n", "\r")) == expected


ASK_PYTEST = """
import json, os, sys
from _pytest.config import _prepareconfig

said = {}
for folder in sys.argv[1:]:
    os.chdir(folder)
    config = _prepareconfig([], [])
    said[folder] = [config.inipath.name, list(config.getini("markers"))]
    config._ensure_unconfigure()
print("\\n" + json.dumps(said))
"""


def test_pytest_itself_reads_the_added_markers(tmp_path: Path) -> None:
    expected = {}
    for number, ((name, _), marked) in enumerate(WHOLE_LINES.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        old, _ = old_and_new(marked)
        (folder / name).write_text(old)
        config = read_pytest_config(folder)
        (folder / name).write_text(add_markers(old, config, LINES))
        expected[str(folder)] = [name, [*config.markers, *LINES]]
    environ = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    command = [sys.executable, "-c", ASK_PYTEST, *expected]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == expected


A, B = f'"{ONE}"', f'"{TWO}"'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("markers = []", f"markers = [\n    {A},\n    {B},\n]"),
        ("markers = [ ] # c", f"markers = [ {A}, {B} ] # c"),
        ('markers = ["a"]', f'markers = ["a", {A}, {B}]'),
        ('markers = [ "a" ]', f'markers = [ "a", {A}, {B} ]'),
        ("markers = ['a',]", f"markers = ['a', '{ONE}', '{TWO}',]"),
        ('markers = ["a" , "b]" ,]', f'markers = ["a" , "b]" , {A}, {B},]'),
        ('markers = [\n  "a"\n]', f'markers = [\n  "a",\n  {A},\n  {B}\n]'),
        ('markers = [\n  "a" # c\n]', f'markers = [\n  "a", # c\n  {A},\n  {B}\n]'),
        ('markers = [\n  "a"\n  ,\n]', f'markers = [\n  "a"\n  ,\n  {A},\n  {B},\n]'),
        ('markers = ["a",\n  "b"]', f'markers = ["a",\n  "b",\n  {A},\n  {B}]'),
        ('markers = ["a",\n  "b",]', f'markers = ["a",\n  "b",\n  {A},\n  {B},]'),
        ('markers = ["a",\n]', f'markers = ["a",\n    {A},\n    {B},\n]'),
        ('markers = ["""a"""", "]"]', f'markers = ["""a"""", "]", {A}, {B}]'),
        ('markers = "a: b"', f'markers = "a: b\\n{ONE}\\n{TWO}"'),
        ("markers = '''a\nb'''", f"markers = '''a\nb\n{ONE}\n{TWO}'''"),
        ('markers = """a\n \tb"""', f'markers = """a\n \tb\n \t{ONE}\n \t{TWO}"""'),
    ],
)
def test_values_of_ini_options(tmp_path: Path, old: str, new: str) -> None:
    assert added(tmp_path, "pyproject.toml", f"{HEADER}{old}\n") == f"{HEADER}{new}\n"


def test_inline_tables(tmp_path: Path) -> None:
    old = 'tool = {x = {markers = ["a"]}, pytest = {ini_options = {markers = ["a"], b = 1}}}\n'
    new = old.replace('["a"], b', f'["a", {A}, {B}], b')
    assert added(tmp_path, "pyproject.toml", old) == new


REFUSED = {
    "pyproject.toml": [
        HEADER + "markers = 'a: b'\n",
        HEADER + 'markers = """a: b\\\n"""\n',
        HEADER + "markers = 3\n",
        'tool = {pytest = {ini_options = {addopts = "-q"}}}\n',
        "[tool]\npytest = {}\n",
    ],
    "pytest.ini": ["[pytest]\nmarkers = a\n[odd\n[more]\n\n"],
}


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, texts in REFUSED.items() for text in texts]
)
def test_refuses_in_one_line(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_bytes(text.encode())
    config = read_pytest_config(tmp_path)
    assert config.path == name
    with pytest.raises(CannotEdit) as caught:
        add_markers(text, config, LINES)
    message = str(caught.value)
    assert message.startswith(f"{name}:{config.line}: ")
    assert "--no-config-edit" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("name", "text", "start"),
    [
        ("README", "", "no pytest configuration is in force; "),
        ("pytest.ini", "markers\n", "pytest.ini:1: unexpected line: 'markers'; "),
        ("pytest.toml", '[pytest]\nmarkers = "a"\n', "pytest.toml:2: markers must be a list"),
        ("pyproject.toml", "\ufeff" + HEADER, "pyproject.toml:1: Invalid statement"),
    ],
)
def test_refuses_what_pytest_does_not_read(
    tmp_path: Path, name: str, text: str, start: str
) -> None:
    (tmp_path / name).write_bytes(text.encode())
    with pytest.raises(CannotEdit) as caught:
        add_markers(text, read_pytest_config(tmp_path), LINES)
    assert str(caught.value).startswith(start)


def test_refuses_a_text_that_is_no_longer_what_was_read() -> None:
    config = PytestConfig("pytest.ini", "pytest", 1, "ini")
    for text in ("markers\n", "[other]\na = 1\n"):
        with pytest.raises(CannotEdit, match=r"^pytest\.ini:1: "):
            add_markers(text, config, LINES)
    assert not contains_markers("markers\n", config, LINES)


TEXTS = {"pytest.ini": "[pytest]\nmarkers = a\n", "pytest.toml": "[pytest]\nmarkers = ['a']\n"}
RIGHT = {"pytest.ini": (20, f"\n {ONE}"), "pytest.toml": (23, f", '{ONE}'")}
WRONG = {
    "more than the markers": {
        "pytest.ini": (20, f"\n {ONE}\nnew = 1"),
        "pytest.toml": (23, f", '{ONE}']\nnew = [1"),
    },
    "other markers": {"pytest.ini": (20, "\n b"), "pytest.toml": (23, ", 'b'")},
    "nothing": {"pytest.ini": (0, "# x\n"), "pytest.toml": (0, "# x\n")},
    "broken": {"pytest.ini": (0, "x\n"), "pytest.toml": (0, "x\n")},
}


def splice_with(name: str, made: tuple[int, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Add a marker where the search for a place proposes ``made``."""
    config = PytestConfig(name, "pytest", 1, "ini" if name == "pytest.ini" else "toml")
    for search in ("_ini_splices", "_toml_splices"):
        monkeypatch.setattr(marker_registry, search, lambda *_: [marker_registry._Splice(*made)])
    return add_markers(TEXTS[name], config, [ONE])


@pytest.mark.parametrize("name", TEXTS)
def test_an_edit_that_reads_back_right_is_made(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ONE in splice_with(name, RIGHT[name], monkeypatch)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("wrong", WRONG)
def test_an_edit_that_reads_back_wrong_is_not_made(
    name: str, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CannotEdit):
        splice_with(name, WRONG[wrong][name], monkeypatch)


NO_SECTION = {
    "setup.cfg": ("[metadata]\r\nname = x", "[tool:pytest]"),
    "tox.ini": ("[tox]\nenvlist = py\n\n", "[pytest]"),
    "pytest.ini": ("", "[pytest]"),
    "pyproject.toml": ("[project]\nname = 'x'\n", "[tool.pytest.ini_options]"),
}


@pytest.mark.parametrize("name", NO_SECTION)
def test_a_section_where_there_is_none(tmp_path: Path, name: str) -> None:
    text, header = NO_SECTION[name]
    config = PytestConfig(path=name, syntax="toml" if name.endswith("toml") else "ini")

    new = add_markers(text, config, LINES)

    assert new.startswith(text)
    assert header in new
    assert new.count("\n") == new.count("\r\n") or "\r" not in text
    (tmp_path / name).write_bytes(new.encode())
    written = read_pytest_config(tmp_path)
    assert (written.path, written.markers, written.is_in_force) == (name, LINES, True)


@pytest.mark.parametrize("line", ["two\nlines", " indented: x", "cr\rline", ""])
@pytest.mark.parametrize("name", ["pytest.ini", "pytest.toml"])
def test_a_line_that_reads_back_differently_is_refused(
    tmp_path: Path, name: str, line: str
) -> None:
    text = "[pytest]\n"
    (tmp_path / name).write_text(text)
    config = read_pytest_config(tmp_path)
    if name == "pytest.toml":  # a TOML string holds any text
        new = add_markers(text, config, [line])
        assert tomllib.loads(new) == {"pytest": {"markers": [line]}}
        return
    with pytest.raises(CannotEdit):
        add_markers(text, config, [line])


def test_only_missing_markers_are_added(tmp_path: Path) -> None:
    old = '[pytest]\nmarkers = ["run_on: of the owner"]\n'
    (tmp_path / "pytest.toml").write_text(old)
    config = read_pytest_config(tmp_path)
    assert missing_markers(config, LINES) == (TWO,)
    assert not contains_markers(old, config, LINES)
    assert contains_markers(old, config, [ONE])
    new = add_markers(old, config, LINES)
    assert new == f'[pytest]\nmarkers = ["run_on: of the owner", "{TWO}"]\n'


def test_a_marker_given_twice_is_added_once(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    config = read_pytest_config(tmp_path)
    assert missing_markers(config, [ONE, ONE]) == (ONE,)


def test_the_templates_are_where_they_are_looked_for() -> None:
    assert (templates_folder() / "markers.toml.j2").is_file()
    assert (templates_folder() / "markers.ini.j2").is_file()


@given(st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from("\"'"))
@QUICK
def test_toml_strings_read_back(value: str, quote: str) -> None:
    assert tomllib.loads(f"a = {toml_string(value, quote)}") == {"a": value}


# Random configurations


def is_insertion(old: str, new: str) -> bool:
    """Tell whether ``new`` is ``old`` with one contiguous insertion."""
    size = len(new) - len(old)
    same = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), len(old))
    return any(new[:at] + new[at + size :] == old for at in range(same + 1))


def is_insertion_with_comma(old: str, new: str) -> bool:
    commas = [at for at, character in enumerate(new) if character == ","]
    return any(is_insertion(old, new[:at] + new[at + 1 :]) for at in commas)


WORD = st.text("abc-_: ()[]#,;'\\é", min_size=1, max_size=8).map(lambda word: f"m{word}".strip())
COMMENT = st.sampled_from(["", "# note", "# [markers] = ],", '# "quoted', "#"])
GAP = st.sampled_from(["", " ", "\n", "\n    ", "\n\t", " # c ]\n", "\n\n  # d, \n  "])


@st.composite
def toml_arrays(draw: st.DrawFn) -> str:
    items = draw(st.lists(WORD, max_size=4, unique=True))
    quote = draw(st.sampled_from("\"'"))
    parts = [draw(GAP)]
    for number, item in enumerate(items):
        comma = "," if number < len(items) - 1 or draw(st.booleans()) else ""
        parts += [toml_string(item, quote), draw(st.sampled_from(["", " ", "\n  "])), comma]
        parts.append(draw(GAP))
    return f"[{''.join(parts)}]"


@st.composite
def toml_texts(draw: st.DrawFn) -> str:
    body = draw(
        st.lists(
            st.sampled_from(["addopts = '-q'", "n=1 # c", 'w = """\nmarkers = [\n"""', "", "# c"]),
            unique=True,
        )
    )
    if draw(st.booleans()):
        body.append(f"markers{draw(st.sampled_from(['=', ' = ']))}{draw(toml_arrays())}")
    body = draw(st.permutations(body))
    above = draw(st.sampled_from(["", "[project]\nname = 'x'\n\n", "[tool.a]\nmarkers = ['a']\n"]))
    below = draw(st.sampled_from(["", "\n", "\n# about b\n[tool.b]\nmarkers = [] # b\n", "\n \n"]))
    text = f"{above}{HEADER}" + "\n".join(body) + below
    return draw(newlines(text))


@st.composite
def ini_texts(draw: st.DrawFn) -> str:
    word = WORD.filter(lambda text: text[0] not in "#;[")
    indent = draw(st.sampled_from(["    ", "\t", "  "]))
    body = draw(
        st.lists(st.sampled_from(["addopts = -q", "xa: b\n\n  c", "# c", "", "; d"]), unique=True)
    )
    if draw(st.booleans()):
        key = draw(st.sampled_from(["markers =", "markers=", "markers : ", "markers = first: x"]))
        lines = draw(st.lists(st.one_of(word, COMMENT), max_size=4))
        body.append("\n".join([key, *(indent + line for line in lines)]))
    body = draw(st.permutations(body))
    above = draw(st.sampled_from(["", "# top\n\n", "[tox]\nmarkers = a\n\n"]))
    below = draw(st.sampled_from(["", "\n", "\n\n\n", "\n# about b\n[b]\nmarkers = x\n"]))
    return draw(newlines(f"{above}[pytest]\n" + "\n".join(body) + below))


def newlines(text: str) -> st.SearchStrategy[str]:
    return st.sampled_from([text, text.replace("\n", "\r\n"), text.rstrip("\n")])


@given(toml_texts())
@QUICK
def test_any_toml_text_gets_an_insertion_and_nothing_else(text: str) -> None:
    before = tomllib.loads(text)["tool"]["pytest"]["ini_options"].pop("markers", [])
    config = PytestConfig(
        "pyproject.toml", "tool.pytest.ini_options", 1, "toml", markers=tuple(before)
    )
    new = add_markers(text, config, LINES)
    assert is_insertion(text, new) or is_insertion_with_comma(text, new)
    old_document, document = tomllib.loads(text), tomllib.loads(new)
    table = document["tool"]["pytest"]["ini_options"]
    assert table.pop("markers") == [*before, *LINES]
    old_document["tool"]["pytest"]["ini_options"].pop("markers", [])
    assert document == old_document
    assert ("\r\n" in text) <= ("\n" not in new.replace("\r\n", ""))


@given(ini_texts())
@QUICK
def test_any_ini_text_gets_an_insertion_and_nothing_else(text: str) -> None:
    config = PytestConfig("pytest.ini", "pytest", 1, "ini")
    new = add_markers(text, config, LINES)
    assert is_insertion(text, new)
    old_sections = {name: dict(it) for name, it in iniconfig.IniConfig("", text).sections.items()}
    sections = {name: dict(it) for name, it in iniconfig.IniConfig("", new).sections.items()}
    before = old_sections["pytest"].pop("markers", "").split("\n")
    after = sections["pytest"].pop("markers").split("\n")
    assert [line for line in after if line] == [line for line in before if line] + list(LINES)
    assert sections == old_sections
    assert ("\r\n" in text) <= ("\n" not in new.replace("\r\n", ""))
