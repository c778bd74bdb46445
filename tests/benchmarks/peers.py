"""The same fifty edits under devicegen, copier and cruft: kept, shown, lost, crashed.

    python tests/benchmarks/peers.py            writes tests/benchmarks/peers.md
    python tests/benchmarks/peers.py "a link"   runs the scenarios of that name, and prints

The template has equal content for all: version 1 and 2 are the harness of two sets in
``tests/history``, with one answer. copier and cruft get it as a git repository with two tags, in an
environment of their own from PyPI; devicegen as a folder for ``--templates``. Each edit is
committed before the update, as copier and cruft demand.

Kept: all the owner's words are there and the new text came. Conflict: markers show both sides.
Refused: nothing was written, and the message names the file. Lost: words of the owner, the new
text, or the owner's decision (a file deleted, an answer) are gone; also where only a ``.rej``
file holds them. Crashed: a traceback, or a file that is no longer Python without any marker.
"""

# ruff: noqa: E501

from __future__ import annotations

import json
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).parents[2]
sys.path[:0] = [str(TOP / "tests"), str(Path(__file__).parent)]

from scenarios import DELETED, HARNESS, MOVED, REPLACED, SCENARIOS, Scenario  # noqa: E402

from kit import clean_environ, write_tree  # noqa: E402
from kit.environments import make_environment  # noqa: E402

PEERS = {"copier": ("copier==9.19.1",), "cruft": ("cruft==2.16.0", "cookiecutter==2.7.1")}
OLD, NEW = "0.1.0.dev1", "0.1.0.dev2"
CAME = 'raise ValueError(f"{marks[0].name} and {marks[1].name} on one test: keep one")'
LIBRARY = {
    "pyproject.toml": (
        '[project]\nname = "library"\nversion = "1"\ndependencies = ["tensorflow>=2.8"]\n\n'
        "[tool.pytest.ini_options]\naddopts = '-q'\n"
    ),
    "tests/test_library.py": "import tensorflow\n\ndef test_nothing(): pass\n",
}


@dataclass(frozen=True)
class Ended:
    """How an update ended: exit code and what was printed."""

    code: int
    printed: str


@dataclass(frozen=True)
class Tool:
    """How a tool makes a project, and how it updates it."""

    make: Callable[[Path, bool], None]
    update: Callable[[Path], Ended]


def call(*words: str | Path, cwd: Path, check: bool = True) -> Ended:
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=clean_environ({"NO_COLOR": "1"}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=120,
        check=False,
    )
    if check and done.returncode:
        raise RuntimeError(f"{words}: {done.stdout}{done.stderr}")
    return Ended(done.returncode, done.stdout + done.stderr)


def commit(top: Path) -> None:
    if not (top / ".git").exists():
        call("git", "init", "-q", cwd=top)
    call("git", "add", "-A", cwd=top)
    call("git", "commit", "-q", "--allow-empty", "-m", "x", cwd=top)


def source(version: str, variable: str) -> str:
    """Return the template's text: the harness, with a memory limit where that is answered."""
    folder = TOP / "tests/history" / version
    texts = {
        name: (folder / name / "conftest.py.txt").read_text("utf-8")
        for name in ("usual", "memory_limit")
    }
    raw = {name: f"{{% raw %}}{text}{{% endraw %}}" for name, text in texts.items()}
    return f"{{% if {variable} %}}{raw['memory_limit']}{{% else %}}{raw['usual']}{{% endif %}}"


def copier(folder: Path) -> Tool:
    program = folder / "copier-environment/bin/copier"
    make_environment(program.parents[1], list(PEERS["copier"]))
    template = folder / "copier-template"
    for version, tag in ((OLD, "v1"), (NEW, "v2")):
        files = {
            "copier.yml": "limit:\n  type: bool\n  default: false\n_templates_suffix: .jinja\n"
            "_keep_trailing_newline: true\n_envops:\n  keep_trailing_newline: true\n",
            "{{_copier_conf.answers_file}}.jinja": "{{ _copier_answers|to_nice_yaml }}\n",
            f"{HARNESS}.jinja": source(version, "limit"),
        }
        write_tree(template, files)
        commit(template)
        call("git", "tag", tag, cwd=template)

    def make(top: Path, answer: bool) -> None:
        write_tree(top, LIBRARY)
        data = ["-d", f"limit={str(answer).lower()}"]
        call(program, "copy", "-q", "-f", "-r", "v1", *data, template, top, cwd=folder)

    def update(top: Path) -> Ended:
        return call(program, "update", "--defaults", "-r", "v2", cwd=top, check=False)

    return Tool(make, update)


def cruft(folder: Path) -> Tool:
    program = folder / "cruft-environment/bin/cruft"
    make_environment(program.parents[1], list(PEERS["cruft"]))
    template = folder / "cruft-template"
    for version, tag in ((OLD, "v1"), (NEW, "v2")):
        table = {"name": "library", "limit": ""}
        inside = "{{cookiecutter.name}}"
        files = {
            "cookiecutter.json": json.dumps(table),
            f"{inside}/{HARNESS}": source(version, "cookiecutter.limit"),
        }
        write_tree(template, files)
        commit(template)
        call("git", "tag", tag, cwd=template)

    def make(top: Path, answer: bool) -> None:
        extra = [
            "--extra-context",
            json.dumps({"name": top.name, "limit": "yes" if answer else ""}),
        ]
        call(
            program,
            "create",
            template,
            "-c",
            "v1",
            "-y",
            *extra,
            "--output-dir",
            top.parent,
            cwd=folder,
        )
        write_tree(top, LIBRARY)

    def update(top: Path) -> Ended:
        return call(program, "update", "-y", "-c", "v2", cwd=top, check=False)

    return Tool(make, update)


def devicegen(folder: Path) -> Tool:
    program = (sys.executable, "-m", "devicegen")

    def templates(top: Path, version: str) -> str:
        where = top.with_name(f"{top.name}-templates")
        write_tree(where, {"conftest.py.j2": source(version, "memory_limit_mb")})
        return str(where)

    def make(top: Path, answer: bool) -> None:
        write_tree(top, LIBRARY)
        options = ["--memory-limit-mb", "2048"] if answer else []
        call(*program, "init", top, "--templates", templates(top, OLD), *options, cwd=folder)

    def update(top: Path) -> Ended:
        templates(top, NEW)
        return call(*program, "upgrade", cwd=top, check=False)

    return Tool(make, update)


# What came of it


def all_text(top: Path, *, rejected: bool) -> str:
    """Return the text of the project's own files; those that a patch left aside, or the rest."""
    pieces = []
    for path in sorted(top.rglob("*")):
        ours = {".git", ".devicegen"} & set(path.relative_to(top).parts)
        if path.is_file() and not ours and path.name.endswith((".rej", ".orig")) == rejected:
            pieces.append(path.read_text("utf-8", "replace"))
    return "\n".join(pieces)


def is_python(text: str) -> bool:
    try:
        compile(text.removeprefix("\ufeff"), "", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def judge(scenario: Scenario, top: Path, before: dict[str, bytes], ended: Ended) -> str:  # noqa: PLR0911
    """Say in a few words what came of an update."""
    text = all_text(top, rejected=False)
    if "Traceback (most recent" in ended.printed:
        return "crashed: traceback"
    rejected = all_text(top, rejected=True)
    lost = [word for word in scenario.words if word not in text]
    if lost:
        return "lost: only in .rej" if all(word in rejected for word in lost) else "lost: an edit"
    if ended.code and state(top) == before:
        return "refused, by name" if Path(HARNESS).name in ended.printed else "crashed: no reason"
    if scenario.expects == DELETED:
        return "kept" if not (top / HARNESS).exists() else "lost: brought back"
    if scenario.expects == REPLACED:
        changed = {name for name, data in before.items() if state(top).get(name) != data}
        is_own = any("conftest" in name or "shared" in name for name in changed)
        return "lost: written into" if is_own else "kept"
    places = [path for path in top.rglob("conftest.py") if path.is_file()]
    if scenario.expects == MOVED:
        if (top / HARNESS).exists():
            return "lost: brought back"
        return (
            "kept"
            if any(CAME in path.read_text("utf-8") for path in places)
            else "lost: the new text"
        )
    after = (top / HARNESS).read_bytes().decode("utf-8", "replace")
    conflicts = re.findall(r"^<<<<<<< .*?^>>>>>>> ", after, re.MULTILINE | re.DOTALL)
    if conflicts:
        whole = ", whole file" if max(map(len, conflicts)) > len(after) / 2 else ""
        needless = "" if scenario.conflicts else ", needless"
        return f"conflict{whole or needless}, exit {ended.code}"
    if rejected:
        return f"lost: the new text in .rej, exit {ended.code}"
    if CAME not in after:
        return "lost: the new text"
    if not is_python(after):
        return "crashed: no Python"
    executable = before_mode(scenario) & stat.S_IXUSR
    if executable and not (top / HARNESS).stat().st_mode & stat.S_IXUSR:
        return "lost: the mode"
    return "kept"


def before_mode(scenario: Scenario) -> int:
    return 0o755 if scenario.name == "executable" else 0o644


def state(top: Path) -> dict[str, bytes]:
    """Return each file's bytes, a link's target, below ``top``."""
    found = {}
    for path in sorted(top.rglob("*")):
        name = path.relative_to(top).as_posix()
        if path.is_symlink():
            found[name] = str(path.readlink()).encode()
        elif path.is_file() and ".git" not in path.relative_to(top).parts:
            found[name] = path.read_bytes()
    return found


def main(names: list[str]) -> None:
    chosen = [each for each in SCENARIOS if not names or each.name in names]
    rows = []
    with tempfile.TemporaryDirectory(prefix="peers-") as name:
        folder = Path(name)
        tools = {"devicegen": devicegen(folder), "copier": copier(folder), "cruft": cruft(folder)}
        for number, scenario in enumerate(chosen):
            row = [scenario.name]
            for tool_name, tool in tools.items():
                top = folder / f"{tool_name}-{number}"
                tool.make(top, scenario.answer)
                commit(top)
                scenario.do(top)
                commit(top)
                before = state(top)
                ended = tool.update(top)
                row.append(judge(scenario, top, before, ended))
                if names:
                    print(f"--- {tool_name}, exit {ended.code}\n{ended.printed}")
                shutil.rmtree(top)
            rows.append(row)
            print(" | ".join(row), flush=True)
    table = written(rows, list(tools))
    if not names:
        (Path(__file__).parent / "peers.md").write_text(table, "utf-8")
    print(table)


def written(rows: list[list[str]], tools: list[str]) -> str:
    """Return the table and its totals, as Markdown."""
    lines = [
        "# Fifty edits, three tools",
        "",
        f"Written by `peers.py`; {', '.join(pin for pins in PEERS.values() for pin in pins)}.",
        "",
        "| total | " + " | ".join(tools) + " |",
        "| --- | " + " | ".join("---" for _ in tools) + " |",
    ]
    counts = [
        Counter(row[place].partition(",")[0].partition(":")[0] for row in rows)
        for place in range(1, len(tools) + 1)
    ]
    for kind in ("kept", "conflict", "refused", "lost", "crashed"):
        lines.append(f"| {kind} | " + " | ".join(str(count[kind]) for count in counts) + " |")
    lines += [
        "",
        "| scenario | " + " | ".join(tools) + " |",
        "| --- | " + " | ".join("---" for _ in tools) + " |",
    ]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main(sys.argv[1:])
