"""Expand a suite to its entries. This is a pure function, so each night gets the same names."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path

from cluster.protocol import UserError
from harness.plans import completed_plan
from harness.reaching import from_a_file, reaching
from harness.scenarios.choices import choice_words, story_values, telling, values_behind
from harness.scenarios.every import Part, parts
from harness.suites.suite import (
    DEFAULT,
    NONE,
    Axes,
    HandEntry,
    Match,
    PlanValues,
    Suite,
    SuiteError,
    load_suite,
)
from results.record.plan import Plan, PlanError
from results.trust import is_own_file

SEEDS = 1_000_000
"""Random seeds are below this number."""
_TABLES = ("broker", "node", "features", "client", "budgets", "minimums", "contents")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One combination of the matrix, or an entry written by hand.

    Attributes:
        name: The entry's name. It is unique in the suite and does not change from night to night:
            `log/kafka:4.3.1/namespace/partition+kill#3`.
        values: The plan's values. They include a seed only if the suite names a seed.
        seed: The seed; None means a new seed each night.
        weight: An entry with a higher weight is played earlier.
        labels: The texts that a `Match` compares, by the key of the `Match`.
    """

    name: str
    values: PlanValues
    seed: int | None = None
    weight: float = 1.0
    labels: Mapping[str, str] = field(default_factory=dict)

    def seed_of(self, night: str) -> int:
        """Return the entry's seed for one night."""
        return drawn(night, self.name) if self.seed is None else self.seed

    def plan(self, seed: int) -> Plan:
        """Return the plan of one of the entry's runs.

        Raises:
            SuiteError: The values make no valid plan.
        """
        try:
            values = values_behind(self.values)
            plan = completed_plan(values, {"seed": seed}, broker={}, client={})
        except (PlanError, UserError) as refused:
            raise SuiteError(f"the entry {self.name}: {refused}") from refused
        if refusal := from_a_file(plan.named, f"the entry {self.name}"):
            raise SuiteError(refusal)
        return plan


def drawn(*words: object) -> int:
    """Return a seed for some words. Equal words give equal seeds."""
    text = "\0".join(map(str, words))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) % SEEDS


def suite_named(path: Path) -> Suite:
    """Read the suite that the user named. Reject untrusted files that affect more than their runs.

    Raises:
        SuiteError: The file cannot be read, or is not a suite. Or other users can write the file,
            and an entry names ssh hosts, an image, clients, or a system with the user's files.
    """
    suite = load_suite(path)
    if not is_own_file(path):
        for name, plan in plans_of(suite).items():
            if beyond := reaching(plan):
                key, value = next(iter(beyond.items()))
                raise SuiteError(
                    f"another user may have written the suite {path}, and the {key} {value} of"
                    f" its entry {name} reaches beyond the run. To allow this, make the file"
                    " yours (chown), and writable only by you (chmod go-w)"
                )
    return suite


def plans_of(suite: Suite) -> dict[str, Plan]:
    """Return a plan for each entry, by its name. For a hunt, return a plan for each system.

    Raises:
        SuiteError: The values make no valid plan.
    """
    if suite.hunt is not None:
        return {system: hunted_plan(suite, system) for system in suite.hunt.systems}
    return {each.name: each.plan(each.seed or 0) for each in entries_of(suite)}


def hunted_plan(suite: Suite, system: str) -> Plan:
    """Return a hunt's plan for one of its systems, before any random choice.

    Raises:
        SuiteError: The values make no valid plan.
    """
    assert suite.hunt is not None
    hosts = suite.hunt.hosts
    values = joined(
        suite.plan,
        suite.hosts.get(hosts.partition(":")[0], {}),
        {"system": system, "hosts": hosts, "swarm": False},
    )
    try:
        plan = completed_plan(values, {"seed": 0}, broker={}, client={})
    except (PlanError, UserError) as refused:
        raise SuiteError(f"the hunt {suite.name} on {system}: {refused}") from refused
    if refusal := from_a_file(plan.named, f"the hunt {suite.name}"):
        raise SuiteError(refusal)
    return plan


def entries_of(suite: Suite) -> tuple[Entry, ...]:
    """Return the entries of a suite, in the order of its file.

    Raises:
        SuiteError: Two entries have the same name, an entry is not valid, or there is no entry.
    """
    if suite.hunt is not None:
        raise SuiteError(
            f"{suite.name} is a hunt and has no entries; to see its possible settings, type:"
            " logquake hunt FILE --dry-run"
        )
    kept = [each for each in _all(suite) if not _excluded(each, suite)]
    if not kept:
        raise SuiteError(f"the suite {suite.name} has no entry: give it [axes] or [[entries]]")
    weighed = tuple(_weighed(each, suite) for each in kept)
    names = [each.name for each in weighed]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise SuiteError(f"the suite {suite.name} has two entries with the name {twice}")
    for each in weighed:
        each.plan(0)  # Raises errors before the night, not during it.
    return weighed


def excluded(suite: Suite) -> int:
    """Return the number of combinations that `[[exclude]]` leaves out."""
    return sum(_excluded(each, suite) for each in _all(suite))


def _all(suite: Suite) -> list[Entry]:
    return [*_matrix(suite), *_stories(suite), *_by_hand(suite)]


def _excluded(entry: Entry, suite: Suite) -> bool:
    return any(_meant(match, entry) for match in suite.exclude)


def joined(*layers: Mapping[str, object]) -> PlanValues:
    """Merge layers of plan values. A later value replaces an earlier one; tables are merged."""
    values: PlanValues = {}
    for layer in layers:
        for key, value in layer.items():
            under = values.get(key)
            both = key in _TABLES and isinstance(under, dict) and isinstance(value, dict)
            values[key] = {**under, **value} if both else value  # type: ignore[dict-item]  # Both are tables of settings.
    return values


def _matrix(suite: Suite) -> Iterator[Entry]:
    axes = suite.axes
    if axes is None:
        return
    for system, configuration, hosts, workload, nemesis in product(
        axes.systems, axes.configurations, axes.hosts, axes.workloads, axes.nemeses
    ):
        values = joined(
            suite.plan,
            suite.configurations.get(configuration, {}),
            suite.hosts.get(hosts.partition(":")[0], {}),
            {"system": system, "hosts": hosts, "workload": workload, "nemesis": families(nemesis)},
        )
        labels = {
            "system": system, "configuration": configuration, "hosts": hosts,
            "workload": workload, "nemesis": nemesis, "scenario": "",
        }  # fmt: skip
        configured = [configuration] if configuration != DEFAULT else []
        name = "/".join((workload, system, *configured, hosts, nemesis))
        yield from _seeded(name, values, axes.seeds, labels=labels)


def families(nemesis: str) -> tuple[str, ...]:
    """Return the fault families in a text such as `partition+kill`; `none` means no families."""
    return () if nemesis == NONE else tuple(nemesis.split("+"))


def _stories(suite: Suite) -> Iterator[Entry]:
    axes = suite.axes
    if axes is None:
        return
    for pattern in axes.scenarios:
        found = list(parts(pattern))
        if not found:
            raise SuiteError(
                f"axes.scenarios: no scenario matches {pattern!r} (see: logquake scenario list)"
            )
        for part, hosts in product(found, axes.hosts):
            yield _story(suite, part, hosts, axes)


def _story(suite: Suite, part: Part, hosts: str, axes: Axes) -> Entry:
    """Return the entry of one scenario. There is only one entry, because a seed changes little."""
    values = joined(
        story_values(part.scenario, part.choices, system=part.system),
        suite.hosts.get(hosts.partition(":")[0], {}),
        {"hosts": hosts},
    )
    words = choice_words(telling(part.scenario, part.choices))
    told = "+".join((part.scenario.name, *(word.lstrip("-").replace(" ", "=") for word in words)))
    labels = {
        "system": part.system, "configuration": DEFAULT, "hosts": hosts,
        "workload": "script", "nemesis": NONE, "scenario": part.scenario.name,
    }  # fmt: skip
    seed = axes.seeds[0] if isinstance(axes.seeds, tuple) else None
    return Entry(
        name=f"{told}/{part.system}/{hosts}#1", values=dict(values), seed=seed, labels=labels
    )


def _by_hand(suite: Suite) -> Iterator[Entry]:
    for hand in suite.entries:
        hosts = str(hand.plan.get("hosts", suite.plan.get("hosts", "auto")))
        values = joined(suite.plan, suite.hosts.get(hosts.partition(":")[0], {}), hand.plan)
        yield from _seeded(
            hand.name, values, hand.seeds, labels=_labels(hand, values), weight=hand.weight
        )


def _labels(hand: HandEntry, values: PlanValues) -> dict[str, str]:
    nemesis = values.get("nemesis", ("partition", "kill", "pause"))
    scenario = hand.plan.get("scenario", {})
    return {
        "system": str(values.get("system", "kafka:4.3.1")),
        "configuration": DEFAULT,
        "hosts": str(values.get("hosts", "auto")),
        "workload": str(values.get("workload", "log")),
        "nemesis": nemesis if isinstance(nemesis, str) else "+".join(map(str, nemesis)) or NONE,
        "scenario": str(scenario.get("name", "")) if isinstance(scenario, dict) else "",
    }


def _seeded(
    name: str,
    values: PlanValues,
    seeds: int | tuple[int, ...],
    *,
    labels: Mapping[str, str],
    weight: float = 1.0,
) -> Iterator[Entry]:
    numbered: list[tuple[int, int | None]] = (
        [(number, None) for number in range(1, seeds + 1)]
        if isinstance(seeds, int)
        else [(seed, seed) for seed in seeds]
    )
    for number, seed in numbered:
        yield Entry(
            name=f"{name}#{number}", values=dict(values), seed=seed, weight=weight, labels=labels
        )


def _weighed(entry: Entry, suite: Suite) -> Entry:
    weight = entry.weight
    for each in suite.weights:
        if _meant(each, entry):
            weight *= each.weight
    return Entry(
        name=entry.name, values=entry.values, seed=entry.seed, weight=weight, labels=entry.labels
    )


def _meant(match: Match, entry: Entry) -> bool:
    labels = {**entry.labels, "entry": entry.name}
    patterns = match.model_dump(include=set(Match.model_fields))
    return all(fnmatchcase(labels.get(key, ""), pattern) for key, pattern in patterns.items())
