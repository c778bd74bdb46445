"""Small damages to what the harness does under Bazel; see ``mutants.py``."""

from __future__ import annotations

from harness import bazel_behaviours as b
from harness.mutants import Behaviour, Mutant, mutant


def bazel_mutant(name: str, killer: Behaviour, *edits: str) -> Mutant:
    return mutant(name, killer, *edits, variant="bazel")


BAZEL_MUTANTS = (
    bazel_mutant(
        "every shard runs all",
        b.each_item_is_in_one_shard,
        "items[:] = [item for item in items if item in mine]",
        "items[:] = items",
    ),
    bazel_mutant(
        "a shard runs in the order in which it was dealt",
        b.each_item_is_in_one_shard,
        "mine = set(sorted(items, key=_dealt)[int(index) :: int(total)])",
        "mine = sorted(items, key=_dealt)[int(index) :: int(total)]",
        "items[:] = [item for item in items if item in mine]",
        "items[:] = mine",
    ),
    bazel_mutant(
        "items of other shards are not said to be deselected",
        b.each_item_is_in_one_shard,
        "    config.hook.pytest_deselected(items=others)\n",
        "",
    ),
    bazel_mutant(
        "GPU items are dealt as they come",
        b.gpu_items_are_spread_over_the_shards,
        'return item.get_closest_marker("cpu") is not None, item.nodeid',
        "return False, item.nodeid",
    ),
    bazel_mutant(
        "an empty shard fails",
        b.an_empty_shard_succeeds,
        "        session.exitstatus = pytest.ExitCode.OK\n",
        "        pass\n",
    ),
    bazel_mutant(
        "an empty shard fails in the controller",
        b.an_empty_shard_succeeds,
        "session.config.stash.get(SHARDED, controller)",
        "session.config.stash.get(SHARDED, False)",
    ),
    bazel_mutant(
        "an empty selection succeeds",
        b.an_empty_selection_does_not,
        "    config.stash[SHARDED] = bool(items)\n",
        "    config.stash[SHARDED] = True\n",
    ),
    bazel_mutant(
        "the index is not checked",
        b.a_shard_that_does_not_exist_is_said,
        " or int(index or total) >= int(total):",
        ":",
    ),
    bazel_mutant(
        "no shards is one shard too few",
        b.a_shard_that_does_not_exist_is_said,
        'if total in ("", "0"):',
        'if total == "":',
    ),
    bazel_mutant(
        "the status file is forgotten",
        b.the_status_file_is_touched,
        "        pathlib.Path(status).touch()",
        "        pass",
    ),
    bazel_mutant(
        "the status file is touched without shards",
        b.the_status_file_is_touched,
        'if total in ("", "0"):\n',
        'if status:\n        pathlib.Path(status).touch()\n    if total in ("", "0"):\n',
    ),
    bazel_mutant(
        "shards are made of the order that a plugin makes",
        b.a_random_order_loses_no_test,
        'return item.get_closest_marker("cpu") is not None, item.nodeid',
        'return item.get_closest_marker("cpu") is not None, ""',
    ),
    bazel_mutant(
        "shards are made before anything is deselected",
        b.an_empty_selection_does_not,
        "    yield  # to all that deselects and reorders\n",
        "",
        "    config.hook.pytest_deselected(items=others)\n",
        "    config.hook.pytest_deselected(items=others)\n    yield\n",
    ),
    bazel_mutant(
        "a run inside a test is a shard",
        b.a_run_inside_a_test_is_no_shard,
        'total, index, status = (os.environ.pop(name, "") for name in names)',
        'total, index, status = (os.environ.get(name, "") for name in names)',
    ),
)
