"""Brokers that ended as they started: some had to give up, and others ended for another reason."""

import json

from results.record.clock import NS_PER_S
from results.record.milestones import ENDED
from tests.broken.corpus import Spot, broken, innocent
from tests.broken.record import Record, Row

_GAVE_UP = "ERROR Shutting down because we were unable to register with the controller quorum."
_OF_ZOOKEEPER = "kafka.zookeeper.ZooKeeperClientTimeoutException: Timed out waiting for connection"
_FAILED = "ERROR Fatal error during KafkaServer startup. Prepare to shutdown"
_KILLED = ("kill",)


def _start_beside(record: Record, family: str, *, node: str, said: str, **other: object) -> Row:
    """Have who was killed end as it starts, 30 s after its kill, while another fault goes on.

    Returns:
        The other fault, confirmed, of a kind that the judge does not know by its name.
    """
    (kill,) = record.rows("faults", kind="kill")
    (isolate,) = record.rows("faults", kind="isolate")
    begun_ns, late_ns = record.stone("main") + NS_PER_S, int(kill["requested_ns"]) + 31 * NS_PER_S
    record.plan.pop("faults", None)
    record.plan["nemesis"] = ["kill", "partition", family]
    spec = {**json.loads(isolate["spec"]), "kind": "any", "family": family, "links": [], **other}
    fault = record.add("faults", isolate, fault_id=3)
    fault.update(
        kind="any", targets=[node], requested_ns=begun_ns, confirmed_ns=begun_ns + NS_PER_S,
        healed_ns=record.stone("healed"), spec=json.dumps(spec), effect=json.dumps({"kind": "any"}),
    )  # fmt: skip
    kill["healed_ns"] = late_ns + 1
    detail = {"node": kill["targets"][0], "incarnation": "2", "code": "1", "said": said}
    record.milestones.append({"name": ENDED, "at_ns": late_ns, "detail": detail})
    record.milestones.sort(key=lambda each: int(each["at_ns"]))
    return fault


@innocent(base="log", moments=_KILLED)
def a_broker_gives_up_its_start_as_its_links_stall(record: Record, _spot: Spot) -> None:
    """Each question to the controller and each answer may take a stall, and a start has many."""
    links = [["n2", "n1"], ["n1", "n2"]]
    _start_beside(record, "stall", node="n2", said=_GAVE_UP, links=links)


@innocent(base="log", moments=_KILLED)
def a_broker_gives_up_its_start_after_its_disk_had_ended_it(record: Record, _spot: Spot) -> None:
    """The heal mends the disk and starts it, and its links to the controller stall meanwhile."""
    links = [["n2", "n1"], ["n1", "n2"]]
    _start_beside(record, "stall", node="n2", said=_GAVE_UP, links=links)
    (kill,) = record.rows("faults", kind="kill")
    told = {"kind": "any-disk", "family": "disk-errors", "incarnations": {kill["targets"][0]: 1}}
    effect = {**json.loads(kill["effect"]), "kind": "broken-disk"}
    spec = {**json.loads(kill["spec"]), **told}
    kill.update(kind="any-disk", spec=json.dumps(spec), effect=json.dumps(effect))
    record.plan["nemesis"] = ["disk-errors", "partition", "stall"]


@innocent(base="log", moments=_KILLED)
def a_broker_gives_up_its_start_without_zookeeper(record: Record, _spot: Spot) -> None:
    """It waits for 30 s at most."""
    _start_beside(record, "keeper", node="zk", said=f"{_OF_ZOOKEEPER}\n{_FAILED}")


@innocent(base="log", moments=_KILLED)
def a_broker_gives_up_its_start_on_a_late_disk(record: Record, _spot: Spot) -> None:
    """Each flush of its metadata log takes a second or more, and a start has many."""
    _start_beside(record, "slow-disks", node="n2", said=_GAVE_UP)


@broken("broker-ended", row="starts", base="log", moments=_KILLED, says="unable to register")
def a_broker_gives_up_though_only_one_that_never_votes_wants_for_handles(
    record: Record, _spot: Spot
) -> None:
    """Controllers are apart, and have all that they want."""
    fault = _start_beside(record, "resources", node="n1", said=_GAVE_UP)
    fault["effect"] = json.dumps({"kind": "handles"})
    record.plan["system"] = "kafka:4.3.1:controllers"


@broken("broker-ended", row="starts", base="log", moments=_KILLED, says="unable to register")
def a_broker_gives_up_though_no_disk_was_seen_to_be_late(record: Record, _spot: Spot) -> None:
    _start_beside(record, "slow-disks", node="n2", said=_GAVE_UP)["confirmed_ns"] = None


@broken("broker-ended", row="starts", base="log", moments=_KILLED, says="startup")
def a_start_fails_for_another_reason_while_zookeeper_is_away(record: Record, _spot: Spot) -> None:
    """Every failed start ends with these words; the reason is in a line that nobody noted."""
    _start_beside(record, "keeper", node="zk", said=_FAILED)
