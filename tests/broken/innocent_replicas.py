"""What leaders, followers and controllers of a correct Kafka do without any disk fault.

Many are of the base with disk faults as well: its other faults excuse none of them.
"""

from itertools import pairwise

from tests.broken.brokers import (
    NODES,
    at_offset,
    begin_at,
    final_log,
    follow,
    followers_of,
    leader_of,
    note_cut,
    renumber,
)
from tests.broken.corpus import CALM, Spot, innocent, spot_of
from tests.broken.leaders import (
    acknowledged,
    answers,
    committed_by,
    elect,
    life,
    log_change,
    logged,
    looks,
)
from tests.broken.quorum import (
    LOG,
    committed,
    elect_controller,
    log_of,
    number,
    state,
    vote,
    voters,
)
from tests.broken.record import Record, Row
from tests.broken.replicas import MS, SPARED, S
from tests.broken.sequences import next_epoch


def _other_than(leader: str) -> str:
    return SPARED if leader != SPARED else "n3"


def _move(record: Record, spot: Spot) -> int:
    """Have another replica lead for a moment, then the same as before; return its start.

    So the leaders of before and after are those of the base.
    """
    leader = leader_of(record, spot)
    start = elect(record, spot, _other_than(leader))
    later = acknowledged(record, spot.at_ns + S // 3, 1 << 60, partition=spot.partition)
    back = Spot(send=later[0], epoch=spot.epoch + 1)
    elect(record, back, leader)
    return start


@innocent(base="log")
@innocent(base="disks")
def the_leader_is_elected_again(record: Record, spot: Spot) -> None:
    """An epoch may go to who led before: until 3.6 with each ISR that shrinks (KAFKA-15021)."""
    elect(record, spot)


@innocent(base="log")
@innocent(base="disks")
def leadership_moves_and_comes_back(record: Record, spot: Spot) -> None:
    """The preferred replica leads again a while after somebody else was elected from the ISR."""
    _move(record, spot)


@innocent(base="log")
@innocent(base="disks")
def an_epoch_ends_without_a_record(record: Record, spot: Spot) -> None:
    """Two elections in a row: a later epoch takes the line of one that begins where it begins.

    `LeaderEpochFileCache` drops lines from the same offset on when it adds one (KIP-101).
    """
    elect(record, spot)
    again = Spot(send=spot.send, epoch=spot.epoch + 1)
    elect(record, again, leader_of(record, spot))
    for row in record.rows("replica_states", **spot.place):
        gone = [line for line in row["epochs"] or () if line["epoch"] == spot.epoch + 1]
        row["epochs"] = [line for line in row["epochs"] or () if line not in gone]


@innocent(base="log")
@innocent(base="disks")
def a_deposed_leader_answers_late(record: Record, spot: Spot) -> None:
    """Until it hears of its successor, it answers in its own epoch with a mark that cannot grow."""
    leader = leader_of(record, spot)
    mark = committed_by(record, spot, spot.at_ns)
    before = answers(record, spot, to_ns=spot.at_ns)[-1]
    _move(record, spot)
    at_ns = spot.at_ns + 200 * MS
    record.add(
        "leadership", before, asked_ns=at_ns, observed_ns=at_ns + MS, high_watermark=mark,
        observer=leader,
    )  # fmt: skip


@innocent(base="log")
@innocent(base="disks")
def a_brokers_metadata_are_stale(record: Record, spot: Spot) -> None:
    """Each broker replays the metadata log at its own pace; Metadata is what it believes."""
    leader = int(leader_of(record, spot)[1:])
    told = record.rows("leadership", source="metadata", **spot.place)
    mine = [row for row in told if row["observer"] == SPARED and row["asked_ns"] <= spot.at_ns]
    before = dict(max(mine, key=lambda row: int(row["asked_ns"])))
    elect(record, spot)
    later = [
        int(row["asked_ns"])
        for row in record.rows("leadership", source="metadata", observer=SPARED, **spot.place)
        if row["asked_ns"] > spot.at_ns
    ]
    at_ns = min([*later, spot.at_ns + S]) - 2 * MS
    record.add("leadership", before, leader=leader, asked_ns=at_ns, observed_ns=at_ns + MS)


@innocent(base="log")
@innocent(base="disks")
def a_deposed_leader_cuts_off_its_tail(record: Record, spot: Spot) -> None:
    """It had appended what no follower had, and asks where its epoch ended (KIP-101)."""
    leader = leader_of(record, spot)
    before = looks(record, spot, leader, to_ns=spot.at_ns)[-1]
    start = _move(record, spot)
    tail = {"log_end_offset": start + 4, "high_watermark": before["high_watermark"]}
    at_ns = spot.at_ns + 300 * MS
    record.add("replica_states", before, observed_ns=at_ns, high_watermark_ns=at_ns, **tail)
    why = follow(int(_other_than(leader)[1:]), spot.epoch, start)
    note_cut(record, spot, leader, offset=start, why=why)


@innocent(base="log")
@innocent(base="disks")
def a_look_is_recorded_twice(record: Record, spot: Spot) -> None:
    """Of one look the high watermark is asked for last: it may lie above the end."""
    told = looks(record, spot, SPARED)
    before, after = next(
        pair for pair in pairwise(told) if pair[1]["high_watermark"] > pair[0]["log_end_offset"]
    )
    at_ns = int(after["observed_ns"]) - MS
    mark = {"high_watermark": after["high_watermark"], "high_watermark_ns": at_ns}
    for _ in range(2):
        record.add("replica_states", before, observed_ns=at_ns, **mark)


@innocent(base="log")
@innocent(base="disks")
def a_follower_lags_for_a_second(record: Record, spot: Spot) -> None:
    """A follower may be `replica.lag.time.max.ms` behind and stays in the ISR.

    What is acknowledged waits for it, but the observers need not have asked in between.
    """
    late = looks(record, spot, SPARED, from_ns=spot.at_ns, to_ns=spot.at_ns + S)
    before = looks(record, spot, SPARED, to_ns=spot.at_ns)[-1]
    for row in late[:1]:
        for name in ("log_end_offset", "high_watermark", "last_stable_offset"):
            row[name] = before[name]


@innocent(base="log")
@innocent(base="disks")
def followers_hear_late_of_the_high_watermark(record: Record, spot: Spot) -> None:
    """A follower is told the mark with its next fetch (KIP-207 is about leaders only).

    What it writes to its checkpoint at the stop may be behind the leader's.
    """
    for node in followers_of(record, spot):
        for row in record.rows("replica_states", node=node, **spot.place):
            if row["high_watermark"] and row["snapshot"] in {None, "final"}:
                row["high_watermark"] = max(row["high_watermark"] - 3, 0)
                if row["last_stable_offset"] is not None:
                    row["last_stable_offset"] = row["high_watermark"]


@innocent(base="log", moments=(CALM,))
@innocent(base="disks", moments=(CALM,))
def a_follower_leaves_the_isr_and_comes_back(record: Record, spot: Spot) -> None:
    """A slow follower leaves the ISR and comes back, in one epoch since 3.6 (KAFKA-15021)."""
    full = logged(record, spot, spot.at_ns)[0]["isr"]
    shrunk = [broker for broker in full if broker != int(SPARED[1:])]
    back_ns = spot.at_ns + 3 * S // 2
    for isr, at_ns in ((shrunk, spot.at_ns), (full, back_ns)):
        log_change(record, spot, spot.at_ns, isr=isr)
        told = record.rows("leadership", source="metadata", **spot.place)
        for node in NODES:
            mine = [row for row in told if row["observer"] == node and row["asked_ns"] <= at_ns]
            like = max(mine, key=lambda row: int(row["asked_ns"]))
            record.add(
                "leadership", like, isr=isr, asked_ns=at_ns + 50 * MS, observed_ns=at_ns + 51 * MS
            )


@innocent(base="log")
@innocent(base="disks")
def the_last_known_leader_returns(record: Record, spot: Spot) -> None:
    """Without ISR and ELR the controllers elect who led last, and call it unclean (KIP-966)."""
    leader = leader_of(record, spot)
    isr = logged(record, spot, spot.at_ns)[0]["isr"]
    elect(record, spot, isr=[])
    nobody = Spot(send=spot.send, epoch=spot.epoch + 1)
    elect(record, nobody, leader, isr=[int(leader[1:])], unclean=True)
    for row in record.rows("leadership", leader_epoch=spot.epoch + 1, **spot.place):
        row["leader"] = -1
    log_change(record, Spot(send=spot.send, epoch=spot.epoch + 2), spot.at_ns, isr=isr)


@innocent(base="log")
@innocent(base="disks")
def nobody_asks_for_two_seconds(record: Record, spot: Spot) -> None:
    """Observers, too, wait for a busy machine; what was not asked proves nothing."""
    until_ns = spot.at_ns + 2 * S
    for table in ("leadership", "replica_states"):
        record.drop(
            table,
            lambda row: (
                row["observed_ns"] is not None and spot.at_ns < row["observed_ns"] < until_ns
            ),
            **spot.place,
        )


@innocent(base="log")
@innocent(base="disks")
def an_answer_comes_later_than_the_next_one(record: Record, spot: Spot) -> None:
    """Two questions may be under way at once; what was asked first may be told last."""
    first, second = answers(record, spot, from_ns=spot.at_ns)[:2]
    record.add(
        "leadership", first, asked_ns=first["asked_ns"] + MS, observed_ns=second["observed_ns"] + MS
    )


def _killed(record: Record, spot: Spot) -> Row:
    """Have a follower be killed since it did not stop in time; return what its files are."""
    node = followers_of(record, spot)[0]
    (stopped,) = (each for each in record.milestones if each["name"] == "stopped")
    stopped["detail"][node] = "killed"
    (files,) = record.rows("replica_states", snapshot="final", node=node, **spot.place)
    return files


@innocent(base="log")
@innocent(base="disks")
def a_killed_followers_high_watermark_is_older(record: Record, spot: Spot) -> None:
    """`replication-offset-checkpoint` is written each five seconds, and at a clean stop."""
    _killed(record, spot)["high_watermark"] -= 30


@innocent(base="log")
@innocent(base="disks")
def a_killed_followers_epochs_end_with_a_stale_line(record: Record, spot: Spot) -> None:
    """Behind a truncation that was not flushed the file has a line too many (KAFKA-16541)."""
    files = _killed(record, spot)
    last = files["epochs"][-1]
    stale = {"epoch": last["epoch"] + 1, "start_offset": spot.offset}
    files["epochs"] = [*files["epochs"], stale]


@innocent(base="log")
@innocent(base="disks")
def another_controller_is_elected(record: Record, spot: Spot) -> None:
    """Its epoch begins behind all that was committed (KIP-595)."""
    elect_controller(record, spot.at_ns)


@innocent(base="log")
@innocent(base="disks")
def a_candidate_loses(record: Record, spot: Spot) -> None:
    """Each candidate votes for itself; who loses follows one for whom it did not vote."""
    elect_controller(record, spot.at_ns)
    led, elected, other = voters(record)
    record.drop(
        "quorum_states", lambda row: row["role"] == "voted", node=other, epoch=2, observed_ns=None
    )
    vote(record, other, 2, other, role="candidate")
    vote(record, led, 2, elected)


@innocent(base="log")
@innocent(base="disks")
def a_vote_is_told_without_its_folder_as_well(record: Record, spot: Spot) -> None:
    """A `quorum-state` file of version 0 forgets the folder of the candidate (KIP-853)."""
    elected = elect_controller(record, spot.at_ns)
    told = {"voted_for": number(elected), "voted_directory": "iT7kvRLyQdy2K3VLxWNdTg"}
    state(record, voters(record)[2], epoch=2, role="voted", **told)


@innocent(base="log")
@innocent(base="disks")
def a_deposed_controller_describes_the_quorum_late(record: Record, spot: Spot) -> None:
    """It does not know of its successor yet, and its mark cannot grow any more (KIP-595)."""
    before = max(
        (
            row
            for row in record.rows("quorum_states")
            if 0 < (row["observed_ns"] or 0) <= spot.at_ns
        ),
        key=lambda row: int(row["observed_ns"]),
    )
    before = dict(before)
    elect_controller(record, spot.at_ns)
    record.add("quorum_states", before, observed_ns=spot.at_ns + 400 * MS)


@innocent(base="log")
@innocent(base="disks")
def a_node_keeps_the_metadata_from_its_snapshot_on(record: Record, spot: Spot) -> None:
    """Each node deletes what its own snapshot covers (KIP-630)."""
    node, start = voters(record)[1], committed(record, spot.at_ns) // 2
    record.drop("replica_records", lambda row: row["offset"] < start, topic=LOG, node=node)
    record.drop(
        "leadership", lambda row: row["log_offset"] < start, source="metadata-log", observer=node
    )
    for row in record.rows("replica_states", topic=LOG, node=node):
        begin_at(row, start)


@innocent(base="log")
@innocent(base="disks")
def the_controllers_logs_end_differently(record: Record, spot: Spot) -> None:
    """What a leader appended in its last moment nobody fetches; it is above all marks (KIP-595)."""
    led, follower, _ = voters(record)
    _append(record, led, 1 + spot.offset % 3)
    behind = log_of(record, follower)[-1]
    record.drop("replica_records", lambda row: row is behind, node=follower, topic=LOG)
    for table in ("replica_states", "quorum_states"):
        for row in record.rows(table, node=follower, observed_ns=None):
            if row["log_end_offset"] is not None and row.get("topic", LOG) == LOG:
                row["log_end_offset"] -= 1


def _append(record: Record, led: str, count: int) -> None:
    """Have a controller's log have some records more at its end, which nobody fetched."""
    last = log_of(record, led)[-1]
    for at in range(1, count + 1):
        record.add(
            "replica_records",
            last,
            offset=last["offset"] + at,
            record_hash=last["record_hash"] ^ at,
        )
    for table in ("replica_states", "quorum_states"):
        for row in record.rows(table, node=led, observed_ns=None):
            if row["log_end_offset"] is not None and row.get("topic", LOG) == LOG:
                row["log_end_offset"] += count


@innocent(base="log")
@innocent(base="disks")
def a_leader_was_written_that_no_majority_has(record: Record, spot: Spot) -> None:
    """A change of leader above the quorum's high watermark was never made (KIP-631)."""
    led = voters(record)[0]
    end = int(log_of(record, led)[-1]["offset"]) + 1
    _append(record, led, 1 + spot.offset % 3)
    last = max(
        record.rows("leadership", source="metadata-log", observer=led, **spot.place),
        key=lambda row: int(row["log_offset"]),
    )
    record.add("leadership", last, leader=2, leader_epoch=last["leader_epoch"] + 1, log_offset=end)


@innocent(base="log")
def a_restarted_broker_tells_of_an_epoch_that_is_over(record: Record, spot: Spot) -> None:
    """It forgets what it knew, and replays the metadata log from its snapshot on (KIP-630)."""
    leader = int(leader_of(record, spot)[1:])
    elect(record, spot)
    back_ns = 23_900 * MS
    told = record.rows("leadership", source="metadata", observer="n2", **spot.place)
    like = min((row for row in told if row["asked_ns"] > back_ns), key=lambda row: row["asked_ns"])
    record.add(
        "leadership", like, leader=leader, leader_epoch=spot.epoch, isr=[1, 2, 3], asked_ns=back_ns,
        observed_ns=back_ns + MS, incarnation=life(record, "n2", back_ns),
    )  # fmt: skip


@innocent(base="log", moments=("kill", "isolate"))
def the_first_send_of_an_op_is_written_again_behind_the_second(record: Record, spot: Spot) -> None:
    """Its answer was lost: librdkafka sends it again under a new producer epoch (KIP-360).

    So one value stands twice, and its acknowledgement names the second place.
    """
    first, second = _pair(record, spot)
    (like,) = final_log(record, spot, "n3")[first["offset"] : second["offset"]]
    behind, again = spot_of(record, second), second["offset"] + 1
    next_epoch(
        record,
        like["producer_id"],
        behind=at_offset(behind, again),
        since_ns=first["complete_ns"] + 1,
    )
    renumber(record, behind, 1)
    for row in record.rows("replica_records", producer_epoch=1, **spot.place):
        row["sequence"] += 1
    for row in record.rows("replica_records", offset=first["offset"], **spot.place):
        record.add("replica_records", row, offset=again, producer_epoch=1, sequence=0)
    for row in record.rows("polls", offset=second["offset"], **spot.place):
        for later in record.rows("polls", op_id=row["op_id"], mop=row["mop"]):
            later["pos"] += later["pos"] > row["pos"]
        record.add("polls", row, offset=again, value=first["value"], pos=row["pos"] + 1)
    first["offset"] = again


def _pair(record: Record, spot: Spot) -> tuple[Row, Row]:
    """Return two sends of one op to the spot's partition, while the fault was in force."""
    sends = acknowledged(record, spot.at_ns - 3 * S, spot.at_ns + 3 * S, **spot.place)
    for first, second in pairwise(sends):
        if first["op_id"] == second["op_id"] and first["offset"] + 1 == second["offset"]:
            return first, second
    raise LookupError(f"no op sent twice to {spot.place} around {spot.at_ns} ns")
