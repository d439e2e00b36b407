"""How hard clients work, and the defaults of a plan that follow from its workload and its load.

Under `light` load an op is a send of its own, at a rate; readers read each record several times.
Under `heavy` load few processes send many records an op, as fast as the brokers take them, so that
batches are full and several are in flight. Readers follow the end of each partition, and seldom
start one over, so that not much more is read than sent. What the user sets goes before either.
"""

import re
from collections.abc import Mapping
from enum import Enum

from results.record.cleaning import compaction, keys_of


class Load(Enum):
    """How hard clients work."""

    LIGHT = "light"
    HEAVY = "heavy"


WORKLOAD = r"^[a-z][a-z0-9-]{0,30}$"
_NAMED_OTHERWISE = frozenset({"log", "script"})
"""Workloads whose runs are not named after them."""
_OF_WORKLOAD: Mapping[str, Mapping[str, object]] = {
    "txn": {"rate": 100},
    "pipeline": {"rate": 200, "sends_per_op": 5},
    "keyed": {"rate": 200, "partitions": 2},
}
"""A transaction costs many a send, and a cleaner works log by log."""
_OF_GOING_ON: Mapping[str, object] = {"delivery_timeout_s": 2}
"""A client that goes on after time-outs must have some: a paused broker answers later than that."""
_OF_HEAVY: Mapping[str, object] = {
    "rate": 0, "concurrency": 8, "sends_per_op": 500, "linger_ms": 10,
}  # fmt: skip
_OF_HEAVY_WORKLOAD: Mapping[str, Mapping[str, object]] = {
    # Half of the processes of `groups` are members, and do not send.
    "groups": {"concurrency": 16},
    # Each of its messages is recorded by itself, with the outcome of its transaction.
    "txn": {"sends_per_op": 100},
    "pipeline": {"concurrency": 16, "sends_per_op": 100},
    "keyed": {"concurrency": 16, "sends_per_op": 100},
}


def with_defaults(values: object) -> object:
    """Return a plan's values, as they were read, with what follows from workload and load."""
    if not isinstance(values, dict):
        return values
    workload = values.get("workload", "log")
    name: dict[str, object] = {}
    if isinstance(workload, str) and re.fullmatch(WORKLOAD, workload):
        name = {} if workload in _NAMED_OTHERWISE else {"name": workload}
    else:
        workload = ""
    heavy = values.get("load") in (Load.HEAVY, Load.HEAVY.value)
    hard = {**_OF_HEAVY, **_OF_HEAVY_WORKLOAD.get(workload, {})} if heavy else {}
    going_on = _OF_GOING_ON if values.get("after_timeout") == "go-on" else {}
    found = {**name, **_OF_WORKLOAD.get(workload, {}), **hard, **going_on, **values}
    return _with_few_keys(found) if workload == "keyed" else found


def _with_few_keys(values: dict[str, object]) -> dict[str, object]:
    """Return a plan's values, with keys and brokers that compact, from its seed."""
    seed, broker = values.get("seed", 0), values.get("broker", {})
    if not isinstance(seed, int) or not isinstance(broker, dict):
        return values  # Which is refused, where it is looked at.
    keys = values.get("keys", keys_of(seed))
    if not isinstance(keys, int):
        return values
    return {**values, "keys": keys, "broker": {**compaction(seed, keys), **broker}}


def load_refusal(load: Load, *, scripted: bool, simulated: bool) -> str | None:
    """Return why a load makes no sense, None if it does.

    Args:
        load: As asked for.
        scripted: Whether a story's steps decide what is sent.
        simulated: Whether the run takes place in virtual time.
    """
    if load is Load.LIGHT:
        return None
    if scripted:
        return "load: a story's steps decide what is sent; leave it out"
    if simulated:
        return "load: simulated brokers have no limit to come near to; leave it out"
    return None
