"""What a correct Kafka may do to a run of `log`; each says why it may."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from results.record.clock import NS_PER_S
from tests.broken.answers import (
    REFUSED,
    TIMED_OUT,
    append_again,
    end_of,
    fate,
    last_spot,
    place_in_op,
    reads,
    retire,
    send_again_as,
    swap,
    without_idempotence,
)
from tests.broken.brokers import (
    NODES,
    begin_at,
    follow,
    followers_of,
    leader_of,
    lose,
    never_write,
    note_cut,
    take_out,
    unread,
    write_twice,
)
from tests.broken.corpus import CALM, QUIET, Spot, innocent, spot_of
from tests.broken.leaders import change_isr
from tests.broken.record import Record, Row
from tests.broken.sequences import close_gaps, next_epoch

_FAULTS = ("kill", "isolate")


def _without_answer(record: Record, spot: Spot) -> None:
    fate(record, spot.send, "info", TIMED_OUT)


def _give_up(record: Record, spot: Spot) -> None:
    """Have the client get no answer; nothing that it sent behind the message was written so far."""
    behind = replace(spot, send=dict(spot.send))
    _without_answer(record, spot)
    next_epoch(record, 0, behind=behind, since_ns=behind.send["invoke_ns"])


@innocent(base="log")
def a_message_without_an_answer_was_written(record: Record, spot: Spot) -> None:
    """The answer was lost, or came after the client had given up (delivery.timeout.ms)."""
    _without_answer(record, spot)


@innocent(base="log")
def a_message_without_an_answer_was_never_written(record: Record, spot: Spot) -> None:
    """The request never reached the leader: what timed out may or may not be in the log."""
    never_write(record, spot)
    _give_up(record, spot)


@innocent(base="log")
def a_message_without_an_answer_is_written_late(record: Record, spot: Spot) -> None:
    """A request may lie in a socket's buffer; the leader appends it whenever it reads it.

    But not of an idempotent producer that has gone on: its number, or its epoch, is an old one.
    """
    without_idempotence(record)
    append_again(record, spot)
    take_out(record, spot, {spot.offset})
    _without_answer(record, spot)


@innocent(base="log")
def a_message_that_the_client_refused_is_nowhere(record: Record, spot: Spot) -> None:
    """Larger than message.max.bytes: librdkafka sends no request at all, and takes no number."""
    close_gaps(record, record.rows("replica_records", offset=spot.offset, **spot.place))
    never_write(record, spot)
    fate(record, spot.send, "fail", REFUSED)


@innocent(base="log")
def a_repeated_request_is_answered_without_an_offset(record: Record, spot: Spot) -> None:
    """A broker that has a batch, but not its place any more, answers DUPLICATE_SEQUENCE_NUMBER.

    Clients take that for an acknowledgement at an unknown offset (KIP-98; it knows five batches).
    """
    spot.send["offset"] = None


@innocent(base="log", moments=_FAULTS)
def a_message_is_sent_again_in_another_epoch(record: Record, spot: Spot) -> None:
    """A client that lost track of what brokers have bumps its epoch (KIP-360, librdkafka#4953)."""
    send_again_as(record, spot, producer_id=0, producer_epoch=1)


@innocent(base="log", moments=_FAULTS)
def a_message_is_sent_again_without_idempotence(record: Record, spot: Spot) -> None:
    """Without idempotence brokers recognise no retry: it is written again."""
    without_idempotence(record)
    write_twice(record, spot)


@innocent(base="log", moments=_FAULTS)
def two_messages_of_one_op_overtake_without_idempotence(record: Record, spot: Spot) -> None:
    """With five requests in flight the first may fail and be sent again behind the second."""
    without_idempotence(record)
    one, other = (spot_of(record, row) for row in record.rows("sends", op_id=spot.send["op_id"]))
    swap(record, one, other)


@innocent(base="log")
def an_answer_comes_late(record: Record, spot: Spot) -> None:
    """A produce request may wait in the leader's purgatory; its client waits with it."""
    (op,) = record.rows("ops", op_id=spot.send["op_id"])
    later = [
        int(row["invoke_ns"])
        for row in record.rows("ops", process=op["process"])
        if row["op_id"] > op["op_id"]
    ]
    op["complete_ns"] = min(later) - 1
    for row in record.rows("sends", op_id=op["op_id"]):
        row["complete_ns"] = op["complete_ns"]


@innocent(base="log")
def a_followers_high_watermark_lags(record: Record, spot: Spot) -> None:
    """A follower hears of the high watermark with its next fetch."""
    followers = followers_of(record, spot)
    for row in record.rows("replica_states", **spot.place):
        if row["node"] in followers and row["high_watermark"] and row["snapshot"] != "final":
            row["high_watermark"] = max(0, row["high_watermark"] - 4)
    _regress_never(record, spot)


def _regress_never(record: Record, spot: Spot) -> None:
    """Keep what a replica tells of its high watermark from going back."""
    for node in NODES:
        highest = 0
        rows = record.rows("replica_states", node=node, snapshot=None, **spot.place)
        for row in sorted(rows, key=lambda row: int(row["observed_ns"])):
            highest = max(highest, row["high_watermark"] or 0)
            row["high_watermark"] = highest if row["high_watermark"] is not None else None


@innocent(base="log")
def a_checkpoint_of_the_high_watermark_is_old(record: Record, spot: Spot) -> None:
    """replication-offset-checkpoint may be five seconds older than the log beside it."""
    for row in record.rows("replica_states", snapshot="final", **spot.place):
        row["high_watermark"] = min(row["high_watermark"], spot.offset)


@innocent(base="log")
def a_log_reaches_beyond_the_high_watermark(record: Record, spot: Spot) -> None:
    """A leader appends before followers fetch: its tail is committed a moment later."""
    node = leader_of(record, spot)
    end = end_of(record, spot)
    for row in record.rows("replica_states", node=node, snapshot=None, **spot.place):
        if row["log_end_offset"] is not None:
            row["log_end_offset"] = _reach(record, spot, row, min(row["log_end_offset"] + 2, end))


def _reach(record: Record, spot: Spot, look: Row, end: int) -> int:
    """Return how far a log reaches by a look, up to an end: what is sent later is not there yet."""
    sends = record.rows("sends", acked=True, **spot.place)
    later = [row["offset"] for row in sends if row["invoke_ns"] >= look["observed_ns"]]
    return int(max(look["log_end_offset"], min([*later, end])))


@innocent(base="log")
def a_follower_lags_for_a_while(record: Record, spot: Spot) -> None:
    """Within replica.lag.time.max.ms a follower may be behind and stay in the ISR."""
    node = followers_of(record, spot)[0]
    behind = [
        row
        for row in record.rows("replica_states", node=node, snapshot=None, **spot.place)
        if spot.at_ns <= row["observed_ns"] <= spot.at_ns + 3 * NS_PER_S
    ]
    if behind:
        first = min(behind, key=lambda row: int(row["observed_ns"]))
        for row in behind:
            for name in ("log_end_offset", "high_watermark", "last_stable_offset"):
                row[name] = first[name]


@innocent(base="log")
def the_isr_is_told_in_another_order(record: Record, spot: Spot) -> None:
    """The ISR is a set; controllers add who comes back at its end."""
    for row in record.rows("leadership", source="metadata", **spot.place):
        if row["observed_ns"] >= spot.at_ns:
            row["isr"] = row["isr"][::-1]


@innocent(base="log")
def a_leaders_answer_overtakes_another(record: Record, spot: Spot) -> None:
    """Of two answers that overlap in time the one that comes later may be the older one."""
    told = record.rows("leadership", source="list-offsets", **spot.place)
    one = next(
        row for row in told if row["observed_ns"] >= spot.at_ns and row["high_watermark"] > 2
    )
    late = record.add("leadership", one, high_watermark=one["high_watermark"] - 2)
    late["asked_ns"] = one["asked_ns"] - 1000
    late["observed_ns"] = one["observed_ns"] + NS_PER_S // 10


@innocent(base="log")
def brokers_answer_nothing_for_three_seconds(record: Record, spot: Spot) -> None:
    """Observers have time limits: on a busy machine nobody hears anything of a partition."""
    until_ns = spot.at_ns + 3 * NS_PER_S
    for table in ("leadership", "replica_states"):
        record.drop(
            table,
            lambda row: (
                row["observed_ns"] is not None and spot.at_ns < row["observed_ns"] < until_ns
            ),
            **spot.place,
        )


@innocent(base="log", moments=("kill",))
def a_broker_that_comes_back_cuts_off_what_nobody_acknowledged(record: Record, spot: Spot) -> None:
    """A follower cuts its log where the new leader's epoch begins (KIP-101)."""
    last = _before_the_election(record, spot)
    offset = last.offset
    never_write(record, last)
    _give_up(record, last)
    note_cut(record, last, "n2", offset=offset, why=follow(3, 0, offset))


def _before_the_election(record: Record, spot: Spot) -> Spot:
    """Return the last message of the first partition that its first leader, n2, wrote."""
    (state,) = record.rows("replica_states", snapshot="final", node="n3", topic=spot.topic,
                           partition=0)  # fmt: skip
    begun = int(state["epochs"][1]["start_offset"])
    (send,) = record.rows("sends", topic=spot.topic, partition=0, offset=begun - 1)
    return spot_of(record, send)


@innocent(base="log", moments=("kill",))
def a_killed_leader_takes_what_it_alone_acknowledged(record: Record, spot: Spot) -> None:
    """With acks=1 the leader vouches alone; the next one begins where it had fetched to."""
    record.plan["acks"] = "1"
    for row in record.rows("sends"):
        row["acks"] = "1"
    gone = _before_the_election(record, spot)
    offset = gone.offset
    take_out(record, gone, {offset})
    gone.send["offset"] = offset


@innocent(base="log")
def retention_takes_the_beginning(record: Record, spot: Spot) -> None:
    """log.retention.bytes was asked for: each replica drops its oldest segments."""
    _retain(record, spot, dict.fromkeys(NODES, spot.offset))


@innocent(base="log")
def a_follower_forgets_later_than_its_leader(record: Record, spot: Spot) -> None:
    """Replicas drop segments by their own clocks, so that their logs start at different offsets."""
    starts = dict.fromkeys(NODES, spot.offset)
    _retain(record, spot, starts | {followers_of(record, spot)[0]: max(0, spot.offset - 20)})


@innocent(base="log")
def deleted_records_are_read_no_more(record: Record, spot: Spot) -> None:
    """log.retention.ms was asked for: what is too old goes, whether or not somebody read it."""
    record.plan["broker"]["log.retention.ms"] = "1000"
    _begin(record, spot, dict.fromkeys(NODES, spot.offset))


def _retain(record: Record, spot: Spot, starts: dict[str, int]) -> None:
    record.plan["broker"]["log.retention.bytes"] = "1000"
    _begin(record, spot, starts)


def _begin(record: Record, spot: Spot, starts: dict[str, int]) -> None:
    """Have nodes' logs begin at an offset, from some time after the spot on."""
    last_ns = max(int(row["complete_ns"]) for row in record.rows("sends"))
    for node, start in starts.items():
        lose(record, spot, range(start), nodes=(node,))
        for row in record.rows("replica_states", node=node, **spot.place):
            if row["snapshot"] or row["observed_ns"] > last_ns:
                begin_at(row, start)
    unread(record, spot, range(starts[leader_of(record, spot)]), phase="final")


@innocent(base="log")
def a_reader_falls_behind(record: Record, spot: Spot) -> None:
    """Nobody promises that a reader keeps up: its last polls return nothing."""
    read = reads(record, spot)[0]
    record.drop(
        "polls",
        lambda row: row["op_id"] > read["op_id"] and row["phase"] != "final",
        process=read["process"], **spot.place,
    )  # fmt: skip


@innocent(base="log")
def a_reader_never_gets_anything(record: Record, spot: Spot) -> None:
    """A poll may end before its first fetch is answered, each time."""
    process = reads(record, spot)[0]["process"]
    record.drop("polls", lambda row: row["phase"] != "final", process=process)


@innocent(base="log")
def a_readers_client_dies(record: Record, spot: Spot) -> None:
    """A poll of unknown outcome ends its process; the next one begins anew."""
    read = reads(record, spot)
    (op,) = record.rows("ops", op_id=read[0]["op_id"])
    op |= {"outcome": "info", "error": TIMED_OUT}
    for row in record.rows("polls", op_id=op["op_id"]):
        row["outcome"] = "info"
    retire(record, op)


@innocent(base="log")
def a_fetch_is_split_in_two(record: Record, spot: Spot) -> None:
    """How many records an answer brings is the broker's choice (fetch.max.bytes, KIP-74)."""
    read = reads(record, spot, least=3)
    rows = record.rows("polls", op_id=read[0]["op_id"])
    for row in rows:
        if row["mop"] > 0 or row["pos"] >= read[1]["pos"]:
            row["mop"] += 1
    for mop in {row["mop"] for row in rows}:
        mine = sorted((row for row in rows if row["mop"] == mop), key=_pos)
        for pos, row in enumerate(mine):
            row["pos"] = pos


def _pos(row: Row) -> int:
    return int(row["pos"])


@innocent(base="log")
def the_last_message_had_no_answer(record: Record, spot: Spot) -> None:
    """Clients were stopped with a request under way; the log may have it, and the final reads."""
    fate(record, last_spot(record, spot).send, "info", TIMED_OUT)


@innocent(base="log")
def another_writers_message_stands_between_two_of_one_op(record: Record, spot: Spot) -> None:
    """Two messages of an op may go in two batches; what others send comes between them.

    All have one client, which numbers them as it sends them.
    """
    for offset in range(spot.offset, spot.offset + 100):
        near = [record.rows("sends", offset=offset + by, **spot.place)[0] for by in range(3)]
        last, meanwhile = near[1:]
        if near[0]["op_id"] == last["op_id"] and _begin_before(record, meanwhile, last):
            two = spot_of(record, last), spot_of(record, meanwhile)
            numbers = {each.offset: _number(record, each) for each in two}
            swap(record, *two)
            for row in record.rows("replica_records", **spot.place):
                row["sequence"] = numbers.get(row["offset"], row["sequence"])
            return


def _number(record: Record, spot: Spot) -> int:
    return int(record.rows("replica_records", offset=spot.offset, **spot.place)[0]["sequence"])


def _begin_before(record: Record, send: Row, end: Row) -> bool:
    """Have an op begin before another one's end, if its process is free then."""
    at_ns = int(end["complete_ns"]) - 1
    before = [
        row for row in record.rows("ops", process=send["process"]) if row["op_id"] < send["op_id"]
    ]
    free = max((int(row["complete_ns"] or 0) for row in before), default=0) < at_ns
    if free and send["invoke_ns"] > at_ns:
        for table in ("ops", "sends"):
            for row in record.rows(table, op_id=send["op_id"]):
                row["invoke_ns"] = at_ns
    return free


@innocent(base="log", moments=(CALM, QUIET))
def the_isr_shrinks_and_grows_again(record: Record, spot: Spot) -> None:
    """A follower that a long pause of its JVM kept from fetching leaves the ISR and comes back."""
    change_isr(record, spot, (spot.at_ns, spot.at_ns + 4 * NS_PER_S), _without(1))


@innocent(base="log")
def an_isr_of_one_is_told_late(record: Record, spot: Spot) -> None:
    """Metadata may be seconds old: the followers are back while brokers still tell they are not."""
    span = (spot.at_ns, spot.at_ns + 3 * NS_PER_S)
    change_isr(record, spot, span, _without(1, 2, 3), back_ns=spot.at_ns)


@innocent(base="log", moments=_FAULTS)
def a_broker_comes_back_to_the_isr_late(record: Record, spot: Spot) -> None:
    """Until a follower has fetched all it stays outside of the ISR, however long that takes."""
    back_ns = min(_healed_ns(record, spot), key=lambda at_ns: abs(at_ns - spot.at_ns))
    change_isr(record, spot, (back_ns - NS_PER_S, back_ns + 2 * NS_PER_S), _without(2))


def _healed_ns(record: Record, spot: Spot) -> list[int]:
    return [int(row["healed_ns"]) for row in record.rows("faults") if row["healed_ns"] > spot.at_ns]


def _without(*brokers: int) -> Callable[[Row], list[int]]:
    """Return what takes some followers out of an ISR."""
    return lambda row: [each for each in row["isr"] if each not in brokers or each == row["leader"]]


@innocent(base="log", moments=_FAULTS)
def a_broker_tells_what_it_knew_before(record: Record, spot: Spot) -> None:
    """Brokers learn of a new leader, or ISR, one after the other."""
    told = record.rows("leadership", source="metadata", observer="n1", **spot.place)
    told.sort(key=lambda row: int(row["observed_ns"]))
    names = ("leader", "leader_epoch", "isr")
    changes = [
        (before, after)
        for before, after in pairwise(told)
        if [before[name] for name in names] != [after[name] for name in names]
    ]
    before, after = min(changes, key=lambda each: abs(each[1]["observed_ns"] - spot.at_ns))
    after |= {name: before[name] for name in names}


@innocent(base="log")
def a_reader_is_sent_back_and_reads_again(record: Record, spot: Spot) -> None:
    """An application may seek: an assignment that names an offset places its reader there."""
    moves = [row for row in record.rows("assignments") if (row["offset"] or 0) > 0]
    move = min(moves, key=lambda row: abs(int(row["time_ns"]) - spot.at_ns))
    place = {name: move[name] for name in ("topic", "partition")}
    later = record.rows("polls", process=move["process"], **place)
    op_id = min(row["op_id"] for row in later if row["op_id"] > move["op_id"])
    first = min((row for row in later if row["op_id"] == op_id), key=place_in_op)
    move["offset"] -= 1
    (before,) = record.rows("replica_records", snapshot="final", node="n3",
                            offset=move["offset"], **place)  # fmt: skip
    at = first["pos"]
    for row in record.rows("polls", op_id=op_id, mop=first["mop"]):
        row["pos"] += row["pos"] >= at
    record.add(
        "polls", first, pos=at, offset=before["offset"], value=before["value"],
        leader_epoch=before["leader_epoch"],
    )  # fmt: skip


@innocent(base="log")
def a_worker_reserves_more_than_it_sends(record: Record, spot: Spot) -> None:
    """Workers reserve values in blocks, and may end anywhere in one."""
    for row in record.rows("reservations"):
        row["value_to"] += spot.offset
