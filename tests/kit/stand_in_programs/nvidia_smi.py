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
    if answers["output"] is not None:
        sys.stdout.write(answers["output"])
        return 0
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
    sys.stdout.write(overview(cards, options, answers))
    return 0


def overview(cards, options, answers):
    """Return what ``-q -x``, ``-L`` or no option at all shows."""
    if "-q" in options and "-x" in options:
        return log(cards, answers)
    if "-L" in options:
        return answers["listing"] or "".join(LISTED.format(**card) + "\n" for card in cards)
    return table(cards)


def parsed(argv):
    """Return option -> value; both ``--option=value`` and ``--option value`` are taken."""
    short = {"--list-gpus": "-L", "--id": "-i", "--query": "-q", "--xml-format": "-x"}
    flags = {"-L", "--list-gpus", "-q", "--query", "-x", "--xml-format"}
    options, words = {}, list(argv)
    while words:
        option, equals, value = words.pop(0).partition("=")
        if not equals and option not in flags and words:
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


def log(cards, answers):
    """Return the log of ``-q -x``, cut down; where a table says ``[N/A]`` it says ``N/A``."""
    lines = [
        '<?xml version="1.0" ?>',
        '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">',
        "<nvidia_smi_log>",
        "\t<timestamp>Fri Aug  4 11:44:30 2023</timestamp>",
        f"\t<driver_version>{cards[0]['driver_version']}</driver_version>",
        f"\t<attached_gpus>{len(cards)}</attached_gpus>",
    ]
    for card in cards:
        values = {field: value.strip("[]") for field, value in card.items()}
        instances = [mig for mig in answers["instances"] if mig["gpu_uuid"] == card["uuid"]]
        mode = "Enabled" if instances else values["mig.mode.current"]
        lines += [
            f'\t<gpu id="{values["pci.bus_id"]}">',
            f"\t\t<product_name>{values['name']}</product_name>",
            f"\t\t<mig_mode>\n\t\t\t<current_mig>{mode}</current_mig>\n\t\t</mig_mode>",
            "\t\t<mig_devices>" + "".join(map(mig_device, instances)) + "\n\t\t</mig_devices>"
            if instances
            else "\t\t<mig_devices>\n\t\t\tNone\n\t\t</mig_devices>",
            f"\t\t<uuid>{values['uuid']}</uuid>",
            memory("\t\t", values),
            f"\t\t<compute_mode>{values['compute_mode']}</compute_mode>",
        ]
        running = [row for row in answers["processes"] if row["gpu_uuid"] == card["uuid"]]
        users = "".join(map(process_info, running))
        lines.append(f"\t\t<processes>{users}\n\t\t</processes>" if users else "\t\t<processes />")
        lines.append("\t</gpu>")
    return "\n".join([*lines, "</nvidia_smi_log>", ""])


def mig_device(mig):
    """Return the element of one MIG instance."""
    return (
        "\n\t\t\t<mig_device>"
        f"\n\t\t\t\t<index>{mig['index']}</index>"
        f"\n\t\t\t\t<gpu_instance_id>{mig['gpu_instance_id']}</gpu_instance_id>"
        f"\n\t\t\t\t<compute_instance_id>{mig['compute_instance_id']}</compute_instance_id>"
        f"\n{memory(4 * chr(9), mig)}"
        "\n\t\t\t</mig_device>"
    )


def memory(indent, values):
    """Return the element that holds a card's, or an instance's, memory."""
    inner = "".join(
        f"\n{indent}\t<{part}>{values['memory.' + part].strip('[]')}</{part}>"
        for part in ("total", "used", "free")
    )
    return f"{indent}<fb_memory_usage>{inner}\n{indent}</fb_memory_usage>"


def process_info(row):
    """Return the element of one process."""
    return (
        "\n\t\t\t<process_info>"
        f"\n\t\t\t\t<pid>{row['pid']}</pid>"
        f"\n\t\t\t\t<type>{row.get('type', 'C')}</type>"
        f"\n\t\t\t\t<process_name>{row.get('process_name', 'python')}</process_name>"
        f"\n\t\t\t\t<used_memory>{row.get('used_gpu_memory', 'N/A')}</used_memory>"
        "\n\t\t\t</process_info>"
    )


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
