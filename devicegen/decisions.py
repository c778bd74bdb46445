"""From facts to decisions: every answer, with its reason in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from devicegen.competing import first_own_split, notes_about, refuse_competing
from devicegen.errors import DevicegenError
from devicegen.facts.bazel import MAINS
from devicegen.facts.pytest_config import PytestConfig
from devicegen.facts.repository import RepoFacts
from devicegen.facts.source_tree import Location
from devicegen.fitness import refuse_unfit
from devicegen.harness_names import HarnessNames, choose_names, without_aliases
from devicegen.marker_aliases import MarkerAlias, parse_aliases
from devicegen.placement import Place, find_place
from devicegen.record import HARNESS, Answers, Record

# The lowest Python that the harness is made for; its syntax runs on older ones too.
HARNESS_PYTHON = (3, 9)
# TensorFlow 2.4 moved the logical-device names out of tf.config.experimental; the old names are
# still there in 2.21: https://www.tensorflow.org/api_docs/python/tf/config
STABLE_SINCE = (2, 4)

# What --strategy offers, beside "distributed", which is always there.
STRATEGIES = ("one_device", "central_storage")
NONE = "none"
MARKERS = (
    "run_on([device, ...]): once per device: 'cpu', 'gpu', 'distributed strategy'",
    "no_device_scope: runs in no device scope; the test handles devices itself",
    "cpu: set on tests that run on the CPU, to select with -m; write run_on",
    "gpu: set on tests that run on a GPU, to select with -m; write run_on",
    "distributed: set on tests in a strategy, to select with -m; write run_on",
)


NO_CONFIG = PytestConfig()


class Decision(NamedTuple):
    """One answer as a person reads it: what was decided on, the answer, and why."""

    subject: str
    answer: str
    reason: str


@dataclass(frozen=True)
class Decisions:
    """Every answer that rendering and writing need; ``listed`` holds them with their reasons.

    ``registry`` is the configuration file that the marker lines go into, None for none;
    ``config`` is how pytest reads it, ``adds_config`` that it does not count yet. ``shared``
    means that ``conftest`` is the project's own and gets a block; without ``split`` the project
    sets its cards up itself. ``main`` is the ``py_test`` main of a Bazel repository, None where
    there is no need of one. ``notes`` are lines about what the answers do not reach.
    """

    conftest: str
    registry: str | None
    logical_device_api: Literal["stable", "experimental"]
    xdist: bool
    durations_history: bool
    memory_limit_mb: int | None
    rocm: bool
    strategies: tuple[str, ...]
    aliases: tuple[MarkerAlias, ...]
    seeds: bool
    names: HarnessNames
    listed: tuple[Decision, ...]
    shared: bool = False
    split: bool = True
    config: PytestConfig = NO_CONFIG
    adds_config: bool = False
    notes: tuple[str, ...] = ()
    main: str | None = None

    @property
    def marker_names(self) -> tuple[str, ...]:
        """The markers that say where a test runs, and the project's own that stand for them."""
        own = (alias.name for alias in self.aliases)
        return (self.names.run_on, self.names.no_device_scope, *own)

    @property
    def markers(self) -> tuple[str, ...]:
        """The lines that register the markers."""
        prefix = self.names.plain_prefix
        plain = [prefix + line for line in MARKERS[2:]]
        lines = (*MARKERS[:2], *plain, *(alias.line for alias in self.aliases))
        return tuple(map(self.names.renamed, lines))


class Asked(NamedTuple):
    """What is asked for one call, and recorded by what it leads to, not as an answer."""

    conftest: str | None = None
    keep_device_setup: bool = False


NOTHING_ASKED = Asked()


def decide(
    facts: RepoFacts, answers: Answers, record: Record | None, asked: Asked = NOTHING_ASKED
) -> Decisions:
    """Decide everything that ``init`` and ``upgrade`` need.

    ``answers`` are the command line's; an earlier ``record`` keeps its place, ``asked`` may name
    one. Raises ``DevicegenError`` where the harness is of no use or has no place here.
    """
    is_asked = record is not None or asked.conftest is not None or answers.bazel is True
    refuse_unfit(facts, is_asked=is_asked)
    place = find_place(facts, record, asked.conftest, config_edit=answers.config_edit is not False)
    if record is None and not asked.keep_device_setup:
        refuse_competing(facts.device_setups)
    split, split_why = _split(facts, answers)
    registry, registry_why = _registry(place, answers)
    api, api_why = _logical_device_api(facts)
    xdist, xdist_why = _xdist(facts, answers)
    durations, durations_why = _durations_history(answers, xdist)
    limit, limit_why = _memory_limit(answers)
    rocm, rocm_why = _rocm(facts, answers)
    strategies, strategies_why = _strategies(answers)
    aliases = parse_aliases(_given("--marker-alias", answers.marker_aliases), strategies)
    seeds, seeds_why = _seeds(answers)
    names, names_why = _names(facts, aliases, record)
    main, bazel = _bazel(facts, answers, place.path, record)
    return Decisions(
        conftest=place.path,
        registry=registry,
        logical_device_api=api,
        xdist=xdist,
        durations_history=durations,
        memory_limit_mb=limit,
        rocm=rocm,
        strategies=strategies,
        aliases=aliases,
        seeds=seeds,
        names=names,
        listed=(
            Decision("repository top", str(facts.top), facts.top_reason),
            Decision("framework", "TensorFlow", _tensorflow_why(facts)),
            Decision("harness", place.path, place.reason),
            Decision("marker registry", registry or "in the harness only", registry_why),
            Decision("logical-device API", _api_names(api), api_why),
            Decision("pytest-xdist", "mapped" if xdist else "left out", xdist_why),
            Decision("durations", "kept" if durations else "not kept", durations_why),
            Decision("GPUs", "split in two" if split else "mapped, not split", split_why),
            Decision("memory limit", _limit(limit, split), limit_why if split else split_why),
            Decision("AMD GPUs", "found too" if rocm else "left out", rocm_why),
            Decision("strategies", ", ".join(("distributed", *strategies)), strategies_why),
            *(
                Decision(f"marker {a.name}", "taken over", f"--marker-alias; {a.line}")
                for a in aliases
            ),
            Decision("seeds", "set before each test" if seeds else "left alone", seeds_why),
            *(Decision(subject, *said) for subject, said in names_why.items()),
            *bazel,
            Decision("Python", _python(facts), _python_why(facts)),
        ),
        shared=place.shared,
        split=split,
        config=place.config,
        adds_config=place.adds_config,
        notes=(*place.notes, *(() if record else notes_about(facts.device_setups, split))),
        main=main,
    )


def _registry(place: Place, answers: Answers) -> tuple[str | None, str]:
    config = place.config
    if answers.config_edit is False:
        return None, "--no-config-edit; pytest_configure registers the markers"
    if place.adds_config:
        return config.path, place.config_reason
    if not config.is_in_force:
        why = config.problem or "no pytest configuration is in force"
        return None, f"{why}; pytest_configure registers the markers"
    return config.path, f"the configuration in force ({config.path}:{config.line})"


def _api_names(api: str) -> str:
    if api == "stable":
        return "tf.config.set_logical_device_configuration"
    return "tf.config.experimental.set_virtual_device_configuration"


def _logical_device_api(facts: RepoFacts) -> tuple[Literal["stable", "experimental"], str]:
    lowest = facts.tensorflow.lowest
    where = _places(facts.tensorflow.where)
    if lowest is None:
        return "stable", f"no lowest version is stated{where}; the names hold since TensorFlow 2.4"
    said = f"TensorFlow {lowest[0]}.{lowest[1]} is admitted{where}"
    if lowest >= STABLE_SINCE:
        return "stable", f"{said}; the names hold since 2.4"
    return "experimental", f"{said}; these names hold from 2.0 on, the newer ones only from 2.4 on"


def _xdist(facts: RepoFacts, answers: Answers) -> tuple[bool, str]:
    if answers.xdist is not None:
        return answers.xdist, "--xdist" if answers.xdist else "--no-xdist"
    if facts.xdist:
        return True, f"used{_places(facts.xdist)}"
    return True, "not mentioned here, but anyone may pass -n; --no-xdist leaves it out"


def _durations_history(answers: Answers, xdist: bool) -> tuple[bool, str]:
    if answers.durations_history and not xdist:
        return False, "--durations-history orders the tests of pytest-xdist, which is left out"
    if answers.durations_history:
        return True, "--durations-history: in pytest's cache, to run long tests first next time"
    given = "--no-durations-history" if answers.durations_history is False else "not asked for"
    return False, f"{given}; --durations-history keeps them, to run long tests first"


def _memory_limit(answers: Answers) -> tuple[int | None, str]:
    if answers.memory_limit_mb:
        return answers.memory_limit_mb, "--memory-limit-mb, for each of a card's two halves"
    given = "--memory-limit-mb 0: " if answers.memory_limit_mb == 0 else ""
    return None, f"{given}half of its free memory for each half; --memory-limit-mb sets a number"


def _rocm(facts: RepoFacts, answers: Answers) -> tuple[bool, str]:
    if answers.rocm is not None:
        return answers.rocm, "--rocm" if answers.rocm else "--no-rocm"
    if facts.rocm:
        return True, f"tensorflow-rocm is required{_places(facts.rocm)}"
    return False, "tensorflow-rocm is not required here; --rocm finds them all the same"


def _limit(limit: int | None, split: bool) -> str:
    if not split:
        return "left to the project"
    return f"{limit} MB" if limit else "fitted to the card"


def _split(facts: RepoFacts, answers: Answers) -> tuple[bool, str]:
    if answers.split is not None:
        return answers.split, "--split" if answers.split else "--no-split"
    own = first_own_split(facts.device_setups)
    if own is None:
        return True, "two logical devices each; --no-split leaves them whole"
    return False, f"the project sets them up itself ({own.where}: {own.source})"


def _given(option: str, names: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return what a repeatable option lists; ``none`` takes back what was said earlier."""
    names = tuple(dict.fromkeys(names or ()))
    if NONE in names and names != (NONE,):
        raise DevicegenError(
            f"{option} {NONE}: leaves none, and {names[names[0] == NONE]} is asked for too; give "
            "the one or the other"
        )
    return () if names == (NONE,) else names


def _strategies(answers: Answers) -> tuple[tuple[str, ...], str]:
    names = _given("--strategy", answers.strategies)
    wrong = [name for name in names if name not in STRATEGIES]
    offered = " or ".join(STRATEGIES)
    if wrong:
        raise DevicegenError(f"--strategy {wrong[0]}: unknown; write {offered}, or none")
    if names:
        return tuple(name for name in STRATEGIES if name in names), "--strategy"
    return (), f"--strategy adds {offered}; your own go into the harness, at STRATEGIES"


def _names(
    facts: RepoFacts, aliases: tuple[MarkerAlias, ...], record: Record | None
) -> tuple[HarnessNames, Mapping[str, tuple[str, str]]]:
    """Keep the names of an earlier run: by now the project's tests go by them."""
    taken_over = [alias.name for alias in aliases]
    if record is not None:
        return without_aliases(record.names, taken_over)
    lines = (*MARKERS, *(alias.line for alias in aliases))
    return choose_names(facts.taken, lines, taken_over)


def _seeds(answers: Answers) -> tuple[bool, str]:
    if answers.seeds is not None:
        return answers.seeds, "--seeds" if answers.seeds else "--no-seeds"
    return True, "Python's, NumPy's, TensorFlow's; --no-seeds leaves them alone"


def _bazel(
    facts: RepoFacts, answers: Answers, conftest: str, record: Record | None
) -> tuple[str | None, tuple[Decision, ...]]:
    """Return the path of the ``py_test`` main, beside the harness, and what is said of it."""
    found = _places(facts.bazel.py_tests)
    if answers.bazel is False:
        return None, (Decision("Bazel", "left out", f"--no-bazel{found}"),)
    if not answers.bazel and not found:
        return None, ()
    folder = conftest.removesuffix(HARNESS)
    owned = set(facts.bazel.own_mains) - set(record.paths if record else ())
    main = next(folder + name for name in MAINS if folder + name not in owned)
    why = "--bazel" if answers.bazel else f"py_test is used{found}"
    others = f"; {folder}{MAINS[0]} is the project's own" if folder + MAINS[0] in owned else ""
    return main, (Decision("Bazel", main, f"{why}{others}"),)


def _python(facts: RepoFacts) -> str:
    floor = facts.python_floor.version
    return f"{floor[0]}.{floor[1]} and newer" if floor else "3.9 and newer"


def _python_why(facts: RepoFacts) -> str:
    floor, where = facts.python_floor.version, facts.python_floor.where
    if floor is None:
        return "no floor is stated; the harness is made for Python 3.9 and newer"
    said = f"{where}" if where else "stated"
    if floor < HARNESS_PYTHON:
        return f"{said}; the syntax of the harness runs there, it is tested from 3.9 on"
    return f"{said}; the harness runs there"


def _tensorflow_why(facts: RepoFacts) -> str:
    where = facts.tensorflow.where or facts.tensorflow_imports
    said = f"{'required' if facts.tensorflow.where else 'imported'}{_places(where)}"
    if not facts.beside_tensorflow:
        return said
    others = " and ".join(f"{name} ({place})" for name, place in facts.beside_tensorflow)
    return f"{said}; not for {others}: their tests get no scope"


def _places(where: tuple[Location, ...]) -> str:
    if not where:
        return ""
    more = f" and {len(where) - 1} more" if len(where) > 1 else ""
    return f" ({where[0]}{more})"
