"""An outage of all servers at once: what it may not cost, and a record that had one."""

import json

from tests.broken.brokers import NODES, cut, lose, unread
from tests.broken.corpus import Spot, broken, innocent
from tests.broken.record import Record


def _all_are_killed(record: Record) -> None:
    """Have the kill hit all servers, by a kind that the judge does not know by its name."""
    (fault,) = record.rows("faults", kind="kill")
    effect = json.loads(fault["effect"])
    (hit,) = effect["processes"]
    effect["processes"] = [{**hit, "node": node} for node in NODES]
    record.plan.pop("faults")
    record.plan["nemesis"] = ["outage", "partition"]
    spec = {**json.loads(fault["spec"]), "kind": "any-of-all", "family": "outage"}
    fault.update(
        kind="any-of-all", targets=[*NODES], effect=json.dumps(effect), spec=json.dumps(spec)
    )


@innocent(base="log", moments=("calm",))
@innocent(base="txn", moments=("calm",))
@innocent(base="groups", moments=("calm",))
def all_servers_are_killed_at_once(record: Record, _spot: Spot) -> None:
    """SIGKILL leaves the page cache: all that was written is there when they start again."""
    _all_are_killed(record)


@broken("lost-write", row="outages", base="log")
def an_outage_costs_a_message_on_every_replica(record: Record, spot: Spot) -> None:
    _all_are_killed(record)
    lose(record, spot, {spot.offset})
    unread(record, spot, {spot.offset})


@broken("under-replicated", row="outages", base="log")
def one_replica_starts_without_its_end_after_an_outage(record: Record, spot: Spot) -> None:
    _all_are_killed(record)
    cut(record, spot, spot.offset, nodes=NODES[:1], from_ns=None)
