"""Where faults ordered an unclean election: what is lost by it was never promised.

A plan may leave `unclean.leader.election.enable` off and have a fault order such an election of one
partition. That it came to be, the metadata log tells, as of every other (`unclean_election_seen`);
here is only where it was wanted. An order that could not be confirmed may have been carried out;
one for which nobody was sought, since it was left out, was not.
"""

import json
import re

import numpy as np
import pyarrow as pa

from checkers.columns import equal, select, texts

KIND = "unclean-election"
_TARGET = re.compile(r"[a-z-]+\((?P<topic>[^(),]+),(?P<partition>\d{1,9})\)")
_BROKEN = (ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError)


def unclean_orders(faults: pa.Table) -> frozenset[tuple[str, int]]:
    """Return the partitions that such faults were about, by effect or by target."""
    begun = np.array([bool(targets) for targets in faults["targets"].to_pylist()], dtype=np.bool_)
    rows = select(faults, equal(faults, "kind", KIND) & begun)
    named = [_of_target(spec) for spec in texts(rows, "spec")]
    seen = [_of_effect(effect) for effect in texts(rows, "effect")]
    return frozenset(place for place in (*named, *seen) if place is not None)


def _of_target(spec: str) -> tuple[str, int] | None:
    try:
        match = _TARGET.fullmatch(str(json.loads(spec)["target"]).replace(" ", ""))
    except _BROKEN:
        return None
    return (match["topic"], int(match["partition"])) if match else None


def _of_effect(effect: str) -> tuple[str, int] | None:
    try:
        topic, partition = json.loads(effect)["place"]
        return (str(topic), int(partition))
    except _BROKEN:
        return None
