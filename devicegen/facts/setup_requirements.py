"""Requirements in ``setup.cfg`` and in ``setup.py``, which is parsed and never run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from devicegen.facts.ini_files import IniFile, read_ini
from devicegen.facts.requirement_record import Findings
from devicegen.facts.source_tree import Location
from devicegen.facts.static_values import ModuleValues, Text, Unknown, Value

SETUP_CFG = "setup.cfg"
SETUP_PY = "setup.py"
SETUP_KEYWORDS = ("install_requires", "tests_require", "extras_require", "python_requires")


def read_setup_cfg(findings: Findings) -> None:
    """Read ``[options]`` and ``[options.extras_require]`` of the top's ``setup.cfg``.

    The keys and list formats are setuptools':
    https://setuptools.pypa.io/en/latest/userguide/declarative_config.html.
    """
    file = read_ini(findings, SETUP_CFG)
    if file is None:
        return
    python = file.value("options", "python_requires")
    if python:
        findings.floor(python.strip(), file.where("options", "python_requires"))
    _cfg_list(findings, file, "options", "install_requires", "dependencies")
    _cfg_list(findings, file, "options", "tests_require", "tests_require")
    for key in file.keys("options.extras_require"):
        group, _ = _extra(key)
        _cfg_list(findings, file, "options.extras_require", key, group)


def _cfg_list(findings: Findings, file: IniFile, section: str, key: str, group: str) -> None:
    value = (file.value(section, key) or "").strip()
    if value.startswith("file:"):
        for name in value.removeprefix("file:").split(","):
            findings.named_files.append((name.strip(), group, file.where(section, key)))
        return
    for entry, where in file.entries(section, key):
        # setuptools reads a list on one line as separated by semicolons.
        for each in entry.split(";") if "\n" not in value and entry == value else [entry]:
            if each.strip():
                findings.add(each.strip(), group, where)


def _extra(key: str) -> tuple[str, str]:
    """Return group and marker of a key of ``extras_require``, which may be ``name:marker``."""
    name, _, marker = key.partition(":")
    return (f"extra:{canonicalize_name(name)}" if name else "dependencies"), marker.strip()


def read_setup_py(findings: Findings) -> None:
    """Read the keywords of the ``setup()`` call in the top's ``setup.py``, from its syntax tree.

    Literals and names bound to them at module level are followed. What is computed stays unknown
    and becomes a problem; then texts anywhere in the file that name a distribution with a version
    are taken instead, as group ``literal``.
    """
    if SETUP_PY not in findings.tree.files:
        return
    text = findings.text(SETUP_PY)
    if text is None:
        return
    try:
        module = ast.parse(text)
        _SetupPy(findings, module).read()
    except SyntaxError as error:
        findings.broken(Location(SETUP_PY, error.lineno or 1), f"not Python: {error.msg}")
    except (ValueError, RecursionError, MemoryError) as error:
        findings.broken(Location(SETUP_PY, 1), f"not read: {error or type(error).__name__}")


class _SetupPy:
    def __init__(self, findings: Findings, module: ast.Module) -> None:
        self.findings = findings
        self.module = module
        self.values = ModuleValues(module)
        self.computed = False

    def read(self) -> None:
        for keyword, value in self._keywords():
            if keyword == "python_requires":
                self._python(value)
            elif keyword == "extras_require":
                self._extras(value)
            else:
                group = "dependencies" if keyword == "install_requires" else keyword
                self._entries(value, keyword, group)
        if self.computed:
            self._literals()

    def _keywords(self) -> Iterator[tuple[str, Value]]:
        for call in _setup_calls(self.module):
            for keyword in call.keywords:
                value = self.values.evaluate(keyword.value)
                if keyword.arg in SETUP_KEYWORDS:
                    yield keyword.arg, value
                elif keyword.arg is None and isinstance(value, dict):
                    yield from ((key, value[key]) for key in SETUP_KEYWORDS if key in value)

    def _unknown(self, line: int, what: str) -> None:
        self.computed = True
        self.findings.problem(Location(SETUP_PY, line), f"{what} is computed: not known")

    def _python(self, value: Value) -> None:
        if isinstance(value, Text):
            self.findings.floor(value.text, Location(SETUP_PY, value.line))
        elif isinstance(value, Unknown):
            self.findings.problem(
                Location(SETUP_PY, value.line), "python_requires is computed: not known"
            )

    def _extras(self, value: Value) -> None:
        if isinstance(value, Unknown):
            self._unknown(value.line, "extras_require")
        elif isinstance(value, dict):
            for key, entries in value.items():
                group, marker = _extra(key)
                self._entries(entries, f"extras_require[{key!r}]", group, marker)

    def _entries(self, value: Value, what: str, group: str, marker: str = "") -> None:
        entries: Sequence[Value] = value if isinstance(value, list) else [value]
        for entry in entries:
            if isinstance(entry, Text):
                # setuptools takes one text with an entry a line as a list.
                for line in filter(None, map(str.strip, entry.text.splitlines())):
                    self.findings.add(line, group, Location(SETUP_PY, entry.line), marker)
            elif isinstance(entry, Unknown):
                self._partly_known(entry, what, group, marker)

    def _partly_known(self, entry: Unknown, what: str, group: str, marker: str) -> None:
        name = re.match(r"([A-Za-z0-9][\w.-]*)\s*(?=[<>=!~\[;])", entry.prefix)
        if name:
            what = f"the version of {name[1]}"
            self.findings.add(name[1], group, Location(SETUP_PY, entry.line), marker)
        self._unknown(entry.line, what)

    def _literals(self) -> None:
        known = {(fact.name, fact.where) for fact in self.findings.facts}
        for node in ast.walk(self.module):
            if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
                continue
            where = Location(SETUP_PY, node.lineno)
            if (requirement := _versioned(node.value)) is None:
                continue
            if (canonicalize_name(requirement.name), where) not in known:
                self.findings.add(node.value, "literal", where)


def _setup_calls(module: ast.Module) -> Iterator[ast.Call]:
    for node in ast.walk(module):
        if isinstance(node, ast.Call):
            called = node.func
            if getattr(called, "id", None) == "setup" or getattr(called, "attr", None) == "setup":
                yield node


def _versioned(text: str) -> Requirement | None:
    if not any(sign in text for sign in "<>=~") or len(text) > 200:
        return None
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return None
    return requirement if requirement.specifier else None
