"""Why each anomaly came about, by its evidence; what comes first; and what follows from what."""

from dataclasses import replace

import pytest

from checkers.facts import Disturbance, RunFacts
from checkers.group import group_of
from checkers.handled import EFFECTS, INPUTS
from checkers.protocol import Excuse
from checkers.registry import CHECKERS, WORDS
from checkers.telling import UNEXPLAINED, in_force, ranked, with_causes, words_of
from checkers.torn_transaction import SHARES
from results.record.plan import plan_from
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, AnomalySummary, Evidence, Example
from tests.held import collected

WHY = {each.name: each.why for each in reversed(CHECKERS)}
NOTHING = replace(
    group_of(
        RunFacts(run_id="r/1", recorded_id="r/1", plan=plan_from({})), {}, topic="log-0",
        partition=0,
    ),
    derived={
        "shares": SHARES.empty_table(),
        "inputs": INPUTS.empty_table(),
        "effects": EFFECTS.empty_table(),
    },
)  # fmt: skip
"""A partition of which no row is there: what is told then follows from the evidence alone."""

WHYS: list[tuple[str, Evidence, str]] = [
    ("lost-write", {"found_on": []}, "no log could be read to its end, so"),
    ("inconsistent-offsets", {"truncations": ["n2 cut at 7"]}, "written again: n2 cut at 7"),
    ("inconsistent-offsets", {"truncations": []}, "no truncation was observed"),
    ("unseen", {"found_on": []}, "no log that was read shows whether it is stored"),
    ("final-read-incomplete", {"isolation": "read_committed"}, "record does not show why"),
    ("final-read-incomplete", {"target_end": 9}, "its leader did not let readers continue"),
    ("final-read-incomplete", {"target_end": -1}, "no final read was made"),
    ("duplicate", {}, "no replica's log shows which broker wrote the value twice"),
    ("phantom", {"belongs_to": "log-0-1"}, "its value belongs to log-0-1 only"),
    ("phantom", {"belongs_to": None}, "no recorded client sent it"),
    ("corrupt-record", {"logs_of": []}, "changed on its way to the reader"),
    ("ack-mismatch", {"offsets": [3]}, "or value -1 was truncated there"),
    ("G1a", {"transactional": True}, "never asked for a commit"),
    ("G1a", {"transactional": False}, "no log that was read holds the record"),
    ("precommitted-read", {}, "while its transaction was open"),
    ("torn-transaction", {"op_id": 4}, "readers did not get all of its records"),
    ("poll-skip", {"across_rebalance": True}, "was rebalanced in between"),
    ("nonmonotonic-poll", {"previous_op_id": 3}, "no seek or assignment happened in between"),
    ("commit-lost", {"committed_by": 5, "last_op_id": 9, "offset": 3}, "older position of op 5"),
    ("commit-lost", {"last_op_id": 9, "offset": 3}, "op 9, and answered with another position"),
    ("commit-lost", {"last_op_id": 9, "offset": None}, "with no position at all"),
    ("nonmonotonic-send", {}, "without the last leader's log"),
    ("commit-ahead", {}, "has no member's commit metadata"),
    ("int-send-skip", {}, "messages of other writers are in between"),
    ("offset-order", {}, "without the last leader's log"),
    (
        "log-divergence",
        {"nodes": ["n1", "n3"], "records": ["epoch 3, hash 1", "epoch 0, hash 2"]},
        "n3 still had the older record of epoch 0",
    ),
    (
        "log-divergence",
        {"nodes": ["n1", "n3"], "records": ["epoch 3, hash 1", "epoch 3, hash 2"]},
        "does not show which of the copies is wrong",
    ),
    (
        "log-divergence",
        {"nodes": ["n1", "n3"], "records": ["epoch 3, hash 1", "nothing"]},
        "n3 has no record at this offset",
    ),
    (
        "log-divergence",
        {"nodes": ["n1", "n3"], "records": ["no epoch, hash 1", "no epoch, hash 2"]},
        "keeps different records below it (KIP-101)",
    ),
    (
        "log-divergence",
        {"nodes": ["n1", "n3"], "records": ["no epoch, hash 1", "epoch 2, hash 2"]},
        "one record has no leader epoch",
    ),
    ("log-start-moved", {"node": "n2"}, "does not show which replica was first"),
    ("under-replicated", {"not_on": ["n1"]}, "does not show whether n1 ever had the record"),
    ("under-replicated", {"node": "n3"}, "does not show whether n3 ever had the end"),
    ("two-leaders-in-epoch", {"source": "replica-records", "leaders": ["n1", "n2"]}, "which copy"),
    ("two-leaders-in-epoch", {"source": "list-offsets", "leaders": ["n1", "n2"]}, "n1 and n2 were"),
    ("two-leaders-in-epoch", {"source": "quorum"}, "does not show the votes"),
    ("epoch-regression", {"source": "log", "node": "n1"}, "n1 has a record of an earlier leader"),
    ("epoch-regression", {"source": "metadata-log"}, "the controllers wrote a smaller epoch"),
    ("epoch-regression", {"source": "metadata", "node": "n1"}, "n1 went back to an older view"),
    ("forbidden-election", {"isr_before": [2], "leader": 1}, "n2 was in sync, but the controllers"),
    ("forbidden-election", {"isr_before": []}, "no replica was in sync"),
    ("forbidden-election", {"isr_before": None}, "a leader that is not in the ISR"),
    ("acknowledged-below-min-isr", {"isr": [3]}, "does not show which leader acknowledged them"),
    ("incomplete-leader", {"leader": -1}, "does not show which broker began that epoch"),
    ("incomplete-leader", {"leader": 2, "announced_by": 2}, "announced these records itself"),
    ("incomplete-leader", {"leader": 1, "announced_by": 2}, "neither how that leader was elected"),
    ("high-watermark-regression", {"earlier_by": 3}, "no final log shows whether"),
    ("high-watermark-ahead", {"node": "n1"}, "does not show how far n1's own log reached"),
    ("committed-truncation", {"how": ["n2 lost power"]}, "n2 lost power"),
    ("committed-truncation", {"how": [], "node": "n2"}, "no truncation of n2's log was recorded"),
    ("log-end-regression", {"node": "n1"}, "n1 recorded no truncation"),
    ("epoch-mismatch", {"read_epoch": 1, "log_epoch": 2}, "the leader of epoch 2 wrote at this"),
    ("epoch-mismatch", {"read_epoch": 2, "log_epoch": 1, "log_of": "n3"}, "n3 holds a record of"),
    ("uncommitted-read", {"announced_by": 2}, "above the high watermark, or n2,"),
    ("G1c", {"edges": ["write-read", "write-read"]}, "before its transaction was committed"),
    ("G1c-realtime", {"edges": ["write-read", "realtime"]}, "comes after its reader"),
    ("G0", {"edges": ["write-write", "write-write"]}, "in the order in which they arrive"),
    ("metadata-divergence", {"nodes": ["n1", "n3"]}, "which of n1 and n3 holds the record"),
    ("double-vote", {"node": "n3"}, "no fault hit n3"),
    ("unavailable", {"errors": ["9 x NOT_ENOUGH_REPLICAS"]}, "refused the sends with NOT_ENOUGH"),
    ("unavailable", {"errors": ["9 x _MSG_TIMED_OUT"]}, "gave up (_MSG_TIMED_OUT)"),
    ("unavailable", {"errors": []}, "to have answered as the partition's leader"),
    ("slow-election", {"believed": ["n1 named broker 3"]}, "but n3 did not answer"),
    ("slow-election", {"believed": ["n1 named no leader"]}, "no broker reported a leader"),
    ("isr-not-restored", {"isr": [1, 3]}, "counted only n1 and n3 as in sync"),
    ("hanging-transaction", {"producers": "producer 7"}, "producer 7: no log that was read"),
    ("hanging-transaction", {"producers": None}, "no log that was read has the record"),
    ("group-stuck", {"assigned_to": 3, "assigned_ns": 2_000_000_000}, "process 3 has been assign"),
    ("group-stuck", {"assigned_to": None}, "assigned the partition to a member"),
    ("broker-ended", {"said": ["a", "Halting"]}, "it halted itself"),
    ("broker-ended", {"said": []}, "without any output"),
    ("broker-hit-from-outside", {"how": "was ended by SIGKILL"}, "OOM killer did"),
    ("broker-hit-from-outside", {"how": "was stopped (SIGSTOP)"}, "neither the kernel nor a"),
    ("malformed-history", {}, "Logquake recorded it wrongly"),
    ("not-enough-traffic", {"what": "ok sends in the main phase"}, "no operations that could"),
    ("fault-without-effect", {"started": 2}, "the plan asks for more faults than began"),
    ("fault-without-effect", {"started": 0}, "it never began"),
    ("host-not-restored", {}, "a bug of Logquake"),
]  # fmt: skip


def found(name: str, evidence: Evidence, *, excuses: tuple[str, ...] = ()) -> Anomaly:
    return Anomaly(name=name, sentence="s", evidence=evidence, excuses=excuses)


ALL_WHYS = [*WHYS, *collected("WHYS_OF", folder="tests/checkers")]


@pytest.mark.parametrize(("name", "evidence", "why"), ALL_WHYS)
def test_an_anomaly_says_why_by_its_evidence(name: str, evidence: Evidence, why: str) -> None:
    told = WHY[name](NOTHING, found(name, evidence))
    assert why in told
    assert not told.endswith(".")


def test_no_anomaly_is_left_out_above() -> None:
    told = {name for name, _, _ in ALL_WHYS}
    assert {name for name in WORDS if name.partition("-")[0] not in {"G0", "G1c", "int"}} <= told
    assert [
        each.name
        for each in CHECKERS
        if not each.why(NOTHING, found(each.name, {"node": "n1", "leaders": ["n1", "n2"]}))
    ] == []


@pytest.mark.parametrize(
    ("name", "evidence", "excuse", "why"),
    [
        ("int-nonmonotonic-send", {}, Excuse.RETRIES, "is not idempotent"),
        ("nonmonotonic-send", {}, Excuse.NEW_EPOCH, "changed to another epoch"),
        ("two-leaders-in-epoch", {}, Excuse.REUSED, "KIP-380"),
        ("log-divergence", {"nodes": ["n1", "n2"], "records": ["epoch 1, a", "epoch 1, b"]},
         Excuse.REUSED, "KIP-380"),
    ],
)  # fmt: skip
def test_what_the_run_asked_for_is_the_cause(
    name: str, evidence: Evidence, excuse: Excuse, why: str
) -> None:
    assert why in WHY[name](NOTHING, found(name, evidence, excuses=(excuse.value,)))


def faults(*told: Disturbance) -> RunFacts:
    return RunFacts(run_id="r/1", recorded_id="r/1", plan=plan_from({}), disturbances=told)


def test_the_faults_that_were_seen_to_work_at_that_time_are_named() -> None:
    kill = Disturbance(
        kind="kill", begun_ns=1, confirmed_ns=2_000, ended_ns=9_000, nodes=frozenset({"n2"})
    )
    never = replace(kill, kind="pause", confirmed_ns=-1)
    facts = faults(kill, never)
    late: Evidence = {"read_ns": 5_000_000}
    told = in_force(facts, found("phantom", {"read_ns": 5_000}))
    assert told.endswith(" in force: kill of n2; begun and not yet confirmed: pause of n2)")
    assert in_force(facts, found("phantom", late)) == " (no known fault at 0.005 s)"
    assert "no known fault" in in_force(facts, found("phantom", {"read_ns": 0}))
    early = in_force(faults(kill), found("phantom", {"read_ns": 1_999}))
    assert early.endswith(" (at 0.000 s begun and not yet confirmed: kill of n2)")
    assert in_force(facts, found("phantom", {"seen_ns": 5_000})) == ""


def test_it_is_said_what_the_time_is_where_it_is_an_acknowledgements() -> None:
    told = in_force(faults(), found("lost-write", {"acknowledged_ns": 5}))
    assert told == " (no known fault when it was acknowledged, at 0.000 s)"
    both: Evidence = {"acknowledged_ns": 5, "told_ns": 9}
    assert in_force(faults(), found("commit-lost", both)) == " (no known fault at 0.000 s)"


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
        "own; this anomaly may follow from lost-write at offset 7: a truncated offset"
    )
    assert above.startswith("own; this anomaly may follow from lost-write at offset 7")
    assert at.endswith("; the cause of lost-write: only n2 had it")


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
        assert "this anomaly may follow from slow-election at offset 7" in at_times(root, symptom)
    assert at_times({"time_ns": 7 * SECOND + 1}, {"time_ns": 2 * SECOND}) == "own"


def test_of_two_without_offsets_the_times_must_overlap() -> None:
    symptom: Evidence = {"from_ns": 20, "to_ns": 30, "calm_from_ns": 1}
    for begun, ended in ((10, 20), (25, 26), (30, 40)):
        told = at_times({"from_ns": begun, "to_ns": ended}, symptom, offsets=(-1, -1))
        assert told == (
            "own; this anomaly may follow from slow-election: a partition without a leader"
            " accepts no messages; the cause of slow-election: n3 was down"
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
