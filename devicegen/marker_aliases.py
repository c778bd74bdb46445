"""Markers that a project has already, taken for the harness's own: ``--marker-alias``."""

from __future__ import annotations

import keyword
from typing import NamedTuple

from devicegen.errors import DevicegenError

DEVICES = ("cpu", "gpu", "distributed")
RUN_ON, NO_SCOPE = "run_on", "no_device_scope"
# What pytest and pytest-xdist do with a mark of these names, whatever a harness takes it for.
OTHERS = {
    **dict.fromkeys(
        ("parametrize", "skip", "skipif", "xfail", "usefixtures", "filterwarnings"), "pytest"
    ),
    **dict.fromkeys(  # marks of hooks, before pytest.hookimpl and pytest.hookspec
        ("tryfirst", "trylast", "hookwrapper", "optionalhook", "firstresult", "historic"), "pytest"
    ),
    "xdist_group": "pytest-xdist",
}
FORMS = "NAME=run_on, NAME=run_on:gpu (also cpu, distributed, cpu,gpu), NAME=no_device_scope"


class MarkerAlias(NamedTuple):
    """A marker of the project's, and what the harness takes it for.

    ``devices`` are what it always lists, as ``needs_gpu`` does; empty where its own arguments
    say. ``("none",)`` stands for ``no_device_scope``.
    """

    name: str
    devices: tuple[str, ...]

    @property
    def line(self) -> str:
        """The line that registers the marker."""
        if self.devices == ("none",):
            return f"{self.name}: as {NO_SCOPE}"
        if self.devices:
            return f"{self.name}: as {RUN_ON}({list(self.devices)!r})"
        return f"{self.name}(devices): as {RUN_ON}"


def parse_alias(text: str, strategies: tuple[str, ...] = ()) -> MarkerAlias:
    """Read ``with_device=run_on``, ``needs_gpu=run_on:gpu`` or ``free=no_device_scope``.

    ``strategies`` are names that ``run_on`` takes beside the usual ones. Raises ``DevicegenError``
    where the text is of no such form, or the marker is one of pytest's.
    """
    name, _, meaning = (part.strip() for part in text.partition("="))
    if not name.isidentifier() or keyword.iskeyword(name) or name in (RUN_ON, NO_SCOPE):
        raise DevicegenError(f"--marker-alias {text!r}: {name!r} is no alias; write {FORMS}")
    if name in OTHERS:
        raise DevicegenError(
            f"--marker-alias {text!r}: {name} is a mark of {OTHERS[name]}'s own, with another "
            "meaning; take a marker of the project's"
        )
    target, colon, listed = (part.strip() for part in meaning.partition(":"))
    if target == NO_SCOPE and not colon:
        return MarkerAlias(name, ("none",))
    devices = tuple(device.strip() for device in listed.split(",")) if colon else ()
    wrong = [device for device in devices if device not in (*DEVICES, *strategies)]
    if target != RUN_ON or wrong or len(set(devices)) < len(devices):
        raise DevicegenError(f"--marker-alias {text!r}: {meaning!r} is no target; write {FORMS}")
    return MarkerAlias(name, devices)


def parse_aliases(texts: tuple[str, ...], strategies: tuple[str, ...]) -> tuple[MarkerAlias, ...]:
    """Read several, sorted by name. Raises ``DevicegenError`` also for a name given twice."""
    found: dict[str, MarkerAlias] = {}
    for text in texts:
        alias = parse_alias(text, strategies)
        if alias != found.setdefault(alias.name, alias):
            raise DevicegenError(f"--marker-alias: {alias.name} is given twice; keep one")
    return tuple(found[name] for name in sorted(found))
