"""Bytes that changed on their way, marks that run ahead, and epochs that were forgotten."""

from collections.abc import Callable

from results.record.contents import HEADERS, KEY, PAYLOAD, TIME
from tests.broken.brokers import NODES, followers_of, leader_of
from tests.broken.corpus import Spot, broken, innocent
from tests.broken.record import Record, Row

_AHEAD = 100_000


def _damage(row: Row, bits: int) -> None:
    row["damage"] = bits
    row["record_hash"] = row.get("record_hash", 0) ^ bits


def _hurt_copies(record: Record, spot: Spot, bits: int, nodes: tuple[str, ...] = NODES) -> None:
    """Have nodes' final logs hold the message as nobody sent it."""
    for row in record.rows("replica_records", snapshot="final", offset=spot.offset, **spot.place):
        if row["node"] in nodes:
            _damage(row, bits)


def _hurt_reads(record: Record, spot: Spot, bits: int, *, phase: str = "") -> None:
    for row in record.rows("polls", offset=spot.offset, **spot.place):
        if phase in {"", row["phase"]}:
            row["damage"] = bits


@broken("corrupt-record", row="low", base="contents", moments=("calm", "kill"))
def the_leader_spoils_a_payload_and_sums_it_again(record: Record, spot: Spot) -> None:
    _hurt_copies(record, spot, PAYLOAD)
    _hurt_reads(record, spot, PAYLOAD)


@broken("corrupt-record", row="low", base="contents", moments=("isolate",))
def readers_are_given_another_key(record: Record, spot: Spot) -> None:
    _hurt_reads(record, spot, KEY)


@broken("corrupt-record", row="low", base="contents", moments=("kill",))
def one_final_reader_is_given_another_time_stamp(record: Record, spot: Spot) -> None:
    _hurt_reads(record, spot, TIME, phase="final")


@broken("corrupt-record", row="low", base="contents", moments=("isolate",))
def headers_of_a_message_are_dropped(record: Record, spot: Spot) -> None:
    _hurt_copies(record, spot, HEADERS)
    _hurt_reads(record, spot, HEADERS)


@broken("corrupt-record", row="low", base="contents", moments=("calm",))
def a_follower_spoils_its_copy_that_nobody_reads(record: Record, spot: Spot) -> None:
    _hurt_copies(record, spot, PAYLOAD | KEY, nodes=followers_of(record, spot)[:1])


def _raise_marks(
    record: Record, spot: Spot, node: str, by: int, *, at: Callable[[Row], bool]
) -> None:
    for row in record.rows("replica_states", node=node, **spot.place):
        if row["high_watermark"] is not None and at(row):
            row["high_watermark"] += by


def _told_since(spot: Spot) -> Callable[[Row], bool]:
    return lambda row: row["snapshot"] != "final" and (row["observed_ns"] or 0) >= spot.at_ns


@broken("high-watermark-ahead", row="low", base="contents", moments=("kill", "isolate"))
def a_followers_high_watermark_runs_ahead(record: Record, spot: Spot) -> None:
    _raise_marks(record, spot, followers_of(record, spot)[0], _AHEAD, at=_told_since(spot))


@broken("high-watermark-ahead", row="low", base="contents", moments=("kill", "isolate"))
def all_followers_take_more_for_committed_than_there_is(record: Record, spot: Spot) -> None:
    for node in followers_of(record, spot):
        _raise_marks(record, spot, node, _AHEAD, at=_told_since(spot))


@broken("high-watermark-ahead", row="low", base="contents", moments=("kill", "isolate"))
def a_checkpoint_has_more_than_the_leaders_log(record: Record, spot: Spot) -> None:
    node = followers_of(record, spot)[0]
    _raise_marks(record, spot, node, _AHEAD, at=lambda row: row["snapshot"] == "final")


def _forget_epochs(record: Record, spot: Spot, nodes: tuple[str, ...]) -> None:
    for row in record.rows("replica_states", snapshot="final", **spot.place):
        if row["node"] in nodes:
            row["epochs"] = []


@broken("epoch-regression", row="low", base="contents", moments=("kill", "isolate"))
def a_follower_forgets_all_epochs(record: Record, spot: Spot) -> None:
    _forget_epochs(record, spot, followers_of(record, spot)[:1])


@broken("epoch-regression", row="low", base="contents", moments=("kill", "isolate"))
def every_replica_forgets_all_epochs(record: Record, spot: Spot) -> None:
    _forget_epochs(record, spot, NODES)


@broken("epoch-regression", row="low", base="contents", moments=("kill", "isolate"))
def the_leader_forgets_all_epochs(record: Record, spot: Spot) -> None:
    _forget_epochs(record, spot, (leader_of(record, spot),))


@innocent(base="contents")
def nobody_looked_at_what_messages_hold(record: Record, _spot: Spot) -> None:
    """Clients of before there were checks recorded nothing of it."""
    for table in ("polls", "replica_records"):
        for row in record.rows(table):
            row["damage"] = None


@innocent(base="contents")
def brokers_stamp_what_members_read(record: Record, spot: Spot) -> None:
    """With LogAppendTime nobody can tell whether the time stamp is right, and all else is."""
    record.plan["broker"] = {"log.message.timestamp.type": "LogAppendTime"}
    _hurt_reads(record, spot, 0)


@innocent(base="contents")
def a_follower_is_told_late_what_is_committed(record: Record, spot: Spot) -> None:
    """A follower learns the leader's mark with its next fetch."""
    for row in record.rows("replica_states", node=followers_of(record, spot)[0], **spot.place):
        if row["snapshot"] is None and row["high_watermark"]:
            row["high_watermark"] -= 1


@innocent(base="contents")
def a_follower_knows_at_once_what_is_committed(record: Record, spot: Spot) -> None:
    """It may be told between two answers of the leader, and be ahead of the earlier one."""
    marks = [
        (row["observed_ns"], row["high_watermark"])
        for row in record.rows("leadership", source="list-offsets", **spot.place)
    ]
    for row in record.rows("replica_states", node=followers_of(record, spot)[0], **spot.place):
        later = [mark for at_ns, mark in marks if at_ns > (row["observed_ns"] or 0)]
        if row["snapshot"] is None and row["high_watermark"] and later:
            told = min(*later, row["log_end_offset"])
            row["high_watermark"] = max(row["high_watermark"], told)


@innocent(base="contents")
def a_killed_broker_has_no_lines_of_epochs(record: Record, spot: Spot) -> None:
    """A checkpoint file is trusted after a clean stop only (KAFKA-16541)."""
    (stopped,) = [each for each in record.milestones if each["name"] == "stopped"]
    node = followers_of(record, spot)[0]
    stopped["detail"][node] = "killed"
    _forget_epochs(record, spot, (node,))


@innocent(base="contents")
def lines_without_a_record_are_normal(record: Record, spot: Spot) -> None:
    """A leader whose epoch ends before anybody sends leaves a line and no record."""
    for row in record.rows("replica_states", snapshot="final", **spot.place):
        last = row["epochs"][-1]
        row["epochs"] = [*row["epochs"], {"epoch": last["epoch"] + 1,
                                          "start_offset": row["log_end_offset"]}]  # fmt: skip
