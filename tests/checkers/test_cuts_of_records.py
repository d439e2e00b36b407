"""Which truncation dropped a record: a log that had another one there did not."""

import pytest

from checkers import lost_write
from checkers.acknowledger import Acked
from checkers.cuts import cut_off, may_have_dropped
from checkers.offset_order import CHECKER as OFFSET_ORDER
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import A, B, S, ack, facts, found, group, leads, log
from tests.checkers.reason_rows import READ, reason

LED = [
    leads(3, 0, at=0), leads(2, 1, at=2 * S), leads(2, 1, at=5 * S), leads(3, 2, at=8 * S),
    *({**leads(2, 1, at=at * S, source="metadata"), "observer": "n3"} for at in (3, 6)),
]  # fmt: skip
"""n3 wrote epoch 0, then n2 epoch 1 with A, then n3 epoch 2."""
SENT = {**ack(A, 1, at=4 * S), "invoke_ns": 4 * S - 1, "acks": "1"}
LATER = {**ack(B, 0, op=2, at=9 * S), "invoke_ns": 9 * S - 1, "acks": "1"}


def cut(node: str, from_offset: int = 0, **more: object) -> Row:
    return {
        "node": node, "from_offset": from_offset, "to_offset": None, "observed_ns": None,
        "reason": "epoch 0 ends at offset 0 there", **more,
    }  # fmt: skip


def seen(node: str, end: int, at: int) -> Row:
    return {"node": node, "observed_ns": at, "log_start_offset": 0, "log_end_offset": end}


def rows(*cuts: Row, looks: tuple[Row, ...] = (), ended: int = 1) -> dict[str, list[Row]]:
    logs = [row for node in ("n1", "n2", "n3") for row in log(node, (2, B))]
    ends = [{**seen(node, ended, 20 * S), "snapshot": "final"} for node in ("n1", "n2", "n3")]
    return {
        "sends": [SENT, LATER], "leadership": LED, "replica_records": logs,
        "replica_states": [*ends, *looks], "truncations": list(cuts),
    }  # fmt: skip


RECORD = Acked(value=A, offset=1, sent_ns=4 * S - 1, acked_ns=4 * S, weak=True)
BOTH = (cut("n3"), cut("n2"))
BEYOND = (seen("n3", 5, S),)
"""n3's log reached beyond A's offset before A was sent."""


def dropped_by(*cuts: Row, looks: tuple[Row, ...] = BEYOND) -> list[str]:
    return [each.node for each in may_have_dropped(group(READ, **rows(*cuts, looks=looks)), RECORD)]


def test_a_log_that_had_another_record_there_did_not_drop_this_one() -> None:
    assert dropped_by(*BOTH) == ["n2"]


@pytest.mark.parametrize(
    ("looks", "cuts"),
    [
        ((), BOTH),  # Nobody saw how far it reached.
        ((seen("n3", 1, S),), BOTH),  # It ended at the offset: A can have come to stand there.
        ((seen("n3", 5, 4 * S),), BOTH),  # A may be what stood there.
        (BEYOND, (*BOTH, cut("n3", 1))),  # The first one cut the other record, the second A.
        (BEYOND, (*BOTH, cut("n3", 1, observed_ns=2 * S))),  # So may these have done.
    ],
)
def test_a_log_that_can_have_had_it_may_have_dropped_it(
    looks: tuple[Row, ...], cuts: tuple[Row, ...]
) -> None:
    assert "n3" in dropped_by(*cuts, looks=looks)


def test_of_a_node_whose_files_were_not_all_read_nothing_follows() -> None:
    unread = facts(collected_nodes=frozenset({"n1", "n2"}))
    on = group(unread, **rows(*BOTH, looks=BEYOND))
    assert [each.node for each in may_have_dropped(on, RECORD)] == ["n3", "n2"]


def test_the_cut_of_the_node_that_acknowledged_it_is_told_though_another_one_led_last() -> None:
    said = reason(OFFSET_ORDER, group(READ, **rows(*BOTH)))
    assert said.startswith(
        f"value {A} was truncated: n2 truncated all that it had from offset 0 on (epoch 0 ends at"
        " offset 0 there); n3, leader of epoch 2, wrote the"
    )


def test_where_nobody_is_known_to_have_had_it_all_that_may_have_are_named() -> None:
    on = group(READ, **{**rows(*BOTH), "leadership": []})
    told = cut_off(on, Acked(value=A, offset=1, sent_ns=-1, acked_ns=-1))
    assert told.startswith("may have been truncated: n2 ")
    assert ", or n3 truncated" in told
    assert cut_off(group(READ, **rows(cut("n1"))), RECORD).startswith(
        "may have been truncated: n1 "
    )
    assert cut_off(group(READ, **rows(cut("n1"), cut("n2"))), RECORD).startswith(
        "was truncated: n2 "
    )


def test_a_loss_with_acks_1_names_the_cut_of_its_own_leader() -> None:
    lost = found(lost_write.CHECKER, group(READ, **rows(*BOTH))).anomalies[0]
    assert "n2 truncated all" in lost.sentence
    assert "n3, which" not in lost.sentence
    all_acks = {**rows(cut("n3", 1), cut("n2", 1)), "sends": [{**SENT, "acks": "all"}, LATER]}
    both = found(lost_write.CHECKER, group(READ, **all_acks)).anomalies[0]
    assert both.sentence.count(" truncated offset 1") == 2  # n3 had to have it, as well.
