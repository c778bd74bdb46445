"""Damages to leases and to the mapping of cards; see ``mutants.py``."""

from __future__ import annotations

from harness import lease_behaviours as b
from harness.mutants import mutant

LEASES = [
    mutant(
        "lease is dropped",
        b.a_card_has_one_run_at_a_time,
        'why = _lock(f"{key}.card")',
        'why = ""',
    ),
    mutant(
        "lease is dropped at once",
        b.a_card_has_one_run_at_a_time,
        "    HELD[name] = lock\n",
        "    os.close(lock)\n",
    ),
    mutant(
        "holder's pid is not named",
        b.a_card_has_one_run_at_a_time,
        "{', '.join(sorted(pids)) or 'unknown'}",
        "unknown",
    ),
    mutant(
        "only one card is tried",
        b.a_card_has_one_run_at_a_time,
        "for card in self.find()[0]:",
        "for card in self.find()[0][:workers]:",
    ),
    mutant(
        "card is leased by the name that the mask has for it",
        b.a_card_is_leased_by_its_uuid,
        "why = _lease(card.key)",
        "why = _lease(card.name)",
    ),
    mutant(
        "use lock is not probed",
        b.a_worker_keeps_the_card_of_a_killed_run,
        '        why = _lock(f"{key}.use")  #',
        '        why = ""  #',
    ),
    mutant(
        "use lock is not taken",
        b.a_worker_keeps_the_card_of_a_killed_run,
        'why = _lock(f"{assigned.key}.use", shared=True)',
        'why = ""',
    ),
    mutant(
        "card lock is kept when the use lock is another's",
        b.a_worker_keeps_the_card_of_a_killed_run,
        '*([f"{key}.card"] if why else []))',
        '*([f"{key}.card"] if why.endswith("unknown") else []))',
    ),
    mutant(
        "owner's death is not noticed",
        b.a_worker_without_a_run_has_no_card,
        "if not why and not _runs(assigned.owner):",
        "if not why and False:",
    ),
    mutant(
        "pytest inside a test joins in no lease",
        b.a_pytest_inside_a_test_keeps_the_card,
        "if not assigned.card or assigned.simulated:\n",
        "if not assigned.card or assigned.simulated or assigned.taken:\n",
    ),
    mutant(
        "pytest inside a test gives its card back",
        b.a_pytest_inside_a_process_gives_nothing_back,
        "elif locks and not needed and not assigned.taken:",
        "elif locks and not needed:",
    ),
    mutant(
        "forked child keeps the lease",
        b.a_forked_child_is_no_owner,
        "after_in_child=lambda: _unlock(*HELD)",
        "after_in_child=lambda: None",
    ),
    mutant(
        "forked child frees the lease",
        b.a_forked_child_is_no_owner,
        "        os.close(HELD.pop(name))  # never",
        "        import fcntl\n\n        fcntl.flock(HELD[name], fcntl.LOCK_UN)\n"
        "        os.close(HELD.pop(name))  # never",
    ),
]

WAITING = [
    mutant(
        "wait is unbounded",
        b.waiting_is_bounded,
        "time.monotonic() >= end:",
        "time.monotonic() < 0:",
    ),
    mutant(
        "requirement is forgotten while waiting",
        b.waiting_is_bounded,
        "        if len(leased) < required:\n",
        "        if cards and False:\n",
    ),
    mutant(
        "does not wait",
        b.a_run_waits_for_a_card_and_says_so,
        "if enough or not taken or time",
        "if enough or taken or time",
    ),
    mutant(
        "waits without a word",
        b.a_run_waits_for_a_card_and_says_so,
        """_say(self.config, f"devices: GPUs are {', '.join(taken)}; waiting")""",
        "pass",
    ),
    mutant(
        "word about waiting is held back",
        b.a_run_waits_for_a_card_and_says_so,
        "        terminal.flush()",
        "        pass",
    ),
    mutant(
        "waits although -m cpu",
        b.a_selection_of_cpu_tests_neither_waits_nor_leases,
        "while not self.needs_none:",
        "while True:",
    ),
    mutant(
        "'cpu and x or gpu' is taken to need none",
        b.a_selection_of_cpu_tests_neither_waits_nor_leases,
        r"(?!.*\bor\b)",
        "",
    ),
    mutant(
        "fewer than required are enough",
        b.fewer_than_required_are_waited_for,
        "len(leased) >= max(1, self.require)",
        "len(leased) >= 1",
    ),
    mutant(
        "what is free is kept while waiting for more",
        b.fewer_than_required_are_waited_for,
        '            _unlock(*(f"{card.key}.card" for card in leased))\n',
        "            workers += 0\n",
        'why = _lock(f"{key}.card")',
        'why = "" if f"{key}.card" in HELD else _lock(f"{key}.card")',
    ),
]

LATE = [
    mutant(
        "interrupt while waiting is a traceback",
        b.an_interrupt_while_waiting_is_one,
        "        except KeyboardInterrupt:",
        "        except UnicodeError:",
    ),
    mutant(
        "waits for a card that no test needs",
        b.a_run_of_cpu_tests_does_not_wait,
        "if assigned.late and needed:",
        "if assigned.late:",
    ),
    mutant(
        "waits before it knows whether a test needs a card",
        b.a_run_of_cpu_tests_does_not_wait,
        "patience = self.patience if required else 0",
        "patience = self.patience",
    ),
    mutant(
        "card that was waited for is not taken",
        b.a_card_that_was_waited_for_is_used_as_any_other,
        "        _use_card(run, run.assign(run.lease(1, run.patience), 1)[0])\n",
        "        run.lease(1, run.patience)\n",
    ),
    mutant(
        "cards are asked for again when one is needed",
        b.a_card_that_was_waited_for_is_used_as_any_other,
        '        run.found = [Card(**card) for card in assigned.late], "as when this run began"\n',
        "        run.found = None\n",
    ),
    mutant(
        "word about waiting goes to nobody's terminal",
        b.a_card_that_was_waited_for_is_used_as_any_other,
        '    if terminal and not hasattr(config, "workerinput"):',
        "    if terminal:",
    ),
    mutant(
        "every worker waits for a card of its own",
        b.one_worker_waits_for_all,
        "            given[0] = dataclasses.replace(given[0], late=late)\n",
        "            given = [dataclasses.replace(one, late=late) for one in given]\n",
    ),
    mutant(
        "framework that looked too early is not named",
        b.a_framework_that_looked_before_the_card_was_there_is_named,
        '"before this run had the card"',
        '"too early"',
    ),
]

TAKEN = [
    mutant(
        "taken card is handed on to the replacement",
        b.a_taken_card_is_replaced,
        "        env.update(dataclasses.replace(assigned, problem=problem).environment())\n",
        "        assert problem is not None\n",
    ),
    mutant(
        "taken card is leased again",
        b.the_last_card_that_is_taken_is_said,
        "        if card.name in TAKEN:\n",
        "        if card.busy in TAKEN:\n",
    ),
    mutant(
        "worker keeps a card that it cannot use",
        b.a_taken_card_is_replaced,
        "        os._exit(1)\n",
        "        pass\n",
    ),
    mutant(
        "nobody is told that a card is taken",
        b.a_taken_card_is_replaced,
        '        hook.call_historic(kwargs={**told, "location": None})\n',
        "        assert hook and told\n",
    ),
    mutant(
        "taken cards are skipped though some are required",
        b.the_last_card_that_is_taken_is_said,
        'problem = assigned.reason if run.require else ""',
        'problem = ""',
    ),
    mutant(
        "problem of a worker without a card is a skip",
        b.the_last_card_that_is_taken_is_said,
        "        if not assigned.card and not problem:\n",
        "        if not assigned.card:\n",
    ),
    mutant(
        "pytest inside a test ends itself",
        b.a_taken_card_fails_its_tests_where_nobody_can_be_replaced,
        "if assigned.owner == os.getppid() and not assigned.taken:",
        "if assigned.owner == os.getppid():",
    ),
    mutant(
        "TensorFlow's error is shown as it is",
        b.a_taken_card_fails_its_tests_where_nobody_can_be_replaced,
        "    if tf and assigned.card and devices and not assigned.simulated:\n",
        "    if not assigned.card:\n",
    ),
    mutant(
        "search for another card frees those that the run has",
        b.a_run_keeps_its_other_cards_when_one_is_taken,
        '*([f"{key}.card"] if why else []))\n',
        ')\n    if why:\n        _unlock(f"{key}.card")\n',
    ),
    mutant(
        "card without TensorFlow is taken for another program's",
        b.a_card_without_tensorflow_is_not_taken_for_anothers,
        "    if tf and assigned.card and devices and not assigned.simulated:\n",
        "    if assigned.card and devices and not assigned.simulated:\n",
    ),
    mutant(
        "test that is marked late misses the fixture that it was spared",
        b.a_test_that_is_marked_after_collection_keeps_its_card,
        'elif not scoped and kind in ("cpu", "none"):',
        'elif not scoped and kind == "cpu":',
    ),
    mutant(
        "marks that the project adds are not seen when cards are given back",
        b.a_test_that_is_marked_after_collection_keeps_its_card,
        "_keep_kind(item)[0] for item in session.items",
        "item.stash[KIND] for item in session.items",
    ),
    mutant(
        "reason why a card was not taken is lost",
        b.the_last_card_that_is_taken_is_said,
        "            return TAKEN[card.name]\n",
        '            return "taken"\n',
    ),
]

GIVING_BACK = [
    mutant(
        "nothing is given back by a process",
        b.a_card_that_no_item_needs_is_given_back,
        "            _unlock(*locks)\n",
        "            assert locks\n",
    ),
    mutant(
        "nothing is given back by a controller",
        b.a_card_that_no_item_needs_is_given_back,
        '        _unlock(f"{key}.card")\n\n\ndef _hand_in',
        "        pass\n\n\ndef _hand_in",
    ),
    mutant(
        "card that was given back stays in the mask",
        b.a_card_that_no_item_needs_is_given_back,
        '            run.hand_on(Assignment(reason="needs a GPU: it was given back"))\n',
        "            assert run\n",
    ),
    mutant(
        "card is given back that an item needs",
        b.a_card_in_use_is_not_given_back,
        'needed = not set(kinds) <= {"", "cpu"}',
        'needed = not set(kinds) <= {"", "cpu", "none"}',
    ),
    mutant(
        "card is given back that the runtime has",
        b.a_card_in_use_is_not_given_back,
        '            if "tensorflow" in sys.modules:\n',
        '            if "tensorflow" not in sys.modules:\n',
    ),
    mutant(
        "replacement gets a card that was given back",
        b.a_replacement_has_no_card_that_was_given_back,
        '        env.update(Assignment(reason="needs a GPU: it was given back").environment())\n',
        "        assert env\n",
    ),
    mutant(
        "death is taken for giving back",
        b.a_dead_workers_card_is_not_given_back,
        "        node.gateway.remote_status()",
        "        pass",
    ),
    mutant(
        "use lock stays with the controller",
        b.a_dead_workers_card_is_not_given_back,
        '    _unlock(f"{key}.use")\n    with contextlib.suppress(EOFError',
        "    with contextlib.suppress(EOFError",
    ),
]

MAPPING = [
    mutant(
        "replacement has no card",
        b.a_replacement_has_the_dead_ones_card,
        '    if json.loads(env.get(HANDED, "{}")).get("card") in TAKEN:\n',
        "    env.update(Assignment().environment())\n"
        '    if json.loads(env.get(HANDED, "{}")).get("card") in TAKEN:\n',
    ),
    mutant(
        "two workers have one card",
        b.every_way_to_start_workers_maps_them,
        "in (leased * self.workers_per_gpu)[:workers]:",
        "in (leased * workers)[: len(leased) - 1] + leased[:1]:",
    ),
    mutant(
        "cards are filled depth first",
        b.workers_may_share_a_card,
        "in (leased * self.workers_per_gpu)[:workers]:",
        "in [c for c in leased for _ in range(self.workers_per_gpu)][:workers]:",
    ),
    mutant(
        "memory is not divided",
        b.workers_may_share_a_card,
        "(card.free_mb or 0) // sharers",
        "(card.free_mb or 0)",
    ),
    mutant(
        "memory is divided among those who are not there",
        b.memory_is_not_divided_among_those_who_are_not_there,
        "sharers = min(self.workers_per_gpu, -(-workers // len(leased)))",
        "sharers = self.workers_per_gpu",
    ),
    mutant(
        "card is used that is too small for its workers",
        b.memory_is_not_divided_among_those_who_are_not_there,
        "        least *= self.workers_per_gpu\n",
        "",
    ),
    mutant(
        "remote worker gets a local token",
        b.a_worker_elsewhere_has_a_card_of_its_own_machine,
        "local = [spec for spec in specs if spec.popen and not spec.via]",
        "local = specs",
        "            spec.env.setdefault(name, value)\n",
        '            spec.env.setdefault(name, value)\n            spec.env[f"{name}"] = value\n',
    ),
    mutant(
        "worker by way of another sees the controller's mask",
        b.a_worker_by_way_of_another_leases_for_itself,
        "            self.caller.update(json.loads(os.environ[CALLERS_MASK]))\n",
        "            self.caller.update({MASK: '-1'})\n",
    ),
    mutant(
        "worker by way of another gets a local token",
        b.a_worker_by_way_of_another_leases_for_itself,
        "if spec.popen and not spec.via]",
        "if spec.popen]",
    ),
]

FILES = [
    mutant(
        "lock is a file that is opened for writing",
        b.planted_files_do_no_harm,
        "lock = os.open(path, os.O_DIRECTORY | os.O_NOFOLLOW)",
        "lock = os.open(path, os.O_RDWR | os.O_TRUNC)",
    ),
    mutant(
        "symlink is followed",
        b.planted_files_do_no_harm,
        "            if os.path.islink(made):\n",
        "            if not made:\n",
        "os.O_DIRECTORY | os.O_NOFOLLOW",
        "os.O_DIRECTORY",
    ),
    mutant(
        "folder may be a symlink",
        b.planted_files_do_no_harm,
        "            if os.path.islink(made):\n",
        "            if not made:\n",
    ),
    mutant(
        "umask closes a lock to others",
        b.users_share_the_leases,
        "    umask = os.umask(0)\n",
        "    umask = os.umask(0o77)\n",
        "                os.mkdir(made, 0o1777)",
        "                os.mkdir(made, 0o0777)",
    ),
    mutant(
        "another user's logout removes a lock",
        b.users_share_the_leases,
        "            os.mkdir(str(os.getuid()), dir_fd=lock)",
        "            pass",
    ),
    mutant(
        "leases are in the temporary folder",
        b.leases_hold_across_private_temporary_folders,
        "    if os.access(SHARED_FOLDER, os.W_OK):\n",
        "    if not SHARED_FOLDER:\n",
    ),
    mutant(
        "local exclusion is not mentioned",
        b.local_exclusion_is_said_loudly,
        '                source += f"; LEASES',
        '                source = source or f"; LEASES',
    ),
    mutant(
        "shared memory of a container is taken for the machine's",
        b.exclusion_within_a_container_is_said,
        '"IN THIS CONTAINER" if contained else ""',
        '"" if contained else ""',
    ),
    mutant(
        "link to the shared folder is refused",
        b.folders_may_be_reached_through_links,
        "os.path.realpath(SHARED_FOLDER)",
        "SHARED_FOLDER",
    ),
]

EVERY = (*LEASES, *WAITING, *LATE, *TAKEN, *GIVING_BACK, *MAPPING, *FILES)
LEASE_MUTANTS = tuple(mutant for mutant in EVERY if mutant.killer in b.LEASE)
