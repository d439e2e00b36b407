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
_WAITS = {"initial.broker.registration.timeout.ms": "30000"}
"""By default a broker waits for a controller for a minute, for which no base is long enough."""


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
    record.plan["broker"] = {**record.plan.get("broker", {}), **_WAITS}
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


def _stall_ends(record: Record, before_s: int, lasts_s: int | None = None) -> None:
    """Have links stall as who was killed starts; it gave up 20 s before its end was seen."""
    links = [["n2", "n1"], ["n1", "n2"]]
    said = f"[2026-01-02 03:04:05,678] {_GAVE_UP}\n[2026-01-02 03:04:25,678] INFO shut down"
    stall = _start_beside(record, "stall", node="n2", said=said, links=links)
    (end,) = (each for each in record.milestones if each["name"] == ENDED)
    stall["healed_ns"] = int(end["at_ns"]) - before_s * NS_PER_S
    if lasts_s is not None:
        stall["requested_ns"] = stall["healed_ns"] - lasts_s * NS_PER_S
        stall["confirmed_ns"] = stall["requested_ns"] + NS_PER_S // 10
    (kill,) = record.rows("faults", kind="kill")
    waits_ms = (int(end["at_ns"]) - int(kill["requested_ns"])) // 1_000_000 - 20_000
    record.plan["broker"]["initial.broker.registration.timeout.ms"] = f"{waits_ms}"


@innocent(base="log", moments=_KILLED)
def a_broker_takes_long_to_end_after_it_has_given_up(record: Record, _spot: Spot) -> None:
    """Meanwhile its links are as before; what it waits for and a heal do not know of each other."""
    _stall_ends(record, 20)


@broken("broker-ended", row="starts", base="log", moments=_KILLED, says="unable to register")
def a_broker_gives_up_after_a_cut_that_was_too_short(record: Record, _spot: Spot) -> None:
    """A second without its controllers must not end a broker."""
    _stall_ends(record, 20, lasts_s=1)


@broken("broker-ended", row="starts", base="log", moments=_KILLED, says="startup")
def a_start_fails_for_another_reason_while_zookeeper_is_away(record: Record, _spot: Spot) -> None:
    """Every failed start ends with these words; the reason is in a line that nobody noted."""
    _start_beside(record, "keeper", node="zk", said=_FAILED)
