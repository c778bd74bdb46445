"""Requirements in ``pyproject.toml``: PEP 621, PEP 735, setuptools' dynamic files, poetry."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from devicegen.facts.requirement_record import MAX_ENTRY, Findings, line_of, lines_of
from devicegen.facts.source_tree import Location

PYPROJECT = "pyproject.toml"


def read_pyproject(findings: Findings) -> None:
    """Read the ``pyproject.toml`` at the top, where there is one."""
    if PYPROJECT not in findings.tree.files:
        return
    text = findings.text(PYPROJECT)
    if text is None:
        return
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        line = re.search(r"at line (\d+)", str(error))
        where = Location(PYPROJECT, int(line[1]) if line else 1)
        findings.broken(where, f"not TOML: {error}")
        return
    _Pyproject(findings, text, content).read()


class _Pyproject:
    def __init__(self, findings: Findings, text: str, content: dict[str, Any]) -> None:
        self.findings = findings
        self.text = text
        self.content = content

    def read(self) -> None:
        self._project()
        self._setuptools_dynamic()
        self._dependency_groups()
        self._poetry()

    def _table(self, *keys: str) -> dict[str, Any]:
        value: Any = self.content
        for key in keys:
            value = value.get(key, {}) if isinstance(value, dict) else {}
        return value if isinstance(value, dict) else {}

    def _where(self, *patterns: str) -> Location:
        return Location(PYPROJECT, line_of(self.text, *patterns))

    def _project(self) -> None:
        project = self._table("project")
        python = project.get("requires-python")
        if isinstance(python, str):
            self.findings.floor(python, self._where(_header("project"), _key("requires-python")))
        head = (_header("project"), _key("dependencies"))
        self._entries(project.get("dependencies"), "dependencies", head)
        for extra, entries in self._table("project", "optional-dependencies").items():
            head = (_header("project.optional-dependencies"), _key(extra))
            self._entries(entries, f"extra:{canonicalize_name(extra)}", head)

    def _entries(self, entries: Any, group: str, head: tuple[str, ...]) -> None:
        if not isinstance(entries, list):
            if entries is not None:
                self.findings.broken(self._where(*head), f"{group} is no list")
            return
        texts = [entry for entry in entries if isinstance(entry, str)]
        lines = lines_of(self.text, head, map(_string, texts))
        for entry, line in zip(texts, lines, strict=True):
            self.findings.add(entry, group, Location(PYPROJECT, line))

    def _setuptools_dynamic(self) -> None:
        """Note the files of https://setuptools.pypa.io/en/latest/userguide/pyproject_config.html."""
        dynamic = self._table("tool", "setuptools", "dynamic")
        where = self._where(_header("tool.setuptools.dynamic"))
        groups = [("dependencies", dynamic.get("dependencies"))]
        extras = dynamic.get("optional-dependencies")
        if isinstance(extras, dict):
            groups += [
                (f"extra:{canonicalize_name(name)}", value) for name, value in extras.items()
            ]
        for group, value in groups:
            files = value.get("file", []) if isinstance(value, dict) else []
            for file in [files] if isinstance(files, str) else files:
                if isinstance(file, str):
                    self.findings.named_files.append((file, group, where))

    def _dependency_groups(self) -> None:
        """Read ``[dependency-groups]`` (PEP 735); an included group's entries count for both."""
        groups = {
            canonicalize_name(name): (name, entries)
            for name, entries in self._table("dependency-groups").items()
        }
        for name in groups:
            self._dependency_group(f"group:{name}", name, groups, ())

    def _dependency_group(
        self, group: str, name: str, groups: dict[Any, tuple[str, Any]], through: tuple[str, ...]
    ) -> None:
        where = self._where(_header("dependency-groups"))
        if name in through:
            return self.findings.problem(where, f"{group} includes itself")
        if name not in groups:
            return self.findings.problem(where, f"{group} includes {name}, which is not there")
        written, entries = groups[name]
        head = (_header("dependency-groups"), _key(written))
        self._entries(entries, group, head)
        for entry in entries if isinstance(entries, list) else []:
            included = entry.get("include-group") if isinstance(entry, dict) else None
            if isinstance(included, str):
                inner = canonicalize_name(included)
                self._dependency_group(group, inner, groups, (*through, name))
        return None

    def _poetry(self) -> None:
        """Read poetry's tables: https://python-poetry.org/docs/dependency-specification/."""
        poetry = ("tool", "poetry")
        python = self._table(*poetry, "dependencies").get("python")
        if isinstance(python, str):
            where = self._where(_header("tool.poetry.dependencies"), _key("python"))
            self.findings.floor(poetry_specifier(python), where)
        self._poetry_table("dependencies", (*poetry, "dependencies"))
        self._poetry_table("group:dev", (*poetry, "dev-dependencies"))
        for group in self._table(*poetry, "group"):
            name = canonicalize_name(group)
            self._poetry_table(f"group:{name}", (*poetry, "group", group, "dependencies"))

    def _poetry_table(self, group: str, keys: tuple[str, ...]) -> None:
        for name, value in self._table(*keys).items():
            if name == "python":
                continue
            where = self._where(_header(".".join(keys)), _key(name))
            for entry in value if isinstance(value, list) else [value]:
                self._poetry_entry(name, entry, group, where)

    def _poetry_entry(self, name: str, entry: Any, group: str, where: Location) -> None:
        options = entry if isinstance(entry, dict) else {"version": entry}
        version = options.get("version", "*")
        if not isinstance(version, str):
            return self.findings.problem(where, f"{name}: version is no text")
        if options.get("optional") is True:
            group = self._poetry_extra(name)
        markers = [options["markers"]] if isinstance(options.get("markers"), str) else []
        if isinstance(options.get("python"), str):
            markers.append(_python_marker(poetry_specifier(options["python"])))
        marker = " and ".join(f"({each})" for each in markers if each)
        return self.findings.add(f"{name} {poetry_specifier(version)}", group, where, marker)

    def _poetry_extra(self, name: str) -> str:
        for extra, names in self._table("tool", "poetry", "extras").items():
            if isinstance(names, list) and name in names:
                return f"extra:{canonicalize_name(extra)}"
        return "extra:optional"


def poetry_specifier(constraint: str) -> str:
    """Return poetry's ``constraint`` as a PEP 440 specifier set.

    ``^1.2`` and ``~1.2`` are ranges, ``1.2`` is ``==1.2``, ``*`` is anything. Of alternatives
    (``^1.15 || ^2.0``), which PEP 440 cannot say, the lowest bound is kept. A part that is not
    understood is returned as it stands, for the caller's parser to refuse.
    """
    if len(constraint) > MAX_ENTRY:
        return constraint
    alternatives = [part for part in re.split(r"\s*\|\|?\s*", constraint.strip()) if part]
    if len(alternatives) > 1:
        lower = [re.search(r"[>=]=([^,]+)", poetry_specifier(part)) for part in alternatives]
        bounds = [found[1].removesuffix(".*") for found in lower if found]
        try:
            lowest = min(bounds, key=Version) if len(bounds) == len(alternatives) else ""
        except InvalidVersion:
            return constraint
        return f">={lowest}" if lowest else ""
    spaced = re.sub(r"([<>=!~^])\s+", r"\1", constraint)
    parts = [part for part in re.split(r"[,\s]+", spaced.strip()) if part not in ("", "*")]
    return ",".join(_poetry_part(part) for part in parts)


def _poetry_part(part: str) -> str:
    if part[0] == "^" or (part[0] == "~" and part[1:2] != "="):
        try:
            version = Version(part[1:])
        except InvalidVersion:
            return part
        return f">={part[1:]},<{_next_breaking(version, caret=part[0] == '^')}"
    if part[0] == "=" and part[1:2] != "=":
        return f"={part}"
    return part if part[0] in "<>=!~" else f"=={part}"


def _next_breaking(version: Version, caret: bool) -> str:
    """Return the first version that ``^`` or ``~`` shuts out."""
    release = version.release
    if caret:
        nonzero = (place for place, number in enumerate(release) if number)
        place = next(nonzero, len(release) - 1)
    else:
        place = min(1, len(release) - 1)
    return ".".join(str(number) for number in (*release[:place], release[place] + 1))


def _python_marker(specifier: str) -> str:
    try:
        bounds = SpecifierSet(specifier)
    except InvalidSpecifier:
        return ""
    return " and ".join(f'python_version {each.operator} "{each.version}"' for each in bounds)


def _header(dotted: str) -> str:
    """Match a table's header, however its parts are quoted and spaced."""
    parts = (rf"[\"']?{re.escape(part)}[\"']?" for part in dotted.split("."))
    return r"^[ \t]*\[\s*" + r"\s*\.\s*".join(parts) + r"\s*\]"


def _key(name: str) -> str:
    return rf"(?:^|[{{,.])[ \t]*[\"']?{re.escape(name)}[\"']?[ \t]*="


def _string(entry: str) -> str:
    return rf"[\"']{re.escape(entry)}[\"']"
