"""The page that ``inspect`` prints for a person."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from devicegen.competing import keyword_notes
from devicegen.facts.conftests import Conftest
from devicegen.facts.source_tree import Location
from devicegen.inspection import Inspection

SHOWN = 20  # of a long list; --json has all
WIDTH = 100  # where the output is no terminal


def print_page(inspection: Inspection) -> None:
    """Print facts, decisions and notes to stdout; plain text where that is no terminal."""
    console = Console(
        file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else WIDTH
    )
    console.print(f"[bold]{escape(str(inspection.facts.top))}[/]")
    for title, rows in _sections(inspection):
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
        table.add_column(style="cyan", no_wrap=True)
        table.add_column(overflow="fold")
        for name, text in rows:
            table.add_row(escape(name), escape(text))
        if table.rows:
            console.print(f"\n[bold]{title}[/]")
            console.print(table)


def _sections(inspection: Inspection) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    yield "Facts", list(_facts(inspection))
    yield "Conftests", [(each.path, _conftest(each)) for each in inspection.facts.described]
    yield (
        "Device handling of the project's own",
        _limited(
            (str(each.where), f"{each.kind}, {_when(each.when)}: {each.source}")
            for each in inspection.facts.device_setups
        ),
    )
    gpu_like = inspection.details.style.gpu_like
    count = len(gpu_like)
    title = f"{count} test{'s' * (count != 1)} look like GPU tests and carry no marker"
    yield title, _limited((str(each.where), f"{each.name}: {each.why}") for each in gpu_like)
    if inspection.decisions:
        yield (
            "Decisions",
            [(d.subject, f"{d.answer}  ({d.reason})") for d in inspection.decisions.listed],
        )
    yield "Notes", [("", note) for note in _notes(inspection)]
    if inspection.refusal:
        yield "Refused", [("", inspection.refusal)]


def _facts(inspection: Inspection) -> Iterator[tuple[str, str]]:
    facts, details = inspection.facts, inspection.details
    config = facts.pytest_config
    said = f"{config.path}:{config.line}" if config.is_in_force else "none in force"
    yield "pytest configuration", f"{said}{f' ({config.problem})' if config.problem else ''}"
    if config.addopts:
        yield "addopts", " ".join(config.addopts)
    if config.testpaths:
        yield "testpaths", " ".join(config.testpaths)
    for framework in details.frameworks:
        required = ", ".join(f"{text} ({where})" for text, where in framework.required[:3])
        imported = _some(framework.imported)
        yield (
            framework.name,
            "; ".join(
                words
                for words in (
                    f"required: {required}" if required else "",
                    f"imported: {imported}" if imported else "",
                )
                if words
            ),
        )
    style = details.style
    yield (
        "tests",
        (
            f"{len(facts.test_files)} files: {style.functions} functions, {style.test_cases} "
            f"TestCase classes ({style.tensorflow_test_cases} of tf.test), {style.mains} files "
            f"with a main, {style.marked} with run_on or no_device_scope"
        ),
    )
    if style.unreadable:
        yield "not readable", ", ".join(style.unreadable[:SHOWN])
    runners = details.runners
    if runners.commands:
        yield "pytest is started", _some(each.where for each in runners.commands)
    for each in runners.commands:
        if each.telling or each.ranks:
            words = ", ".join([*each.telling, *(["under a launcher of ranks"] * each.ranks)])
            yield "", f"{each.where}: {words}"
    for environment in runners.tox:
        lacks = environment.lacks(inspection.needed)
        passes = f"passes no {', '.join(lacks)}" if lacks else "passes all"
        yield "tox", f"{environment.name} ({environment.where}) {passes}"
    if runners.bazel or runners.bazel_tests:
        yield "Bazel", f"{len(runners.bazel_tests)} test rules, {len(runners.bazel_gpu)} GPU tags"
    yield "pytest-xdist", _some(facts.xdist) or "not mentioned"


def _conftest(conftest: Conftest) -> str:
    if conftest.owner == "devicegen":
        return "the harness"
    words = ["holds a harness's block"] if conftest.owner == "both" else []
    if conftest.ejected:
        words.append(f"a harness that was ejected (line {conftest.ejected})")
    if conftest.obstacle:
        words.append(conftest.obstacle)
    if conftest.hooks:
        words.append("hooks " + ", ".join(dict.fromkeys(each.name for each in conftest.hooks)))
    for each in conftest.shadowed:
        words.append(f"{each.name} at line {each.line} is replaced by a later one: it never runs")
    if conftest.options:
        words.append("options " + ", ".join(each.name for each in conftest.options))
    autouse = [each.name for each in conftest.fixtures if each.autouse]
    if conftest.fixtures:
        words.append(
            f"{len(conftest.fixtures)} fixtures"
            + (f", autouse: {', '.join(autouse)}" if autouse else "")
        )
    if conftest.imports:
        words.append("imports " + ", ".join(dict.fromkeys(e.name for e in conftest.imports)))
    return "; ".join(words) or "no hook, no fixture"


def _when(when: str) -> str:
    words = {"import": "at import", "start": "before the tests"}
    return words.get(when, "in a test or what it calls")


def _notes(inspection: Inspection) -> list[str]:
    notes = list(inspection.facts.problems)
    if inspection.decisions:
        notes += inspection.decisions.notes
    if inspection.change_set:
        notes += inspection.change_set.notes
    return [*notes, *keyword_notes(inspection.facts.described, inspection.names)]


def _some(places: Iterable[Location]) -> str:
    found = list(places)
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return ", ".join(map(str, found[:3])) + more


def _limited(rows: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    found = list(rows)
    if len(found) > SHOWN:
        return [*found[:SHOWN], ("", f"and {len(found) - SHOWN} more; --json lists all")]
    return found
