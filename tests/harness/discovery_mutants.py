"""Damages to what the harness makes of a machine's cards; see ``mutants.py``."""

from __future__ import annotations

from harness import discovery_behaviours as d
from harness.mutants import mutant

MASKS = [
    mutant(
        "driver is not asked",
        d.the_driver_says_what_a_mask_means,
        'cards, source = _ask_driver(known, environ), f"libcuda.so.1; {source}"',
        'cards, source = _masked(known, mask), f"libcuda.so.1; {source}"',
    ),
    mutant(
        "driver does not see the caller's mask",
        d.the_driver_says_what_a_mask_means,
        "return _cuda_devices(known, environ)",
        'return _cuda_devices(known, {k: v for k, v in environ.items() if k != MASK})',
    ),
    mutant(
        "order is forced onto the caller's mask",
        d.the_driver_says_what_a_mask_means,
        "return _cuda_devices(known, environ)",
        'return _cuda_devices(known, {**environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"})',
    ),
    mutant(
        "caller's order is taken away",
        d.the_callers_order_of_devices_is_kept,
        "return _cuda_devices(known, environ)",
        'return _cuda_devices(known, {**environ, "CUDA_DEVICE_ORDER": "FASTEST_FIRST"})',
    ),
    mutant(
        "handle of a device is taken to be its ordinal",
        d.the_driver_says_what_a_mask_means,
        'call("cuDeviceGet", ctypes.byref(device), index)',
        "device.value = index",
    ),
    mutant(
        "uuids are handed out for entries that nobody understood",
        d.entries_are_handed_out_without_a_driver,
        "units = units or [dataclasses.replace(named[0], name=entry)]",
        "units = units or named",
    ),
    mutant(
        "blanks make an entry invalid",
        d.every_form_of_entry_is_taken,
        "for entry in map(str.strip, entries):",
        "for entry in entries:",
    ),
    mutant(
        "ambiguous uuid names the first card",
        d.every_form_of_entry_is_taken,
        "if entry and gpu.name.startswith(entry)]",
        "if entry and gpu.name.startswith(entry)][:1]",
    ),
    mutant(
        "-1 is the last card",
        d.every_form_of_entry_is_taken,
        "        if entry.isdecimal():\n            named = gpus[int(entry) : int(entry) + 1]",
        '        if entry.lstrip("-").isdecimal():\n            named = [gpus[int(entry) % 4]]',
    ),
    mutant(
        "empty mask is no mask",
        d.a_mask_may_hide_all,
        "if mask is None else mask.split(\",\")\n    cards: dict[str, Card] = {}\n    for",
        "if not mask else mask.split(\",\")\n    cards: dict[str, Card] = {}\n    for",
    ),
    mutant(
        "no device is an error of the driver",
        d.a_mask_may_hide_all,
        "        if code == 100:  # CUDA_ERROR_NO_DEVICE: the mask hides them all\n"
        "            sys.exit()\n",
        "",
    ),
    mutant(
        "card that is listed twice stays",
        d.a_mask_may_hide_all,
        "        if units[0].key in cards:\n            return []\n",
        "",
    ),
]  # fmt: skip
MIG = [
    mutant(
        "whole GPU is handed out in MIG mode",
        d.mig_instances_are_the_units,
        "known[name] = Card(name, name, _free_mb(gpu), busy, tuple(instances))",
        "known[name] = Card(name, name, _free_mb(gpu), busy)",
    ),
    mutant(
        "only the instance that CUDA shows is used",
        d.mig_instances_are_the_units,
        '(entry.startswith("MIG-") or not card.instances)',
        "card",
    ),
    mutant(
        "whole GPU is handed out in MIG mode, for want of the driver",
        d.mig_instances_are_the_units,
        "units = [known[name] for name in named[0].instances]",
        "units: list[Card] = []",
    ),
    mutant(
        "instance may use the memory of its GPU",
        d.mig_instances_are_the_units,
        'unit.replace("/", "_"), _free_mb(mig), busy)',
        'unit.replace("/", "_"), _free_mb(gpu), busy)',
    ),
    mutant(
        "MIG entries are given to CUDA all at once",
        d.mig_entries_are_opaque,
        'if not any("MIG-" in name for name in [mask or "", *known]):',
        "if mask is not None:",
    ),
    mutant(
        "instance that two entries name is two",
        d.mig_entries_are_opaque,
        "card = dataclasses.replace(card, name=mig, key=mig)",
        "card = dataclasses.replace(card, name=entry, key=entry.replace('/', '_'))",
    ),
    mutant(
        "MIG entry is an index",
        d.mig_entries_are_opaque,
        "named = [known.get(entry, Card(entry, entry.replace(\"/\", \"_\")))]",
        "named = gpus[:1]",
    ),
    mutant(
        "invalid MIG entry is skipped",
        d.mig_entries_are_opaque,
        "        if not shown:\n            break\n",
        "",
    ),
]  # fmt: skip
SOURCES = [
    mutant(
        "driver needs nvidia-smi",
        d.the_driver_alone_will_do,
        "card = known.get(name, Card(name, name, int(total_mb), busy))",
        "card = known[name] if name in known else Card(name, name, 0, busy)",
    ),
    mutant(
        "driver's word on the compute mode is not heard",
        d.the_driver_alone_will_do,
        'if mode == "2" else ""',
        'if mode == "prohibited" else ""',
    ),
    mutant(
        "driver's files are not read",
        d.driver_files_are_the_last_source,
        '.glob("*/information"))',
        '.glob("*/none"))',
    ),
    mutant(
        "missing library goes unnamed",
        d.driver_files_are_the_last_source,
        'cards, source = _masked(known, mask), f"{source}; CUDA driver: {error}"',
        "cards = _masked(known, mask) if error else []",
    ),
    mutant(
        "time limit of a minute",
        d.the_run_goes_on_without_nvidia_smi,
        "communicate(timeout=ASK_SECONDS)",
        "communicate(timeout=ASK_SECONDS * 5)",
        'raise OSError(f"no answer in {ASK_SECONDS} s") from None',
        'raise OSError(f"no answer in {ASK_SECONDS * 5} s") from None',
    ),
    mutant(
        "exit code is not looked at",
        d.the_run_goes_on_without_nvidia_smi,
        "    if process.returncode:\n",
        "    if not errors and process.returncode < 0:\n",
    ),
    mutant(
        "warnings are part of the answer",
        d.what_nvidia_smi_writes_beside_its_answer_is_no_fault,
        "options.update(stdout=subprocess.PIPE, stderr=subprocess.PIPE)",
        "options.update(stdout=subprocess.PIPE, stderr=subprocess.STDOUT)",
        "said = \" \".join((output + errors).split())[-200:]",
        "said = \" \".join(output.split())[-200:]",
    ),
    mutant(
        "code of cuInit is not looked at",
        d.the_run_goes_on_without_the_driver,
        "        if code:\n            raise OSError",
        "        if code < 0:\n            raise OSError",
    ),
    mutant(
        "driver that fails hides all",
        d.the_run_goes_on_without_the_driver,
        'cards, source = _masked(known, mask), f"{source}; CUDA driver: {error}"',
        'cards, source = [], f"{source}; CUDA driver: {error}"',
    ),
    mutant(
        "comma is skipped",
        d.odd_memory_is_unknown_memory,
        're.fullmatch(r"(\\d+) MiB", node.findtext("fb_memory_usage/free", ""))',
        're.fullmatch(r"(\\d+) MiB", node.findtext("fb_memory_usage/free", "").replace(",", ""))',
    ),
    mutant(
        "unknown memory is none",
        d.odd_memory_is_unknown_memory,
        "return int(free[1]) if free else None",
        "return int(free[1]) if free else 0",
    ),
    mutant(
        "answers are not kept",
        d.the_machine_is_asked_once,
        "if self.found is None:",
        "if self.found is None or self.controller:",
    ),
    mutant(
        "context is made to list the devices",
        d.the_machine_is_asked_once,
        '        call("cuDeviceGet", ctypes.byref(device), index)\n',
        '        call("cuDeviceGet", ctypes.byref(device), index)\n'
        "        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(total), device)\n",
    ),
    mutant(
        "machine is asked for help",
        d.the_machine_is_not_asked_without_tests_to_run,
        'others = ["help", "version", ',
        "others = [",
    ),
]  # fmt: skip
BUSY = [
    mutant(
        "exclusive card with a process on it is used",
        d.busy_cards_are_passed_over,
        '(mode.startswith("Exclusive") and pids)',
        '(mode.startswith("exclusive") and pids)',
    ),
    mutant(
        "prohibited card is used",
        d.busy_cards_are_passed_over,
        'closed = mode == "Prohibited" or',
        'closed = mode == "prohibited" or',
    ),
    mutant(
        "shared card with a process on it is not used",
        d.busy_cards_are_passed_over,
        '(mode.startswith("Exclusive") and pids)',
        "pids",
    ),
    mutant(
        "the screen's process keeps tests away",
        d.busy_cards_are_passed_over,
        'if "C" in u.findtext("type", "C")]',
        "if u is not None]",
    ),
    mutant(
        "full card is used",
        d.busy_cards_are_passed_over,
        "card.free_mb < least",
        "card.free_mb < 0",
    ),
    mutant(
        "busy cards go unmentioned",
        d.busy_cards_are_passed_over,
        'over = [f"{name} passed over: {why}" for',
        'over = [f"{name}" for',
    ),
    mutant(
        "card that has just enough is passed over",
        d.memory_limits_fit_the_free_memory,
        "card.free_mb < least",
        "card.free_mb <= least",
    ),
    mutant(
        "no reserve for CUDA itself",
        d.memory_limits_fit_the_free_memory,
        "RESERVED_MB = 1024",
        "RESERVED_MB = 0",
    ),
]

DISCOVERY_MUTANTS = (*MASKS, *MIG, *SOURCES, *BUSY)
