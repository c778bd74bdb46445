"""What ``kit.nvidia_smi`` installs as ``nvidia-smi``; its answers lie beside it."""

import json
import os
import sys
import time

FOLDER = os.path.dirname(os.path.abspath(sys.argv[0]))  # noqa: PTH100, PTH120 - starts faster
UNITS = ("MiB", "%", "W", "MHz")
LISTED = "GPU {index}: {name} (UUID: {uuid})"


def main(argv):
    """Answer one call; return the exit code."""
    with open(f"{FOLDER}/answers.json", encoding="utf-8") as file:  # noqa: PTH123
        answers = json.load(file)
    mask = os.environ.get("CUDA_VISIBLE_DEVICES")
    call = json.dumps({"argv": argv, "pid": os.getpid(), "mask": mask})
    with open(f"{FOLDER}/calls.jsonl", "a", encoding="utf-8") as file:  # noqa: PTH123
        file.write(call + "\n")
    if answers["hangs"]:
        time.sleep(3600)
    time.sleep(answers["delay"])
    sys.stderr.write(answers["stderr"])
    if answers["failure"]:
        sys.stdout.write(answers["failure"]["stdout"])
        return answers["failure"]["exit_code"]
    options = parsed(argv)
    cards = selected(answers["cards"], options)
    if not cards:
        print("No devices were found")
        return 6
    if "--query-gpu" in options:
        return query(options["--query-gpu"], cards, options, answers)
    if "--query-compute-apps" in options:
        uuids = {card["uuid"] for card in cards}
        rows = [row for row in answers["processes"] if row["gpu_uuid"] in uuids]
        return query(options["--query-compute-apps"], rows, options, answers)
    lines = "".join(LISTED.format(**card) + "\n" for card in cards)
    sys.stdout.write(answers["listing"] or lines if "-L" in options else table(cards))
    return 0


def parsed(argv):
    """Return option -> value; both ``--option=value`` and ``--option value`` are taken."""
    short = {"--list-gpus": "-L", "--id": "-i"}
    options, words = {}, list(argv)
    while words:
        option, equals, value = words.pop(0).partition("=")
        if not equals and option not in ("-L", "--list-gpus") and words:
            value = words.pop(0)
        options[short.get(option, option)] = value
    return options


def selected(cards, options):
    """Return the cards that ``-i`` names, by index, uuid or bus id; all without it."""
    named = options.get("-i", "").split(",")
    keys = ("index", "uuid", "pci.bus_id")
    return [card for card in cards if named == [""] or any(card[key] in named for key in keys)]


def query(fields, rows, options, answers):
    """Print the csv table of ``fields``, as ``--format`` says."""
    words = options.get("--format", "").split(",")
    names = [answers["other_names"].get(field, field) for field in fields.split(",")]
    known = {*answers["cards"][0], "gpu_uuid", "pid", "process_name", "used_gpu_memory"}
    for field, name in zip(fields.split(","), names):  # noqa: B905 - any Python may run it
        if name not in known:
            print(f'Field "{field}" is not a valid field to query.\n')
            return 2
    if "--query-compute-apps" in options:  # the two have other names there
        names = [{"name": "process_name", "uuid": "gpu_uuid"}.get(name, name) for name in names]
    if "csv" not in words:
        print('"--format=" switch is missing. Please run "nvidia-smi -h" for more help.')
        return 2
    if "noheader" not in words:
        print(", ".join(headed(name, rows) for name in names))
    for row in rows:
        values = [row.get(name, "[N/A]") for name in names]
        if "nounits" in words:
            values = [value.rsplit(" ", 1)[0] if unit(value) else value for value in values]
        print(", ".join(values))
    return 0


def unit(value):
    """Return the unit that a value ends in, "" for none."""
    last = value.rpartition(" ")[2]
    return last if last in UNITS and last != value else ""


def headed(name, rows):
    """Return a column's heading: the field, with its unit in brackets where it has one."""
    if name.startswith(("memory.", "used_gpu_memory")):
        return f"{name} [MiB]"
    if name.startswith("utilization."):
        return f"{name} [%]"
    units = {unit(row.get(name, "")) for row in rows} - {""}
    return f"{name} [{units.pop()}]" if units else name


def table(cards):
    """Return the overview for people, cut down to two lines a card."""
    rule = "+" + "-" * 77 + "+\n"
    version = cards[0]["driver_version"]
    head = f"NVIDIA-SMI {version}    Driver Version: {version}"
    lines = [rule, f"| {head:75} |\n", rule]
    for card in cards:
        first = f"{card['index']:>3}  {card['name']:30} {card['pci.bus_id']}"
        used = f"{card['memory.used']} / {card['memory.total']}   {card['compute_mode']}"
        lines += [f"| {first:75} |\n", f"| {used:75} |\n", rule]
    return "".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
