"""``devicegen inspect``: facts and decisions, as a page for a person or as JSON."""

from __future__ import annotations

import json
from pathlib import Path

from devicegen.console import say
from devicegen.errors import DevicegenError
from devicegen.facts.details import gather_details
from devicegen.facts.repository import gather_facts
from devicegen.inspection import Inspection, as_json, schema
from devicegen.inspection_page import print_page
from devicegen.planning import make_plan
from devicegen.record import Answers


def inspect(path: Path, *, as_json_text: bool) -> int:
    """Print what is found in the repository at ``path`` and what ``init`` would decide.

    Returns 0, also where ``init`` would refuse: the refusal is part of what is said. Raises
    ``DevicegenError`` where ``path`` is no folder.
    """
    facts = gather_facts(path)
    try:
        plan = make_plan(path, Answers())
    except DevicegenError as error:
        details = gather_details(facts.top, facts.test_files)
        inspection = Inspection(facts, details, refusal=str(error))
    else:
        marks = plan.decisions.marker_names
        details = gather_details(facts.top, facts.test_files, marks)
        inspection = Inspection(facts, details, plan.decisions, plan.change_set)
    if as_json_text:
        say(json.dumps(as_json(inspection), indent=2))
    else:
        print_page(inspection)
    return 0


def print_schema() -> int:
    """Print the JSON Schema of ``--json`` and return 0."""
    say(json.dumps(schema(), indent=2))
    return 0
