"""Requirements files in pip's format, conda's ``environment.yml``, and the ``deps`` of tox."""

from __future__ import annotations

import posixpath
import re
from collections import deque
from collections.abc import Iterator

from devicegen.facts.ini_files import read_ini
from devicegen.facts.requirement_record import Findings, without_comment
from devicegen.facts.source_tree import Location

# Folders below the top where requirements files are a project's own; not docs or examples.
FOLDERS = re.compile(
    r"\.?ci|\.circleci|\.github|build(_tools)?|common_build|dep(endencie)?s|dev|docker|etc"
    r"|install_deps|reqs|require(ment)?s|scripts|test(s|ing)?|tools"
)
LIST_FOLDERS = frozenset({"deps", "dependencies", "install_deps", "reqs", "requirements"})
INCLUDED = re.compile(r"(?:-r|--requirement|-c|--constraint)(?:\s*=\s*|\s*)(?P<target>\S+)")
# Options of one requirement, of which pip allows --hash, --config-settings and --global-option.
ENTRY_OPTIONS = re.compile(r"\s--?[A-Za-z].*$")
LOCAL_OR_URL = re.compile(r"[./~$]|[A-Za-z]:[\\/]|[a-z+]+://|\S+\.(?:whl|zip|tar\.gz)$|[^\s@]+/")


class RequirementsFiles:
    """Reads requirements files, each once a group, and those that they name with ``-r`` or ``-c``.

    The format is pip's: https://pip.pypa.io/en/stable/reference/requirements-file-format/.
    """

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self._files = frozenset(findings.tree.files)
        self._waiting: deque[tuple[str, str]] = deque()
        self._seen: set[tuple[str, str]] = set()

    def add_conventional(self) -> None:
        """Take every file whose name or folder says that it lists requirements."""
        for path in self.findings.tree.files:
            if _is_requirements_file(path):
                self._add(path, f"requirements:{path}")

    def follow(self, name: str, folder: str, group: str, where: Location) -> None:
        """Take the file ``name``, relative to ``folder``, if it is in the repository.

        ``group`` is what its lines belong to; ``""`` for a group of its own.
        """
        path = posixpath.normpath(posixpath.join(folder, name))
        if re.match(r"[a-z+]+://", name) or "$" in name or "{" in name:
            self.findings.problem(where, f"not followed: {name}")
        elif path.startswith(("../", "/")):
            self.findings.problem(where, f"not followed: {name} is outside the repository")
        elif path not in self._files:
            self.findings.problem(where, f"not followed: {name} is not in the repository")
        else:
            self._add(path, group or f"requirements:{path}")

    def follow_option(self, entry: str, group: str, where: Location, folder: str = "") -> bool:
        """Take the file that ``entry`` names with ``-r`` or ``-c``; say whether it names one."""
        included = INCLUDED.match(entry)
        if included is None:
            return False
        name = included["target"].strip("\"'")
        path = posixpath.normpath(posixpath.join(folder, name))
        group = f"constraints:{path}" if entry.startswith(("-c", "--constraint")) else group
        self.follow(name, folder, group, where)
        return True

    def read(self) -> None:
        """Read the files taken so far, and those that they name."""
        while self._waiting:
            path, group = self._waiting.popleft()
            text = self.findings.text(path)
            for line, entry in _logical_lines(text or ""):
                self._entry(entry, group, Location(path, line))

    def _add(self, path: str, group: str) -> None:
        if (path, group) not in self._seen:
            self._seen.add((path, group))
            self._waiting.append((path, group))

    def _entry(self, entry: str, group: str, where: Location) -> None:
        inherited = group if group == "dependencies" or group.startswith("extra:") else ""
        folder = posixpath.dirname(where.path)
        if self.follow_option(entry, inherited, where, folder):
            return
        if not entry.startswith("-") and not LOCAL_OR_URL.match(entry):
            self.findings.add(ENTRY_OPTIONS.sub("", entry), group, where)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each line and its number, continuations joined, then comments removed, as in pip."""
    start, joined = 1, ""
    for number, line in enumerate(text.splitlines(), 1):
        if not joined:
            start = number
        is_comment = re.match(r"\s*#", line)
        if line.endswith("\\") and not is_comment:
            joined += line[:-1]
            continue
        entry = without_comment(joined + line).strip()
        joined = ""
        if entry:
            yield start, entry
    if joined.strip():
        yield start, joined.strip()


def _is_requirements_file(path: str) -> bool:
    *folders, name = path.split("/")
    if not name.endswith((".txt", ".in")) or (folders and not FOLDERS.fullmatch(folders[0])):
        return False
    if name.startswith("constraints"):
        return False
    is_list_folder = bool(folders) and folders[-1] in LIST_FOLDERS
    return is_list_folder or bool(re.search(r"require|(^|[-_])reqs?([-_.]|$)", name))


def read_environment_files(findings: Findings) -> None:
    """Read the list under ``dependencies:`` of conda's environment files, a line at a time.

    https://docs.conda.io/projects/conda/en/stable/user-guide/tasks/manage-environments.html
    """
    for path in findings.tree.files:
        *folders, name = path.split("/")
        if re.fullmatch(r"(conda[-_])?env(ironment)?([-_.][\w.-]*)?\.ya?ml", name) and (
            not folders or FOLDERS.fullmatch(folders[0])
        ):
            text = findings.text(path)
            if text is not None:
                _environment(findings, path, text)


def _environment(findings: Findings, path: str, text: str) -> None:
    inside, pip_indent = False, None
    for number, line in enumerate(text.splitlines(), 1):
        entry = without_comment(line).rstrip()
        if re.match(r"[^\s-]", entry):
            inside, pip_indent = entry.startswith("dependencies:"), None
        item = re.match(r"(\s*)-\s+(.+)", entry)
        if not (inside and item):
            continue
        indent, value = len(item[1]), item[2].strip("\"' ")
        if pip_indent is not None and indent <= pip_indent:
            pip_indent = None
        if value == "pip:":
            pip_indent = indent
        elif pip_indent is None:
            _conda_entry(findings, value, f"conda:{path}", Location(path, number))
        elif not value.startswith("-") and not LOCAL_OR_URL.match(value):
            findings.add(value, f"conda:{path}", Location(path, number))


def _conda_entry(findings: Findings, value: str, group: str, where: Location) -> None:
    """Note a conda match specification; ``=1.2`` there means ``==1.2.*``."""
    found = re.fullmatch(r"(?:\S+::)?([A-Za-z0-9][\w.-]*)\s*(.*)", value)
    if not found or found[1] == "python":
        return
    name, version = found[1], found[2].strip()
    if re.match(r"=?\d", version):
        number = re.split(r"[=\s]", version.lstrip("="))[0].removesuffix("*").rstrip(".")
        version = f"=={number}.*"
    if "|" in version:
        version = ""
    findings.add(f"{name} {version}", group, where)


def read_tox_ini(findings: Findings, files: RequirementsFiles) -> None:
    """Read ``deps`` of every section of the top's ``tox.ini``.

    The factors before a colon (``py39: numpy``) are left out, references to other sections are not
    followed: https://tox.wiki/en/latest/config.html#deps.
    """
    file = read_ini(findings, "tox.ini")
    for section in file.sections() if file else []:
        if file is None or not section.startswith(("testenv", "env")):
            continue
        for entry, where in file.entries(section, "deps"):
            needed = re.sub(r"^[\w{},.! -]+:(?!//)\s*", "", entry)
            if files.follow_option(needed, "", where):
                continue
            if needed and not needed.startswith(("-", "{")) and not LOCAL_OR_URL.match(needed):
                findings.add(needed, f"tox:{section}", where)
