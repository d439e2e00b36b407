"""What coordinators and members of groups do: steps of the changes to the base `groups`."""

from dataclasses import dataclass
from itertools import pairwise

from results.record.terms import F, GroupAct, Outcome
from tests.broken.brokers import in_order, insert
from tests.broken.corpus import Spot
from tests.broken.record import Record, Row

DEALT, REVOKED, SOUGHT = "rebalance-assigned", "rebalance-revoked", "seek"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A rebalance that was added: a member gives its partition back, and is dealt it again.

    Attributes:
        place: The partition, as `Spot.place` has it.
        process: The member.
        position: How far it had read.
        before: What its group had committed before that; None: nothing.
        op_id: In which op it is dealt the partition again.
        commit: The row of the commit of its position.
        fetch, dealt: The rows of the question for the position, and of the assignment.
    """

    place: dict[str, object]
    process: int
    position: int
    before: Row | None
    op_id: int
    commit: Row
    fetch: Row
    dealt: Row


def members(record: Record) -> set[int]:
    """Return the processes that ever joined a group."""
    return {row["process"] for row in record.rows("assignments", kind="subscribe")}


def reader_of(record: Record, spot: Spot) -> Row:
    """Return the row of `polls` in which a member of a group was given the spot's message first."""
    joined = members(record)
    rows = record.rows("polls", offset=spot.offset, outcome="ok", **spot.place)
    mine = [row for row in rows if row["process"] in joined]
    return min(mine, key=lambda row: int(row["complete_ns"]))


def rebalance(record: Record, spot: Spot) -> Turn:
    """Have the member that read the spot's message commit, and be dealt the partition once more.

    The coordinator deals anew when anybody joins or leaves. The member commits when it has to give
    its partitions back; then it asks what is committed, and goes on there.
    """
    read = reader_of(record, spot)
    process, place = read["process"], spot.place
    asks = _empty_poll(record, read)
    mine = sorted(record.rows("ops", process=process), key=lambda row: int(row["op_id"]))
    gives = [op for op in mine if op["op_id"] < asks["op_id"]][-1]
    position = _position(record, asks, place)
    before = committed_before(record, spot, gives["invoke_ns"])
    like = record.rows("commits", act=GroupAct.COMMIT.value)[0]
    commit = record.add(
        "commits",
        like,
        **place,
        op_id=gives["op_id"],
        process=process,
        asked_ns=gives["invoke_ns"],
        told_ns=gives["complete_ns"],
        offset=position,
        committed_by=None,
    )
    return Turn(
        place=place,
        process=process,
        position=position,
        before=before,
        op_id=asks["op_id"],
        commit=commit,
        **_dealt(record, like, commit, asks),
    )


def older_commit_comes_back(record: Record, spot: Spot, *, waited_ns: int) -> None:
    """Have a member be told the commit before its last one, which was asked for during a fault.

    The member is the first after the spot that asked for its position, committed twice and asked
    again. The fault is made longer, so that it covers the older commit.
    """
    commits = record.rows("commits", **spot.place)
    fetches = sorted(
        (row for row in commits if row["act"] == GroupAct.FETCH.value),
        key=lambda row: int(row["asked_ns"]),
    )
    for before, fetch in pairwise(row for row in fetches if row["asked_ns"] > spot.at_ns):
        mine = [
            row
            for row in commits
            if (row["act"], row["process"]) == (GroupAct.COMMIT.value, fetch["process"])
            and before["told_ns"] + waited_ns < row["told_ns"] < fetch["asked_ns"]
        ]
        if before["process"] == fetch["process"] and len(mine) > 1:
            older = sorted(mine, key=lambda row: int(row["told_ns"]))[-2]
            older["asked_ns"] = older["told_ns"] - waited_ns
            (fault,) = record.rows("faults", kind="isolate")
            fault["healed_ns"] = max(fault["healed_ns"], older["asked_ns"])
            (dealt,) = record.rows("assignments", op_id=fetch["op_id"], kind=DEALT, **spot.place)
            answer(record, fetch, dealt, older)
            return
    raise AssertionError("no member asked, committed twice, and asked again")


def seek(record: Record, spot: Spot, *, back: int) -> tuple[Row, int]:
    """Have the member that read the spot's message seek, in place of a poll that found nothing.

    Args:
        record: The run.
        spot: The message.
        back: So many records before its position.

    Returns:
        The row of the seek, and where the member stood before.
    """
    op = _empty_poll(record, reader_of(record, spot))
    op["f"] = F.SEEK.value
    position = _position(record, op, spot.place)
    move = record.rows("assignments", kind=DEALT, **spot.place)[0]
    sought = record.add(
        "assignments",
        move,
        kind=SOUGHT,
        process=op["process"],
        op_id=op["op_id"],
        time_ns=op["invoke_ns"],
        offset=position - back,
    )
    return sought, position


def _empty_poll(record: Record, read: Row) -> Row:
    """Return the next poll of a member that found nothing."""
    process = read["process"]
    busy = {row["op_id"] for row in record.rows("polls", process=process)}
    return min(
        (
            op
            for op in record.rows("ops", process=process, f=F.POLL.value)
            if op["op_id"] > read["op_id"] and op["op_id"] not in busy
        ),
        key=lambda op: int(op["op_id"]),
    )


def _position(record: Record, op: Row, place: dict[str, object]) -> int:
    """Return how far the process of an op had read before it."""
    return 1 + max(
        int(row["offset"])
        for row in record.rows("polls", process=op["process"], **place)
        if row["op_id"] < op["op_id"]
    )


def _dealt(record: Record, like: Row, commit: Row, asks: Row) -> dict[str, Row]:
    """Have a member give its partition back after a commit, and be dealt it again in an op."""
    place = {name: commit[name] for name in ("topic", "partition", "process")}
    move = record.rows("assignments", kind=DEALT)[0]
    record.add(
        "assignments",
        move,
        **place,
        kind=REVOKED,
        op_id=commit["op_id"],
        time_ns=commit["told_ns"],
        offset=None,
    )
    at_ns, offset = asks["invoke_ns"], commit["offset"]
    fetch = record.add(
        "commits",
        like,
        **place,
        act=GroupAct.FETCH.value,
        op_id=asks["op_id"],
        asked_ns=at_ns,
        told_ns=asks["complete_ns"],
        offset=offset,
        committed_by=commit["op_id"],
    )
    dealt = record.add(
        "assignments", move, **place, op_id=asks["op_id"], time_ns=at_ns, offset=offset
    )
    return {"fetch": fetch, "dealt": dealt}


def committed_before(record: Record, spot: Spot, at_ns: int) -> Row | None:
    """Return the last commit of the spot's partition that was acknowledged before a time."""
    rows = record.rows("commits", act=GroupAct.COMMIT.value, outcome=Outcome.OK.value, **spot.place)
    told = [row for row in rows if row["told_ns"] < at_ns]
    return max(told, key=lambda row: int(row["told_ns"]), default=None)


def next_answer(record: Record, spot: Spot) -> tuple[Row, Row]:
    """Return what the next member that asks for the position is told, and its assignment."""
    fetches = record.rows("commits", act=GroupAct.FETCH.value, **spot.place)
    fetch = min(
        (row for row in fetches if row["asked_ns"] > spot.at_ns), key=lambda row: row["asked_ns"]
    )
    (dealt,) = record.rows("assignments", op_id=fetch["op_id"], kind=DEALT, **spot.place)
    return fetch, dealt


def answer(record: Record, fetch: Row, dealt: Row, commit: Row | None) -> None:
    """Have a member be told another position, and read from there on.

    Args:
        record: The run.
        fetch: Its question and the answer.
        dealt: Its assignment.
        commit: What it is told, None: nothing is committed.
    """
    was = fetch["offset"]
    now = commit["offset"] if commit else 0
    fetch["offset"] = commit["offset"] if commit else None
    fetch["committed_by"] = commit["op_id"] if commit else None
    dealt["offset"] = now
    if now < was:
        read_again(record, dealt, range(now, was))
    else:
        jump(record, dealt, range(was, now))


def _following(record: Record, dealt: Row) -> Row | None:
    """Return the first row of what a member read of its partition after an op."""
    same = {name: dealt[name] for name in ("topic", "partition", "process")}
    rows = in_order(record.rows("polls", outcome="ok", **same))
    return next((row for row in rows if row["op_id"] > dealt["op_id"]), None)


def read_again(record: Record, dealt: Row, offsets: range) -> None:
    """Have a member read some offsets once more, before what it reads next after an op."""
    following = _following(record, dealt)
    if following is None:
        return
    place = {name: dealt[name] for name in ("topic", "partition")}
    stored = record.rows("replica_records", snapshot="final", node="n1", **place)
    by_offset = {row["offset"]: row for row in stored}
    again = [
        {
            **following,
            **{name: by_offset[each][name] for name in ("offset", "value", "leader_epoch")},
        }
        for each in offsets
    ]
    insert(record, following, again)


def jump(record: Record, dealt: Row, offsets: range) -> None:
    """Have a member never read some offsets after an op."""
    same = {name: dealt[name] for name in ("topic", "partition", "process")}
    record.drop(
        "polls",
        lambda row: row["op_id"] > dealt["op_id"] and row["offset"] in offsets,
        **same,
    )


def read_nothing(record: Record, place: dict[str, object], since_ns: int) -> None:
    """Have members be given nothing of a partition from a time on: they commit nothing, either."""
    joined = members(record)
    record.drop(
        "polls",
        lambda row: row["invoke_ns"] > since_ns and row["process"] in joined,
        **place,
    )
    record.drop(
        "commits", lambda row: row["asked_ns"] > since_ns, act=GroupAct.COMMIT.value, **place
    )


def dealt_to_nobody(record: Record, place: dict[str, object], since_ns: int) -> None:
    """Have no member be given a partition from a time on: only who had it gives it back."""
    record.drop("assignments", lambda row: row["time_ns"] > since_ns, kind=DEALT, **place)
    had = {row["process"] for row in record.rows("assignments", kind=DEALT, **place)}
    record.drop("assignments", lambda row: row["process"] not in had, kind=REVOKED, **place)
    record.drop(
        "commits", lambda row: row["asked_ns"] > since_ns, act=GroupAct.FETCH.value, **place
    )


def keep_commits(record: Record) -> list[Row]:
    """Have each acknowledged commit stand in the groups' log of every node; return these rows."""
    last = dict.fromkeys(("n1", "n2", "n3"), 0)
    for commit in record.rows("commits", act=GroupAct.COMMIT.value, outcome=Outcome.OK.value):
        for node in last:
            like = {name: commit[name] for name in ("topic", "topic_id", "partition", "offset")}
            record.add(
                "kept_commits",
                like,
                snapshot="final",
                node=node,
                group_id="groups-0",
                log_partition=0,
                log_offset=last[node],
                whole=True,
                committed_by=commit["op_id"],
            )
            last[node] += 1
    return record.rows("kept_commits")
