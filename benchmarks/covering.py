"""Draws a covering array from a suite: few entries, in which each legal pair of values occurs.

    python -m benchmarks.covering docs/nightly/covering.toml --seed 7 > covering.toml
    logquake suite run covering.toml

The values are Kafka's version, who keeps its metadata, the workload, the families of faults, and
the kind of hosts. Legal are the suite's entries whose faults these hosts can do on this machine. An
entry that covers most of the pairs that are left is taken until none is left; the seed decides
between equals, and gives each entry its own seed.

The packages of PyPI were tried on this suite with three seeds. `allpairspy` left out one to four
legal pairs each time. `covertable` covered all of them with as many entries (48 to 51; here 47 to
51), but needs the list of legal entries as a constraint, which is longer than the choice itself.
"""

import argparse
import sys
import tomllib
from collections.abc import Collection, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from random import Random

import tomli_w

from cluster.hosts.abilities import abilities_of
from cluster.hosts.choose import choose_hosts
from cluster.protocol import Ability, UserError
from harness.suites.expansion import Entry, drawn, entries_of, families
from harness.suites.suite import Suite, load_suite
from nemesis.schedule import played_families

Pair = tuple[tuple[str, str], tuple[str, str]]
"""Two factors, each with its value."""
_OF_ALL_ENTRIES = ("axes", "configurations", "entries", "exclude", "hosts", "plan", "weights")
"""Tables of a suite that its entries' plans have taken in."""


def covering(legal: Collection[Entry], *, seed: int) -> list[Entry]:
    """Return entries in which each pair of values occurs that occurs in any legal one."""
    waiting = [(each, pairs(each)) for each in legal]
    Random(seed).shuffle(waiting)
    left = set[Pair]().union(*(found for _, found in waiting))
    chosen = []
    while left:
        best, covered = max(waiting, key=lambda each: len(each[1] & left))
        chosen.append(best)
        left -= covered
    return chosen


def pairs(entry: Entry) -> frozenset[Pair]:
    """Return the pairs of values of an entry."""
    plan = entry.plan(0)
    values = {
        "version": plan.kafka_version, "mode": str(plan.mode), "workload": str(plan.workload),
        "nemesis": entry.labels["nemesis"], "hosts": entry.labels["hosts"],
        "configuration": entry.labels["configuration"],
    }  # fmt: skip
    return frozenset(combinations(values.items(), 2))


def legal_entries(suite: Suite) -> Iterator[Entry]:
    """Yield the entries of a suite that can be played here; of hosts that cannot, say why not."""
    entries = entries_of(suite)
    usable: dict[str, frozenset[Ability]] = {}
    for hosts in dict.fromkeys(each.labels["hosts"] for each in entries):
        try:
            found = abilities_of(choose_hosts(hosts).hosts)
        except UserError as refused:
            print(f"hosts {hosts} are left out: {refused}", file=sys.stderr)
            continue
        usable[hosts] = frozenset(ability for ability, why_not in found.items() if not why_not)
    for each in entries:
        abilities = usable.get(each.labels["hosts"])
        if abilities is not None and _can_be(each, abilities):
            yield each


def _can_be(entry: Entry, abilities: Collection[Ability]) -> bool:
    wanted = families(entry.labels["nemesis"])
    return played_families(entry.plan(0), abilities=abilities).keys() >= set(wanted)


def suite_of(path: Path, *, seed: int) -> str:
    """Return the text of the suite that a seed draws from another.

    Raises:
        SuiteError: The file is no suite.
    """
    suite = load_suite(path)
    chosen = covering(list(legal_entries(suite)), seed=seed)
    kept = tomllib.loads(path.read_text(encoding="utf-8"))
    for name in _OF_ALL_ENTRIES:
        kept.pop(name, None)
    entries = [
        {"name": name, "seeds": [drawn(seed, name)], "plan": each.values}
        for each in chosen
        for name in [each.name.partition("#")[0]]
    ]
    return tomli_w.dumps({**kept, "entries": entries})


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the suite that a seed draws."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.covering")
    parser.add_argument("suite", type=Path, metavar="SUITE.toml")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    sys.stdout.write(suite_of(options.suite, seed=options.seed))


if __name__ == "__main__":
    main()
