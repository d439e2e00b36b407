"""What writers were told, twin by twin: the reason beside each op."""

import json

import pytest

from checkers.ack_mismatch import CHECKER as ACK_MISMATCH
from checkers.facts import DiskLoss
from checkers.group import Group
from checkers.offset_order import CHECKER as OFFSET_ORDER
from checkers.protocol import Checker, Promise
from checkers.runner import run_checkers
from checkers.send_order import (
    CHECKERS,
    INT_NONMONOTONIC_CHECKER,
    INT_SKIP_CHECKER,
    NONMONOTONIC_CHECKER,
)
from results.record.values import pack_value
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import (
    RETENTION,
    S,
    elected,
    facts,
    found,
    group,
    leads,
    log,
    read,
    state,
)  # fmt: skip

V = [pack_value(1, number) for number in range(12)]
"""V[n] stands at offset n, unless a test says otherwise."""
ALL = (*CHECKERS, OFFSET_ORDER, ACK_MISMATCH)
TOPIC = "log-0"


def sent(
    *pairs: tuple[int, int | None],
    op: int,
    process: int = 1,
    since: int = 0,
    until: int = 0,
    acks: str = "all",
    outcome: str = "ok",
) -> list[Row]:
    """One op's sends: (value, acknowledged offset); it lasts from 10 op to 10 op + 5."""
    return [
        {"op_id": op, "mop": mop, "process": process, "value": V[value], "offset": offset,
         "acked": offset is not None, "acks": acks, "outcome": outcome,
         "invoke_ns": since or 10 * op, "complete_ns": until or 10 * op + 5}
        for mop, (value, offset) in enumerate(pairs)
    ]  # fmt: skip


def held(*values: int, start: int = 0) -> dict[str, list[Row]]:
    """The final log of n1, which led last."""
    return {
        "leadership": [leads(1, 0)],
        "replica_records": log("n1", *((0, V[value]) for value in values), start=start),
        "replica_states": [state("n1", start + len(values), start=start)],
    }


def anomalies(on: Group) -> dict[str, list[int]]:
    results = run_checkers(on, ALL)
    return {each.name: [one.offset for one in each.anomalies]
            for each in results if each.anomalies}  # fmt: skip


def excuses(checker: Checker, on: Group) -> list[tuple[str, ...]]:
    return [each.excuses for each in found(checker, on).anomalies]


def test_a_writer_whose_records_follow_one_another_is_right() -> None:
    on = group(sends=[*sent((0, 0), (1, 1), op=1), *sent((2, 2), op=2)], **held(0, 1, 2))
    assert anomalies(on) == {}
    assert [found(each, on).rows for each in ALL] == [1, 1, 1, 1, 3]


def test_a_record_that_stands_before_the_writers_earlier_one_is_told_with_both() -> None:
    on = group(sends=[*sent((0, 4), (3, 5), op=1), *sent((1, 1), (2, 2), op=2)])
    (anomaly,) = found(NONMONOTONIC_CHECKER, on).anomalies
    assert anomaly.sentence == (
        f"process 1 sent value {V[3]} in op 1, acknowledged at offset 5 of log-0-0, and then"
        f" value {V[1]} in op 2, acknowledged at offset 1 at 0.000 s"
    )
    assert anomaly.evidence == {
        "process": 1, "op_id": 2, "previous_op_id": 1, "value": V[1], "previous_value": V[3],
        "offset": 1, "previous_offset": 5, "acknowledged_ns": 25,
    }  # fmt: skip
    assert anomalies(on) == {"nonmonotonic-send": [1], "offset-order": [1, 2]}


def test_the_same_offset_once_more_is_no_progress() -> None:
    on = group(sends=[*sent((0, 4), op=1), *sent((1, 4), op=2)])
    assert anomalies(on) == {"nonmonotonic-send": [4]}
    assert anomalies(group(sends=sent((0, 4), (1, 4), op=1))) == {"int-nonmonotonic-send": [4]}


def test_inside_of_one_op_the_order_is_that_of_its_sends() -> None:
    back = group(sends=sent((0, 4), (1, 3), op=1))
    (anomaly,) = found(INT_NONMONOTONIC_CHECKER, back).anomalies
    assert "in the same op, acknowledged at offset 3" in anomaly.sentence
    assert anomalies(back) == {"int-nonmonotonic-send": [3]}
    twice = [*sent((0, 4), op=1), *sent((1, 3), op=1)]  # Two rows for one send say nothing.
    assert anomalies(group(sends=twice)) == {}


def test_records_of_others_between_ones_own_are_told_and_those_of_nobody_are_not() -> None:
    on = group(sends=[*sent((0, 0), (3, 3), op=1), *sent((2, 2), op=2, process=2, since=10)])
    assert anomalies(on) == {"int-send-skip": [3]}
    assert anomalies(group(sends=sent((0, 0), (3, 3), op=1))) == {}


def test_other_processes_new_ones_and_sends_without_an_offset_have_no_part_in_it() -> None:
    together: Row = {"since": 10, "until": 99}  # So that time says nothing.
    first = sent((0, 4), op=1, **together)
    for second in (
        sent((1, 1), op=2, process=2, **together),
        sent((1, None), op=2, **together),
        sent((1, 1), op=2, outcome="fail", **together),
        [{**row, "acked": False} for row in sent((1, 1), op=2, **together)],
        [{**row, "process": None} for row in sent((1, 1), op=2, **together)],
    ):
        assert anomalies(group(sends=[*first, *second])) == {}
    for outcome in ("ok", "info"):
        second = sent((1, 1), op=2, outcome=outcome, **together)
        assert anomalies(group(sends=[*first, *second])) == {"nonmonotonic-send": [1]}


def test_an_excuse_needs_a_record_that_was_dropped_and_a_promise_that_was_weak() -> None:
    weak = [*sent((5, 2), op=1, acks="1"), *sent((1, 1), op=2, acks="1")]
    for values, excused in (((0, 1), True), ((0, 1, 5), False), ((0, 9, 5), True)):
        on = group(sends=weak, **held(*values))
        fits = [("acks-0-1",)] if excused else [()]
        assert excuses(NONMONOTONIC_CHECKER, on) == fits
        assert excuses(OFFSET_ORDER, on) == fits
    strong = [*sent((5, 2), op=1), *sent((1, 1), op=2)]
    assert excuses(NONMONOTONIC_CHECKER, group(sends=strong, **held(0, 1))) == [()]
    # The one that was dropped had asked for all acknowledgements, the other one had not.
    mixed = [*sent((5, 2), op=1), *sent((1, 1), op=2, acks="1")]
    assert excuses(NONMONOTONIC_CHECKER, group(sends=mixed, **held(0, 1))) == [()]
    # Without a log, and below its start, nobody can tell that it was not.
    assert excuses(NONMONOTONIC_CHECKER, group(sends=weak)) == [("acks-0-1",)]
    moved = group(sends=weak, **held(6, 7, start=6))
    assert excuses(NONMONOTONIC_CHECKER, moved) == [("acks-0-1",)]


def test_an_unclean_election_excuses_what_it_dropped() -> None:
    allow = facts(plan={"broker": {"unclean.leader.election.enable": "true"}})
    sends = [*sent((5, 2), op=1), *sent((1, 1), op=2)]
    for unclean, values, fits in (
        (True, (0, 1), ("unclean-election",)), (True, (0, 1, 5), ()), (False, (0, 1), ()),
    ):  # fmt: skip
        rows = held(*values)
        rows["leadership"] += [elected(1, 1, 6, unclean=unclean)]
        on = group(allow, sends=sends, **rows)
        assert excuses(NONMONOTONIC_CHECKER, on) == [fits]
        assert excuses(OFFSET_ORDER, on) == [fits]


def test_power_that_every_replica_lost_excuses_what_it_took() -> None:
    cut = DiskLoss(nodes=frozenset({"n1"}), topic=TOPIC, partition=0, end_after=2, end_before=9,
                   until_ns=18, excuse="power-loss")  # fmt: skip
    sends = [*sent((5, 2), op=1), *sent((1, 1), op=2)]
    plan: dict[str, object] = {"replication": 1, "min_insync": 1, "nodes": 1}
    hit = group(facts(plan=plan, disk_losses=(cut,)), sends=sends, **held(0, 1))
    assert excuses(NONMONOTONIC_CHECKER, hit) == [("power-loss",)]
    assert excuses(OFFSET_ORDER, hit) == [("power-loss",)]
    spared = group(facts(plan=plan, disk_losses=(cut,)), sends=sends, **held(0, 1, 5))
    assert excuses(NONMONOTONIC_CHECKER, spared) == [()]


def test_retries_without_idempotence_may_turn_the_order_inside_of_one_op_only() -> None:
    sends = [*sent((0, 4), (1, 3), op=1), *sent((2, 2), op=2)]
    again = group(facts(plan={"idempotence": False}), sends=sends, **held(9, 9, 2, 1, 0))
    assert excuses(INT_NONMONOTONIC_CHECKER, again) == [("retries-without-idempotence",)]
    assert excuses(NONMONOTONIC_CHECKER, again) == [()]
    assert excuses(INT_SKIP_CHECKER, again) == []
    for plan in ({"idempotence": True}, {"idempotence": False, "retries": 0}):
        on = group(facts(plan=plan), sends=sends, **held(9, 9, 2, 1, 0))
        assert excuses(INT_NONMONOTONIC_CHECKER, on) == [()]


@pytest.mark.parametrize(
    ("first", "second", "plan", "fits"),
    [
        ((1, 1), (1, 0), {}, ("new-producer-epoch",)),
        ((2, 0), (1, 0), {}, ("new-producer-epoch",)),
        ((1, 0), (2, 0), {}, ("new-producer-epoch",)),
        ((1, 0), (1, 0), {}, ()),
        ((1, 0), (1, 1), {}, ()),  # A broker that has seen epoch 1 refuses epoch 0.
        ((1, 1), (1, 0), {"workload": "txn"}, ()),
        ((1, 1), (1, 0), {"idempotence": False, "retries": 0}, ()),
    ],
)
def test_an_idempotent_client_sends_again_in_another_epoch(
    first: tuple[int, int], second: tuple[int, int], plan: Row, fits: tuple[str, ...]
) -> None:
    """Of one op, value 0 stands at offset 4, behind value 1 at offset 3."""
    rows = held(9, 9, 2, 1, 0)
    for record, session in ((rows["replica_records"][4], first),
                            (rows["replica_records"][3], second)):  # fmt: skip
        record["producer_id"], record["producer_epoch"] = session
    sends = [*sent((0, 4), (1, 3), op=1)]
    assert excuses(INT_NONMONOTONIC_CHECKER, group(facts(plan=plan), sends=sends, **rows)) == [fits]
    assert excuses(INT_NONMONOTONIC_CHECKER, group(facts(plan=plan), sends=sends)) == [()]


@pytest.mark.parametrize(
    ("values", "start", "fits"),
    [((1, 0), 3, ("new-producer-epoch",)), ((1,), 3, ()), ((0,), 4, ())],
)
def test_of_a_record_that_the_log_does_not_have_nobody_knows_the_epoch(
    values: tuple[int, ...], start: int, fits: tuple[str, ...]
) -> None:
    """Of one op, value 0 was acknowledged at offset 4, and value 1 at offset 3."""
    rows = held(*values, start=start)
    rows["replica_records"][-1]["producer_epoch"] = 1
    on = group(sends=sent((0, 4), (1, 3), op=1), **rows)
    assert excuses(INT_NONMONOTONIC_CHECKER, on) == [fits]


def test_without_the_leaders_log_nobody_knows_the_epochs_of_two_sends() -> None:
    """The run died before they were collected, or the leader's log cannot be read to its end."""
    slow = sent((0, 1), (1, 0), op=1, since=0, until=S)
    for rows, broken in (
        ({}, ("shown-cause",)),
        ({**held(1), "replica_states": [state("n1", 2)]}, ("shown-cause",)),
        (held(1, 0), ()),
    ):
        (anomaly,) = found(INT_NONMONOTONIC_CHECKER, group(sends=slow, **rows)).anomalies
        assert (anomaly.excuses, anomaly.broken_premises) == ((), broken)
    at_once = group(sends=sent((0, 1), (1, 0), op=1, since=S, until=S + 1))
    (anomaly,) = found(INT_NONMONOTONIC_CHECKER, at_once).anomalies
    assert anomaly.broken_premises == (), "the client had no time to send it again"


def test_a_send_that_began_after_another_ended_stands_behind_it() -> None:
    earlier = sent((5, 5), op=1, until=15)
    for since, order in ((14, []), (15, []), (16, [1])):  # Ended strictly before it began.
        on = group(sends=[*earlier, *sent((1, 1), op=2, process=2, since=since, until=90)])
        assert [each.offset for each in found(OFFSET_ORDER, on).anomalies] == order
    equal = group(sends=[*earlier, *sent((1, 5), op=2, process=2)])
    assert found(OFFSET_ORDER, equal).anomalies == ()


def test_of_all_that_prove_it_the_last_to_end_is_the_witness() -> None:
    sends = [*sent((9, 9), op=1), *sent((7, 7), op=2), *sent((8, 8), op=3, since=5, until=29),
             *sent((2, 2), op=4), *sent((6, 6), op=5, since=5)]  # fmt: skip
    (anomaly,) = (
        each for each in found(OFFSET_ORDER, group(sends=sends)).anomalies if each.offset == 2
    )
    assert anomaly.evidence == {
        "op_id": 4, "value": V[2], "offset": 2, "sent_ns": 40, "earlier_op_id": 3,
        "earlier_value": V[8], "earlier_offset": 8, "earlier_acknowledged_ns": 29,
    }  # fmt: skip
    assert anomaly.sentence == (
        f"value {V[2]}, sent by op 4 at 0.000 s, got offset 2 of log-0-0, below offset 8 of value"
        f" {V[8]}, which op 3 had sent and which had already been acknowledged at 0.000 s"
    )


def test_one_that_nothing_excuses_is_the_better_witness() -> None:
    weak: Row = {"acks": "1"}
    sends = [*sent((3, 3), op=1, **weak), *sent((9, 4), op=2, **weak), *sent((1, 1), op=3, **weak)]
    on = group(sends=sends, **held(0, 1, 2, 3))  # What was at 4 is gone, what was at 3 is not.
    (anomaly,) = found(OFFSET_ORDER, on).anomalies
    assert (anomaly.evidence["earlier_op_id"], anomaly.excuses) == (1, ())
    all_gone = group(sends=sends, **held(0, 1, 2))
    (anomaly,) = found(OFFSET_ORDER, all_gone).anomalies
    assert (anomaly.evidence["earlier_op_id"], anomaly.excuses) == (2, ("acks-0-1",))


def test_a_send_that_is_not_known_whole_or_was_not_acknowledged_precedes_nothing() -> None:
    unknown = ({"invoke_ns": None}, {"complete_ns": None}, {"offset": None})
    for change in (*unknown, {"acked": False}):
        earlier = [{**row, **change} for row in sent((5, 5), op=1)]
        on = group(sends=[*earlier, *sent((1, 1), op=2, process=2)])
        assert found(OFFSET_ORDER, on).anomalies == ()
        assert found(OFFSET_ORDER, on).rows == 0
    unborn = [{**row, "invoke_ns": None} for row in sent((1, 1), op=2, process=2)]
    assert found(OFFSET_ORDER, group(sends=[*sent((5, 5), op=1), *unborn])).rows == 0


def test_an_aborted_record_has_its_place_in_the_log_like_any_other() -> None:
    aborted = [{**row, "txn_id": 1} for row in sent((5, 5), op=1, outcome="fail")]
    on = group(sends=[*aborted, *sent((1, 1), op=2, process=2)])
    assert anomalies(on) == {"offset-order": [1]}


def test_an_acknowledgement_that_names_the_place_of_its_record_is_right() -> None:
    on = group(sends=sent((1, 1), (8, 2), op=1), **held(0, 1))
    assert found(ACK_MISMATCH, on).anomalies == ()  # V[8] stands nowhere: that is a loss.
    assert found(ACK_MISMATCH, on).rows == 2
    assert found(ACK_MISMATCH, group(sends=sent((1, 1), op=1), **held())).rows == 1
    assert found(ACK_MISMATCH, group(sends=sent((1, 1), op=1))).rows == 0  # Nothing to look in.


def test_an_acknowledgement_that_names_another_place_is_told_with_what_stands_there() -> None:
    on = group(sends=sent((1, 2), op=1), **held(0, 1, 5))
    (anomaly,) = found(ACK_MISMATCH, on).anomalies
    assert anomaly.sentence == (
        f"value {V[1]}, sent by op 1, was acknowledged at offset 2 of log-0-0, which holds value"
        f" {V[5]}; the value is at offset 1"
    )
    assert anomaly.evidence == {
        "value": V[1], "op_id": 1, "process": 1, "acknowledged_offset": 2, "offsets": [1],
        "holds_instead": V[5], "also": [],
    }  # fmt: skip
    unused = group(sends=sent((1, 7), op=1), **held(0, 1, 2))
    (anomaly,) = found(ACK_MISMATCH, unused).anomalies
    assert anomaly.evidence["holds_instead"] is None
    assert anomaly.evidence["offsets"] == [1]
    assert "which holds no value" in anomaly.sentence


def test_one_wrong_acknowledgement_is_one_fault_by_whatever_names_it_is_told() -> None:
    polls = [read(V[5], 2, op=7), read(V[1], 0, op=7)]
    on = group(sends=sent((1, 2), op=1), polls=polls, **held(1, 1, 5))
    (anomaly,) = found(ACK_MISMATCH, on).anomalies
    assert anomaly.evidence["also"] == ["inconsistent-offsets", "duplicate"]
    assert anomaly.sentence.endswith("(also reported as inconsistent-offsets and duplicate)")
    json.dumps(anomaly.evidence)


def test_without_a_log_what_readers_were_given_counts() -> None:
    polls = [read(V[1], 1, op=7), read(V[5], 2, op=7)]
    (anomaly,) = found(ACK_MISMATCH, group(sends=sent((1, 2), op=1), polls=polls)).anomalies
    assert (anomaly.evidence["offsets"], anomaly.evidence["holds_instead"]) == ([1], V[5])
    right = found(ACK_MISMATCH, group(sends=sent((1, 1), op=1), polls=polls))
    assert (right.rows, right.anomalies) == (1, ())
    # With a log, it is the log that counts.
    logged = group(sends=sent((1, 2), op=1), polls=polls, **held(0, 5, 1))
    assert found(ACK_MISMATCH, logged).anomalies == ()
    # A record that holds none is no value.
    foreign = [read(V[1], 1, op=7), read(None, 2, op=7)]
    (anomaly,) = found(ACK_MISMATCH, group(sends=sent((1, 2), op=1), polls=foreign)).anomalies
    assert (anomaly.evidence["holds_instead"], anomaly.evidence["also"]) == (None, [])


def test_weak_promises_excuse_a_mismatch_only_where_the_record_was_dropped() -> None:
    weak = sent((1, 2), op=1, acks="1")
    cut = {"node": "n2", "from_offset": 2, "to_offset": 3}
    assert excuses(ACK_MISMATCH, group(sends=weak, **held(0, 1))) == [()]
    truncated = group(sends=weak, truncations=[cut], **held(0, 1))
    assert excuses(ACK_MISMATCH, truncated) == [("acks-0-1",)]
    below = group(sends=weak, truncations=[{**cut, "from_offset": 3}], **held(0, 1))
    assert excuses(ACK_MISMATCH, below) == [()]
    seen = group(sends=weak, polls=[read(V[1], 2, op=7)], **held(0, 1))
    assert excuses(ACK_MISMATCH, seen) == [("acks-0-1",)]
    for value, offset in ((5, 2), (0, 2), (1, 1), (1, 3)):  # Another value, another place.
        other = group(sends=weak, polls=[read(V[value], offset, op=7)], **held(0, 1))
        assert excuses(ACK_MISMATCH, other) == [()]
    strong = group(sends=sent((1, 2), op=1), truncations=[cut], **held(0, 1))
    assert excuses(ACK_MISMATCH, strong) == [()]
    allow = facts(plan={"broker": {"unclean.leader.election.enable": "true"}})
    rows = held(0, 1)
    rows["leadership"] += [elected(1, 1, 6, unclean=True)]
    unclean = group(allow, sends=sent((1, 2), op=1), truncations=[cut], **rows)
    assert excuses(ACK_MISMATCH, unclean) == [("unclean-election",)]
    uncut = group(allow, sends=sent((1, 2), op=1), **rows)
    assert excuses(ACK_MISMATCH, uncut) == [()]


@pytest.mark.parametrize(
    ("known_s", "sent_s", "fits"),
    [
        ((1, 2, 3), 5.1, ()),  # No broker led in epoch 0 any more.
        ((1, 2, 3), 4.9, ("unclean-election",)),  # n3 may have led until then.
        ((1, 2), 5.1, ("unclean-election",)),  # n3 may still lead.
    ],
)
def test_an_unclean_election_takes_nothing_that_was_sent_when_all_brokers_knew_of_it(
    known_s: tuple[int, ...], sent_s: float, fits: tuple[str, ...]
) -> None:
    allow = facts(plan={"broker": {"unclean.leader.election.enable": "true"}})
    rows = held(0, 1)
    rows["leadership"] += [elected(1, 1, 6, unclean=True), *(
        {**leads(1, 1, at=at_s * S, source="metadata"), "observer": f"n{node}"}
        for node, at_s in enumerate(known_s, start=1)
    )]  # fmt: skip
    cut = {"node": "n2", "from_offset": 2, "to_offset": 3}
    sent_ns = int(sent_s * S)
    wrong = sent((1, 2), op=1, since=sent_ns, until=sent_ns + 1)
    on = group(allow, sends=wrong, truncations=[cut], **rows)
    assert excuses(ACK_MISMATCH, on) == [fits]
    swapped = [*sent((5, 2), op=1, since=sent_ns, until=sent_ns + 1),
               *sent((1, 1), op=2, since=9 * S, until=10 * S)]  # fmt: skip
    on = group(allow, sends=swapped, **rows)
    assert excuses(NONMONOTONIC_CHECKER, on) == [fits]
    assert excuses(OFFSET_ORDER, on) == [fits]


def test_an_acknowledgement_that_the_record_does_not_have_cannot_mismatch() -> None:
    for change in ({"acked": False}, {"offset": None}):
        sends = [{**row, **change} for row in sent((1, 2), op=1)]
        result = found(ACK_MISMATCH, group(sends=sends, **held(0, 1)))
        assert (result.rows, result.anomalies) == (0, ())


def test_a_record_without_a_value_and_a_value_without_an_offset_stand_nowhere() -> None:
    rows = held(0, 1)
    rows["replica_records"][1]["value"] = None
    nameless = [{**row, "value": None} for row in sent((1, 0), op=1)]
    assert found(ACK_MISMATCH, group(sends=nameless, **rows)).anomalies == ()
    unplaced = [{**read(V[1], 0, op=7), "offset": None}]
    assert found(ACK_MISMATCH, group(sends=sent((1, 2), op=1), polls=unplaced)).anomalies == ()


def test_the_first_value_and_the_first_offset_are_like_any_other() -> None:
    zero = [{**row, "value": 0} for row in sent((1, 1), op=1)]
    rows = held(1)
    rows["replica_records"][0]["value"] = 0
    assert [each.offset for each in found(ACK_MISMATCH, group(sends=zero, **rows)).anomalies] == [1]


def test_a_value_that_stands_twice_may_be_acknowledged_at_either_place() -> None:
    for offset, wrong in ((0, []), (2, []), (1, [1])):
        on = group(sends=sent((1, offset), op=1), **held(1, 2, 1, 3))
        result = found(ACK_MISMATCH, on)
        assert [each.offset for each in result.anomalies] == wrong
    assert result.anomalies[0].evidence["offsets"] == [0, 2]


def test_what_stood_below_the_log_start_may_have_stood_there() -> None:
    """Retries without idempotence write twice; retention takes the copy that was acknowledged."""
    for start, wrong in ((1, [1]), (2, [])):
        records = log("n1", *((0, V[each]) for each in (3, 1)), start=start)
        on = group(facts(plan=RETENTION), sends=sent((1, 1), (3, start), op=1),
                   replica_records=records,
                   replica_states=[state("n1", start + 2, start=start)],
                   leadership=[leads(1, 0)])  # fmt: skip
        result = found(ACK_MISMATCH, on)
        assert [each.offset for each in result.anomalies] == wrong
        assert result.rows == 1 + len(wrong)


def test_without_acknowledgements_there_is_nothing_to_compare() -> None:
    about = facts(plan={"acks": "0"})
    assert [each.applies(about) for each in ALL] == [False] * 5
    assert [each.applies(facts()) for each in ALL] == [True] * 5


def test_that_others_write_in_between_breaks_no_promise() -> None:
    promised = {each.name: each.promise for each in CHECKERS}
    assert promised == {
        "nonmonotonic-send": Promise.LOG,
        "int-nonmonotonic-send": Promise.LOG,
        "int-send-skip": None,
    }
