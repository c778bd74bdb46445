"""Damages to what a rank under mpirun and the like is given; see ``mutants.py``."""

from __future__ import annotations

from harness import rank_behaviours as b
from harness.mutants import mutant

RANK_MUTANTS = [
    mutant(
        "rank is not asked for",
        b.each_rank_has_the_card_of_its_rank,
        "in RANKS.items() if cards and",
        "in {}.items() if cards and",
    ),
    mutant(
        "rank is not said",
        b.each_rank_has_the_card_of_its_rank,
        'return mine, f"{said} GPUs{few}; {source}"',
        "return mine, source",
    ),
    mutant(
        "Intel MPI is not known",
        b.every_launcher_is_known,
        '    "MPI_LOCALRANKID": "MPI_LOCALNRANKS",\n',
        "",
    ),
    mutant(
        "Slurm's list of ranks is taken for their number",
        b.every_launcher_is_known,
        'if number == "SLURM_GTIDS":\n',
        'if number == "SLURM_GTIDS" and "," in ranks:\n            ranks = ranks[-1]\n'
        '        elif number == "SLURM_GTIDS":\n',
    ),
    mutant(
        "rank alone is no rank",
        b.every_launcher_is_known,
        "of = max(int(rank) + 1, int(ranks) if ranks.isdecimal() else 0)",
        "of = int(ranks) if ranks.isdecimal() else 0",
    ),
    mutant(
        "one rank is one of several",
        b.one_rank_is_no_rank,
        "            if of > 1:\n",
        "            if of > 0:\n",
    ),
    mutant(
        "outer launcher counts where the inner has one rank",
        b.one_rank_is_no_rank,
        "        if rank.isdecimal():\n",
        '        if ranks == "1":\n            break\n        if rank.isdecimal():\n',
    ),
    mutant(
        "mask of a rank's own counts for nothing",
        b.ranks_with_a_mask_each_share_no_card,
        "mine if any(mask in run.caller for mask in MASKS) else []",
        "[]",
    ),
    mutant(
        "rank waits for a card that another rank has",
        b.ranks_with_a_mask_each_share_no_card,
        "run.crowded, run.patience = True, 0",
        "run.crowded = True",
    ),
    mutant(
        "tests of a rank without a card are skipped",
        b.more_ranks_than_cards_are_an_error_in_each,
        'problem = reason if self.crowded and not leased else ""',
        'problem = ""',
    ),
    mutant(
        "ranks that outnumber the cards take what there is",
        b.more_ranks_than_cards_are_an_error_in_each,
        "mine if any(mask in run.caller for mask in MASKS) else []",
        "mine",
    ),
    mutant(
        "simulated cards are shared out among ranks",
        b.more_ranks_than_cards_are_an_error_in_each,
        " if cards and not run.simulate else ()",
        " if cards else ()",
    ),
    mutant(
        "rank has one card, however many there are",
        b.workers_of_a_rank_have_its_share,
        "mine = cards[int(rank) % len(cards) :: of]",
        "mine = cards[int(rank) % len(cards) :][:1]",
    ),
    mutant(
        "rank takes any card",
        b.a_rank_waits_for_its_own_card,
        "mine = cards[int(rank) % len(cards) :: of]",
        "mine = cards[int(rank) % len(cards) :] + cards[: int(rank)]",
    ),
]
