"""What a run says about devices: at its start, at its end, and in JUnit's file.

Behaviours are explained in ``behaviours.py``.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from harness.behaviours import (
    FAKE_TENSORFLOW,
    ONE_GPU_TEST,
    ONE_TEST,
    HarnessRun,
    device_lines,
    run_harness,
)
from harness.lease_behaviours import GPU, Machine, on_a_machine
from kit.nvidia_smi import cards

UUIDS = [card["uuid"] for card in cards(4)]
OWN_CHECK = "skipped by own GPU check; this machine has one, the worker not:"
KINDS = {
    **FAKE_TENSORFLOW,
    "test_kinds.py": """
        import pytest

        @pytest.mark.run_on(["cpu", "gpu", "distributed"])
        def test_each(): pass

        @pytest.mark.run_on(["gpu"])
        @pytest.mark.parametrize("n", range(2))
        def test_fails(n): assert not n

        def test_plain(record_property):
            record_property("size", 3)
            record_property("device", "toaster")

        @pytest.mark.no_device_scope
        def test_free(): pass

        @pytest.mark.skip(reason="broken")
        def test_skipped(): pass

        @pytest.mark.xfail
        def test_xfails(): assert False

        @pytest.mark.xfail
        def test_xpasses(): pass

        @pytest.fixture
        def broken():
            yield
            assert False

        def test_teardown_fails(broken): pass

        @pytest.fixture
        def missing(): assert False

        def test_setup_fails(missing): pass

        @pytest.mark.run_on(["gpus"])
        def test_wrong(): pass
    """,
}
# Test -> the device in its properties; None: it has none.
DEVICES = {
    "test_each[cpu]": "cpu",
    "test_each[gpu]": "gpu",
    "test_each[distributed]": "distributed",
    "test_fails[gpu-0]": "gpu",
    "test_fails[gpu-1]": "gpu",
    "test_plain": "cpu",
    "test_free": "none",
    "test_skipped": "cpu",
    "test_xfails": "cpu",
    "test_xpasses": "cpu",
    "test_teardown_fails": "cpu",
    "test_setup_fails": "cpu",
    "test_wrong": None,
}


def section(run: HarnessRun) -> list[str]:
    """Return the lines of the section ``devices`` at the end, [] where there is none."""
    lines = run.pytest.stdout.splitlines()
    titles = [number for number, line in enumerate(lines) if line.strip("=") == " devices "]
    if not titles:
        return []
    (start,) = titles
    return list(itertools.takewhile(lambda line: "==" not in line, lines[start + 1 :]))


def junit(
    harness: str, python: Path, files: Mapping[str, str | bytes], *args: str, **options: object
) -> tuple[HarnessRun, dict[str, list[tuple[str, str]]]]:
    """Run pytest and return, beside the run, test -> properties in JUnit's file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "junit.xml")
        run = run_harness(harness, python, files, f"--junitxml={file}", *args, **options)
        tree = ElementTree.parse(file)
    return run, {
        case.get("name", ""): [
            (each.get("name", ""), each.get("value", "")) for each in case.iter("property")
        ]
        for case in tree.iter("testcase")
    }


# ---- The line at the start --------------------------------------------------------------------


def header(harness: str, python: Path, *args: str) -> str:
    """Return the header, one line, of a run on a machine whose first card is closed to all."""
    four = cards(4)
    four[0]["compute_mode"] = "Prohibited"
    run = run_harness(harness, python, {**ONE_GPU_TEST, **FAKE_TENSORFLOW}, *args, smi=four)
    return "\n".join(device_lines(run))


def header_says_who_has_which_card(harness: str, python: Path) -> None:
    """Then who has none, which cards are passed over and why, which idle, and the source."""
    over = f"{UUIDS[0]} passed over: Prohibited mode, pids: none"
    alone = f"devices: this process has {UUIDS[1]}; {over}; idle: {UUIDS[2]}, {UUIDS[3]} ["
    two = f"devices: gw0 has {UUIDS[1]}; gw1 has {UUIDS[2]}; {over}; idle: {UUIDS[3]} ["
    have = "; ".join(f"gw{n} has {uuid}" for n, uuid in enumerate(UUIDS[1:]))
    five = f"devices: {have}; no GPU for gw3, gw4; {over} ["

    expected = {("-q",): alone, ("-v",): alone, ("-n2",): two, ("-n5", "-q"): five}
    for args, line in expected.items():
        said = header(harness, python, *args)
        assert said.startswith(f"{line}nvidia-smi"), (args, said)
        assert said.endswith("]"), said
        assert "\n" not in said, said


@on_a_machine(GPU, count=1)
def card_that_comes_late_is_reported(m: Machine) -> None:
    """A run that waited for a card says which one it has then."""
    first = m.start().holding()
    waiting = [(m.start("-q", PYTEST_GPU_WAIT="600"), "this process"),
               (m.start("-n1", PYTEST_GPU_WAIT="600"), "gw0")]  # fmt: skip
    for run, _ in waiting:
        run.waiting()
    first.finish()
    for run, _ in waiting:
        run.go.touch()

    for run, who in waiting:
        said = run.finish().partition("waiting")[2]
        assert f"devices: {who} has {UUIDS[0]}" in said, run.text


# ---- The section at the end -------------------------------------------------------------------


def tests_are_counted_by_device(harness: str, python: Path) -> None:
    """Each once, also those that fail, are expected to, or fail in tear-down."""
    run = run_harness(harness, python, KINDS, smi=cards(1))

    assert section(run) == [
        "cpu on this process: 6",
        "distributed on this process: 1",
        "gpu on this process: 3",
        "none on this process: 1",
    ], run


def tests_are_counted_by_worker(harness: str, python: Path) -> None:
    """``--dist=each`` runs all of them on either worker, of which one has a card."""
    run = run_harness(harness, python, KINDS, "--dist=each", "--tx=2*popen", smi=cards(1))

    assert section(run) == [
        "cpu on gw0: 6",
        "cpu on gw1: 6",
        "distributed on gw0: 1",
        "gpu on gw0: 3",
        "none on gw0: 1",
        "none on gw1: 1",
        "skipped for want of a GPU: 4",
    ], run


OWN_CHECKS = {
    **FAKE_TENSORFLOW,
    "test_gpu_things.py": """
        import os
        import unittest

        import pytest

        HAS_NONE = os.environ["CUDA_VISIBLE_DEVICES"] == "-1"

        @pytest.mark.run_on(["gpu"])
        def test_marked(): pass

        @pytest.mark.skipif(HAS_NONE, reason="needs a GPU")
        def test_mark(): pass

        def test_call():
            if HAS_NONE:
                pytest.skip("no cuda here")

        class Case(unittest.TestCase):
            @unittest.skipIf(HAS_NONE, "Requires GPUs")
            def test_case(self): pass

        @pytest.mark.skip(reason="slow")
        def test_slow(): pass

        @pytest.mark.skip(reason="the GPU is too hot")
        def test_hot(): pass

        @pytest.mark.skipif(not HAS_NONE, reason="is about machines without a GPU")
        def test_without(): pass
    """,
}
CHECKED = [
    "test_gpu_things.py::Case::test_case",
    "test_gpu_things.py::test_call",
    "test_gpu_things.py::test_hot",
    "test_gpu_things.py::test_mark",
]


def own_gpu_checks_are_named(harness: str, python: Path) -> None:
    """Where a worker without a card ran them, while the machine has one."""
    workers = ("--dist=each", "--tx=2*popen")
    run = run_harness(harness, python, OWN_CHECKS, *workers, smi=cards(1))

    assert section(run) == [
        "cpu on gw0: 3",
        "cpu on gw1: 1",
        "gpu on gw0: 1",
        "skipped for want of a GPU: 1",
        OWN_CHECK,
        *CHECKED,
    ], run


MODULE_SKIPS = {
    **ONE_TEST,
    **FAKE_TENSORFLOW,
    "test_module.py": """
        import pytest

        pytest.skip("needs a GPU", allow_module_level=True)
    """,
}


def modules_that_skip_themselves_are_no_tests(harness: str, python: Path) -> None:
    """They say so before a test runs; the report comes through."""
    run = run_harness(harness, python, MODULE_SKIPS, smi=cards(1), exit_codes=(0, 1, 3))

    assert section(run) == ["cpu on this process: 1"], run


def nothing_is_wanting_on_a_machine_without_a_gpu(harness: str, python: Path) -> None:
    """But what is marked: own checks are right there, and a simulated GPU is none."""
    run = run_harness(harness, python, OWN_CHECKS)
    assert section(run) == ["cpu on this process: 1", "skipped for want of a GPU: 1"], run
    run = run_harness(harness, python, OWN_CHECKS, "-n2", "--gpu-simulate=1")
    assert OWN_CHECK not in section(run), run


def gpu_that_tensorflow_does_not_see_is_wanting(harness: str, python: Path) -> None:
    env = {"FAKE_GPUS": "0"}
    run = run_harness(
        harness, python, {**ONE_TEST, **ONE_GPU_TEST, **FAKE_TENSORFLOW}, smi=cards(1), env=env
    )

    assert section(run) == ["cpu on this process: 1", "skipped for want of a GPU: 1"], run


def there_is_no_section_without_tests(harness: str, python: Path) -> None:
    for args, calls in (("--collect-only", 0), ("--deselect=test_one.py", 1)):
        run = run_harness(harness, python, MODULE_SKIPS, args, smi=cards(1), exit_codes=(0, 5))
        assert section(run) == [], (args, str(run))
        assert run.smi_calls == calls, (args, str(run))


# ---- JUnit ------------------------------------------------------------------------------------


def check_junit(run: HarnessRun, cases: dict[str, list[tuple[str, str]]], gpu: str) -> None:
    assert set(cases) == set(DEVICES), (cases, str(run))
    for name, device in DEVICES.items():
        own = [("size", "3"), ("device", "toaster")] if name == "test_plain" else []
        expected = [("device", device), ("gpu", gpu)] if device else []
        assert cases[name] == [*expected, *own], (name, cases[name], str(run))


def junit_has_device_and_gpu(harness: str, python: Path) -> None:
    """Of each test case, skipped ones too; a wrong marker and own properties are no obstacle."""
    for args in ("-n0",), ("-n1",):
        run, cases = junit(harness, python, KINDS, *args, smi=cards(1))
        check_junit(run, cases, UUIDS[0])
        assert run.outcomes["test_kinds.py::test_each[gpu]"] == "passed", run


def junit_says_where_there_was_no_gpu(harness: str, python: Path) -> None:
    for args in ("-n0",), ("-n2",):
        run, cases = junit(harness, python, KINDS, *args)
        check_junit(run, cases, "none")
        assert run.outcomes["test_kinds.py::test_each[gpu]"] == "skipped", run


def junit_says_which_worker_has_the_gpu(harness: str, python: Path) -> None:
    """Of two, one has a card: it is that of the tests which ran there."""
    run, cases = junit(harness, python, KINDS, "-n2", smi=cards(1))
    gpus = {
        name: "none" if run.pytest.workers[f"test_kinds.py::{name}"] == "gw1" else UUIDS[0]
        for name in DEVICES
    }
    expected = {name: ("gpu", gpus[name]) for name, device in DEVICES.items() if device}

    assert set(gpus.values()) == {"none", UUIDS[0]}, run
    assert {name: cases[name][1] for name in expected} == expected, (cases, str(run))


def junit_does_not_name_a_gpu_that_was_given_back(harness: str, python: Path) -> None:
    for args in ("-n0",), ("-n1",):
        run, cases = junit(harness, python, {**ONE_TEST, **FAKE_TENSORFLOW}, *args, smi=cards(1))
        assert run.noted("split"), run
        assert cases == {"test_one": [("device", "cpu"), ("gpu", "none")]}, (cases, str(run))


QUICK = (
    tests_are_counted_by_device,
    gpu_that_tensorflow_does_not_see_is_wanting,
)
REPORT = (
    *QUICK,
    header_says_who_has_which_card,
    card_that_comes_late_is_reported,
    tests_are_counted_by_worker,
    nothing_is_wanting_on_a_machine_without_a_gpu,
    own_gpu_checks_are_named,
    modules_that_skip_themselves_are_no_tests,
    there_is_no_section_without_tests,
    junit_has_device_and_gpu,
    junit_says_where_there_was_no_gpu,
    junit_says_which_worker_has_the_gpu,
    junit_does_not_name_a_gpu_that_was_given_back,
)
