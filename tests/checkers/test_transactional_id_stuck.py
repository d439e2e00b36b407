"""transactional-id-stuck: who of the clients was given a producer id after the last heal."""

from dataclasses import replace
from typing import Any

import pytest

from checkers import transactional_id_stuck
from checkers.facts import DiskLoss, RunFacts
from checkers.group import Group
from checkers.protocol import Findings, Proved
from checkers.reigns import Reign
from results.record.clock import NS_PER_S
from results.record.milestones import Milestone
from results.record.terms import F, Outcome
from tests.broken.corpus import CALM, Spot, broken, innocent
from tests.broken.record import Record
from tests.checkers.partition_rows import S, facts, found, sentences, whole_run

CHECKER, NAME = transactional_id_stuck.CHECKER, transactional_id_stuck.NAME
Row = dict[str, Any]
PLAN: Row = {"workload": "txn", "transaction_timeout_s": 9, "workers": 1, "concurrency": 8}
"""A transaction may be open for 9 s, 1 s more until anybody looks, and 10 s for the markers."""
HEALED, WHOLE, STOPPED = 100, 102, 160
CONCURRENT = (
    "CONCURRENT_TRANSACTIONS: Failed to initialize Producer ID: Broker: Producer attempted to"
    " update a transaction while another concurrent operation on the same transaction was ongoing"
)
UNANSWERED = "_TIMED_OUT: Timed out waiting for operation to finish, retry call to resume"
OF_JAVA = "TimeoutException: Timeout expired after 9000ms while awaiting InitProducerId"
OLD_JAVA = "TimeoutException: Timeout expired while initializing transactional state in 9000ms."


def stones(*, whole: bool = True, stopped: int | None = STOPPED) -> tuple[Milestone, ...]:
    detail = {} if whole else {"failed": "not in time"}
    told = [Milestone(name="recovered", at_ns=WHOLE * S, detail=detail)]
    if stopped is not None:
        told.append(Milestone(name="stopping-clients", at_ns=stopped * S))
    return tuple(told)


def led(leader: int, *, unclean: bool = False) -> tuple[Reign, ...]:
    first = Reign(topic="__transaction_state", partition=0, leader=2, epoch=0, from_ns=0,
                  until_ns=9 * S)  # fmt: skip
    last = Reign(topic="__transaction_state", partition=0, leader=leader, epoch=1, from_ns=9 * S,
                 until_ns=200 * S, unclean=unclean)  # fmt: skip
    return (first, last)


def about(*, plan: Row | None = None, **changes: object) -> RunFacts:
    known: Row = {
        "calm_from_ns": HEALED * S, "milestones": stones(), "reigns": led(1), **changes
    }  # fmt: skip
    return facts(plan={**PLAN, **(plan or {})}, **known)


def txn(
    thread: int,
    begun: float,
    ended: float,
    *,
    error: str | None = CONCURRENT,
    decision: str = "abort",
    end: str | None = "unknown",
) -> Row:
    return {"process": thread, "invoke_ns": int(begun * S), "complete_ns": int(ended * S),
            "error": error, "decision": decision, "end": end, "f": F.TXN.value}  # fmt: skip


def committed(thread: int, begun: float, ended: float) -> Row:
    return txn(thread, begun, ended, error=None, decision="commit", end="committed")


def refused(thread: int, *begun: float, error: str = CONCURRENT) -> list[Row]:
    """Attempts of five seconds each."""
    return [txn(thread, at, at + 5, error=error) for at in begun]


def judged(*rows: Row, on: RunFacts | None = None) -> Findings:
    return found(CHECKER, run(*rows, on=on))


def run(*rows: Row, on: RunFacts | None = None) -> Group:
    ops, ends = [], []
    for at, row in enumerate(rows):
        op = {**row, "op_id": at}
        told = {"op_id": at, "decision": op.pop("decision"), "outcome": op.pop("end")}
        ops.append(op)
        ends += [told] * (told["outcome"] is not None)
    return whole_run(on or about(), ops=ops, transactions=ends)


def stuck(findings: Findings) -> list[object]:
    return [each.evidence["transactional_id"] for each in findings.anomalies]


OTHERS = [committed(1, 103, 104), committed(2, 103, 104)]
STUCK = refused(0, 103, 109, 115, 121, 127)
"""25 s of attempts, and 20 s are the limit."""
ROWS_OF = [
    (
        CHECKER,
        run(txn(0, 50, 51)),
        "no transaction ended after the last heal",
        run(*OTHERS),
        2,
    )
]
EXCUSED_BY = [(NAME, {"unclean-election", "power-loss", "wipe", "bit-flip"})]
WHYS_OF: list[tuple[str, Row, str]] = [
    (
        NAME,
        {
            "transactional_id": "txn-0",
            "asked_from_ns": 1,
            "asked_to_ns": 2,
            "attempts": 3,
            "refusals": ["2 x CONCURRENT_TRANSACTIONS"],
            "other_ids": 1,
        },
        "refused 2 of 3 attempts with CONCURRENT_TRANSACTIONS; new producers with 1 other ids",
    ),
    (NAME, {"transactional_id": "txn-0"}, "did not answer the new producers in their time"),
]


def test_an_id_that_no_producer_can_use_for_longer_than_a_transaction_may_be_open() -> None:
    (sentence,) = sentences(CHECKER, run(*OTHERS, *STUCK))
    assert sentence == (
        "no producer with the transactional id txn-0 could begin from 103.000 s to 132.000 s: 5"
        " attempts took 25.000 s in sum, mostly with CONCURRENT_TRANSACTIONS; a coordinator must"
        " end a transaction in 20 s; the last heal was at 100.000 s"
    )
    findings = judged(*OTHERS, *STUCK)
    assert (findings.rows, findings.gaps) == (3, ())
    (anomaly,) = findings.anomalies
    assert (anomaly.excuses, anomaly.broken_premises) == ((), ())
    assert anomaly.evidence["refusals"] == ["5 x CONCURRENT_TRANSACTIONS"]


@pytest.mark.parametrize(
    "other",
    [
        committed(0, 111, 112),
        txn(0, 111, 112, end="aborted", error="aborted on purpose"),
        # Each of these had its producer id.
        txn(0, 111, 112, error="1 sends were not answered within 9 s"),
        txn(0, 111, 112, error="_TIMED_OUT: Failed to add offsets to transaction on broker"),
        txn(0, 111, 112, error="its producer was thrown away before the end, on purpose"),
        txn(0, 111, 112, error=UNANSWERED, decision="commit"),
        # Its error does not tell which call it was.
        txn(0, 111, 112, error="a call of the client did not return in 9 s"),
        txn(0, 111, 112, error=None),
        # The record does not tell how it ended.
        txn(0, 111, 112, end=None),
    ],
)
def test_any_other_operation_with_the_id_begins_the_time_anew(other: Row) -> None:
    before, after = refused(0, 103, 106), refused(0, 113, 118, 123)
    assert stuck(judged(*OTHERS, *before, other, *after)) == []
    longer = [*after, *refused(0, 128, 133)]
    (anomaly,) = judged(*OTHERS, *before, other, *longer).anomalies
    assert (anomaly.evidence["asked_from_ns"], anomaly.evidence["attempts"]) == (113 * S, 5)


@pytest.mark.parametrize("error", [UNANSWERED, OF_JAVA, OLD_JAVA])
def test_attempts_that_no_broker_refused_by_name_need_a_new_producer_beside_them(
    error: str,
) -> None:
    rows = refused(0, 103, 109, 115, 121, 127, error=error)
    (doubtful,) = judged(*OTHERS, *rows).anomalies
    assert doubtful.broken_premises == ("shown-cause",)
    dropped = txn(3, 105, 106, error="its producer was thrown away before the end, on purpose")
    (sure,) = judged(*OTHERS, *rows, dropped, committed(3, 107, 108)).anomalies
    assert (sure.broken_premises, sure.evidence["other_ids"]) == ((), 1)
    early = [txn(3, 101, 102, error="thrown away"), committed(3, 102, 102.5)]
    (doubtful,) = judged(*OTHERS, *rows, *early).anomalies
    assert doubtful.broken_premises == ("shown-cause",)
    # Its process goes on with the producer that it had.
    kept = [txn(3, 105, 106, decision="commit", error=UNANSWERED), committed(3, 107, 108)]
    (doubtful,) = judged(*OTHERS, *rows, *kept).anomalies
    assert doubtful.broken_premises == ("shown-cause",)
    kept[0] = txn(3, 105, 106, end="aborted", error="aborted on purpose")
    (doubtful,) = judged(*OTHERS, *rows, *kept).anomalies
    assert doubtful.broken_premises == ("shown-cause",)


def test_the_time_counts_from_the_recovery_until_clients_were_told_to_stop() -> None:
    rows = refused(0, 90, 97, 103, 108, 113, 118)
    assert stuck(judged(*OTHERS, *rows)) == []  # Of the second, nothing counts: it ends at 102 s.
    assert stuck(judged(*OTHERS, *rows, *refused(0, 123))) == ["txn-0"]
    late = about(milestones=stones(stopped=122))
    assert stuck(judged(*OTHERS, *refused(0, 103, 108, 113, 118), on=late)) == []
    assert stuck(judged(*OTHERS, *refused(0, 102, 107, 112, 117.5), on=late)) == []
    # An operation that ends after it shows that the id is usable.
    assert stuck(judged(*OTHERS, *STUCK, committed(0, 159, 165))) == []


def test_an_attempt_counts_for_the_clients_own_limit_at_most() -> None:
    """The thread or its worker hung: nobody tried meanwhile."""
    assert stuck(judged(*OTHERS, txn(0, 103, 150))) == []
    assert stuck(judged(*OTHERS, txn(0, 103, 130), txn(0, 130, 150))) == []
    assert stuck(judged(*OTHERS, txn(0, 103, 113), txn(0, 113, 123), *refused(0, 123)))


def test_each_process_of_a_thread_has_the_same_id() -> None:
    assert stuck(judged(*OTHERS, *STUCK[:3], *refused(8, 121), *refused(16, 127))) == ["txn-0"]
    assert stuck(judged(*OTHERS, *STUCK[:3], *refused(9, 121), *refused(17, 127))) == []


@pytest.mark.parametrize(
    ("rows", "gap"),
    [
        (STUCK[:4], "from 103.000 s to 126.000 s, but its attempts took only 20.000 s in sum"),
        (STUCK[:1], "from 103.000 s to 108.000 s, but its attempts took only 5.000 s in sum"),
        # Something ended before, and then the client tried too little.
        (
            [committed(0, 102, 103), *refused(0, 103, 140)],
            "from 103.000 s to 145.000 s, but its attempts took only 10.000 s in sum",
        ),
        ([committed(0, 102, 103), *refused(0, 103, 109)], ""),
        ([txn(0, 103, 108, error="1 sends were not answered within 9 s")], ""),
    ],
)
def test_an_id_of_which_the_run_does_not_tell_is_a_gap(rows: list[Row], gap: str) -> None:
    findings = judged(*OTHERS, *rows)
    assert stuck(findings) == []
    assert len(findings.gaps) == bool(gap)
    assert gap in "".join(findings.gaps)
    ended = any(row["end"] == "committed" for row in rows)
    assert findings.rows == 2 + (ended and not gap)


def test_what_is_no_transaction_tells_nothing() -> None:
    other = [{**row, "f": F.POLL.value} for row in STUCK]
    assert (judged(*OTHERS, *other).anomalies, judged(*OTHERS, *other).rows) == ((), 2)
    open_ = {**txn(0, 103, 0, end=None), "complete_ns": None}
    assert judged(*OTHERS, open_).rows == 2


def test_nobody_knows_of_a_run_that_was_never_calm_or_did_not_come_to_its_end() -> None:
    for on in (about(calm_from_ns=None), about(milestones=stones(stopped=None))):
        findings = judged(*OTHERS, *STUCK, on=on)
        assert (stuck(findings), findings.rows, findings.unshown) == ([], 0, ())


def loss(*nodes: str, topic: str = "__transaction_state") -> tuple[DiskLoss, ...]:
    took = DiskLoss(nodes=frozenset(nodes), topic=topic, partition=0, end_after=0, end_before=9,
                    until_ns=S, began_ns=0, healed_ns=5 * S, excuse="power-loss")  # fmt: skip
    return (took,)


UNCLEAN: Row = {"broker": {"unclean.leader.election.enable": "true"}}


@pytest.mark.parametrize(
    ("on", "labels"),
    [
        (about(disk_losses=loss("n1", "n2", "n3")), (("power-loss",), ())),
        (about(disk_losses=loss("n1", "n2", "n3", topic="__consumer_offsets")),
         (("power-loss",), ())),
        (about(disk_losses=loss("n1")), (("last-copies",), ())),
        (about(disk_losses=loss("n1", "n2", "n3", topic="log-0")), ((), ())),
        (about(plan=UNCLEAN, reigns=()), (("unclean-election",), ())),
        (about(plan=UNCLEAN, reigns=led(1)), ((), ())),
        (about(plan=UNCLEAN, reigns=led(1, unclean=True)), (("unclean-election",), ())),
        (about(reigns=led(1)), ((), ())),
        (about(reigns=led(-1)), ((), ("recovered",))),
        (about(reigns=(replace(led(-1)[1], until_ns=50 * S),)), ((), ())),
        (about(reigns=tuple(replace(each, topic="log-0") for each in led(-1))),
         ((), ("recovered",))),
        (about(reigns=tuple(replace(each, topic="__share_group_state") for each in led(-1))),
         ((), ())),
        (about(milestones=stones(whole=False)), ((), ("recovered",))),
        (about(milestones=stones()[1:]), ((), ("recovered",))),
        (about(cut_streams=True), ((), ("whole-record",))),
        (about(silences=((103 * S, 108 * S),)), ((), ("awake",))),
        (about(silences=((108 * S, 109 * S), (132 * S, 150 * S))), ((), ())),
        (about(silences=((103 * S, 107 * S),)), ((), ())),
        (about(silences=((103 * S, 120 * S),)), ((), ("awake",))),
    ],
)  # fmt: skip
def test_what_may_have_kept_a_coordinator_from_its_work(
    on: RunFacts, labels: tuple[tuple[str, ...], tuple[str, ...]]
) -> None:
    (anomaly,) = judged(*OTHERS, *STUCK, on=on).anomalies
    assert (anomaly.excuses, anomaly.broken_premises) == labels


def test_it_is_told_who_coordinated_and_what_was_answered() -> None:
    on = run(*OTHERS, *STUCK, on=about(reigns=led(1)))
    (anomaly,) = found(CHECKER, on).anomalies
    why = CHECKER.why(on, anomaly)
    assert why == (
        "its coordinator, n1, leader of __transaction_state-0 in epoch 1, refused 5 of 5 attempts"
        " with CONCURRENT_TRANSACTIONS"
    )
    assert isinstance(why, Proved)
    moved = (replace(led(1)[1], until_ns=110 * S), replace(led(2)[1], epoch=2, from_ns=110 * S))
    assert not isinstance(CHECKER.why(run(on=about(reigns=moved)), anomaly), Proved)
    other = replace(anomaly, evidence={**anomaly.evidence, "refusals": ["5 x NOT_COORDINATOR"]})
    assert not isinstance(CHECKER.why(on, other), Proved)


def test_an_id_that_served_before_it_was_stuck_counts_once() -> None:
    findings = judged(*OTHERS, committed(0, 102, 103), *STUCK)
    assert (stuck(findings), findings.rows) == (["txn-0"], 3)


def test_time_in_which_the_machine_slept_leaves_no_doubt_about_an_id() -> None:
    rows = [*OTHERS, committed(0, 102, 103), *refused(0, 103, 140)]
    asleep = judged(*rows, on=about(silences=((108 * S, 140 * S),)))
    assert (asleep.anomalies, asleep.rows, asleep.gaps) == ((), 3, ())


def test_without_a_transaction_nothing_could_be_detected() -> None:
    assert judged(txn(0, 50, 51)).unshown
    assert not judged(*OTHERS).unshown
    assert not judged(*STUCK[:1]).unshown, "the gap tells it"


def test_only_clients_with_transactions_have_ids() -> None:
    assert CHECKER.applies(about())
    assert CHECKER.applies(about(plan={"workload": "keyed"}))
    assert not CHECKER.applies(facts())


def _try_in_vain(record: Record, spot: Spot, *, times: int) -> Row:
    """After the recovery, have the spot's id be refused, for 4.5 s each time; return the last op.

    The run is longer for that: clients are stopped 30 s later.
    """
    for stone in record.milestones:
        late = stone["name"] in {"final-reads", "noted", "stopped", "collected", "audited"}
        stone["at_ns"] += 30 * NS_PER_S * late
    (like,) = record.rows("transactions", op_id=spot.send["op_id"])
    step, process = int(record.plan["concurrency"]), spot.send["process"]
    mine = [row for row in record.rows("ops") if row["process"] < 1_000_000]
    last = max((row for row in mine if row["process"] % step == process % step),
               key=lambda row: int(row["invoke_ns"]))  # fmt: skip
    first_ns, op_id = last["complete_ns"], max(row["op_id"] for row in mine)
    for at in range(1, times + 1):
        ended_ns = first_ns + at * 9 * NS_PER_S // 2
        last = record.add(
            "ops", last, op_id=op_id + at, f=F.TXN.value, outcome=Outcome.FAIL.value, messages=0,
            invoke_ns=ended_ns - 9 * NS_PER_S // 2 + 1, complete_ns=ended_ns, error=CONCURRENT,
        )  # fmt: skip
        record.add("transactions", like, op_id=op_id + at, txn_id=op_id + at, decision="abort",
                   outcome="unknown")  # fmt: skip
    return last


@broken(NAME, row="S7", base="txn", moments=(CALM,))
def a_coordinator_keeps_an_id_after_all_markers(record: Record, spot: Spot) -> None:
    """It forgets that it has ended the transaction, so each later attempt finds it under way."""
    _try_in_vain(record, spot, times=6)


@innocent(base="txn", moments=(CALM,))
def an_id_is_free_again_in_time(record: Record, spot: Spot) -> None:
    """A coordinator may need some attempts' time until all markers are written."""
    last = _try_in_vain(record, spot, times=3)
    ended_ns = last["complete_ns"] + NS_PER_S
    op_id = last["op_id"] + 1
    record.add("ops", last, op_id=op_id, outcome=Outcome.OK.value, error=None,
               invoke_ns=last["complete_ns"] + 1, complete_ns=ended_ns)  # fmt: skip
    like = record.rows("transactions", op_id=last["op_id"])[0]
    record.add("transactions", like, op_id=op_id, txn_id=op_id, decision="commit",
               outcome="committed")  # fmt: skip


FENCED = (
    "_FENCED: Producer fenced by newer instance: Failed to acquire transactional PID from broker"
    " TxnCoordinator/1: Broker: There is a newer producer with the same transactionalId"
)


def test_a_new_producer_that_is_fenced_at_once_did_not_get_its_producer_id() -> None:
    """Such an answer takes no time, so it proves nothing. But nobody could use the id."""
    findings = judged(*OTHERS, *(txn(0, at, at + 0.1, error=FENCED) for at in range(103, 150)))
    assert (stuck(findings), findings.rows, len(findings.gaps)) == ([], 2, 1)


@pytest.mark.parametrize(
    ("topic", "led_from", "broken"),
    [
        ("__transaction_state", 104, ()),
        ("__transaction_state", 112, ("recovered",)),
        ("__consumer_offsets", 104, ()),
        ("__consumer_offsets", 112, ("recovered",)),
        ("log-0", 104, ()),
        ("log-0", 112, ("recovered",)),
    ],
)
def test_no_marker_is_written_while_a_partition_has_no_leader(
    topic: str, led_from: int, broken: tuple[str, ...]
) -> None:
    """A partition that had recovered may have lost its leader again."""
    (anomaly,) = judged(
        *OTHERS, *STUCK, on=about(reigns=without_leader(topic, 0, led_from))
    ).anomalies
    assert anomaly.broken_premises == broken


def without_leader(topic: str, from_: int, until: int) -> tuple[Reign, ...]:
    """Return epochs of a partition that has no leader for a time."""
    none, one = (replace(each[1], topic=topic) for each in (led(-1), led(1)))
    return (
        replace(one, until_ns=from_ * S),
        replace(none, epoch=2, from_ns=from_ * S, until_ns=until * S),
        replace(one, epoch=3, from_ns=until * S),
    )


@pytest.mark.parametrize(
    ("topic", "broken"),
    [("__consumer_offsets", ("recovered",)), ("log-0", ("recovered",)), ("", ())],
)
def test_after_a_time_without_a_coordinator_the_markers_may_have_to_wait_as_well(
    topic: str, broken: tuple[str, ...]
) -> None:
    """Of seven attempts, two had no coordinator, and two others had no leader for the markers."""
    rows = refused(0, 103, 109, 115, 121, 127, 133, 139)
    none = without_leader("__transaction_state", 102, 114)
    if topic:
        none += without_leader(topic, 114, 126)
    (anomaly,) = judged(*OTHERS, *rows, on=about(reigns=none)).anomalies
    assert anomaly.broken_premises == broken


SHORT: Row = {"transaction_timeout_s": 1}
"""A transaction may be open for 1 s, 1 s more until anybody looks, and 10 s for the markers."""
QUICK = [txn(0, 103 + at * 1.5, 104 + at * 1.5, error=UNANSWERED) for at in range(14)]


def test_one_refusal_by_name_does_not_show_why_later_attempts_got_no_answer_in_their_time() -> None:
    """A coordinator refuses the first producer after a crash. A slow client then has too little."""
    rows = [{**QUICK[0], "error": CONCURRENT}, *QUICK[1:]]
    (doubtful,) = judged(*OTHERS, *rows, on=about(plan=SHORT)).anomalies
    assert doubtful.broken_premises == ("shown-cause",)
    named = [{**row, "error": CONCURRENT} for row in QUICK]
    (sure,) = judged(*OTHERS, *named, on=about(plan=SHORT)).anomalies
    assert sure.broken_premises == ()


def test_other_ids_do_not_show_the_cause_if_most_of_their_new_producers_could_not_begin() -> None:
    """The machine is so slow that a new producer seldom begins in its time."""
    slow = [txn(3, 103 + at * 1.5, 104 + at * 1.5, error=UNANSWERED) for at in range(4)]
    rows = [*OTHERS, *QUICK, *slow, committed(3, 110, 111)]
    (doubtful,) = judged(*rows, on=about(plan=SHORT)).anomalies
    assert doubtful.broken_premises == ("shown-cause",)
    dropped = [txn(5, at, at + 1, error="thrown away") for at in range(103, 113, 2)]
    begun = [committed(5, at, at + 1) for at in range(104, 114, 2)]
    (sure,) = judged(*rows, *dropped, *begun, on=about(plan=SHORT)).anomalies
    assert sure.broken_premises == ()
    # An id that is stuck itself says nothing about the machine.
    both = [{**row, "process": 4} for row in QUICK]
    two = judged(*OTHERS, *QUICK, *both, *dropped, *begun, on=about(plan=SHORT)).anomalies
    assert [each.broken_premises for each in two] == [(), ()]


@pytest.mark.parametrize(
    ("error", "until", "broken"),
    [
        (CONCURRENT, 117, ()),
        ("NOT_COORDINATOR: Failed to initialize Producer ID", 117, ()),
        ("COORDINATOR_NOT_AVAILABLE: Failed to initialize Producer ID", 117, ("recovered",)),
        ("COORDINATOR_NOT_AVAILABLE: Failed to initialize Producer ID", 150, ()),
    ],
)
def test_with_zookeeper_an_id_may_be_without_a_coordinator_within_the_budget(
    error: str, until: int, broken: tuple[str, ...]
) -> None:
    """No log shows the leaders of the coordinator's partition. The budget is 30 s."""
    rows = [txn(0, at, at + 1, error=error) for at in range(103, until)]
    for reigns in ((), led(1)):
        (anomaly,) = judged(*OTHERS, *rows, on=about(plan=SHORT, reigns=reigns)).anomalies
        assert anomaly.broken_premises == (broken if not reigns else ())
