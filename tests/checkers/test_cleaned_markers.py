"""Whether a cleaner may have taken a transaction's marker before the last leader got it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from checkers.cleaned_markers import may_lack_marker
from checkers.facts import Absence, RunFacts
from checkers.hanging_transaction import CHECKER as HANGING
from checkers.high_watermark_regression import CHECKER as REGRESSION
from results.record.terms import Outcome
from tests.checkers.faithful_clients import Row
from tests.checkers.keyed import NODES, RETENTION_S, about, told_end, value
from tests.checkers.partition_rows import S, ack, facts, final_read, found, group, leads, state

OPEN, NEXT, TAIL = value(0), value(0, 1), value(3)
"""The record of the transaction, a second one, and one of another producer."""
AT, END, SENT_S, LED_S = 5, 9, 20, 60
HELD = (AT, OPEN, 7)
MARKER = (6, None, 7)
LAST = (END - 1, TAIL, 1)
"""Offset, value and producer; without a value it is a marker."""
SHIFTS: Row = {"faults": [{"at_s": 1, "kind": "clock-offset", "target": "n1", "hold_s": 1}]}
AWAY = {"n1": (25, 40)}

Log = Sequence[tuple[int, int | None, int]]
Away = Mapping[str, tuple[float, float]]


def log(node: str, records: Log, *, epoch: int = 0) -> list[Row]:
    return [
        {"snapshot": "final", "node": node, "offset": offset, "leader_epoch": epoch,
         "value": number, "record_hash": offset, "producer_id": producer, "producer_epoch": 0,
         "sequence": offset, "control": number is None}
        for offset, number, producer in records
    ]  # fmt: skip


def isrs(away: Away) -> list[Row]:
    """Return what n2 told as leader of epoch 0, and n1 as leader of epoch 1: who was in sync."""
    times = sorted({1.0, *(at for span in away.values() for at in span), LED_S + 0.1})
    rows = []
    for at_s in times:
        leader, epoch = (2, 0) if at_s < LED_S else (1, 1)
        members = [
            number
            for number, node in enumerate(NODES, start=1)
            if not (node in away and away[node][0] <= at_s < away[node][1])
        ]
        row = leads(leader, epoch, at=int(at_s * S), source="metadata")
        rows.append({**row, "isr": members})
    return rows


def rows(
    logs: Mapping[str, Log] | None = None,
    *,
    away: Away = AWAY,
    ends: Mapping[str, int] | None = None,
    sent: Sequence[Row] | None = None,
    led_s: float = LED_S,
    epoch: int = 0,
) -> dict[str, list[Row]]:
    """Return the rows of a partition that n1 leads at last, and in whose log OPEN is open.

    By default the others were cleaned, and n1 was not in sync from 25 to 40 s.
    """
    known: dict[str, Log] = {"n1": [HELD, LAST], "n2": [LAST], "n3": [LAST], **(logs or {})}
    in_txn = {"outcome": "info", "acked": True, "txn_id": 1, "transactional_id": "t"}
    return {
        "sends": [{**ack(OPEN, AT, at=SENT_S * S + 5), **in_txn}, *(sent or ())],
        "leadership": [leads(2, 0, at=S), leads(1, 1, at=int(led_s * S)), *isrs(away)],
        "replica_states": [
            state(node, END, END) for node in known if node not in (ends or {})
        ] + [state(node, end, end) for node, end in (ends or {}).items()],
        "replica_records": [
            row for node, records in known.items() for row in log(node, records, epoch=epoch)
        ],
    }  # fmt: skip


def may(
    logs: Mapping[str, Log] | None = None,
    *,
    on: RunFacts | None = None,
    offset: int = AT,
    **changes: object,
) -> bool:
    given = rows(logs, **changes)  # type: ignore[arg-type]  # The test's values.
    return may_lack_marker(group(on or about(), **given), offset)


def test_who_was_out_of_sync_for_longer_than_markers_stay_may_lack_one() -> None:
    assert may()
    assert not may(on=replace(about(), plan=facts().plan)), "nothing removes a marker"
    assert not may_lack_marker(group(about(), **{**rows(), "leadership": []}), AT), "no leader"


def test_who_was_in_sync_all_along_has_the_marker() -> None:
    """A faulty cleaner took the record elsewhere, and the transaction really hangs (KAFKA-9144)."""
    assert not may(away={})
    assert not may(away={"n2": (25, 40)}), "another one was away"
    for retention_ms in ("0", "500"):
        setting = {"broker": {"log.cleaner.delete.retention.ms": retention_ms}}
        assert not may(on=about(setting), away={}), retention_ms
    assert not may(on=about(SHIFTS), away={}), "whatever the clocks, it got it"


def test_it_must_be_out_of_sync_between_the_send_and_its_own_epoch() -> None:
    """The leader may notice it 6.5 s late, but nothing before the send counts."""
    setting = {"broker": {"log.cleaner.delete.retention.ms": "10000"}}
    assert may(on=about(setting), away={"n1": (30, 33.501)})
    assert not may(on=about(setting), away={"n1": (30, 33.5)})
    back_s = SENT_S + RETENTION_S
    assert may(away={"n1": (SENT_S + 1, back_s + 0.001)})
    assert not may(away={"n1": (SENT_S + 1, back_s)})
    assert may(away={"n1": (5, back_s + 0.001)}), "it went away before"
    assert not may(away={"n1": (5, SENT_S)}), "it was back by then"
    assert may(away={"n1": (56.6, LED_S)})
    assert not may(led_s=SENT_S + RETENTION_S), "it led then"
    setting = {"broker": {"log.cleaner.delete.retention.ms": "8000"}}
    assert not may(on=about(setting), away={"n1": (58, 60)}, led_s=59), "told of a time before"
    setting = {"broker": {"log.cleaner.delete.retention.ms": "4000"}}
    assert not may(on=about(setting), away={"n1": (52, 58)}, led_s=50), "told late"
    assert not may(epoch=1), "it wrote the record itself, and so would its marker"


def test_a_last_look_before_the_record_does_not_show_that_it_lacked_it() -> None:
    """Ends that grow are noted twice a second: whoever goes down at once was never seen with it."""
    given = rows()
    looks = [told_end("n1", AT, 19.9), told_end("n1", END, 41)]
    assert may_lack_marker(group(about(), **{**given, "replica_states": [
        *given["replica_states"], *looks]}), AT)  # fmt: skip


def test_shifted_clocks_remove_a_marker_at_once_but_from_nobody_in_sync() -> None:
    setting = {"broker": {"log.cleaner.delete.retention.ms": "120000"}}
    assert not may(on=about(setting))
    assert may(on=about({**setting, **SHIFTS}))
    assert may(on=about({**setting, **SHIFTS}), away={"n1": (40, 40.3)})
    assert not may(on=about({**setting, **SHIFTS}), away={"n1": (5, 10)}), "before the send"


def test_without_a_retention_a_short_time_is_enough() -> None:
    setting = {"broker": {"log.cleaner.delete.retention.ms": "0"}}
    assert may(on=about(setting), away={"n1": (40, 40.3)})
    assert not may(on=about(setting), away={"n1": (5, 10)})


def test_a_plan_may_let_followers_lag_for_longer() -> None:
    retention = {"log.cleaner.delete.retention.ms": "20000"}
    setting = {"broker": {**retention, "replica.lag.time.max.ms": "6000"}}
    assert may(on=about(setting), away={"n1": (40, 50.501)}), "9.5 s"
    assert not may(on=about(setting), away={"n1": (40, 50.5)})


@pytest.mark.parametrize(("until_s", "missed"), [(31, True), (30, False)])
def test_a_process_that_was_down_counts_as_long_as_it_was(until_s: int, *, missed: bool) -> None:
    down = Absence(node="n1", from_ns=25 * S, until_ns=until_s * S, gone=True)
    assert may(on=about(absences=(down,)), away={}) is missed
    other = replace(down, node="n2")
    assert not may(on=about(absences=(other,)), away={})


def test_a_marker_that_is_there_is_not_missing() -> None:
    assert not may({"n1": [HELD, MARKER, LAST]})
    assert not may({"n1": [HELD, MARKER, LAST], "n3": [HELD, MARKER, LAST]})
    assert may({"n3": [HELD, MARKER, LAST]}), "n3 keeps both, and n1 got its log from n2"
    assert may({"n1": [HELD, (6, None, 1), LAST]}), "of another producer"


def test_the_leaders_log_must_have_the_record_as_data_of_a_transaction() -> None:
    assert not may({"n1": [(2, NEXT, 1)]}, ends={"n1": 3}), "there is nothing"
    assert not may({"n1": [(AT, None, 7), LAST]}), "it is a marker"
    given = rows(sent=[ack(NEXT, AT + 2, op=2)])
    given["sends"][0] |= {"txn_id": None, "transactional_id": None}
    assert not may_lack_marker(group(about(), **given), AT), "it is in no transaction"
    assert may(offset=AT - 1), "a cleaner took the first record of its batch"


def test_a_record_that_must_stay_keeps_its_marker() -> None:
    committed = {"outcome": Outcome.OK.value, "txn_id": 2, "transactional_id": "u"}
    later = {**ack(NEXT, AT + 2, op=2), **committed}
    alive = [later, {**ack(TAIL, END - 1, op=3), **committed}]
    given = rows(sent=alive)
    given["sends"][0] |= {"outcome": Outcome.OK.value}
    assert may_lack_marker(group(about(), **given), AT), "a later one of its key stays"
    given = rows()
    given["sends"][0] |= {"outcome": Outcome.OK.value}
    assert not may_lack_marker(group(about(), **given), AT), "it is the last one of its key"


def test_another_log_must_lack_all_records_of_the_transaction() -> None:
    """A marker stays as long as any record of its transaction does."""
    rest = (7, NEXT, 7)
    assert not may({"n2": [HELD, MARKER, LAST], "n3": [HELD, MARKER, LAST]}), "nobody cleaned it"
    assert not may({"n1": [HELD, rest, LAST], "n2": [rest, LAST], "n3": [rest, LAST]})
    assert may({"n1": [HELD, rest, LAST]})
    short: dict[str, Log] = {"n2": [(2, NEXT, 1)], "n3": [HELD, MARKER, LAST]}
    assert not may(short, ends={"n2": 3}), "that log never reached it"


def test_no_other_replica_in_sync_has_the_record_without_a_marker() -> None:
    """Whoever was in sync had got the marker, and no cleaner takes it from beside its record."""
    both: dict[str, Log] = {"n3": [HELD, LAST]}
    assert not may(both)
    assert may(both, away={**AWAY, "n3": (25, 40)}), "it came too late, too"
    assert may(both, away={**AWAY, "n3": (30, 300)}), "until the end"
    assert not may(both, away={**AWAY, "n3": (5, SENT_S)})


def test_a_torn_log_does_not_show_that_a_cleaner_took_a_record() -> None:
    torn: dict[str, Log] = {"n2": [(3, NEXT, 1)]}
    assert not may({**torn, "n3": [HELD, LAST]}), "n3 in sync shows that there was no marker"
    assert not may({**torn, "n3": [HELD, LAST]}, away={"n1": (25, 40), "n2": (25, 40)})
    assert may({**torn, "n3": [HELD, MARKER, LAST]}), "nobody knows what n2 had"
    assert not may({**torn, "n3": [HELD, MARKER, LAST]}, away={})


def test_what_the_record_does_not_show_may_be_so() -> None:
    beside: dict[str, Log] = {"n2": [HELD, MARKER, LAST], "n3": [HELD, MARKER, LAST]}
    given = rows(beside)
    for name in ("replica_records", "replica_states"):
        given[name] = [row for row in given[name] if row["node"] != "n2"]
    assert may_lack_marker(group(about(), **given), AT), "the log of n2 was not read"
    unread = about(unreadable_nodes=frozenset({"n1"}))
    assert may({"n1": [HELD, MARKER, LAST]}, on=unread), "its log may be another one"
    assert not may({"n1": [HELD, MARKER, LAST]}, on=unread, away={})
    assert may({"n1": [HELD]}), "its log is torn"
    given = rows()
    given["leadership"] = [row for row in given["leadership"] if row["isr"] is None]
    assert may_lack_marker(group(about(), **given), AT), "no ISR was reported"


@pytest.mark.parametrize(("away", "premises"), [(AWAY, ("shown-cause",)), ({}, ())])
def test_two_anomalies_are_not_trusted_then(away: Away, premises: tuple[str, ...]) -> None:
    on = about({"transaction_timeout_s": 9}, calm_from_ns=100 * S)
    given = rows(away=away)
    stuck = [
        {"node": "n1", "observed_ns": at_s * S, "last_stable_offset": AT, "high_watermark": END}
        for at_s in (101, 122)
    ]
    given["replica_states"] += stuck
    (anomaly,) = found(HANGING, group(on, **given)).anomalies
    assert (anomaly.excuses, anomaly.broken_premises) == ((), premises)

    began = next(stone.at_ns for stone in on.milestones if stone.name == "final-reads")
    poll = {
        "op_id": 9, "mop": 0, "pos": 0, "value": TAIL, "offset": END - 1, "phase": "main",
        "isolation": "read_committed", "outcome": "ok", "complete_ns": began,
    }  # fmt: skip
    end = {**final_read(AT), "isolation": "read_committed"}
    (anomaly,) = found(REGRESSION, group(on, **given, polls=[poll], final_reads=[end])).anomalies
    assert (anomaly.excuses, anomaly.broken_premises) == ((), premises)
