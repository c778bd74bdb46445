"""What follows from what the project does already: devices never twice, keywords not by chance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from devicegen.errors import DevicegenError
from devicegen.facts.conftests import Conftest
from devicegen.facts.device_setup import DeviceSetup
from devicegen.harness_names import PLAIN_MARKERS, HarnessNames

EARLY = ("import", "start")
WORDS = {
    "map": "gives pytest-xdist's workers their GPUs",
    "mask": "sets which GPUs a process sees",
    "split": "splits a device",
    "visible": "chooses the visible devices",
    "growth": "sets memory growth",
    "rank": "gives each rank its GPU",
}


def refuse_competing(setups: Iterable[DeviceSetup]) -> None:
    """Raise ``DevicegenError`` where the project gives GPUs to processes before each test."""
    setups = list(setups)
    found = [
        each
        for each in setups
        if each.when in EARLY
        and (each.kind == "map" or (each.kind in ("mask", "rank") and each.in_test_run))
    ]
    if found:
        files = {each.where.path for each in found}
        beside = [
            each
            for each in setups
            if each.where.path in files and each.when in EARLY and each.kind in WORDS
        ]
        places = "; ".join(
            f"{each.where}: {WORDS[each.kind]} (`{each.source}`)" for each in beside
        )
        raise DevicegenError(
            f"{places}: the harness does that too, and both at once leave tests without their "
            "GPU; remove these lines, or pass --keep-device-setup and remove them after"
        )


def first_own_split(setups: Iterable[DeviceSetup]) -> DeviceSetup | None:
    """Return the first statement that sets a GPU up before or at a test's import, if any.

    A second split, and memory growth on a device that is split, are errors in TensorFlow:
    https://www.tensorflow.org/api_docs/python/tf/config/set_logical_device_configuration.
    """
    kinds = ("split", "visible", "growth", "rank")
    early = (each for each in setups if each.when in EARLY and each.kind in kinds)
    return next((each for each in early if each.device != "CPU"), None)


def notes_about(setups: Iterable[DeviceSetup], split: bool) -> Iterator[str]:
    """Yield a line for each place that acts differently under the harness."""
    setups = list(setups)
    for each in setups:
        if each.kind == "switch":
            yield (
                f"{each.where}: asks for a device mask (`{each.source}`); under the harness "
                "every process on Linux has one"
            )
        elif each.kind == "split" and each.when in EARLY and each.device == "CPU" and split:
            yield (
                f"{each.where}: splits the CPU (`{each.source}`); --gpu-simulate does so too, "
                "earlier, and then this line raises"
            )
    ranked = [each for each in setups if each.kind == "rank"]
    if ranked:
        more = f", and {len(ranked) - 1} more places" if len(ranked) > 1 else ""
        yield (
            f"{ranked[0].where}: {WORDS['rank']} (`{ranked[0].source}`){more}; under the harness "
            "a rank sees its own GPU alone, whose index is 0"
        )
    in_tests = [
        each for each in setups if each.when == "test" and each.kind in WORDS.keys() - {"rank"}
    ]
    if in_tests:
        first = in_tests[0]
        yield (
            f"{first.where}: {WORDS[first.kind]} in a test (`{first.source}`)"
            f"{f', and {len(in_tests) - 1} more places' if len(in_tests) > 1 else ''}; such a "
            "test needs the marker no_device_scope"
        )


def keyword_notes(conftests: Iterable[Conftest], names: HarnessNames) -> Iterator[str]:
    """Yield a line for each condition on keywords that a test meets by its id alone."""
    for conftest in conftests:
        for check in conftest.keyword_checks:
            is_ours = not names.plain_prefix and check.name in PLAIN_MARKERS
            remedy = f'; ask {check.item}.get_closest_marker("{check.name}") instead'
            ours = f", and the harness marks it {check.name} as well; ask for another name"
            yield (
                f"{conftest.path}:{check.line}: `{check.source}` finds every "
                f"test_x[{check.name}] too{ours if is_ours else remedy}"
            )
