"""What a correct Kafka may leave of groups: commits without an answer, rebalances, lag."""

from results.record.clock import NS_PER_S
from results.record.terms import GroupAct, Outcome
from tests.broken.brokers import cut, read_late
from tests.broken.corpus import Spot, innocent
from tests.broken.members import (
    answer,
    committed_before,
    keep_commits,
    members,
    next_answer,
    older_commit_comes_back,
    read_again,
    rebalance,
    seek,
)
from tests.broken.record import Record, Row

_LAG_NS = 3 * NS_PER_S


def _no_answer(commit: Row, error: str = "_TIMED_OUT") -> None:
    commit.update(told_ns=None, outcome=Outcome.INFO.value, error=error)


@innocent(base="groups")
def a_commit_without_an_answer_took_effect(record: Record, spot: Spot) -> None:
    """The coordinator wrote it, and its answer was lost on the way."""
    _no_answer(rebalance(record, spot).commit)


@innocent(base="groups")
def a_commit_without_an_answer_was_lost(record: Record, spot: Spot) -> None:
    """The request was lost: the member goes on from the commit before, and reads twice."""
    turn = rebalance(record, spot)
    _no_answer(turn.commit)
    answer(record, turn.fetch, turn.dealt, turn.before)


@innocent(base="groups")
def commits_stand_in_the_groups_log(record: Record, spot: Spot) -> None:
    """One node's log ends early; a commit without an answer stands nowhere."""
    keep_commits(record)
    late = record.rows("kept_commits", node="n3", **spot.place)[-1]
    record.drop("kept_commits", lambda row: row is late)
    _no_answer(rebalance(record, spot).commit)


@innocent(base="groups")
def a_groups_log_was_compacted(record: Record, spot: Spot) -> None:
    """Of each position the last commit is left."""
    kept = keep_commits(record)
    last = {(row["node"], row["topic"], row["partition"]): row["log_offset"] for row in kept}
    for row in kept:
        row["whole"] = False
    record.drop(
        "kept_commits",
        lambda row: row["log_offset"] < last[row["node"], row["topic"], row["partition"]],
    )
    rebalance(record, spot)


@innocent(base="groups")
def a_commit_is_refused(record: Record, spot: Spot) -> None:
    """A member that commits in a generation that is over is refused; nothing is stored."""
    turn = rebalance(record, spot)
    _no_answer(turn.commit, "ILLEGAL_GENERATION")
    answer(record, turn.fetch, turn.dealt, turn.before)


@innocent(base="groups")
def a_rebalance_goes_unnoticed_by_readers(record: Record, spot: Spot) -> None:
    """Who commits before it gives its partition back goes on where it stood."""
    rebalance(record, spot)


@innocent(base="groups")
def a_member_is_thrown_out_before_it_commits(record: Record, spot: Spot) -> None:
    """Its session ended: what it read since its last commit is read again (at least once)."""
    turn = rebalance(record, spot)
    record.drop("commits", lambda row: row is turn.commit)
    answer(record, turn.fetch, turn.dealt, turn.before)


@innocent(base="groups")
def the_answer_to_a_question_for_a_position_is_lost(record: Record, spot: Spot) -> None:
    """The client asks again, unseen, and goes on at what it is told then."""
    turn = rebalance(record, spot)
    _no_answer(turn.fetch)
    turn.fetch["offset"] = turn.fetch["committed_by"] = turn.dealt["offset"] = None


@innocent(base="groups")
def an_unseen_answer_sends_a_member_back(record: Record, spot: Spot) -> None:
    """The commit before the rebalance was lost as well: the member reads some records again."""
    turn = rebalance(record, spot)
    _no_answer(turn.commit)
    _no_answer(turn.fetch)
    turn.fetch["offset"] = turn.fetch["committed_by"] = turn.dealt["offset"] = None
    before = turn.before["offset"] if turn.before else 0
    read_again(record, turn.dealt, range(before, turn.position))


@innocent(base="groups")
def an_older_commit_comes_late(record: Record, spot: Spot) -> None:
    """Two commits are under way at the same time: the coordinator writes them in either order."""
    turn = rebalance(record, spot)
    older = record.add("commits", turn.commit, offset=turn.position - 1)
    answer(record, turn.fetch, turn.dealt, older)


@innocent(base="groups", moments=("isolate",))
def a_copy_of_an_older_commit_comes_late(record: Record, spot: Spot) -> None:
    """Its packets were held; it was sent again, and acknowledged; the first copy came at last."""
    older_commit_comes_back(record, spot, waited_ns=2 * NS_PER_S)


@innocent(base="groups")
def a_position_is_committed_twice(record: Record, spot: Spot) -> None:
    """A client tries again where it has no answer; the second try stores the same position."""
    turn = rebalance(record, spot)
    record.add("commits", turn.commit)


@innocent(base="groups")
def a_commit_is_acknowledged_late(record: Record, spot: Spot) -> None:
    """It waits for the in-sync replicas of the offsets topic; a pause of one may take seconds."""
    commit = committed_before(record, spot, spot.at_ns) or rebalance(record, spot).commit
    fetch, _ = next_answer(record, spot)
    commit["told_ns"] = min(commit["told_ns"] + _LAG_NS, fetch["asked_ns"] - 1)


@innocent(base="groups")
def a_member_seeks_and_reads_again(record: Record, spot: Spot) -> None:
    """A client may go back within what it was given: it reads the same records once more."""
    sought, stood = seek(record, spot, back=4)
    read_again(record, sought, range(stood - 4, stood))


@innocent(base="groups", moments=("calm", "kill"))
def members_lag(record: Record, spot: Spot) -> None:
    """A consumer may be given late what is there; it gets all of it, in order."""
    joined = members(record)
    read_late(record, spot, spot.at_ns + _LAG_NS, wanted=lambda row: row["process"] in joined)


@innocent(base="groups")
def a_member_commits_nothing_for_a_while(record: Record, spot: Spot) -> None:
    """Nobody has to commit; the next member reads again from the last position there is."""
    fetches = record.rows("commits", act=GroupAct.FETCH.value, **spot.place)
    told_ns = max(row["told_ns"] for row in fetches if row["told_ns"] < spot.at_ns)
    since_ns = max(told_ns, spot.at_ns - 3 * _LAG_NS)
    record.drop(
        "commits",
        lambda row: since_ns < row["asked_ns"] < spot.at_ns + 2 * _LAG_NS,
        act=GroupAct.COMMIT.value,
        **spot.place,
    )
    fetch, dealt = next_answer(record, spot)
    answer(record, fetch, dealt, committed_before(record, spot, fetch["asked_ns"]))


@innocent(base="groups")
def a_group_is_given_nothing_for_nothing_is_sent(record: Record, spot: Spot) -> None:
    """Once all is healed nobody sends to the partition: there is nothing to read or to commit."""
    last_ns = max(row["healed_ns"] for row in record.rows("faults")) - NS_PER_S
    unsent = [send for send in record.rows("sends", **spot.place) if send["invoke_ns"] > last_ns]
    end = min(send["offset"] for send in unsent)
    op_ids = {send["op_id"] for send in unsent}
    for table in ("ops", "sends"):
        record.drop(table, lambda row: row["op_id"] in op_ids)
    record.drop("polls", lambda row: row["offset"] >= end, **spot.place)
    cut(record, spot, end, from_ns=0)
    for table, names in (
        ("final_reads", ("target_end", "reached")),
        ("leadership", ("high_watermark",)),
        ("assignments", ("offset",)),
        ("commits", ("offset",)),
    ):
        for row in record.rows(table, **spot.place):
            for name in names:
                if row[name] is not None:
                    row[name] = min(row[name], end)
