"""The merge's policy, as its module states it: properties, then each sentence by example."""

from __future__ import annotations

import ast
import random
import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devicegen.merge import Merged, chunks, conflict_lines, has_come, likeness, merge, merge_lines
from devicegen.python_code import is_python, says_the_same

# Few different lines, so that they repeat and stand in each other's place.
LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "d\n", "\n", "if x:\n"]), max_size=12)


@st.composite
def edited(draw: st.DrawFn, lines: list[str]) -> list[str]:
    """Draw ``lines`` with some of them taken out, replaced, and others put in."""
    out = list(lines)
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(out)))
        new = draw(st.lists(st.sampled_from(["a\n", "b\n", "new 1\n", "new 2\n"]), max_size=2))
        out[place : place + draw(st.integers(0, 2))] = new
    return out


@st.composite
def three(draw: st.DrawFn) -> tuple[str, str, str]:
    base = draw(LINES)
    return "".join(base), "".join(draw(edited(base))), "".join(draw(edited(base)))


def counted(text: str) -> Counter[str]:
    return Counter(text.splitlines())


def resolved(merged: Merged, side: int) -> str:
    """Return the text with each conflict resolved to one side: 0 for the left, 1 for the right."""
    pattern = r"^<<<<<<< [^\n]*\n((?:.*\n)*?)=======\n((?:.*\n)*?)>>>>>>> [^\n]*\n"
    return re.sub(pattern, lambda match: match[side + 1], merged.text, flags=re.MULTILINE)


@given(three())
def test_what_the_user_added_is_there(texts: tuple[str, str, str]) -> None:
    base, theirs, new = texts
    merged = merge_lines(base, theirs, new)

    assert counted(theirs) - counted(base) <= counted(merged.text)
    assert counted(theirs) - counted(base) <= counted(resolved(merged, 0))


@given(three())
def test_what_is_new_is_there_too(texts: tuple[str, str, str]) -> None:
    base, theirs, new = texts

    assert counted(new) - counted(base) <= counted(merge_lines(base, theirs, new).text)


@given(three())
def test_what_neither_side_has_is_gone_but_for_conflicts(texts: tuple[str, str, str]) -> None:
    base, theirs, new = texts
    merged = merge_lines(base, theirs, new)

    if not merged.conflicts:
        assert counted(merged.text) <= counted(theirs) | counted(new) | (
            counted(theirs) + counted(new) - counted(base)
        )


@given(three())
def test_the_sides_can_be_exchanged(texts: tuple[str, str, str]) -> None:
    base, theirs, new = texts
    one, other = merge_lines(base, theirs, new), merge_lines(base, new, theirs)

    assert len(one.conflicts) == len(other.conflicts)
    assert resolved(one, 0) == resolved(other, 1)


@given(LINES, st.data())
def test_where_one_side_did_nothing_the_other_is_taken(
    base: list[str], data: st.DataObject
) -> None:
    text, other = "".join(base), "".join(data.draw(edited(base)))

    assert merge_lines(text, other, text).text == other
    assert merge_lines(text, text, other).text == other
    both = merge_lines(text, other, other)
    assert (both.text, both.conflicts) == (other, ())


@given(three())
def test_each_conflict_is_found_where_it_is_said_to_be(texts: tuple[str, str, str]) -> None:
    merged = merge_lines(*texts)

    assert conflict_lines(merged.text) == [conflict.line for conflict in merged.conflicts]
    assert resolved(merged, 0).count("<<<<") == 0


@given(three())
def test_a_merge_again_changes_nothing(texts: tuple[str, str, str]) -> None:
    """With the new text as the base, as the record has it after a merge."""
    base, theirs, new = texts
    merged = merge_lines(base, theirs, new)

    again = merge_lines(new, merged.text, new)
    assert (again.text, again.conflicts) == (merged.text, ())


@given(three())
def test_chunks_are_the_whole_of_each_text(texts: tuple[str, str, str]) -> None:
    sides = [text.splitlines(keepends=True) for text in texts]
    found = list(chunks(*sides))

    for name, side in zip(("base", "theirs", "new"), sides, strict=True):
        spans = [getattr(chunk, name) for chunk in found]
        assert [line for span in spans for line in span.of(side)] == side
    for chunk in found:
        pieces = [span.of(side) for span, side in zip(
            (chunk.base, chunk.theirs, chunk.new), sides, strict=True)]  # fmt: skip
        if pieces[0] and pieces[0] == pieces[1] == pieces[2]:
            assert all(pieces)


# Python: the layout says nothing

STATEMENTS = (
    "import {0}",
    "{0} = ['{1}', 'x']",
    "{0}({1}, key='it is')",
    "@{0}\ndef {1}(a, b=(1)):\n    '''Doc.'''\n    return a + b",
    "if {0}:\n    {1} = 1\nelif {1}:\n    pass\nelse:\n    del {0}",
    "class {0}({1}):\n    x = 1\n\n    def y(self):\n        for z in self:\n            yield z",
    "try:\n    {0}()\nexcept {1} as error:\n    raise Value('no') from error\nfinally:\n    {1}()",
    "with {0} as {1}:\n    while {1}:\n        break",
    "match {0}:\n    case [{1}, 2]:\n        pass\n    case _:\n        {1} = '''a\n  b'''",
    "async def {0}():\n    async with {1}:\n        await {1}",
)
NAMES = ("one", "two", "three", "four", "five")


@st.composite
def modules(draw: st.DrawFn) -> tuple[str, str, str]:
    """Draw a module, and two that began as it and had statements added, taken out, exchanged."""
    statement = st.builds(
        lambda form, one, two: form.format(one, two),
        st.sampled_from(STATEMENTS),
        st.sampled_from(NAMES),
        st.sampled_from(NAMES),
    )
    base = draw(st.lists(statement, min_size=1, max_size=6))
    sides = []
    for _ in range(2):
        side = list(base)
        for _ in range(draw(st.integers(0, 2))):
            place = draw(st.integers(0, len(side)))
            side[place : place + draw(st.integers(0, 1))] = draw(st.lists(statement, max_size=1))
        sides.append(side)
    return tuple("".join(f"{each}\n\n" for each in side) for side in (base, *sides))  # type: ignore[return-value]


def two_spaces(text: str) -> str:
    """Indent by two; a string of several lines is left alone by being the only one here."""
    return re.sub(r"^( {4})+(?! b''')", lambda match: match[0][::2], text, flags=re.MULTILINE)


FORMATTERS = {
    "unparsed": lambda text: ast.unparse(ast.parse(text)) + "\n",
    "carriage returns": lambda text: text.replace("\n", "\r\n"),
    "tabs": lambda text: re.sub("^( {4})+", lambda m: "\t" * (len(m[0]) // 4), text, flags=re.M),
    "two spaces": two_spaces,
    "blank lines": lambda text: text.replace("\n\n", "\n\n\n").rstrip("\n"),
}


@pytest.mark.parametrize(
    "formatter",
    [pytest.param(name, marks=[pytest.mark.slow] * (name != "two spaces")) for name in FORMATTERS],
)
@given(texts=modules())
@settings(max_examples=60, deadline=None)
def test_a_formatter_changes_nothing_about_a_merge(
    formatter: str, texts: tuple[str, str, str]
) -> None:
    base, theirs, new = texts
    plain = merge(base, theirs, new)
    formatted = merge(base, FORMATTERS[formatter](theirs), new)

    if not plain.conflicts and not formatted.conflicts:
        assert says_the_same(plain.text, formatted.text)


@given(modules())
@settings(max_examples=40, deadline=None)
def test_a_merge_of_python_without_conflict_is_python(texts: tuple[str, str, str]) -> None:
    merged = merge(*texts)

    if all(is_python(text) for text in texts) and not merged.conflicts:
        assert is_python(merged.text)


@pytest.mark.slow
@given(modules(), st.integers(0, 2**32))
@settings(deadline=None)
def test_each_statement_that_the_user_added_is_there(
    texts: tuple[str, str, str], seed: int
) -> None:
    base, theirs, new = texts
    formatter = random.Random(seed).choice(list(FORMATTERS.values()))
    merged = merge(base, formatter(theirs), new)

    text = re.sub(r"\s+|[()'\"]", "", merged.text)
    for statement in set(theirs.split("\n\n")) - set(base.split("\n\n")):
        for line in statement.splitlines():
            assert re.sub(r"\s+|[()'\"]", "", line) in text


# Each sentence of the policy

BASE = '''\
"""A harness."""

import os
import sys


def one(first, second):
    """Return one."""
    return {"a": first, "b": second}


def two():
    if os.name == "nt":
        return sys.platform
    # nothing to say
    return None


LAST = ("a", "b")
'''


def change(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


NEWER = change(BASE, ("return sys.platform", "return sys.version"), ('("a", "b")', '("a", "c")'))


@pytest.mark.parametrize(
    ("edit", "conflicts"),
    [
        (("import sys\n", "import sys\nimport re\n"), 0),
        (("LAST = ", "# mine\nFIRST = 1\n\n\nLAST = "), 1),
        (('"""Return one."""', '"""Return it."""  # mine'), 0),
        (("    # nothing to say\n", ""), 1),
        (("    return None", "    return 5"), 0),
        (("def one(first, second):", "def one(first, second, third=None):"), 0),
        (("return sys.platform", "return sys.copyright"), 1),
        (("return sys.platform", "return sys.version"), 0),
        (('("a", "b")', '("a", "c")'), 0),
    ],
    ids=repr,
)
@pytest.mark.parametrize("formatter", ["none", *FORMATTERS])
def test_edits(edit: tuple[str, str], conflicts: int, formatter: str) -> None:
    if formatter == "unparsed" and "#" in "".join(edit) + BASE:
        pytest.skip("it drops comments, which are edits")
    theirs = FORMATTERS.get(formatter, str)(change(BASE, edit))
    merged = merge(BASE, theirs, NEWER)

    assert len(merged.conflicts) == conflicts
    if not conflicts:
        expected = edit if edit[1] not in NEWER else ("", "")
        assert says_the_same(merged.text, change(NEWER, expected) if expected[0] else NEWER)


def test_both_sides_of_a_conflict_and_its_place_are_shown() -> None:
    theirs = change(BASE, ("return sys.platform", "return 1"))

    merged = merge(BASE, theirs, NEWER, ("tests/conftest.py as it is", "devicegen 9"))

    assert merged.text == change(
        NEWER,
        (
            "        return sys.version\n",
            "<<<<<<< tests/conftest.py as it is\n        return 1\n=======\n"
            "        return sys.version\n>>>>>>> devicegen 9\n",
        ),
    )
    (conflict,) = merged.conflicts
    assert merged.text.splitlines()[conflict.line - 1].startswith("<<<<<<<")
    assert conflict.base.of(BASE.splitlines()) == ["        return sys.platform"]
    assert conflict_lines(merged.text) == [conflict.line]


def test_what_the_user_took_out_stays_out() -> None:
    theirs = BASE.replace('def one(first, second):\n    """Return one."""\n'
                          '    return {"a": first, "b": second}\n\n\n', "")  # fmt: skip

    merged = merge(BASE, theirs, NEWER)

    assert not merged.conflicts
    assert "def one" not in merged.text
    assert "sys.version" in merged.text


def test_imports_of_both_sides_are_taken() -> None:
    theirs = change(BASE, ("import sys\n", "import sys\nimport re\nimport typing\n"))
    newer = change(NEWER, ("import sys\n", "import sys\nimport json\nimport re\n"))

    merged = merge(BASE, theirs, newer)

    assert not merged.conflicts
    assert "import os\nimport sys\nimport re\nimport typing\nimport json\n\n" in merged.text


def test_sorted_imports_are_no_edit_beside_one() -> None:
    theirs = change(BASE, ("import os\nimport sys", "import sys\nimport re\nimport os"))
    newer = change(NEWER, ("import os\n", "import json\nimport os\n"))

    merged = merge(BASE, theirs, newer)

    assert not merged.conflicts
    assert "import json\nimport os\nimport sys\nimport re\n\n" in merged.text


def test_what_was_formatted_is_said() -> None:
    edit = ("return None", "return 5")

    assert merge(BASE, FORMATTERS["tabs"](change(BASE, edit)), NEWER).is_laid_out_anew
    assert merge(BASE, FORMATTERS["tabs"](BASE), NEWER).is_laid_out_anew
    assert not merge(BASE, change(BASE, edit), NEWER).is_laid_out_anew
    assert not merge(BASE, BASE, NEWER).is_laid_out_anew


def test_a_text_that_is_no_python_is_merged_by_lines() -> None:
    theirs = change(BASE, ("import sys\n", "import sys\nimport (\n"))

    merged = merge(BASE, theirs, NEWER)

    assert not merged.conflicts
    assert merged.text == change(NEWER, ("import sys\n", "import sys\nimport (\n"))


def test_where_lines_would_make_no_python_statements_are_merged() -> None:
    """The user changed the quotes of a string in which the new text has such quotes."""
    words = ["one", "two", "three", "four", "five"]

    def module(quotes: str, lines: list[str], last: str) -> str:
        body = "\n".join(lines)
        string = f"x = {quotes}\n{body}\n{quotes}\n"
        return f"@x\ndef y():\n    z\n\n\nfirst = 1\n{string}middle = 1\n\n{last}\n"

    base = module('"""', words, "last = 1")
    theirs = module("'''", ["ONE", *words[1:4], "FIVE"], "last = 1")
    newer = module('"""', [*words[:3], "''' new", *words[3:]], "last = 2").replace("z", "new")
    assert not merge_lines(base, theirs, newer).conflicts
    assert not is_python(merge_lines(base, theirs, newer).text)

    merged = merge(base, theirs, newer)

    assert len(merged.conflicts) == 1
    for side, words_there in ((0, ("ONE", "FIVE")), (1, ("one", "''' new"))):
        text = resolved(merged, side)
        assert is_python(text)
        assert "    new\n" in text
        assert text.endswith("last = 2\n")
        assert all(word in text for word in words_there)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("<<<<<<< a\n=======\n>>>>>>> b\n", [1]),
        ("x\n<<<<<<< a\r\n1\r\n=======\r\n2\r\n>>>>>>> b\r\n", [2]),
        ("<<<<<<< a\n||||||| base\n=======\n>>>>>>> b\n" * 2, [1, 5]),
        ("<<<<<<< a\n<<<<<<< a\n=======\n>>>>>>> b\n", [2]),
        ("title\n=======\n", []),
        ("<<<<<<< a\n>>>>>>> b\n=======\n", []),
        (" <<<<<<< a\n =======\n >>>>>>> b\n", []),
        ("<<<<<<< a\n========\n>>>>>>> b\n", []),
    ],
)
def test_markers(text: str, found: list[int]) -> None:
    assert conflict_lines(text) == found


def test_what_has_come_and_what_was_put_back() -> None:
    theirs = change(BASE, ("return sys.platform", "return 1"), ("import os\n", "import os  # x\n"))
    merged = merge(BASE, theirs, NEWER)
    places = [(conflict.base, conflict.new) for conflict in merged.conflicts]

    assert len(places) == 1
    for side in (0, 1):
        text = resolved(merged, side)
        assert has_come(BASE, text, NEWER, places)
        assert has_come(BASE, FORMATTERS["tabs"](text), NEWER, places)
    assert not has_come(BASE, theirs, NEWER, places)
    assert not has_come(BASE, FORMATTERS["carriage returns"](theirs), NEWER, places)
    assert not has_come(BASE, BASE, NEWER, places)


def test_likeness() -> None:
    assert likeness(BASE, FORMATTERS["tabs"](BASE)) == 1
    assert likeness(BASE, change(BASE, ("return None", "return 5"))) > 0.9
    assert likeness(BASE, "import os\n\n\ndef fixture():\n    return 1\n") < 0.2
    assert likeness("", "x = 1\n") == 0
