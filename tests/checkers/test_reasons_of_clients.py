"""Why clients were told what is wrong, from the rows beside it: who did it, and what is excluded.

Each reason stands beside rows that differ by a hair, for which it must not be given.
"""

from dataclasses import replace

import pytest

from checkers import ack_mismatch, poll_order, send_order
from checkers.facts import RunFacts
from checkers.offset_order import CHECKER as OFFSET_ORDER
from checkers.protocol import Proved
from checkers.witnesses import truncations_of, which_cut
from results.record.values import pack_value
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import A, B, C, S, ack, facts, group, leads, log, state
from tests.checkers.reason_rows import (
    ALL,
    LED,
    NODES,
    READ,
    TWO,
    TXN,
    in_txn,
    logs,
    marker,
    of,
    reason,
    told,
    written,
)

# What writers were told.

WRONG = {"sends": [ack(B, 0, at=S), ack(A, 0, op=2, at=2 * S)], "leadership": LED}
"""B stands at 0, and A at 1, but A was acknowledged at 0 as well."""
SLOW = {**WRONG, "sends": [ack(B, 0, at=S), {**ack(A, 0, op=2, at=2 * S), "invoke_ns": S + S // 2}]}
"""There was time to send A again."""


def test_an_answer_that_no_log_bears_out_named_a_wrong_offset() -> None:
    said = reason(ack_mismatch.CHECKER, group(READ, **WRONG, **logs((0, B), (0, A))))
    assert isinstance(said, Proved)
    assert said == (
        f"n2, leader of epoch 0, or the client's library reported offset 0 wrongly: {ALL} value"
        f" {A} at offset 1 and value {B} (acknowledged before this message was sent) at offset 0;"
        " no log was truncated there"
    )


def test_what_was_not_acknowledged_before_is_not_said_to_be() -> None:
    sends = [ack(B, 0, at=2 * S), ack(A, 0, op=2, at=2 * S)]
    on = group(READ, sends=sends, leadership=LED, **logs((0, B), (0, A)))
    assert f"and value {B} at offset 0; no log" in reason(ack_mismatch.CHECKER, on)


@pytest.mark.parametrize(
    ("about", "rows", "why"),
    [
        (READ, {"nodes": ("n1", "n2")}, "not every replica's log was read"),
        (facts(collected_nodes=frozenset({"n1", "n2"})), {}, "the log of n3 was not read to its"),
        (replace(READ, unreadable_nodes=frozenset({"n1"})), {}, "the log of n1 was not read to"),
    ],
)
def test_without_all_logs_the_record_may_have_stood_there(
    about: RunFacts, rows: dict[str, tuple[str, ...]], why: str
) -> None:
    said = reason(ack_mismatch.CHECKER, group(about, **SLOW, **logs((0, B), (0, A), **rows)))
    assert not isinstance(said, Proved)
    assert f"or value {A} was truncated there and a retry of its send was kept at offset 1" in said
    assert why in said


@pytest.mark.parametrize(("seen_ns", "settled"), [(3 * S, False), (S, True), (None, False)])
def test_only_a_cut_after_the_send_can_have_taken_it(seen_ns: int | None, *, settled: bool) -> None:
    cut = {"node": "n3", "from_offset": 0, "to_offset": 1, "observed_ns": seen_ns, "reason": "r"}
    on = group(READ, **SLOW, **logs((0, B), (0, A)), truncations=[cut])
    said = reason(ack_mismatch.CHECKER, on)
    assert isinstance(said, Proved) is settled
    assert ("n3 truncated offset 0" in said) is not settled


def test_what_was_read_there_stood_there() -> None:
    cut = {"node": "n3", "from_offset": 0, "to_offset": 1, "observed_ns": None, "reason": "r"}
    rows = {**logs((0, B), (0, A)), "polls": [told(A, 0)]}
    said = reason(ack_mismatch.CHECKER, group(READ, **SLOW, **rows, truncations=[cut]))
    assert said.startswith(f"op 9 read value {A} at offset 0: the message was truncated there")
    head = (
        "n2, leader of epoch 0, or the client's library reported offset 0, and op 9 also read the"
        f" message there, although {ALL} value {A} at offset 1 and value {B} (acknowledged before"
        " this message was sent) at offset 0"
    )
    once = reason(ack_mismatch.CHECKER, group(READ, **WRONG, **rows, truncations=[cut]))
    assert once == f"{head}; it was sent only once, within 1 ms"
    kept = reason(ack_mismatch.CHECKER, group(READ, **SLOW, **rows))
    assert kept == f"{head}; no log was truncated there"
    assert not isinstance(kept, Proved)


@pytest.mark.parametrize(
    ("end", "said"),
    [(2, "; no log ever reached offset 7"), (9, "; the log of n1 was not read to its end")],
)
def test_a_log_that_never_came_so_far_says_so(end: int, said: str) -> None:
    look = {"node": "n1", "observed_ns": 3 * S, "log_end_offset": end}
    rows = logs((0, B), (0, A))
    rows["replica_states"] = [*rows["replica_states"], look]
    sends = [{**ack(A, 7, op=2, at=2 * S), "invoke_ns": S}]
    told_of = reason(ack_mismatch.CHECKER, group(READ, sends=sends, leadership=LED, **rows))
    assert said in told_of


def test_the_offset_of_a_marker_is_named_as_such() -> None:
    rows = written(of(A, 0), marker())
    on = group(READ, sends=[ack(A, 1, at=S)], leadership=LED, **rows)
    assert f"value {A} at offset 0 and the marker of its own transaction at" in reason(
        ack_mismatch.CHECKER, on
    )
    rows = written(of(A, 0), marker(producer=2))
    on = group(READ, sends=[ack(A, 1, at=S)], leadership=LED, **rows)
    assert "and a transaction's marker at offset 1" in reason(ack_mismatch.CHECKER, on)


@pytest.mark.parametrize(("took_ns", "once"), [(99_000_000, True), (100_000_000, False)])
def test_what_was_sent_once_was_named_wrongly_by_the_leader_that_wrote_it(
    took_ns: int, *, once: bool
) -> None:
    cut = {"node": "n3", "from_offset": 0, "to_offset": 1, "observed_ns": None, "reason": "r"}
    sends = [ack(B, 0, at=S), {**ack(A, 0, op=2, at=2 * S), "invoke_ns": 2 * S - took_ns}]
    rows = {"sends": sends, "leadership": TWO, "truncations": [cut]}
    said = reason(ack_mismatch.CHECKER, group(READ, **rows, **logs((0, B), (0, A))))
    assert isinstance(said, Proved) is once
    assert said.startswith("n2, leader of epoch 0, or the client's") is once
    once_only = "at offset 0; it was sent only once, within 100 ms; n3 truncated from 0 on"
    assert said.endswith(once_only) is once
    assert ("retry of its send was kept" in said) is not once
    # Who is told of as a leader only after the answer need not be the one that gave it.
    if once:
        late = [leads(2, 0, at=S), leads(3, 1, at=3 * S)]
        rows = {**rows, "leadership": late, **logs((0, B), (1, A))}
        said = reason(ack_mismatch.CHECKER, group(READ, **rows))
        assert said.startswith("n2 or n3, each of which may have led then, or the client's")


def test_two_leaders_of_that_time_are_both_named() -> None:
    rows = {**SLOW, "leadership": TWO}
    said = reason(ack_mismatch.CHECKER, group(READ, **rows, **logs((0, B), (0, A))))
    assert said.startswith("n2 or n3, each of which may have led then, or the client's library")


# The order of sends.

LATER = [ack(A, 1, at=S), ack(B, 0, op=2, at=2 * S)]
"""A was acknowledged before B was sent, and stands behind it."""


@pytest.mark.parametrize(
    ("lower", "upper", "said"),
    [
        (of(B, 8), of(A, 7), ": n2, leader of epoch 0, stored sequence 8 of producer 1 at"),
        (
            of(B, 7),
            of(A, 8),
            ("n2, leader of epoch 0, stored a message at a lower offset than one that was"),
        ),
        (of(B, 8, producer=2), of(A, 7), "n2, leader of epoch 0, stored a message at a"),
        (
            of(B, 8, led=0),
            of(A, 7, led=1),
            ("n2, leader of epoch 0, wrote the message at the lower offset, and n3"),
        ),
    ],
)
def test_both_answers_are_right_if_the_logs_hold_both(lower: Row, upper: Row, said: str) -> None:
    on = group(READ, sends=LATER, leadership=TWO, **written(lower, upper))
    why = reason(OFFSET_ORDER, on)
    assert isinstance(why, Proved)
    assert why.startswith(f"{ALL} both messages at their acknowledged offsets: ")
    assert said in why


@pytest.mark.parametrize(
    ("lower", "upper", "said", "proved"),
    [
        (
            of(B, 8),
            of(A, 7),
            ("stored sequence 8 of producer 1 at a lower offset than its sequence 7"),
            True,
        ),
        (
            of(B, 7),
            of(A, 8),
            ("the client's library assigned their sequence numbers in that order (7, 8)"),
            True,
        ),
        (of(B, -1, producer=-1), of(A, -1, producer=-1), "library sent them in that order", False),
    ],
)
def test_in_one_op_the_client_may_have_put_them_in_that_order(
    lower: Row, upper: Row, said: str, *, proved: bool
) -> None:
    sends = [ack(A, 1), {**ack(B, 0), "mop": 1}]
    on = group(READ, sends=sends, leadership=LED, **written(lower, upper))
    why = reason(send_order.INT_NONMONOTONIC_CHECKER, on)
    assert said in why
    assert isinstance(why, Proved) is proved


def test_an_answer_that_named_a_wrong_offset_puts_it_out_of_order() -> None:
    sends = [ack(A, 5, at=S), ack(B, 1, op=2, at=2 * S)]
    on = group(READ, sends=sends, leadership=LED, **logs((0, A), (0, B)))
    assert "reported offset 5 wrongly: " in reason(OFFSET_ORDER, on)


def test_an_earlier_record_that_was_cut_off_names_the_cut_and_who_wrote_after_it() -> None:
    cut = {"node": "n2", "from_offset": 0, "to_offset": 2, "observed_ns": 9 * S, "reason": "r"}
    rows = {"sends": LATER, "leadership": TWO, **logs((1, B))}
    said = reason(OFFSET_ORDER, group(READ, **rows, truncations=[cut]))
    assert said == (
        f"value {A} was truncated: n2 truncated offset 1 at 9.000 s together with all offsets"
        " from 0 on (r); n3, leader of epoch 1, wrote the later message at offset 0"
    )
    never = reason(OFFSET_ORDER, group(READ, **rows))
    assert isinstance(never, Proved)
    assert never.endswith(
        f"acknowledged value {A} at offset 1, although no log holds it and no log was truncated"
        " there"
    )
    unread = reason(OFFSET_ORDER, group(facts(collected_nodes=frozenset({"n3"})), **rows))
    assert unread.startswith(
        f"value {A} is not in the log of n3, the last leader: it was truncated or never"
    )


def test_two_logs_that_hold_one_each_went_apart() -> None:
    rows = [*log("n2", (0, C), (0, A)), *log("n3", (1, B))]
    on = group(
        READ, sends=LATER, leadership=TWO, replica_records=rows,
        replica_states=[state("n2", 2), state("n3", 1)],
    )  # fmt: skip
    assert reason(OFFSET_ORDER, on) == (
        f"two logs diverged: the log of n2 holds value {A} at offset 1, and the log of n3 holds"
        f" value {B} at offset 0"
    )


def test_without_logs_what_readers_got_bears_the_answers_out() -> None:
    both = reason(OFFSET_ORDER, group(sends=LATER, polls=[told(A, 1), told(B, 0)]))
    assert both.startswith("readers got both messages at these offsets")
    one = reason(OFFSET_ORDER, group(sends=LATER, polls=[told(A, 1)]))
    assert one.endswith("without the last leader's log, the run's record does not show which")


def test_messages_that_came_between_are_those_of_named_processes() -> None:
    sends = [ack(A, 0), {**ack(B, 2), "mop": 1}, ack(C, 1, op=4)]
    said = reason(send_order.INT_SKIP_CHECKER, group(sends=sends))
    assert said.startswith("messages of process 4 are in between")
    unread = [ack(A, 0), {**ack(B, 2), "mop": 1}]
    said = reason(send_order.INT_SKIP_CHECKER, group(sends=unread, polls=[told(C, 1)]))
    assert said.startswith("messages of other writers are in between")


# What readers were given.

V = [pack_value(1, number) for number in range(5)]
SENT = [ack(value, offset, op=20 + offset, at=S) for offset, value in enumerate(V)]


def got(*offsets: int, op: int, process: int = 1, at: int = 2 * S) -> list[Row]:
    return [
        {**told(V[offset], offset, op=op, at=at), "process": process, "pos": pos}
        for pos, offset in enumerate(offsets)
    ]


HELD = {"sends": SENT, "leadership": LED, **logs(*((0, value) for value in V))}


def test_a_skip_names_who_led_who_holds_it_and_who_got_it() -> None:
    polls = [*got(0, op=1), *got(2, op=2, at=9 * S), *got(1, op=3, process=3, at=3 * S),
             *got(1, op=4, process=4, at=10 * S)]  # fmt: skip
    assert reason(poll_order.SKIP_CHECKER, group(READ, **HELD, polls=polls)) == (
        f"n2, leader of epoch 0, or the client omitted it: {ALL} it, and 2 other reads returned"
        " it, 1 of them before; no seek or assignment happened in between"
    )
    alone = reason(poll_order.SKIP_CHECKER, group(READ, **HELD, polls=polls[:2]))
    assert "and no other read returned it;" in alone


def test_what_an_op_returned_out_of_place_it_did_not_leave_out() -> None:
    polls = [*got(0, op=1), *got(2, 1, 3, op=2, at=9 * S)]
    said = reason(poll_order.SKIP_CHECKER, group(READ, **HELD, polls=polls))
    assert said == (
        "op 2 itself returned it in the wrong place: n2, leader of epoch 0, or the client changed"
        f" the order of the log: {ALL} it"
    )
    assert isinstance(said, Proved)
    inside = [*got(0, 2, 1, 3, op=2, at=9 * S)]
    inner = reason(poll_order.INT_SKIP_CHECKER, group(READ, **HELD, polls=inside))
    assert inner == said
    polls = [*got(0, op=1), *got(3, 1, 4, op=2, at=9 * S)]  # Of two, one was left out.
    partly = reason(poll_order.SKIP_CHECKER, group(READ, **HELD, polls=polls))
    assert "omitted it" in partly
    assert "itself returned" not in partly


def test_who_led_when_a_record_was_sent_may_have_left_it_out_of_a_fetch_ahead() -> None:
    heard = [{**leads(leader, epoch, at=at * S, source="metadata"), "observer": by}
             for by, leader, epoch, at in (("n3", 2, 0, 5), ("n2", 3, 1, 9))]  # fmt: skip
    late = [{**SENT[2], "invoke_ns": 10 * S, "complete_ns": 11 * S}]
    polls = [*got(0, op=1), *got(2, op=2, at=12 * S)]
    rows = {**HELD, "leadership": [*TWO, *heard]}
    for since_s, who in (
        (1, "n2 or n3, each of which may have led then,"),
        (10, "n3, leader of epoch 1,"),
    ):
        skipped = {**SENT[1], "invoke_ns": since_s * S, "complete_ns": since_s * S + 1}
        sends = [SENT[0], skipped, *late, *SENT[3:]]
        said = reason(poll_order.SKIP_CHECKER, group(READ, **{**rows, "sends": sends}, polls=polls))
        assert said.startswith(f"{who} or the client omitted it")


def test_a_long_skip_counts_the_reads_of_all_that_it_left_out() -> None:
    many = [pack_value(1, number) for number in range(14)]
    held = {
        "sends": [ack(value, offset, op=20 + offset, at=S) for offset, value in enumerate(many)],
        "leadership": LED,
        **logs(*((0, value) for value in many)),
    }

    def some(*offsets: int, op: int, at: int) -> list[Row]:
        return [
            {**told(many[offset], offset, op=op, at=at * S), "process": op, "pos": pos}
            for pos, offset in enumerate(offsets)
        ]

    skip = [*some(0, op=1, at=2), *({**row, "process": 1} for row in some(13, op=2, at=9))]
    early = [row for op in (3, 4) for row in some(*range(1, 11), op=op, at=3)]
    rest = [row for op in (5, 6) for row in some(11, 12, op=op, at=4)]
    whole = some(*range(1, 13), op=7, at=20)
    said = reason(
        poll_order.SKIP_CHECKER, group(READ, **held, polls=[*skip, *early, *rest, *whole])
    )
    assert (
        f"client omitted them: {ALL} them, and one other read returned all of them; at least 2"
        " reads had returned each of them before; no seek or" in said
    )
    parts = reason(poll_order.SKIP_CHECKER, group(READ, **held, polls=[*skip, *early, *rest[:1]]))
    assert "and no other read returned all of them; no seek or" in parts
    none = reason(poll_order.SKIP_CHECKER, group(READ, **held, polls=skip))
    assert "and no other read returned them; no seek or" in none


def test_a_skip_inside_of_an_op_says_nothing_of_assignments() -> None:
    said = reason(poll_order.INT_SKIP_CHECKER, group(READ, **HELD, polls=got(0, 2, op=1)))
    assert said.startswith("n2, leader of epoch 0, or the client omitted it")
    assert "assigned" not in said
    two = reason(poll_order.INT_SKIP_CHECKER, group(READ, **HELD, polls=got(0, 3, op=1)))
    assert "omitted them" in two


def test_followers_that_may_answer_are_not_excluded() -> None:
    fetching = facts(
        plan={"broker": {"replica.selector.class": "a.Selector"}},
        collected_nodes=frozenset(NODES),
    )
    said = reason(poll_order.INT_SKIP_CHECKER, group(fetching, **HELD, polls=got(0, 2, op=1)))
    assert said.startswith("a broker or the client omitted it")


def test_a_reader_placed_after_an_election_was_not_answered_by_who_led_before() -> None:
    heard = {**leads(3, 1, at=5 * S, source="metadata"), "observer": "n2"}
    rows = {**HELD, "leadership": [*TWO, heard]}
    polls = got(0, 2, op=5, at=9 * S)
    said = reason(poll_order.INT_SKIP_CHECKER, group(READ, **rows, polls=polls))
    assert said.startswith("n2 or n3, each of which may have led then, or the client")
    newer = [{**row, "leader_epoch": 1} for row in polls]  # n2 knew of epoch 0 only.
    served = reason(poll_order.INT_SKIP_CHECKER, group(READ, **rows, polls=newer))
    assert served.startswith("n3, leader of epoch 1, or the client")
    move = {"op_id": 4, "process": 1, "kind": "assign", "time_ns": 7 * S, "offset": 0}
    on = group(READ, **rows, polls=polls, assignments=[move])
    assert reason(poll_order.INT_SKIP_CHECKER, on).startswith("n3, leader of epoch 1, or the")
    late = group(READ, **rows, polls=polls, assignments=[{**move, "time_ns": 10 * S}])
    assert reason(poll_order.INT_SKIP_CHECKER, late).startswith("n2 or n3")


@pytest.mark.parametrize(
    ("isolation", "aborted"), [("read_committed", True), ("read_uncommitted", False)]
)
def test_a_reader_of_what_is_committed_may_have_taken_it_for_aborted(
    isolation: str, *, aborted: bool
) -> None:
    rows = written(of(A, 0, producer=1), of(B, 0, producer=2), marker(producer=2), of(C, 1))
    sends = [in_txn(A, 0), in_txn(B, 1, op=2), in_txn(C, 3, op=3)]
    polls = [told(A, 0, isolation=isolation), {**told(C, 3, isolation=isolation), "pos": 9}]
    said = reason(
        poll_order.INT_SKIP_CHECKER,
        group(TXN, sends=sends, leadership=LED, polls=polls, **rows),
    )
    assert ("omitted it or treated its transaction as aborted" in said) is aborted
    assert "its transaction's marker is at offset 2" in said


def test_a_step_back_names_who_led_and_that_the_logs_are_in_order() -> None:
    polls = [*got(0, 1, 2, op=1), *got(1, op=2), *got(1, op=3, process=3)]
    assert reason(poll_order.NONMONOTONIC_CHECKER, group(READ, **HELD, polls=polls)) == (
        f"n2, leader of epoch 0, or the client returned records out of order: {ALL} the value of"
        " offset 1 only once, and 2 other reads returned it; no seek or assignment happened in"
        " between"
    )
    twice = {**HELD, **logs(*((0, value) for value in (*V, V[1])))}
    assert "once" not in reason(poll_order.NONMONOTONIC_CHECKER, group(READ, **twice, polls=polls))


def test_who_led_before_what_a_reader_had_been_given_did_not_take_it_back() -> None:
    heard = [{**leads(leader, epoch, at=at * S, source="metadata"), "observer": by}
             for by, leader, epoch, at in (("n3", 2, 0, 5), ("n2", 3, 1, 9))]  # fmt: skip
    polls = [*got(0, 1, 2, op=1, at=12 * S), *got(1, op=2, at=13 * S)]
    rows = {**HELD, "leadership": [*TWO, *heard]}
    for sent_s, who in ((1, "n2 or n3, each of which may have led then,"),
                        (10, "n3, leader of epoch 1,")):  # fmt: skip
        sends = [{**row, "invoke_ns": sent_s * S, "complete_ns": sent_s * S + 1}
                 if row["value"] == V[2] else row for row in SENT]  # fmt: skip
        on = group(READ, **{**rows, "sends": sends}, polls=polls)
        assert reason(poll_order.NONMONOTONIC_CHECKER, on).startswith(
            f"{who} or the client returned records out of order"
        )


def test_a_reader_that_stood_on_what_is_gone_went_back_for_that() -> None:
    rows = {**HELD, **logs((0, V[0]), (0, V[1]), (1, A))}
    polls = [*got(0, 1, 2, op=1), *got(1, op=2)]
    cut = {"node": "n2", "from_offset": 2, "to_offset": 3, "observed_ns": 9 * S, "reason": "r"}
    rows["replica_records"] = [row for row in rows["replica_records"] if row["offset"] < 2]
    said = reason(
        poll_order.NONMONOTONIC_CHECKER, group(READ, **rows, polls=polls, truncations=[cut])
    )
    assert said == (
        f"value {V[2]}, the reader's last record, is in no log that was read: it was truncated:"
        " n2 truncated offset 2 at 9.000 s (r)"
    )


@pytest.mark.parametrize(("kind", "member"), [("subscribe", True), ("assign", False)])
def test_only_a_member_goes_back_to_the_logs_start_by_itself(kind: str, *, member: bool) -> None:
    move = {"op_id": 0, "process": 1, "kind": kind, "time_ns": 1, "offset": 0}
    polls = [*got(0, 1, 2, op=1), *got(0, op=2)]
    on = group(READ, **HELD, polls=polls, assignments=[move])
    said = reason(poll_order.NONMONOTONIC_CHECKER, on)
    assert ("as for a position that is out of range, although" in said) is member
    onward = group(READ, **HELD, polls=[*polls[:3], *got(1, op=2)], assignments=[move])
    assert "out of range" not in reason(poll_order.NONMONOTONIC_CHECKER, onward)


def test_each_truncation_that_may_have_been_it_is_told_the_nearest_first() -> None:
    cut = {"node": "n2", "to_offset": None, "observed_ns": None}
    cuts = [{**cut, "from_offset": 0, "reason": "a"}, {**cut, "from_offset": 2, "reason": "b"}]
    other = {**cut, "node": "n3", "from_offset": 1, "reason": "c"}
    found = truncations_of(group(READ, **HELD, truncations=[*cuts, other]), 2)
    assert which_cut(found, 2) == (
        "n2 truncated offset 2 (b), or n2 truncated all that it had from offset 0 on (a), or n3"
        " truncated all that it had from offset 1 on (c)"
    )
    assert which_cut([*found, *found], 2).endswith(", or 3 more truncations")
    assert which_cut([], 2) == ""
