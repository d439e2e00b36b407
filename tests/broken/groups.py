"""Groups that a coordinator or a leader broke: positions, jumps, partitions that nobody reads."""

from results.record.clock import NS_PER_S
from results.record.terms import GroupAct, Outcome
from tests.broken.brokers import end_broker, in_order, never_write, write_twice
from tests.broken.corpus import Spot, broken
from tests.broken.members import (
    DEALT,
    REVOKED,
    answer,
    dealt_to_nobody,
    jump,
    keep_commits,
    members,
    next_answer,
    older_commit_comes_back,
    read_again,
    read_nothing,
    reader_of,
    rebalance,
    seek,
)
from tests.broken.record import Record


@broken("commit-lost", row="S5", base="groups")
def an_acknowledged_commit_is_forgotten(record: Record, spot: Spot) -> None:
    turn = rebalance(record, spot)
    answer(record, turn.fetch, turn.dealt, turn.before)


@broken("commit-lost", row="S5", base="groups")
def a_coordinator_lost_its_newest_positions(record: Record, spot: Spot) -> None:
    """It took over with a log that ended before the message's time, and answers by that."""
    fetch, dealt = next_answer(record, spot)
    kept = [
        row
        for row in record.rows("commits", act=GroupAct.COMMIT.value, **spot.place)
        if row["offset"] <= spot.offset - 5
    ]
    answer(record, fetch, dealt, kept[-1] if kept else None)


@broken("commit-lost", row="groups", base="groups", moments=("isolate",))
def an_older_commit_that_was_sent_once_comes_back(record: Record, spot: Spot) -> None:
    older_commit_comes_back(record, spot, waited_ns=NS_PER_S // 10)


@broken("commit-lost", row="groups", base="groups")
def an_acknowledged_commit_is_in_no_log(record: Record, spot: Spot) -> None:
    """Its coordinator was replaced and cut it off; nobody asked before the next commit."""
    commit = rebalance(record, spot).commit
    keep_commits(record)
    gone = record.drop("kept_commits", lambda row: row["committed_by"] == commit["op_id"])
    assert gone


@broken("commit-lost", row="groups", base="groups", moments=("kill",))
def no_acknowledged_commit_of_a_partition_is_in_a_log(record: Record, spot: Spot) -> None:
    """Its coordinator acknowledged each commit of one partition, and appended only the others."""
    rebalance(record, spot)
    keep_commits(record)
    record.drop("kept_commits", lambda _: True, **spot.place)
    assert record.rows("kept_commits")


@broken("commit-ahead", row="S5", base="groups")
def a_position_is_stored_one_too_high(record: Record, spot: Spot) -> None:
    turn = rebalance(record, spot)
    answer(record, turn.fetch, turn.dealt, {**turn.commit, "offset": turn.position + 1})


@broken("commit-ahead", row="S5", base="groups", moments=("calm",))
def a_new_group_has_a_position(record: Record, spot: Spot) -> None:
    """The coordinator answers by what another group committed."""
    fetch = record.rows("commits", act=GroupAct.FETCH.value, offset=None, **spot.place)[0]
    (dealt,) = record.rows("assignments", op_id=fetch["op_id"], kind=DEALT, **spot.place)
    fetch["offset"] = dealt["offset"] = 2
    jump(record, dealt, range(2))


@broken("poll-skip", row="S5", base="groups")
def a_member_is_served_from_behind_its_position(record: Record, spot: Spot) -> None:
    """It was told the right position; the leader looks its offset up wrongly."""
    turn = rebalance(record, spot)
    jump(record, turn.dealt, range(turn.position, turn.position + 1))


@broken("nonmonotonic-poll", row="S5", base="groups")
def a_dealt_position_is_called_out_of_range(record: Record, spot: Spot) -> None:
    """So the member's client begins anew (`auto.offset.reset=earliest`), though all is there."""
    turn = rebalance(record, spot)
    read_again(record, turn.dealt, range(turn.position))


@broken("nonmonotonic-poll", row="S5", base="groups")
def a_position_is_called_out_of_range(record: Record, spot: Spot) -> None:
    read = reader_of(record, spot)
    own = record.rows("polls", process=read["process"], op_id=read["op_id"], **spot.place)
    read_again(record, read, range(1 + max(row["offset"] for row in own)))


@broken("poll-skip", row="groups", base="groups")
def a_member_that_seeks_is_served_from_behind_there(record: Record, spot: Spot) -> None:
    sought, stood = seek(record, spot, back=4)
    read_again(record, sought, range(stood - 3, stood))


@broken("nonmonotonic-poll", row="groups", base="groups")
def a_member_that_seeks_is_served_from_before_there(record: Record, spot: Spot) -> None:
    sought, stood = seek(record, spot, back=3)
    read_again(record, sought, range(stood - 4, stood))


@broken("group-stuck", row="groups", base="groups")
def a_partition_is_dealt_to_nobody(record: Record, spot: Spot) -> None:
    """Its member has to give it back, and no later assignment of the coordinator names it."""
    read = reader_of(record, spot)
    since_ns = read["complete_ns"]
    dealt = record.rows("assignments", kind=DEALT, **spot.place)[0]
    record.add(
        "assignments",
        dealt,
        kind=REVOKED,
        process=read["process"],
        op_id=read["op_id"],
        time_ns=since_ns,
        offset=None,
    )
    dealt_to_nobody(record, spot.place, since_ns)
    read_nothing(record, spot.place, since_ns)


@broken("group-stuck", row="groups", base="groups")
def a_partitions_members_are_served_nothing(record: Record, spot: Spot) -> None:
    """Each is dealt the partition, asks for its position, and gets empty answers from there on."""
    read_nothing(record, spot.place, spot.at_ns)
    left = record.rows("commits", act=GroupAct.COMMIT.value, **spot.place)
    last = max(left, key=lambda row: int(row["asked_ns"]))
    for fetch in record.rows("commits", act=GroupAct.FETCH.value, **spot.place):
        if fetch["asked_ns"] > last["asked_ns"]:
            fetch["offset"], fetch["committed_by"] = last["offset"], last["op_id"]
            for dealt in record.rows("assignments", op_id=fetch["op_id"], kind=DEALT, **spot.place):
                dealt["offset"] = last["offset"]


@broken("group-stuck", row="H2", base="groups")
def a_coordinator_hangs_and_lives(record: Record, spot: Spot) -> None:
    """No commit is answered any more, and nobody who joins is dealt anything.

    Who has partitions reads on until it leaves.
    """
    for commit in record.rows("commits", act=GroupAct.COMMIT.value):
        if (commit["told_ns"] or 0) > spot.at_ns:
            commit.update(told_ns=None, outcome=Outcome.INFO.value, error="_TIMED_OUT")
    had = {
        (row["process"], row["partition"])
        for row in record.rows("assignments", kind=DEALT)
        if row["time_ns"] < spot.at_ns
    }
    for partition in {row["partition"] for row in record.rows("sends")}:
        dealt_to_nobody(record, {**spot.place, "partition": partition}, spot.at_ns)
    gone = members(record)
    for table in ("polls", "commits"):
        record.drop(
            table,
            lambda row: row["process"] in gone and (row["process"], row["partition"]) not in had,
        )


@broken("lost-write", row="group-reads", base="groups")
def a_message_to_a_group_is_never_written(record: Record, spot: Spot) -> None:
    never_write(record, spot)


@broken("duplicate", row="group-reads", base="groups")
def a_message_to_a_group_is_written_twice(record: Record, spot: Spot) -> None:
    """The leader forgot the producer's last number (KIP-98), and takes its second try for new."""
    write_twice(record, spot)


@broken("poll-skip", row="group-reads", base="groups")
def a_member_is_not_given_a_message(record: Record, spot: Spot) -> None:
    """Its answer begins behind the message, which all others are given."""
    read = reader_of(record, spot)
    record.drop("polls", lambda row: row["op_id"] >= read["op_id"] and row["offset"] <= spot.offset,
                process=read["process"], **spot.place)  # fmt: skip


@broken("phantom", row="group-reads", base="groups")
def a_member_is_given_a_message_of_the_other_partition(record: Record, spot: Spot) -> None:
    others = [send for send in record.rows("sends") if send["partition"] != spot.partition]
    reader_of(record, spot)["value"] = others[0]["value"]


@broken("inconsistent-offsets", row="group-reads", base="groups")
def a_member_is_given_the_message_before_once_more(record: Record, spot: Spot) -> None:
    """The leader serves an old page of its file at the message's offset."""
    read = reader_of(record, spot)
    before = in_order(record.rows("polls", offset=spot.offset - 1, **spot.place))
    read["value"] = before[0]["value"]


@broken("broker-ended", row="H1", base="groups", moments=("isolate",))
def a_cut_off_broker_crashes(record: Record, _: Spot) -> None:
    """Its JVM raises SIGABRT."""
    (fault,) = record.rows("faults", kind="isolate")
    end_broker(
        record,
        fault["targets"][0],
        int(fault["confirmed_ns"]) + NS_PER_S,
        code="-6",
        said="# A fatal error has been detected by the Java Runtime Environment:",
    )
