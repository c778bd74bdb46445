"""Damages to what the harness makes of AMD's cards; see ``mutants.py``."""

from __future__ import annotations

from functools import partial

from harness import mutants
from harness import rocm_behaviours as r

mutant = partial(mutants.mutant, variant="rocm")

WORKERS = [
    mutant(
        "AMD's cards are not looked for",
        r.each_worker_has_its_own_amd_card,
        "        cards, kernel = _find_amd_gpus(environ)\n",
        '        kernel = ""\n',
    ),
    mutant(
        "index of AMD's card is not counted anew for HIP",
        r.each_worker_has_its_own_amd_card,
        'return {ROCR_MASK: card, HIP_MASK: "0", MASK: "0"}',
        "return {ROCR_MASK: card, HIP_MASK: card, MASK: card}",
    ),
    mutant(
        "AMD's card is in CUDA's mask only",
        r.each_worker_has_its_own_amd_card,
        "            values.update(_amd_masks(card, self.key))\n",
        "",
    ),
    mutant(
        "controller sees AMD's cards",
        r.controller_sees_no_amd_card,
        '    return {ROCR_MASK: "-1", HIP_MASK: "-1"}',
        "    return {}",
    ),
    mutant(
        "source of AMD's cards is not named",
        r.amd_cards_are_in_the_header,
        'source = kernel if cards else f"{kernel}; {source}"',
        "source += kernel",
    ),
    mutant(
        "simulated cards leave AMD's cards in sight",
        r.simulated_cards_hide_amd_cards,
        '    return {ROCR_MASK: "-1", HIP_MASK: "-1"}',
        '    return {ROCR_MASK: "-1", HIP_MASK: "-1"} if card or not key else {}',
    ),
    mutant(
        "worker with an NVIDIA card sees AMD's cards",
        r.nvidia_cards_come_first,
        '    return {ROCR_MASK: "-1", HIP_MASK: "-1"}',
        '    return {} if card else {ROCR_MASK: "-1", HIP_MASK: "-1"}',
    ),
    mutant(
        "AMD's cards come before NVIDIA's",
        r.nvidia_cards_come_first,
        "    if not cards:\n        cards, kernel",
        "    if True:\n        cards, kernel",
    ),
    mutant(
        "pytest inside a test looks for AMD's cards anew",
        r.pytest_inside_a_test_keeps_the_amd_card,
        "    if handed:\n",
        '    if handed and not handed["taken"]:\n',
    ),
    mutant(
        "replacement is given another card than the dead worker's",
        r.replacement_has_the_amd_card_of_the_dead,
        '.get("card") in TAKEN:',
        '.get("card"):',
    ),
]
MASKS = [
    mutant(
        "ROCR's mask is not read",
        r.rocr_mask_bounds_the_cards,
        "for mask in (ROCR_MASK, HIP_MASK if",
        "for mask in (HIP_MASK if",
        "else MASK):\n        if mask in environ:\n            known",
        "else MASK,):\n        if mask in environ:\n            known",
    ),
    mutant(
        "uuids in capitals name no card",
        r.rocr_mask_bounds_the_cards,
        "entries.lower().split(",
        "entries.split(",
    ),
    mutant(
        "beginning of two uuids names the first",
        r.rocr_mask_bounds_the_cards,
        "if entry and name.lower().startswith(entry)]",
        "if entry and name.lower().startswith(entry)][:1]",
    ),
    mutant(
        "blanks make an entry of ROCR's mask invalid",
        r.rocr_mask_bounds_the_cards,
        "in map(str.strip, entries.lower().split(\",\")):",
        "in entries.lower().split(\",\"):",
    ),
    mutant(
        "invalid entry of ROCR's mask is skipped",
        r.rocr_mask_bounds_the_cards,
        "named[0] in left):\n            break\n",
        "named[0] in left):\n            continue\n",
    ),
    mutant(
        "entry that comes twice does not end ROCR's list",
        r.rocr_mask_bounds_the_cards,
        "if len(named) != 1 or (mask == ROCR_MASK and named[0] in left):",
        "if len(named) != 1:",
    ),
    mutant(
        "empty ROCR mask is none",
        r.rocr_mask_bounds_the_cards,
        "        if mask in environ:\n            known",
        "        if environ.get(mask):\n            known",
    ),
    mutant(
        "caller's order of AMD's cards is lost",
        r.rocr_mask_bounds_the_cards,
        "    return left\n",
        "    return {name: card for name, card in known.items() if name in left}\n",
    ),
    mutant(
        "HIP's mask is not read",
        r.hip_mask_bounds_the_cards,
        "HIP_MASK if environ.get(HIP_MASK) else MASK",
        "MASK",
    ),
    mutant(
        "entry that comes twice ends HIP's list",
        r.hip_mask_bounds_the_cards,
        "(mask == ROCR_MASK and named[0] in left)",
        "named[0] in left",
    ),
    mutant(
        "CUDA's mask is not read for AMD's cards",
        r.cuda_mask_bounds_amd_cards,
        "HIP_MASK if environ.get(HIP_MASK) else MASK",
        "HIP_MASK",
    ),
    mutant(
        "CUDA's mask is read beside HIP's",
        r.cuda_mask_bounds_amd_cards,
        "(ROCR_MASK, HIP_MASK if environ.get(HIP_MASK) else MASK)",
        "(ROCR_MASK, HIP_MASK, MASK)",
    ),
    mutant(
        "empty HIP mask is one",
        r.cuda_mask_bounds_amd_cards,
        "HIP_MASK if environ.get(HIP_MASK) else MASK",
        "HIP_MASK if HIP_MASK in environ else MASK",
    ),
    mutant(
        "both masks are indices of the machine",
        r.rocr_and_hip_do_not_filter_twice,
        "    source = f\"{KFD_NODES} lists",
        "    machine = known\n    source = f\"{KFD_NODES} lists",
        "            known = _amd_masked(known, environ[mask], mask)\n",
        "            left = _amd_masked(machine, environ[mask], mask)\n"
        "            known = {name: card for name, card in left.items() if name in known}\n",
    ),
]  # fmt: skip
NODES = [
    mutant(
        "card without a uuid has a made-up one",
        r.cards_without_a_uuid_go_by_index,
        'f"GPU-{unique:016x}" if unique else str(len(known))',
        'f"GPU-{unique or len(known):016x}"',
    ),
    mutant(
        "card without a uuid goes by its node",
        r.cards_without_a_uuid_go_by_index,
        "else str(len(known))",
        "else node.parent.name",
    ),
    mutant(
        "CPUs are counted",
        r.nodes_are_in_the_order_of_their_numbers,
        'if fields.get("simd_count", "0") != "0":',
        "if fields:",
    ),
    mutant(
        "nodes are in the order of their names",
        r.nodes_are_in_the_order_of_their_numbers,
        "key=lambda file: int(file.parent.name)",
        "key=str",
    ),
    mutant(
        "node that cannot be read ends the list",
        r.nodes_that_cannot_be_read_are_no_cards,
        "int(file.parent.name)):\n        with contextlib.suppress(OSError):",
        "int(file.parent.name)):\n        if node.is_dir():\n            break\n        if True:",
    ),
    mutant(
        "memory of the machine counts as the card's",
        r.amd_memory_limits_fit_the_card,
        'in ("1", "2")]',
        'in ("0", "1", "2")]',
    ),
    mutant(
        "private memory of the card does not count",
        r.amd_memory_limits_fit_the_card,
        'in ("1", "2")]',
        'in ("1",)]',
    ),
    mutant(
        "card whose memory is not known has none",
        r.amd_memory_limits_fit_the_card,
        "free >> 20 if own else None)",
        "free >> 20)",
    ),
    mutant(
        "memory in use counts as free",
        r.amd_memory_limits_fit_the_card,
        '                    free -= int(used.read_text("utf-8"))',
        "                    pass",
    ),
]

ROCM_MUTANTS = (*WORKERS, *MASKS, *NODES)
