"""Who led a partition by the controllers' log, and when; which partition has a coordinator."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from checkers.quorum import QuorumFacts
from checkers.reigns import (
    GROUPS,
    LATE_NS,
    TRANSACTIONS,
    UNENDED_NS,
    Cut,
    Reign,
    between,
    commits,
    cuts,
    lasting,
    partition_of,
    reigns,
)
from checkers.stored import load_facts
from results.record.tables import TABLES
from tests.broken.corpus import BASES
from tests.broken.record import Record
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import S, elected

LATE_S = LATE_NS // S


def entry(leader: int, epoch: int, at: int, *, topic: str = GROUPS, partition: int = 0) -> Row:
    return {**elected(leader, epoch, at), "topic": topic, "partition": partition}


def look(at_s: int, mark: int, *, role: str = "leader", epoch: int = 1) -> Row:
    return {"observed_ns": at_s * S, "node": "n1", "role": role, "epoch": epoch,
            "high_watermark": mark, "log_end_offset": mark}  # fmt: skip


def led(entries: list[Row], looks: list[Row]) -> list[tuple[int, int, int, int]]:
    """(leader, epoch, from, until) of each leader epoch, in seconds; 0: never."""
    tables = (
        pa.Table.from_pylist(rows, schema=TABLES[name])
        for name, rows in (("leadership", entries), ("quorum_states", looks))
    )
    return [
        (each.leader, each.epoch, each.from_ns // S, each.until_ns // S % 9_000_000_000)
        for each in reigns(*tables)
    ]


LOOKS = [look(10, 5), look(20, 9), look(30, 15), look(40, 40)]


def test_an_epoch_begins_and_ends_where_its_entries_were_committed() -> None:
    first, second = led([entry(1, 0, 7), entry(2, 1, 20)], LOOKS)
    assert first[:3] == (1, 0, 10 - LATE_S), "at 10 s it was not committed, at 20 s it was"
    assert first[3] == 40, "at 30 s the next entry was not committed, at 40 s it was"
    assert second[:3] == (2, 1, 30 - LATE_S)
    assert second[3] > 1_000_000, "nothing ended it"


def test_an_epoch_is_unclean_if_some_copy_of_the_log_says_so() -> None:
    again = {**entry(1, 1, 12), "unclean": True}
    rows = [entry(1, 0, 7), entry(1, 1, 12), again, {**again, "source": "metadata", "leader": 3}]
    tables = (
        pa.Table.from_pylist(each, schema=TABLES[name])
        for name, each in (("leadership", rows), ("quorum_states", LOOKS))
    )
    assert [(each.epoch, each.unclean) for each in reigns(*tables)] == [(0, False), (1, True)]


def test_when_what_lies_below_each_high_watermark_was_committed() -> None:
    states = pa.Table.from_pylist(LOOKS[:3], schema=TABLES["quorum_states"])
    quorum = QuorumFacts(commits=commits(states))
    spans = {5: (10, 20), 8: (10, 20), 9: (20, 30), 14: (20, 30)}
    for offset, (before, by) in spans.items():
        assert quorum.committed(offset) == ((before - LATE_S) * S, by * S)
    assert quorum.committed(15) == ((30 - LATE_S) * S, UNENDED_NS)
    assert QuorumFacts().committed(3) == (0, UNENDED_NS), "nothing was told"


def test_entries_of_one_epoch_are_one_reign_from_the_first_on() -> None:
    shrunk = [entry(1, 0, 7), entry(1, 0, 12), entry(2, 1, 20)]
    assert led(shrunk, LOOKS) == led([entry(1, 0, 7), entry(2, 1, 20)], LOOKS)


def test_what_followers_or_leaders_of_another_epoch_did_not_know_proves_no_time() -> None:
    lagging = [look(10, 5, role="follower"), look(20, 9)]
    assert led([entry(1, 0, 7)], lagging)[0][2] == 0
    deposed = [look(10, 5, epoch=1), look(20, 9, epoch=2)]
    assert led([entry(1, 0, 7)], deposed)[0][2] == 0
    assert led([entry(1, 0, 7)], [look(10, 5), look(20, 9)])[0][2] == 10 - LATE_S


def test_a_new_leader_of_the_quorum_that_knows_no_high_watermark_proves_no_time() -> None:
    """Kafka's leader has none until a majority has fetched a record of its epoch."""
    new = [look(5, 0, epoch=1), look(10, -1, epoch=2), look(20, 9, epoch=2)]
    assert led([entry(1, 0, 7)], new)[0][2:] == led([entry(1, 0, 7)], [new[0], new[2]])[0][2:]
    assert led([entry(1, 0, 7)], new)[0][2] == 0
    assert led([entry(1, 0, 0)], [look(5, -1)])[0][2:] == (0, UNENDED_NS // S % 9_000_000_000)


def test_an_entry_behind_all_looks_came_after_the_last_one() -> None:
    assert led([entry(-1, 3, 99)], LOOKS)[0][:3] == (-1, 3, 40 - LATE_S)


def test_copies_that_name_two_leaders_of_an_epoch_leave_none() -> None:
    assert led([entry(1, 0, 7), entry(2, 0, 7)], LOOKS) == []
    assert len(led([entry(1, 0, 7), entry(1, 0, 7)], LOOKS)) == 1
    other = entry(3, 0, 8, partition=1)
    assert [each[0] for each in led([entry(1, 0, 7), entry(2, 0, 7), other], LOOKS)] == [3]


def test_only_the_controllers_log_counts() -> None:
    belief = {**entry(1, 0, 7), "source": "metadata"}
    assert led([belief], LOOKS) == []
    assert led([{**entry(1, 0, 7), "log_offset": None}], LOOKS) == []


def reign(
    leader: int, epoch: int, from_s: int, until_s: int, *, topic: str = GROUPS, partition: int = 0
) -> Reign:
    return Reign(
        topic=topic, partition=partition, leader=leader, epoch=epoch, from_ns=from_s * S,
        until_ns=until_s * S,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("key", "partition"),
    [("hello", 99162322 % 4), ("base-groups-0", 1), ("polygenelubricants", 0), ("ü", 252 % 4)],
)
def test_a_groups_partition_is_the_hash_of_its_name(key: str, partition: int) -> None:
    """Java: "hello" has 99162322, the second name a number below 0, the third the smallest one."""
    known = [reign(1, 0, 0, 9, partition=at) for at in range(4)]
    assert partition_of(known, GROUPS, key) == partition


def test_without_all_partitions_of_the_topic_none_is_known() -> None:
    assert partition_of([reign(1, 0, 0, 9, partition=1)], GROUPS, "hello") == -1
    assert partition_of([reign(1, 0, 0, 9)], TRANSACTIONS, "hello") == -1
    assert partition_of([], GROUPS, "hello") == -1


def test_who_led_between_two_times_may_have_learned_of_the_end_late() -> None:
    first, second = reign(1, 0, 0, 10), reign(2, 1, 8, 30)
    known = (first, second)
    assert between(known, (GROUPS, 0), (5 * S, 7 * S)) == (first,)
    assert between(known, (GROUPS, 0), (5 * S, 8 * S)) == known
    assert between(known, (GROUPS, 0), ((10 + LATE_S) * S, 20 * S)) == known
    assert between(known, (GROUPS, 0), ((10 + LATE_S) * S + 1, 20 * S)) == (second,)
    assert between(known, (GROUPS, 1), (5 * S, 8 * S)) == ()


def test_a_leader_that_is_cut_off_may_go_on_until_the_fault_is_over() -> None:
    known = [reign(1, 0, 0, 10), reign(2, 1, 8, 30)]
    longer = lasting(known, [("n1", 9 * S, 20 * S)])
    assert [each.until_ns // S for each in longer] == [20, 30]
    # It may not have learned of the end when it was cut off.
    assert lasting(known, [("n1", (10 + LATE_S) * S, 20 * S)]) == longer
    late = lasting(known, [("n1", (10 + LATE_S) * S + 1, 20 * S)])
    assert late == tuple(known), "it led no more"
    assert lasting(known, [("n3", 9 * S, 20 * S)]) == tuple(known)


def test_a_leader_that_is_paused_while_it_is_cut_off_may_go_on_until_the_pause_is_over() -> None:
    known = [reign(1, 0, 0, 10), reign(2, 1, 8, 90)]
    cut, pause, later = ("n1", 9 * S, 20 * S), ("n1", 18 * S, 40 * S), ("n1", 43 * S, 50 * S)
    for faults in ([cut, pause, later], [later, pause, cut]):
        assert [each.until_ns // S for each in lasting(known, faults)] == [40, 90]
    assert [each.until_ns // S for each in lasting(known, [pause])] == [10, 90], "it had learned"


def test_cuts_are_those_of_internal_topics() -> None:
    rows = [
        {"topic": GROUPS, "partition": 1, "node": "n3", "from_offset": 27},
        {"topic": "log-0", "partition": 1, "node": "n3", "from_offset": 9},
    ]
    table = pa.Table.from_pylist(rows, schema=TABLES["truncations"])
    assert cuts(table) == (Cut(topic=GROUPS, partition=1, node="n3", from_offset=27),)


@pytest.mark.parametrize(("links", "until_s"), [([["n2", "n3"], ["n3", "n2"]], 40), ([], 0)])
def test_a_cut_may_leave_a_leader_at_either_end_of_its_links(
    links: list[list[str]], until_s: int, tmp_path: Path
) -> None:
    """Of a bridge, only the node that reaches both sides is a target."""
    record = Record(BASES / "groups")
    (cut,) = record.rows("faults", kind="isolate")
    spec = {"family": "partition", "begun": True, "links": links}
    cut |= {"kind": "bridge", "targets": ["n1"], "healed_ns": 40 * S, "spec": json.dumps(spec)}
    known = load_facts(record.save(tmp_path / "runs" / "run")).reigns
    (led,) = (each for each in known if (each.topic, each.partition, each.epoch) == (GROUPS, 1, 0))
    assert led.leader == 3
    assert led.until_ns == max(until_s * S, led.replaced_ns)
