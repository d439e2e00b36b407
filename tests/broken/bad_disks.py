"""Disks that broke requests or lost flushes: what that may cost, and what it may not."""

import json

from results.record.clock import NS_PER_S
from results.record.milestones import ENDED
from results.record.terms import UNMEASURED, Validity
from tests.broken.brokers import NODES, cut, end_broker, lose, never_write, unread
from tests.broken.corpus import Spot, broken, innocent
from tests.broken.innocent_disks import power_is_lost_on_every_replica_before_it_is_flushed
from tests.broken.record import Record, Row

_KILLED = ("kill",)
_HALTED = "ERROR Shutdown broker because all log dirs have failed (kafka.log.LogManager)"


def _called(record: Record, kind: str, family: str) -> Row:
    """Have a fault be of another family, by a kind that the judge does not know by its name."""
    (fault,) = record.rows("faults", kind=kind)
    record.plan.pop("faults", None)
    record.plan["nemesis"] = [family, "partition"]
    lives = {"incarnations": dict.fromkeys(fault["targets"], 1)}
    spec = {**json.loads(fault["spec"]), "kind": "any-disk", "family": family, **lives}
    fault.update(kind="any-disk", spec=json.dumps(spec))
    return fault


def _breaks(record: Record) -> Row:
    """Have the disk of who was killed break its requests instead, so that it ended by itself."""
    fault = _called(record, "kill", "disk-errors")
    effect = {**json.loads(fault["effect"]), "kind": "broken-disk"}
    fault["effect"] = json.dumps(effect)
    (node,) = fault["targets"]
    _ends(record, node, (fault["requested_ns"] + fault["confirmed_ns"]) // 2)
    return fault


def _ends(record: Record, node: str, at_ns: int, **more: str) -> None:
    detail = {"node": node, "incarnation": "1", "code": "1", "said": _HALTED, **more}
    record.milestones.append({"name": ENDED, "at_ns": at_ns, "detail": detail})
    record.milestones.sort(key=lambda each: int(each["at_ns"]))


@innocent(base="log", moments=("calm",))
@innocent(base="txn", moments=("calm",))
@innocent(base="groups", moments=("calm",))
def a_broker_halts_on_a_disk_that_fails(record: Record, _spot: Spot) -> None:
    """Kafka ends when its only log folder fails; what failed was not acknowledged."""
    _breaks(record)


@innocent(base="log", moments=("calm",))
def a_broker_halts_on_a_disk_that_no_page_of_ours_shows_to_fail(
    record: Record, _spot: Spot
) -> None:
    """The file system below it counted what it refused of the broker, by the heal's row."""
    fault = _breaks(record)
    main_ns = record.stone("main")
    times = {
        "requested_ns": main_ns + 1, "confirmed_ns": main_ns + NS_PER_S,
        "healed_ns": main_ns + 3 * NS_PER_S,
    }  # fmt: skip
    record.add("faults", fault, fault_id=3, targets=["n1"], **times)
    met = {"how": "refused", "met": dict.fromkeys(fault["targets"], 2)}
    fault.update(
        confirmed_ns=None, effect=json.dumps({"without_effect": UNMEASURED}),
        heal_effect=json.dumps({**json.loads(fault["heal_effect"]), **met}),
    )  # fmt: skip


@innocent(base="log", moments=("calm",))
def a_page_of_a_mapped_file_cannot_be_read(record: Record, _spot: Spot) -> None:
    """The kernel sends SIGBUS to who reads it, and a JVM may end by that."""
    _breaks(record)
    record.milestones[:] = [each for each in record.milestones if each["name"] != ENDED]
    (fault,) = record.rows("faults", kind="any-disk")
    _ends(record, fault["targets"][0], fault["confirmed_ns"], code="-7")


@innocent(base="log", moments=("calm",))
@innocent(base="txn", moments=("calm",))
def a_disk_is_late(record: Record, _spot: Spot) -> None:
    """What is late comes, and brokers go on."""
    fault = _called(record, "kill", "slow-disks")
    fault["effect"] = json.dumps({**json.loads(fault["effect"]), "kind": "late-disk"})


@innocent(base="disks")
def who_lost_flushes_has_what_was_on_disk(record: Record, _spot: Spot) -> None:
    """It believes that it ended cleanly; the rest is fetched from the leaders."""
    _called(record, "power-loss", "lost-flushes")


@innocent(base="disks")
def every_replica_loses_what_its_disk_said_was_flushed(record: Record, spot: Spot) -> None:
    """Nobody promised it, as nobody does where the power of all is lost."""
    power_is_lost_on_every_replica_before_it_is_flushed(record, spot)
    _called(record, "power-loss", "lost-flushes")


@broken("broker-ended", row="bad disks", base="log", moments=_KILLED, says="exit code 1")
def a_broker_halts_while_the_disk_of_another_fails(record: Record, _spot: Spot) -> None:
    fault = _breaks(record)
    other = next(node for node in NODES if node not in fault["targets"])
    _ends(record, other, fault["confirmed_ns"])


@broken("broker-ended", row="bad disks", base="log", moments=_KILLED, says="exit code 1")
def a_broker_halts_before_its_disk_fails(record: Record, _spot: Spot) -> None:
    fault = _breaks(record)
    _ends(record, fault["targets"][0], fault["requested_ns"] - NS_PER_S)


@broken("broker-ended", row="bad disks", base="log", moments=_KILLED, says="IllegalState")
def a_broker_crashes_as_it_recovers_on_a_mended_disk(record: Record, _spot: Spot) -> None:
    """Half a batch at a log's end is what its recovery is to cut off."""
    fault = _breaks(record)
    said = "ERROR Exiting Kafka due to fatal exception: java.lang.IllegalStateException"
    end_broker(record, fault["targets"][0], fault["healed_ns"] + NS_PER_S, code="1", said=said)


@broken("broker-ended", row="bad disks", base="log", moments=_KILLED, says="exit code 1")
def a_broker_halts_on_a_short_write(record: Record, _spot: Spot) -> None:
    """write(2) says how much it stored; who asked goes on behind that."""
    fault = _breaks(record)
    fault["effect"] = json.dumps({**json.loads(fault["effect"]), "how": "short"})


@broken("broker-ended", row="bad disks", base="log", moments=_KILLED, says="exit code 1")
def a_broker_halts_though_its_disk_broke_nothing_of_its_own(record: Record, _spot: Spot) -> None:
    fault = _breaks(record)
    node = fault["targets"][0]
    unmet = {"met": {node: 0}, "how": "refused"}
    fault["effect"] = json.dumps({**json.loads(fault["effect"]), "ended": [], **unmet})
    fault["heal_effect"] = json.dumps({**json.loads(fault["heal_effect"]), **unmet})


def _loses_flushes(record: Record) -> Row:
    """Have the disk of who was killed lose flushes instead, by a fault that stopped it."""
    fault = _called(record, "kill", "lost-flushes")
    fault["effect"] = json.dumps(
        {**json.loads(fault["effect"]), "kind": "any-loss", "replicas": []}
    )
    return fault


@broken("broker-ended", row="bad disks", base="log", moments=_KILLED, says="exit code 1")
def a_broker_halts_after_its_disk_lost_no_flush(record: Record, _spot: Spot) -> None:
    fault = _loses_flushes(record)
    fault.update(confirmed_ns=None, effect=json.dumps({"without_effect": UNMEASURED}))
    end_broker(record, fault["targets"][0], fault["healed_ns"] + NS_PER_S, code="1", said=_HALTED)


@broken(
    "broker-hit-from-outside",
    row="bad disks",
    base="log",
    moments=_KILLED,
    valid=Validity.UNKNOWN,
    says="after Logquake's file system under its data directory had failed",
)
def a_file_system_ends_after_its_disk_lost_flushes(record: Record, _spot: Spot) -> None:
    fault = _loses_flushes(record)
    end_broker(record, fault["targets"][0], fault["healed_ns"] + NS_PER_S, code="1", said=_HALTED)
    (end,) = (each for each in record.milestones if each["name"] == ENDED)
    end["detail"]["disk"] = "gone"


@broken(
    "broker-hit-from-outside",
    row="bad disks",
    base="log",
    moments=_KILLED,
    valid=Validity.UNKNOWN,
    says="after Logquake's file system under its data directory had failed",
)
def a_file_system_below_the_data_ends(record: Record, _spot: Spot) -> None:
    fault = _breaks(record)
    other = next(node for node in NODES if node not in fault["targets"])
    _ends(record, other, fault["confirmed_ns"], disk="gone")


@broken("lost-write", row="bad disks", base="log", moments=_KILLED)
def a_disk_that_fails_costs_a_message_on_every_replica(record: Record, spot: Spot) -> None:
    _breaks(record)
    lose(record, spot, {spot.offset})
    unread(record, spot, {spot.offset})


@broken("under-replicated", row="bad disks", base="log", moments=_KILLED)
def a_replica_lacks_its_end_after_its_disk_failed(record: Record, spot: Spot) -> None:
    fault = _breaks(record)
    cut(record, spot, spot.offset, nodes=tuple(fault["targets"]), from_ns=None)


@broken("lost-write", row="bad disks", base="disks")
def every_replica_loses_a_record_though_one_alone_lost_flushes(record: Record, spot: Spot) -> None:
    _called(record, "power-loss", "lost-flushes")
    never_write(record, spot)
