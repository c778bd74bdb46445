"""Damages to what a run says about devices; see ``mutants.py``."""

from __future__ import annotations

from harness import report_behaviours as r
from harness.mutants import mutant

HEADER = [
    mutant(
        "header leaves out who has a card",
        r.header_says_who_has_which_card,
        "(owners + none + over + rest)",
        "(none + over + rest)",
    ),
    mutant(
        "header leaves out who has none",
        r.header_says_who_has_which_card,
        "(owners + none + over + rest)",
        "(owners + over + rest)",
    ),
    mutant(
        "header leaves out cards that are passed over",
        r.header_says_who_has_which_card,
        "(owners + none + over + rest)",
        "(owners + none + rest)",
    ),
    mutant(
        "header leaves out idle cards",
        r.header_says_who_has_which_card,
        "(owners + none + over + rest)",
        "(owners + none + over)",
    ),
    mutant(
        "header says no reason why a card is passed over",
        r.header_says_who_has_which_card,
        'f"{name} passed over: {why}"',
        'f"{name} passed over"',
    ),
    mutant(
        "card that is passed over is idle",
        r.header_says_who_has_which_card,
        "for each in given.values()] + list(run.passed_over)",
        "for each in given.values()]",
    ),
    mutant(
        "header leaves out the source",
        r.header_says_who_has_which_card,
        "(owners + none + over + rest)} [{source}]",
        "(owners + none + over + rest)}",
    ),
    mutant(
        "header is not for quiet runs",
        r.header_says_who_has_which_card,
        "    if SUMMARY in session.config.stash:",
        "    if SUMMARY in session.config.stash and session.config.option.verbose >= 0:",
    ),
    mutant(
        "card that comes late is kept quiet",
        r.card_that_comes_late_is_reported,
        "        _say(session.config, _summary({who: session.config.stash[ASSIGNED]}, run))\n",
        "",
    ),
    mutant(
        "card that comes late is one of nobody",
        r.card_that_comes_late_is_reported,
        'who = os.environ.get("PYTEST_XDIST_WORKER", "this process")',
        'who = "this process"',
    ),
]
SECTION = [
    mutant(
        "test that passes and fails in tear-down counts twice",
        r.tests_are_counted_by_device,
        ".add(report.nodeid)\n            elif",
        ".add(category + report.nodeid)\n            elif",
    ),
    mutant(
        "test that fails in set-up did not run",
        r.tests_are_counted_by_device,
        '"failed", "error", "xfailed"',
        '"failed", "xfailed"',
    ),
    mutant(
        "test that fails as expected did not run",
        r.tests_are_counted_by_device,
        '"error", "xfailed", "xpassed"',
        '"error", "xpassed"',
    ),
    mutant(
        "test's own properties win",
        r.tests_are_counted_by_device,
        'dict(reversed(getattr(report, "user_properties", [])))',
        'dict(getattr(report, "user_properties", []))',
    ),
    mutant(
        "skipped tests count as run",
        r.tests_are_counted_by_device,
        'if category != "skipped":',
        'if said["gpu"] != "none" or category != "skipped":',
    ),
    mutant(
        "tests are counted for all workers together",
        r.tests_are_counted_by_worker,
        'who = node.gateway.id if node else "this process"',
        'who = "this process"',
    ),
    mutant(
        "distributed tests want no GPU",
        r.tests_are_counted_by_worker,
        'said["device"] in ("gpu", *STRATEGIES):\n                wanting',
        'said["device"] == "gpu":\n                wanting',
    ),
    mutant(
        "reason is looked for in the path",
        r.own_gpu_checks_are_named,
        'why = str(report.longrepr).partition("Skipped: ")[2]',
        "why = str(report.longrepr)",
    ),
    mutant(
        "own check on a worker with a card is named",
        r.own_gpu_checks_are_named,
        '            elif said["gpu"] == "none":\n',
        "            else:\n",
    ),
    mutant(
        "capitals are no GPU",
        r.own_gpu_checks_are_named,
        're.search("(?i)gpu|cuda", why)',
        're.search("gpu|cuda", why)',
    ),
    mutant(
        "own check counts as a want",
        r.own_gpu_checks_are_named,
        'elif said["gpu"] == "none" and said["device"] in ("gpu", *STRATEGIES):',
        'elif "Skipped: needs a GPU" in str(report.longrepr):',
    ),
    mutant(
        "GPU that TensorFlow does not see is not wanting",
        r.gpu_that_tensorflow_does_not_see_is_wanting,
        'elif said["gpu"] == "none" and said["device"] in ("gpu", *STRATEGIES):',
        'elif "Skipped: needs a GPU" in str(report.longrepr) and said["device"] != "cpu":',
    ),
    mutant(
        "own checks are named where there is no GPU",
        r.nothing_is_wanting_on_a_machine_without_a_gpu,
        "if own_checks and run.found and run.found[0] and not run.simulate:",
        "if own_checks and run.found and not run.simulate:",
    ),
    mutant(
        "own checks are named where GPUs are simulated",
        r.nothing_is_wanting_on_a_machine_without_a_gpu,
        "if own_checks and run.found and run.found[0] and not run.simulate:",
        "if own_checks and run.found and run.found[0]:",
    ),
    mutant(
        "module that skips itself breaks the report",
        r.modules_that_skip_themselves_are_no_tests,
        'getattr(report, "user_properties", [])',
        "report.user_properties",
    ),
    mutant(
        "empty section",
        r.there_is_no_section_without_tests,
        '    if lines:\n        terminalreporter.write_sep("=", "devices")',
        '    if True:\n        terminalreporter.write_sep("=", "devices")',
    ),
    mutant(
        "section begins in the middle of a line",
        r.gpu_that_tensorflow_does_not_see_is_wanting,
        'terminalreporter.write_sep("=", "devices")',
        'terminalreporter.section("devices")',
    ),
]
JUNIT = [
    mutant(
        "JUnit's file says nothing of devices",
        r.junit_has_device_and_gpu,
        "+= said.get(kind, [])",
        "+= []",
    ),
    mutant(
        "JUnit's file names the GPU of GPU tests only",
        r.junit_has_device_and_gpu,
        '("gpu", card)]',
        '("gpu", card if kind == "gpu" else "none")]',
    ),
    mutant(
        "JUnit's file says nothing of skipped tests",
        r.junit_has_device_and_gpu,
        "    for item, kind in zip(session.items, kinds):\n",
        "    for item, kind in zip(session.items, kinds):\n"
        '        if item.get_closest_marker("skip"):\n            continue\n',
    ),
    mutant(
        "JUnit's file says nothing of a GPU where there is none",
        r.junit_says_where_there_was_no_gpu,
        'session.config.stash[ASSIGNED].card or "none"',
        "session.config.stash[ASSIGNED].card",
    ),
    mutant(
        "JUnit's file says nothing of a GPU where a worker has none",
        r.junit_says_where_there_was_no_gpu,
        '("gpu", node.card or "none")',
        '("gpu", node.card)',
    ),
    mutant(
        "JUnit's file names a GPU for a worker that has none",
        r.junit_says_which_worker_has_the_gpu,
        '("gpu", node.card or "none")',
        '("gpu", node.card or "GPU-f3da2e71-6e43-729a-e3ae-f731ed96d50c")',
    ),
    mutant(
        "JUnit's file says first what a test says of itself",
        r.junit_has_device_and_gpu,
        "report.user_properties[:0] = ",
        "report.user_properties += ",
    ),
    mutant(
        "JUnit's file names the GPU that was given back",
        r.junit_does_not_name_a_gpu_that_was_given_back,
        'session.config.stash[ASSIGNED].card or "none"',
        'assigned.card or "none"',
    ),
]

REPORT_MUTANTS = (*HEADER, *SECTION, *JUNIT)
