"""A topic that a fault made again: what its broker, or its leader, makes of it."""

import json
from itertools import count
from typing import Any

from results.record.clock import NS_PER_S
from results.record.terms import REMADE_PREFIX, Validity
from tests.broken.corpus import Spot, broken, innocent
from tests.broken.record import Record, Row

_TOPIC = f"{REMADE_PREFIX}9"
_LAST, _FIRST = (f"00000000-0000-0000-0000-0000000009{at}" for at in (82, 81))
_MADE = {"topic": _TOPIC, "topic_id": _LAST, "partition": 0}
_ACKED = 20
_VICTIM = "n2"


def _make_again(record: Record, spot: Spot, *, deleted: bool = False) -> list[Row]:
    """Have the fault of the moment make a topic again, like the spot's partition in all else.

    Args:
        record: The run.
        spot: Its partition's rows are the topic's, and its first records those of the topic.
        deleted: Whether records of the life before are told, too.

    Returns:
        What was acknowledged of the last life.
    """
    used = {row["log_offset"] for row in record.rows("leadership")}
    for row in record.rows("leadership", **spot.place):
        at = row["log_offset"]
        if row["source"] == "metadata-log":  # Its entries stand behind those of the partition.
            at = next(free for free in count(at) if free not in used)
        if row["source"] in {"metadata-log", "metadata"}:
            record.add("leadership", row, **_MADE, log_offset=at)
    for table in ("replica_records", "replica_states"):  # Observers ask for its metadata only.
        for row in record.rows(table, snapshot="final", **spot.place):
            record.add(table, row, **_MADE)
    stored = record.rows("replica_records", snapshot="final", node="n3", **spot.place)
    acked = [
        {"partition": 0, "offset": row["offset"], "value": row["value"]}
        for row in stored[:_ACKED]
        if row["value"] is not None
    ]
    if deleted:
        for row in stored[:_ACKED]:
            record.add("replica_records", row, topic=_TOPIC, topic_id=_FIRST, partition=0)
    fault = next(row for row in record.rows("faults") if row["healed_ns"])
    fault["heal_effect"] = json.dumps({
        **json.loads(fault["heal_effect"]), "kind": "remade-back", "topic": _TOPIC,
        "topic_id": _LAST, "age_s": 3.0, "replicas": {"0": ["n1", "n2", "n3"]}, "acked": acked,
    })  # fmt: skip
    return acked


def _mine(record: Record, table: str, **equal: Any) -> list[Row]:  # noqa: ANN401 - of any column
    return record.rows(table, topic=_TOPIC, topic_id=_LAST, **equal)


@broken("isr-not-restored", row="remade", base="log", moments=("kill", "isolate"))
def a_broker_never_has_the_new_topics_replica(record: Record, spot: Spot) -> None:
    _make_again(record, spot)
    since_ns = max(int(row["healed_ns"]) for row in record.rows("faults")) - 1
    for row in _mine(record, "leadership"):
        if (row["observed_ns"] or 0) > since_ns:
            row["isr"] = [each for each in row["isr"] if each != int(_VICTIM[1:])]
    for each in record.milestones:
        if each["name"] == "recovered":
            each["detail"]["failed"] = f"the ISR of {_TOPIC}-0 lacks {_VICTIM}"


@broken("lost-write", row="remade", base="log", moments=("kill", "isolate"), says="recreated")
def an_acknowledged_record_of_the_last_life_is_gone(record: Record, spot: Spot) -> None:
    acked = _make_again(record, spot)
    gone = acked[len(acked) // 2]["value"]
    record.drop("replica_records", lambda row: row["value"] == gone, topic=_TOPIC)


@broken("lost-write", row="remade", base="log", moments=("kill",), says="recreated")
def the_new_topics_log_is_removed_with_the_deleted_ones(record: Record, spot: Spot) -> None:
    """Its folder is gone, on the last leader; other folders of that node are there."""
    _make_again(record, spot)
    _drop_all(record, "replica_records", "replica_states", node=f"n{_last_leader(record)}")


@broken("lost-write", row="remade", base="log", moments=("isolate",), says="recreated")
def the_new_topics_logs_are_empty(record: Record, spot: Spot) -> None:
    _make_again(record, spot)
    _drop_all(record, "replica_records")
    for row in _mine(record, "replica_states", snapshot="final"):
        row |= {"log_end_offset": 0, "high_watermark": 0, "epochs": []}


@broken("under-replicated", row="remade", base="log", moments=("kill", "isolate"), says="in sync")
def a_broker_is_back_in_the_isr_with_the_deleted_topics_log(record: Record, spot: Spot) -> None:
    _make_again(record, spot)
    follower = _follower(record)
    for table in ("replica_records", "replica_states"):
        for row in _mine(record, table, node=follower):
            row["topic_id"] = _FIRST


@broken("under-replicated", row="remade", base="log", moments=("kill",), says="in sync")
def a_broker_is_back_in_the_isr_without_a_record(record: Record, spot: Spot) -> None:
    gone = _make_again(record, spot)[-1]["value"]
    follower = _follower(record)
    record.drop("replica_records", lambda row: row["value"] == gone, topic=_TOPIC, node=follower)


@broken("under-replicated", row="remade", base="log", moments=("kill",), says="in sync")
def who_lost_power_is_back_in_the_isr_without_a_record(record: Record, spot: Spot) -> None:
    """The topic was made before its power went; to be in the ISR it must have fetched all."""
    acked = _make_again(record, spot)
    follower, gone = _follower(record), acked[-1]
    here = {"topic": _TOPIC, "partition": 0, "node": follower}
    cut = {**here, "log_end_after": gone["offset"], "log_end_before": gone["offset"] + 1}
    (fault,) = record.rows("faults", kind="kill")
    record.plan.pop("faults", None)
    record.plan["nemesis"] = [*record.plan["nemesis"], "power-loss"]
    lost = record.add("faults", fault, fault_id=3, kind="power-loss", targets=[follower])
    named = dict.fromkeys(("kind", "family"), "power-loss")
    lost.update(
        spec=json.dumps({**json.loads(fault["spec"]), **named}),
        effect=json.dumps({"kind": "power-loss", "replicas": [cut]}),
        heal_effect=json.dumps({"kind": "back", "took_s": 1.0}),
    )  # fmt: skip
    record.drop(
        "replica_records", lambda row: row["value"] == gone["value"], topic=_TOPIC, node=follower
    )


@broken(
    "", row="remade", base="log", moments=("kill", "isolate"), valid=Validity.UNKNOWN,
    says=f"nothing was recorded of {_TOPIC}-0",
)  # fmt: skip
def nothing_is_recorded_of_the_new_topic(record: Record, spot: Spot) -> None:
    _make_again(record, spot)
    _drop_all(record, "leadership", "replica_records", "replica_states")


@broken(
    "", row="remade", base="log", moments=("kill", "isolate"), valid=Validity.UNKNOWN,
    says=f"no broker reported the ISR of {_TOPIC}-0",
)  # fmt: skip
def no_broker_reports_the_new_topic(record: Record, spot: Spot) -> None:
    _make_again(record, spot)
    _drop_all(record, "leadership")


@broken(
    "", row="remade", base="log", moments=("kill",), valid=Validity.UNKNOWN,
    says="was acknowledged",
)  # fmt: skip
def nothing_was_acknowledged_of_the_new_topic(record: Record, spot: Spot) -> None:
    _make_again(record, spot)
    for fault in record.rows("faults"):
        if _TOPIC in (fault["heal_effect"] or ""):
            fault["heal_effect"] = json.dumps({**json.loads(fault["heal_effect"]), "acked": []})


@innocent(base="log")
def a_topic_is_made_again(record: Record, spot: Spot) -> None:
    """All of its replicas come back, and have what was acknowledged."""
    _make_again(record, spot)


@innocent(base="log", moments=("kill",))
def a_deleted_life_takes_its_records_along(record: Record, spot: Spot) -> None:
    """They are gone by order, though a broker that was down still has the log."""
    _make_again(record, spot, deleted=True)
    record.drop("replica_records", lambda row: row["node"] != _VICTIM, topic_id=_FIRST)


@innocent(base="log", moments=("kill",))
def a_topic_made_again_took_no_record(record: Record, spot: Spot) -> None:
    """The fault failed at it, because another broker was down; another one took effect."""
    (first,) = record.rows("faults", kind="kill")
    record.add("faults", first, fault_id=99)
    _make_again(record, spot)
    fault = next(row for row in record.rows("faults") if "remade-back" in row["heal_effect"])
    fault["confirmed_ns"] = None
    fault["effect"] = json.dumps({"without_effect": f"{_TOPIC} accepts no records: n3 is down"})
    fault["heal_effect"] = json.dumps({**json.loads(fault["heal_effect"]), "acked": []})
    _drop_all(record, "replica_records")
    for row in _mine(record, "replica_states", snapshot="final"):
        row |= {"log_end_offset": 0, "high_watermark": 0, "epochs": []}


@innocent(base="log", moments=("kill",))
def a_follower_of_a_topic_made_again_lacks_what_was_not_acknowledged(
    record: Record, spot: Spot
) -> None:
    """The end of the leader's log is behind the high watermark: a follower in sync may lack it."""
    end = _make_again(record, spot)[-1]["offset"] + 1
    here = {"topic": _TOPIC, "node": _follower(record)}
    record.drop("replica_records", lambda row: row["offset"] >= end, **here)
    for row in record.rows("replica_states", snapshot="final", **here):
        row |= {"log_end_offset": end, "high_watermark": end}


@innocent(base="log", moments=("kill",))
def a_follower_outside_of_the_isr_lacks_an_acknowledged_one(record: Record, spot: Spot) -> None:
    """The ISR was full again in time, and shrank when all had been sent."""
    acked = _make_again(record, spot)
    follower, gone = _follower(record), acked[-1]["value"]
    last_ns = max(int(row["asked_ns"] or 0) for row in _mine(record, "leadership"))
    for row in _mine(record, "leadership", source="metadata"):
        if row["asked_ns"] > last_ns - NS_PER_S:
            row["isr"] = [each for each in row["isr"] if f"n{each}" != follower]
    record.drop("replica_records", lambda row: row["value"] == gone, topic=_TOPIC, node=follower)


def _drop_all(record: Record, *tables: str, **equal: object) -> None:
    for table in tables:
        record.drop(table, lambda _: True, topic=_TOPIC, **equal)


def _follower(record: Record) -> str:
    return next(node for node in ("n1", "n2", "n3") if node != f"n{_last_leader(record)}")


def _last_leader(record: Record) -> int:
    rows = [row for row in _mine(record, "leadership", source="metadata") if row["leader"] >= 0]
    last = max(rows, key=lambda row: (row["leader_epoch"], row["observed_ns"]))
    return int(last["leader"])
