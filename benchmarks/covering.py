"""Chooses a covering array from a suite: few entries that contain each legal pair of values.

    python -m benchmarks.covering docs/nightly/covering.toml --seed 7 > covering.toml
    logquake suite run covering.toml

The factors are Kafka's version, the metadata mode, the workload, the families of faults, the kind
of hosts and the configuration. An entry is legal if these hosts support its faults on this machine.
The program repeatedly takes the entry that covers the most missing pairs. The program stops when no
pair is missing. The seed decides between equal entries, and gives each entry a seed of its own.

Two PyPI packages were tried on this suite with three seeds. `allpairspy` left out one to four legal
pairs each time. `covertable` covered all pairs with as many entries (48 to 51, against 47 to 51
here). But `covertable` needs the list of legal entries as a constraint, which takes more code than
this selection.
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
"""A pair of two factors, each with its value."""
_OF_ALL_ENTRIES = ("axes", "configurations", "entries", "exclude", "hosts", "plan", "weights")
"""Tables of a suite file that are already merged into the plans of its entries."""


def covering(legal: Collection[Entry], *, seed: int) -> list[Entry]:
    """Return few entries that together contain every pair of values of the legal entries."""
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
    """Yield a suite's entries that can run here. If hosts are not available, print the reason."""
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
    """Return the text of a smaller suite, chosen with a seed from a suite file.

    Raises:
        SuiteError: The file is not a suite.
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
    """Print the suite that the seed selects."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.covering")
    parser.add_argument("suite", type=Path, metavar="SUITE.toml")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    sys.stdout.write(suite_of(options.suite, seed=options.seed))


if __name__ == "__main__":
    main()
