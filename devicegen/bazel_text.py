"""What a Bazel repository has to add to its BUILD files, which devicegen never writes."""

from __future__ import annotations

import posixpath

from devicegen.decisions import Decisions
from devicegen.facts.repository import RepoFacts
from devicegen.templates_folder import environment

# What says which GPUs there are and how to use them; Bazel takes no patterns.
VARIABLES = (
    "CUDA_DEVICE_ORDER",
    "CUDA_VISIBLE_DEVICES",
    "PYTEST_GPU_LOCK_DIR",
    "XLA_FLAGS",
)
ROCM_VARIABLES = ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def bazel_text(facts: RepoFacts, decisions: Decisions) -> str:
    """Return the text for BUILD files and ``.bazelrc``; "" where there is no ``py_test`` main."""
    if decisions.main is None:
        return ""
    bazel = facts.bazel
    config = facts.pytest_config.path or decisions.registry  # one that is made now
    build_file = bazel.build_file(decisions.conftest)
    test = facts.test_files[0]
    test_package = posixpath.dirname(bazel.build_file(test))
    package = posixpath.dirname(build_file)
    config_build_file = bazel.build_file(config) if config else ""
    label = bazel.label(decisions.conftest).partition(":")[0]
    text = (
        environment()
        .get_template("build.txt.j2")
        .render(
            build_file=build_file,
            exists=build_file in bazel.build_files,
            load="" if build_file in bazel.loads_library else bazel.load,
            name="conftest",
            conftest=_within(package, decisions.conftest),
            conftest_label=f"{label}:conftest",
            main=_within(package, decisions.main),
            main_label=bazel.label(decisions.main),
            config=bazel.label(config) if config else "",
            config_build_file=config_build_file if config_build_file != build_file else "",
            config_exists=config_build_file in bazel.build_files,
            config_file=config,
            test=_within(test_package, test),
            test_name=posixpath.basename(test).removesuffix(".py"),
            variables=_variables(decisions),
        )
    )
    return text.rstrip("\n")


def _variables(decisions: Decisions) -> list[str]:
    """Return what stands for the harness's options too, under the names that those have here."""
    rocm = ROCM_VARIABLES if decisions.rocm else ()
    return sorted([*VARIABLES, *decisions.names.variables, *rocm])


def _within(package: str, path: str) -> str:
    return posixpath.relpath(path, package) if package else path
