"""The clients' load, and the plan defaults that depend on workload and load.

Under `light` load, each op sends one message, and the plan sets the rate of ops. Readers read each
record several times. Under `heavy` load, few processes send many records in each op, as fast as the
brokers accept them. The batches are then full, and several batches are in flight at once. Readers
follow the end of each partition and seldom start again from the beginning. So they read few records
twice. The user's settings override these defaults.
"""

import re
from collections.abc import Mapping
from enum import Enum

from results.record.cleaning import compaction, keys_of


class Load(Enum):
    """The amount that clients send: `light` or `heavy`."""

    LIGHT = "light"
    HEAVY = "heavy"


WORKLOAD = r"^[a-z][a-z0-9-]{0,30}$"
_NAMED_OTHERWISE = frozenset({"log", "script"})
"""Workloads whose name is not used as the default name of a run."""
_OF_WORKLOAD: Mapping[str, Mapping[str, object]] = {
    "txn": {"rate": 100},
    "pipeline": {"rate": 200, "sends_per_op": 5},
    "keyed": {"rate": 200, "partitions": 2},
}
"""Defaults of each workload. The rates are low, because a transaction costs as much as many sends.
The cleaner handles only one log at a time, so `keyed` has fewer partitions."""
_OF_GOING_ON: Mapping[str, object] = {"delivery_timeout_s": 2}
"""Default for clients that continue after timeouts. It is short, so that a paused broker causes
timeouts."""
_OF_HEAVY: Mapping[str, object] = {
    "rate": 0, "concurrency": 8, "sends_per_op": 500, "linger_ms": 10,
}  # fmt: skip
_OF_HEAVY_WORKLOAD: Mapping[str, Mapping[str, object]] = {
    # Half of the processes of `groups` are members, and do not send.
    "groups": {"concurrency": 16},
    # Each message is recorded separately, with the outcome of its transaction.
    "txn": {"sends_per_op": 100},
    "pipeline": {"concurrency": 16, "sends_per_op": 100},
    "keyed": {"concurrency": 16, "sends_per_op": 100},
}


def with_defaults(values: object) -> object:
    """Return a plan's values, completed with the defaults of the workload and of the load."""
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
    """Add the number of keys and compaction settings, chosen from the seed, to a plan's values."""
    seed, broker = values.get("seed", 0), values.get("broker", {})
    if not isinstance(seed, int) or not isinstance(broker, dict):
        return values  # Validation refuses such a value later.
    keys = values.get("keys", keys_of(seed))
    if not isinstance(keys, int):
        return values
    return {**values, "keys": keys, "broker": {**compaction(seed, keys), **broker}}


def load_refusal(load: Load, *, scripted: bool, simulated: bool) -> str | None:
    """Return why a load is impossible; None if it is possible.

    Args:
        load: The requested load.
        scripted: Whether the steps of a scenario decide which messages are sent.
        simulated: Whether the run uses virtual time.
    """
    if load is Load.LIGHT:
        return None
    if scripted:
        return "load: in a scenario the steps decide what is sent; remove load"
    if simulated:
        return "load: simulated brokers have no load limit; remove load"
    return None
