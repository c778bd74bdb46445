"""Real Bazel, Debian's ``bazel-bootstrap`` 4.2.3, without a network.

Its built-in ``py_test`` wants five external repositories, which it would download; here are
stand-ins for them, empty or with Bazel's own rules under the names that are asked for. It runs
the ``python3`` that is first on PATH.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kit.environments import ENVIRONMENTS, only_one_at_a_time
from kit.processes import LIMIT, clean_environ, run_process
from kit.trees import write_tree

PACKAGE = "bazel-bootstrap"


def _native(*names: str) -> str:
    """Return a ``.bzl`` file that has Bazel's own rules; some are of newer versions only."""
    return "".join(f'{name} = getattr(native, "{name}", None)\n' for name in names)


EXTERNAL = {
    "remote_coverage_tools/BUILD": (
        'filegroup(name = "coverage_report_generator", visibility = ["//visibility:public"])\n'
    ),
    "rules_cc/cc/defs.bzl": _native(
        "cc_binary", "cc_import", "cc_library", "cc_proto_library", "cc_test", "cc_toolchain",
        "cc_toolchain_suite", "objc_library",
    ),
    "rules_java/java/defs.bzl": _native(
        "java_binary", "java_import", "java_library", "java_package_configuration",
        "java_runtime", "java_test", "java_toolchain",
    ),
    "rules_proto/proto/defs.bzl": _native("proto_lang_toolchain", "proto_library"),
    "rules_python/python/defs.bzl": _native("py_binary", "py_library", "py_runtime", "py_test"),
}  # fmt: skip


def why_no_bazel() -> str:
    """Return "" where there is a Bazel, also after installing it, or else why there is none."""
    with only_one_at_a_time(ENVIRONMENTS / "bazel.lock"):
        if shutil.which("bazel"):
            return ""
        if os.getuid() or not shutil.which("apt-get"):
            return f"needs Bazel, and only root can install Debian's {PACKAGE}"
        install = ["apt-get", "install", "-y", "-qq", PACKAGE]
        for command in (install, ["apt-get", "update", "-qq"], install):
            environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            done = subprocess.run(command, env=environ, capture_output=True, check=False)
            if shutil.which("bazel"):
                return ""
        said = done.stderr.decode("utf-8", "replace").strip()[-300:]
        return f"needs Bazel, and Debian's {PACKAGE} cannot be installed here: {said}"


@dataclass(frozen=True)
class Workspace:
    """A folder with a WORKSPACE file, in which projects are made as subfolders.

    Neither it nor what Bazel writes is below ``/tmp``, so that a test may have one of its own.
    """

    folder: Path

    @property
    def top(self) -> Path:
        return self.folder / "workspace"

    def run(
        self,
        python: Path,
        *args: str,
        env: Mapping[str, str] | None = None,
        path: Path | None = None,
        timeout: float = LIMIT,
    ) -> subprocess.CompletedProcess[str]:
        """Run ``bazel ARGS`` with this interpreter's folder first on PATH, and before it ``path``.

        Variables of ``env`` reach a test where ``--test_env`` names them.
        """
        folders = [*([str(path)] if path else []), str(python.parent), "/usr/bin", "/bin"]
        environ = {"PATH": os.pathsep.join(folders), "HOME": str(self.folder), **(env or {})}
        verb, *rest = args
        options = [f"--override_repository={name}={self.folder}/external/{name}"
                   for name in sorted({file.partition("/")[0] for file in EXTERNAL})]  # fmt: skip
        return run_process(
            ["bazel", f"--output_user_root={self.folder}/output", "--nohome_rc",
             "--max_idle_secs=60", verb, *options, *rest],
            self.top, env=environ, timeout=timeout,
        )  # fmt: skip

    def test(self, python: Path, *args: str, **more: object) -> subprocess.CompletedProcess[str]:
        """Run ``bazel test ARGS``; what failed is in its output, as Bazel prints it."""
        options = ["--color=no", "--curses=no", "--noshow_progress", "--test_output=all"]
        return self.run(python, "test", *options, *args, **more)  # type: ignore[arg-type]

    def logs(self, package: str, target: str) -> Path:
        """Return the folder of a target's ``test.xml`` and the like."""
        return self.top / "bazel-testlogs" / package / target


@contextmanager
def workspace() -> Iterator[Workspace]:
    """Make a workspace, and end its server and remove it at the end."""
    with tempfile.TemporaryDirectory(
        prefix="devicegen-bazel-", dir="/var/tmp", ignore_cleanup_errors=True
    ) as name:
        made = Workspace(Path(name))
        (made.folder).chmod(0o755)
        write_tree(made.top, {"WORKSPACE": ""})
        for file, text in EXTERNAL.items():
            repository, _, path = file.partition("/")
            folder = "/".join([repository, *path.split("/")[:-1]])
            write_tree(made.folder / "external", {
                f"{repository}/WORKSPACE": "", f"{folder}/BUILD": "", file: text,
            })  # fmt: skip
        try:
            yield made
        finally:
            subprocess.run(
                ["bazel", f"--output_user_root={made.folder}/output", "shutdown"],
                cwd=made.top, env=clean_environ(), capture_output=True, check=False,
            )  # fmt: skip
            for folder, _, _ in os.walk(made.folder):  # Bazel makes its outputs read-only
                Path(folder).chmod(0o700)
