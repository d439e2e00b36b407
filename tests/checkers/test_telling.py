"""Why each anomaly came about, by its evidence; what comes first; and what follows from what."""

from dataclasses import replace

import pytest

from checkers.facts import Disturbance, RunFacts
from checkers.group import group_of
from checkers.protocol import Excuse
from checkers.registry import CHECKERS, WORDS
from checkers.telling import UNEXPLAINED, in_force, ranked, with_causes, words_of
from checkers.torn_transaction import SHARES
from results.record.plan import plan_from
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, AnomalySummary, Evidence, Example

WHY = {each.name: each.why for each in reversed(CHECKERS)}
SAME = "producer 4 epoch 0 sequence 36"
NOTHING = replace(
    group_of(
        RunFacts(run_id="r/1", recorded_id="r/1", plan=plan_from({})), {}, topic="log-0",
        partition=0,
    ),
    derived={"shares": SHARES.empty_table()},
)  # fmt: skip
"""A partition of which no row is there: what is told then follows from the evidence alone."""

WHYS: list[tuple[str, Evidence, str]] = [
    ("lost-write", {"found_on": ["n1", "n2"]}, "n1, n2 hold it, so a broker left it out"),
    ("lost-write", {"found_on": []}, "no log could be read to its end"),
    ("inconsistent-offsets", {"truncations": ["n2 cut at 7"]}, "written again: n2 cut at 7"),
    ("inconsistent-offsets", {"truncations": []}, "no log was seen to be cut there"),
    ("unseen", {"found_on": ["n1", "n2"]}, "n1, n2 hold it, and final reads went past"),
    ("unseen", {"found_on": []}, "no log that was read shows whether it is there"),
    ("final-read-incomplete", {"isolation": "read_committed"}, "before the end that it had to"),
    ("final-read-incomplete", {"target_end": 9}, "an open transaction holds readers up"),
    ("final-read-incomplete", {"target_end": -1}, "no final read was made"),
    ("duplicate", {"writers": [SAME, SAME], "copies_left": 2}, "stored again what it had to"),
    ("duplicate", {"writers": [SAME, SAME], "copies_left": 1}, "was cut off after it was read"),
    ("duplicate", {"writers": [SAME, "producer 4 epoch 1 sequence 0"]}, "different producer ep"),
    ("duplicate", {"writers": [SAME, "producer 5 epoch 0 sequence 36"]}, "different producer ids"),
    ("duplicate", {"writers": [SAME, "producer 4 epoch 0 sequence 40"]}, "two sequence numbers"),
    ("duplicate", {"writers": ["producer -1 epoch -1 sequence -1"] * 2}, "is not idempotent"),
    ("duplicate", {"writers": [SAME, "a producer that no replica's log tells"]}, "is unknown"),
    ("phantom", {"belongs_to": "log-0-1"}, "its sender sent it to log-0-1 only"),
    ("phantom", {"belongs_to": None}, "no client of this run"),
    ("corrupt-record", {"logs_of": []}, "changed on its way to the reader"),
    ("corrupt-record", {"logs_of": ["n2"]}, "only n2 holds it so"),
    ("corrupt-record", {"logs_of": ["n1", "n2"]}, "n1, n2 hold it so"),
    ("ack-mismatch", {}, "either the leader answered with an offset"),
    ("G1a", {"transactional": True}, "never asked for a commit"),
    ("G1a", {"transactional": False, "on": ["n1"]}, "n1 hold it at the end, though its client"),
    ("G1a", {"transactional": False, "on": []}, "no log that was read holds it"),
    ("precommitted-read", {}, "while its transaction was open"),
    ("torn-transaction", {"op_id": 4}, "readers were not given all of it"),
    ("poll-skip", {"across_rebalance": True}, "was rebalanced in between"),
    ("nonmonotonic-poll", {"across_rebalance": False}, "neither sought nor was assigned anew"),
    ("commit-lost", {"committed_by": 5, "last_op_id": 9, "offset": 3}, "older position of op 5"),
    ("commit-lost", {"last_op_id": 9, "offset": 3}, "op 9, and answered with another position"),
    ("commit-lost", {"last_op_id": 9, "offset": None}, "with no position at all"),
    ("commit-ahead", {}, "carries no member's mark"),
    ("nonmonotonic-send", {}, "a log grows at its end only"),
    ("int-send-skip", {}, "other writers' messages came between"),
    ("offset-order", {}, "a log grows at its end only"),
    (
        "log-divergence",
        {"nodes": ["n1", "n3"], "records": ["epoch 3, hash 1", "epoch 0, hash 2"]},
        "n3 holds a record of epoch 0 where n1 holds one of the later epoch 3",
    ),
    (
        "log-divergence",
        {"nodes": ["n1", "n3"], "records": ["epoch 3, hash 1", "epoch 3, hash 2"]},
        "both records are of epoch 3",
    ),
    (
        "log-divergence",
        {"nodes": ["n1", "n3"], "records": ["epoch 3, hash 1", "nothing"]},
        "n3 has no record there",
    ),
    (
        "log-divergence",
        {"nodes": ["n1", "n3"], "records": ["no epoch, hash 1", "no epoch, hash 2"]},
        "keeps what differs below it (KIP-101)",
    ),
    (
        "log-divergence",
        {"nodes": ["n1", "n3"], "records": ["no epoch, hash 1", "epoch 2, hash 2"]},
        "one record has no leader epoch",
    ),
    ("log-start-moved", {"node": "n2"}, "the log of n2's broker says"),
    ("under-replicated", {"not_on": ["n1"]}, "its leader counted a replica as in sync"),
    ("under-replicated", {"node": "n3"}, "n3 was counted as in sync"),
    ("two-leaders-in-epoch", {"source": "replica-records", "leaders": ["n1", "n2"]}, "n1 and n2"),
    ("two-leaders-in-epoch", {"source": "list-offsets"}, "each answered as leader"),
    ("two-leaders-in-epoch", {"source": "quorum"}, "both counted a majority of votes"),
    ("two-leaders-in-epoch", {"source": "metadata"}, "the controllers named two leaders"),
    ("epoch-regression", {"source": "checkpoint", "node": "n1"}, "n1's checkpoint of epochs"),
    ("epoch-regression", {"source": "log", "node": "n1"}, "n1 appended a record of an earlier"),
    ("epoch-regression", {"source": "metadata-log"}, "the controller wrote a smaller epoch"),
    ("epoch-regression", {"source": "metadata", "node": "n1"}, "n1 went back to an older view"),
    ("forbidden-election", {"isr_before": [2, 1], "leader": 1}, "of which there were n2"),
    ("forbidden-election", {"isr_before": [1], "leader": 1}, "outside of the in-sync replicas"),
    ("forbidden-election", {"isr_before": None}, "a leader outside of the in-sync replicas"),
    ("acknowledged-below-min-isr", {"isr": [3]}, "its leader, n3, did not refuse them"),
    ("acknowledged-below-min-isr", {"isr": []}, "its leader did not refuse them"),
    ("incomplete-leader", {"leader": -1}, "which broker began that epoch is not recorded"),
    ("incomplete-leader", {"leader": 2, "announced_by": 2}, "n2 had led with them"),
    ("incomplete-leader", {"leader": 1, "announced_by": 2}, "n1 was elected though"),
    (
        "incomplete-leader",
        {"node": "n102", "epoch": 7, "told_epoch": 6},
        "a majority voted for n102 in epoch 7",
    ),
    ("high-watermark-regression", {"earlier_by": 3}, "than was announced afterwards"),
    (
        "high-watermark-regression",
        {"earlier_by": 3, "earlier_epoch": 1, "later_by": 3, "later_epoch": 1},
        "n3 took back what it had announced",
    ),
    (
        "high-watermark-regression",
        {"earlier_by": 3, "earlier_epoch": 1, "later_by": 1, "later_epoch": 2},
        "n1 led after n3",
    ),
    ("high-watermark-ahead", {"later_by": 1, "later_epoch": 4}, "n1 announced later as leader of"),
    ("committed-truncation", {"how": ["n2 lost power"]}, "n2 lost power"),
    ("committed-truncation", {"how": [], "node": "n2"}, "no truncation of n2 was recorded there"),
    ("log-end-regression", {"node": "n1"}, "n1 cut its log below"),
    ("epoch-mismatch", {"read_epoch": 1, "log_epoch": 2}, "a leader of epoch 2 wrote"),
    ("epoch-mismatch", {"read_epoch": 2, "log_epoch": 1, "log_of": "n3"}, "n3 holds an older"),
    ("uncommitted-read", {"announced_by": 2}, "above the high watermark, or the leader, n2,"),
    ("G1c", {"edges": ["write-read", "write-read"]}, "before its transaction was committed"),
    ("G1c-realtime", {"edges": ["write-read", "realtime"]}, "puts behind its reader"),
    ("G0", {"edges": ["write-write", "write-write"]}, "into each log as they come"),
    ("metadata-divergence", {"nodes": ["n1", "n3"]}, "n1 or n3 holds what the quorum's leader"),
    ("double-vote", {"node": "n3"}, "n3 did not keep"),
    ("unavailable", {"errors": ["9 x NOT_ENOUGH_REPLICAS"]}, "refused them with NOT_ENOUGH_REP"),
    ("unavailable", {"errors": ["9 x _MSG_TIMED_OUT"]}, "gave up (_MSG_TIMED_OUT)"),
    ("unavailable", {"errors": []}, "no broker answered as its leader"),
    ("slow-election", {"believed": ["n1 named broker 3"]}, "named n3, which did not answer"),
    ("slow-election", {"believed": ["n1 named nobody"]}, "no broker named a leader"),
    ("isr-not-restored", {"isr": [1, 3]}, "did not count more than n1, n3"),
    ("hanging-transaction", {"producers": "producer 7"}, "producer 7: no log that was read"),
    ("hanging-transaction", {"producers": None}, "no log that was read has the record"),
    ("group-stuck", {"assigned_to": 3, "assigned_ns": 2_000_000_000}, "process 3 has been assign"),
    ("group-stuck", {"assigned_to": None}, "assigned the partition to a member"),
    ("broker-ended", {"said": ["a", "Halting"]}, "it halted itself"),
    ("broker-ended", {"said": []}, "no last words"),
    ("broker-hit-from-outside", {"how": "was ended by SIGKILL"}, "OOM killer did"),
    ("broker-hit-from-outside", {"how": "was stopped (SIGSTOP)"}, "neither the kernel nor a"),
    ("malformed-history", {}, "Logquake recorded it wrongly"),
    ("not-enough-traffic", {"what": "ok sends in the main phase"}, "clients began no such op"),
    ("fault-without-effect", {"started": 2}, "the plan asks for more than were begun"),
    ("fault-without-effect", {"started": 0}, "it was never begun"),
    ("host-not-restored", {}, "a bug of Logquake"),
]  # fmt: skip


def found(name: str, evidence: Evidence, *, excuses: tuple[str, ...] = ()) -> Anomaly:
    return Anomaly(name=name, sentence="s", evidence=evidence, excuses=excuses)


@pytest.mark.parametrize(("name", "evidence", "why"), WHYS)
def test_an_anomaly_says_why_by_its_evidence(name: str, evidence: Evidence, why: str) -> None:
    told = WHY[name](NOTHING, found(name, evidence))
    assert why in told
    assert not told.endswith(".")


def test_no_anomaly_is_left_out_above() -> None:
    told = {name for name, _, _ in WHYS}
    assert {name for name in WORDS if name.partition("-")[0] not in {"G0", "G1c", "int"}} <= told
    assert [
        each.name for each in CHECKERS if not each.why(NOTHING, found(each.name, {"node": "n1"}))
    ] == []


@pytest.mark.parametrize(
    ("name", "evidence", "excuse", "why"),
    [
        ("duplicate", {"writers": [SAME, SAME]}, Excuse.RETRIES, "is not idempotent"),
        ("int-nonmonotonic-send", {}, Excuse.RETRIES, "is not idempotent"),
        ("nonmonotonic-send", {}, Excuse.NEW_EPOCH, "took another epoch"),
        ("two-leaders-in-epoch", {}, Excuse.REUSED, "KIP-380"),
        ("log-divergence", {"nodes": ["n1", "n2"], "records": ["epoch 1, a", "epoch 1, b"]},
         Excuse.REUSED, "KIP-380"),
    ],
)  # fmt: skip
def test_what_the_run_asked_for_is_the_cause(
    name: str, evidence: Evidence, excuse: Excuse, why: str
) -> None:
    assert why in WHY[name](NOTHING, found(name, evidence, excuses=(excuse.value,)))


def test_two_brokers_that_announce_in_one_epoch_did_not_lead_in_turn() -> None:
    evidence: Evidence = {"earlier_by": 3, "earlier_epoch": 1, "later_by": 1, "later_epoch": 1}
    told = WHY["high-watermark-regression"](NOTHING, found("high-watermark-regression", evidence))
    assert told == "n3 and n1 both announced one in the same epoch"


def faults(*told: Disturbance) -> RunFacts:
    return RunFacts(run_id="r/1", recorded_id="r/1", plan=plan_from({}), disturbances=told)


def test_the_faults_that_were_seen_to_work_at_that_time_are_named() -> None:
    kill = Disturbance(
        kind="kill", begun_ns=1, confirmed_ns=2_000, ended_ns=9_000, nodes=frozenset({"n2"})
    )
    never = replace(kill, kind="pause", confirmed_ns=-1)
    facts = faults(kill, never)
    late: Evidence = {"read_ns": 5_000_000}
    assert in_force(facts, found("phantom", {"read_ns": 5_000})).endswith(" in force: kill of n2)")
    assert "no fault was known" in in_force(facts, found("phantom", late))
    assert "no fault was known" in in_force(facts, found("phantom", {"read_ns": 1_999}))
    assert in_force(facts, found("phantom", {"seen_ns": 5_000})) == ""


def test_it_is_said_what_the_time_is_where_it_is_an_acknowledgements() -> None:
    told = in_force(faults(), found("lost-write", {"acknowledged_ns": 5}))
    assert told.startswith(" (when it was acknowledged, at 0.000 s no fault was known")
    both: Evidence = {"acknowledged_ns": 5, "told_ns": 9}
    assert in_force(faults(), found("commit-lost", both)).startswith(" (at 0.000 s no fault")


def summary(*offsets: int, cause: str = "", partition: int = 0) -> AnomalySummary:
    examples = tuple(
        Example(
            sentence="s", evidence={}, topic="log-0", topic_id="", partition=partition,
            offset=offset, allowed=False, trusted=True, why="", cause=cause,
        )
        for offset in offsets
    )  # fmt: skip
    count = len(offsets)
    return AnomalySummary(
        anomaly_class=AnomalyClass.SAFETY, count=count, allowed=0, trusted=count, examples=examples
    )


def causes(**summaries: AnomalySummary) -> dict[str, list[str]]:
    named = {name.replace("_", "-"): each for name, each in summaries.items()}
    words = words_of([], named, {})
    order = ranked(named, words, weighty=named, light=())
    own = {name: ["own"] * len(each.examples) for name, each in named.items()}
    described = {name: each.examples for name, each in named.items()}
    told = with_causes(named, words, order=order, otherwise=own, described=described)
    return {name: [each.cause for each in every.examples] for name, every in told.items()}


def test_a_symptom_at_or_above_its_roots_offset_may_follow() -> None:
    told = causes(
        lost_write=summary(7, cause="only n2 had it"), inconsistent_offsets=summary(6, 7, 9)
    )
    below, at, above = told["inconsistent-offsets"]
    assert below == "own"
    assert at.startswith(
        "own; it may follow from lost-write at offset 7: an offset that was cut off"
    )
    assert above.startswith("own; it may follow from lost-write at offset 7")
    assert at.endswith("; as to that, only n2 had it")


def test_another_partitions_loss_explains_nothing() -> None:
    told = causes(lost_write=summary(7, partition=1), offset_order=summary(7))
    assert told["offset-order"] == ["own"]


def test_what_a_check_says_itself_stands_before_what_may_explain_it() -> None:
    told = causes(lost_write=summary(7), inconsistent_offsets=summary(7, cause="n1 was cut"))
    assert told["inconsistent-offsets"] == ["n1 was cut"]


def test_without_a_reason_it_is_said_that_there_is_none() -> None:
    named = {"phantom": summary(3)}
    words = words_of([], named, {})
    told = with_causes(
        named, words, order=["phantom"], otherwise={"phantom": [""]}, described={"phantom": ()}
    )
    assert told["phantom"].examples[0].cause == UNEXPLAINED


def test_what_explains_another_comes_first_and_what_is_weak_comes_last() -> None:
    named = {"log-divergence": summary(3), "two-leaders-in-epoch": summary(3), "G1a": summary(1)}
    words = words_of([], named, {})
    order = ranked(named, words, weighty=named, light=())
    assert order == ("two-leaders-in-epoch", "G1a", "log-divergence")
    weak = ranked(named, words, weighty=named, light=["two-leaders-in-epoch"])
    assert weak == ("log-divergence", "G1a", "two-leaders-in-epoch")
    assert set(words["two-leaders-in-epoch"].explains) == {"log-divergence"}


def at_times(root: Evidence, symptom: Evidence, *, offsets: tuple[int, int] = (7, 7)) -> str:
    """What a partition that took nothing says of a time without a leader in it."""
    named = {
        name: replace(each, examples=(replace(each.examples[0], evidence=evidence),))
        for name, each, evidence in (
            ("slow-election", summary(offsets[0], cause="n3 was down"), root),
            ("unavailable", summary(offsets[1]), symptom),
        )
    }
    return causes(**{name.replace("-", "_"): each for name, each in named.items()})["unavailable"][
        0
    ]


SECOND = 1_000_000_000


def test_what_began_later_explains_nothing() -> None:
    pairs: list[tuple[Evidence, Evidence]] = [
        ({"time_ns": SECOND}, {"time_ns": 2 * SECOND}),
        ({"time_ns": 7 * SECOND}, {"time_ns": 2 * SECOND}),
        ({"acknowledged_ns": SECOND, "time_ns": 90 * SECOND}, {"time_ns": 2 * SECOND}),
        ({}, {"time_ns": 2 * SECOND}),
        ({"time_ns": 8 * SECOND}, {}),
        ({"time_ns": 8 * SECOND}, {"time_ns": -1}),
    ]
    for root, symptom in pairs:
        assert "it may follow from slow-election at offset 7" in at_times(root, symptom)
    assert at_times({"time_ns": 7 * SECOND + 1}, {"time_ns": 2 * SECOND}) == "own"


def test_of_two_without_offsets_the_times_must_overlap() -> None:
    symptom: Evidence = {"from_ns": 20, "to_ns": 30, "calm_from_ns": 1}
    for begun, ended in ((10, 20), (25, 26), (30, 40)):
        told = at_times({"from_ns": begun, "to_ns": ended}, symptom, offsets=(-1, -1))
        assert told == (
            "own; it may follow from slow-election: without a leader nothing is taken; as to that,"
            " n3 was down"
        )
    for begun, ended in ((10, 19), (31, 40)):
        told = at_times({"from_ns": begun, "to_ns": ended}, symptom, offsets=(-1, -1))
        assert told == "own"
    assert at_times({}, symptom, offsets=(-1, -1)) == "own"
    at_offset = at_times({"from_ns": 20, "to_ns": 30}, symptom, offsets=(-1, 7))
    assert at_offset == "own", "one has an offset and the other has none"


def test_safety_comes_before_liveness_where_neither_makes_headlines() -> None:
    lively = replace(summary(3), anomaly_class=AnomalyClass.LIVENESS)
    named = {"commit-lost": lively, "commit-ahead": lively, "offset-order": summary(3)}
    order = ranked(named, words_of([], named, {}), weighty=named, light=())
    assert order == ("offset-order", "commit-ahead", "commit-lost")
