from collections.abc import Set
from dataclasses import replace

import pytest

from checkers.contract import REASONS, allowed
from checkers.facts import RunFacts
from checkers.group import Group
from checkers.judge import Place, weigh
from checkers.protocol import DISK_DOUBTS, Checker, Excuse, Findings, Premise, Scope
from checkers.registry import CHECKERS, WORDS
from checkers.runner import CheckResult, dump_result, parse_result, run_checkers
from results.record.milestones import Milestone
from results.record.terms import AnomalyClass, Judge, Validity
from results.record.verdict import MAX_EXAMPLES, Anomaly, Evidence, Verdict
from tests.checkers.partition_rows import facts, group
from tests.held import collected

RUN: Place = ("", "", -1)
PART: Place = ("log-0", "id-0", 0)
PLAN: dict[str, object] = {"nemesis": ""}


def results(*extra: CheckResult) -> dict[Place, list[CheckResult]]:
    """Every check looked at something, and found only what is given."""
    names = {
        place: dict.fromkeys(
            each.name for each in CHECKERS if (each.scope is Scope.PARTITION) is part
        )
        for place, part in ((RUN, False), (PART, True))
    }
    given = {each.name for each in extra}
    return {
        place: [CheckResult(name=name, rows=5) for name in sorted(each) if name not in given]
        + [each for each in extra if place == PART]
        for place, each in names.items()
    }


def found(name: str, *, excuses: tuple[str, ...] = (), broken: tuple[str, ...] = ()) -> CheckResult:
    anomaly = Anomaly(name=name, sentence=f"{name}!", evidence={}, topic="log-0", partition=0,
                      excuses=excuses, broken_premises=broken)  # fmt: skip
    return CheckResult(name=name, rows=5, anomalies=(anomaly,))


def verdict(
    *extra: CheckResult, judge: Judge = Judge.CONTRACT, about: RunFacts | None = None
) -> Verdict:
    about = about or facts(plan=PLAN)
    return weigh(about, results(*extra), judge=judge, engine="local", stats={})


def test_everything_checked_and_nothing_found_is_valid() -> None:
    good = verdict()
    assert (good.valid, good.unknown_because) == (Validity.VALID, ())
    assert good.checked["fault-without-effect"] is None  # The plan has no faults.


def test_a_trusted_safety_anomaly_is_invalid_and_an_untrusted_one_unknown() -> None:
    assert verdict(found("lost-write")).valid is Validity.INVALID
    doubtful = verdict(found("lost-write", broken=("readable-final-logs",)))
    assert doubtful.valid is Validity.UNKNOWN
    assert doubtful.anomalies["lost-write"].trusted == 0
    assert "lost-write cannot be trusted" in doubtful.unknown_because[0]


def test_without_the_runs_own_plan_nothing_can_be_invalid() -> None:
    lost = verdict(found("lost-write"), about=facts(plan=PLAN, plan_known=False))
    assert lost.valid is Validity.UNKNOWN
    assert lost.anomalies["lost-write"].trusted == 0
    assert any("plan could not be read" in reason for reason in lost.unknown_because)


def test_a_story_that_broke_off_is_unknown_whatever_was_found_and_however_it_broke_off() -> None:
    story: dict[str, object] = {
        **PLAN, "scenario": {"name": "a-story", "topic": "log-0"}, "workload": "script",
    }  # fmt: skip
    whole = facts(plan=story)
    assert verdict(found("lost-write"), about=whole).valid is Validity.INVALID
    for kind in ("cluster", "interrupted"):
        detail = {"kind": kind, "sentence": "step 4 of 6"}
        end = Milestone(name="failed", at_ns=9, detail=detail)
        broken_off = replace(whole, milestones=(*whole.milestones, end))
        lost = verdict(found("lost-write"), about=broken_off)
        assert lost.valid is Validity.UNKNOWN, kind
        assert lost.anomalies["lost-write"].trusted == 0
        assert "the run failed: step 4 of 6" in lost.unknown_because
        assert any("the scenario did not reach its end" in why for why in lost.unknown_because)
        assert verdict(about=broken_off).valid is Validity.UNKNOWN, kind


def test_a_story_whose_run_died_or_that_broke_off_untold_is_unknown_too() -> None:
    story: dict[str, object] = {
        **PLAN, "scenario": {"name": "a-story", "topic": "log-0"}, "workload": "script",
    }  # fmt: skip
    whole = facts(plan=story)
    died = tuple(stone for stone in whole.milestones if stone.name != "main-ended")
    for about in (replace(whole, milestones=died), replace(whole, story_broken=True)):
        lost = verdict(found("lost-write"), about=about)
        assert lost.valid is Validity.UNKNOWN
        assert lost.anomalies["lost-write"].trusted == 0
    ordinary = replace(facts(plan=PLAN), milestones=died)
    assert verdict(found("lost-write"), about=ordinary).valid is Validity.INVALID


def test_the_contract_allows_what_was_asked_for_and_the_strict_judge_does_not() -> None:
    weak = found("lost-write", excuses=("acks-0-1",))
    excused = verdict(weak)
    assert (excused.valid, excused.anomalies["lost-write"].allowed) == (Validity.VALID, 1)
    assert excused.anomalies["lost-write"].examples[0].why.startswith("allowed (acks-0-1): with ")
    strict = verdict(weak, judge=Judge.STRICT)
    (lost,) = strict.anomalies["lost-write"].examples
    assert lost.why.startswith(
        "only the strict judge requires this; Kafka does not promise it here: with "
    )
    (plain,) = verdict(found("lost-write"), judge=Judge.STRICT).anomalies["lost-write"].examples
    assert plain.why == ""
    assert (strict.valid, strict.anomalies["lost-write"].allowed) == (Validity.INVALID, 0)


def test_an_excuse_allows_only_what_its_row_lists() -> None:
    assert verdict(found("duplicate", excuses=("acks-0-1",))).valid is Validity.INVALID
    assert verdict(found("log-divergence", excuses=("acks-0-1",))).valid is Validity.INVALID
    retried = found("duplicate", excuses=("retries-without-idempotence",))
    assert verdict(retried).valid is Validity.VALID


CONTRACT: dict[str, Set[str]] = {
    "always": {"int-send-skip", "G0", "G0-process", "G0-realtime",
               "G1c", "G1c-process", "G1c-realtime"},
    "acks-0-1": {"lost-write", "unseen", "offset-order", "nonmonotonic-send",
                 "int-nonmonotonic-send", "ack-mismatch", "inconsistent-offsets"},
    "unclean-election": {"lost-write", "unseen", "offset-order", "nonmonotonic-send",
                         "int-nonmonotonic-send", "ack-mismatch", "inconsistent-offsets",
                         "poll-skip", "int-poll-skip", "nonmonotonic-poll",
                         "int-nonmonotonic-poll", "uncommitted-read", "incomplete-leader",
                         "committed-truncation", "high-watermark-regression", "log-divergence",
                         "duplicate", "under-replicated", "log-end-regression",
                         "high-watermark-ahead", "epoch-mismatch", "hanging-transaction",
                         "torn-transaction", "G1a", "commit-lost"},
    "retries-without-idempotence": {"duplicate", "int-nonmonotonic-send"},
    "new-producer-epoch": {"duplicate", "int-nonmonotonic-send"},
    "sequence-used-twice": {"lost-write", "inconsistent-offsets", "offset-order",
                            "nonmonotonic-send", "int-nonmonotonic-send"},
    "reused-epoch": {"two-leaders-in-epoch", "log-divergence"},
    "rebalance": {"poll-skip", "nonmonotonic-poll"},
    "unconfirmed-fault": set(),  # These two allow nothing: they take the trust.
    "last-copies": set(),
    **dict.fromkeys(
        ("power-loss", "wipe", "bit-flip"),
        frozenset({"lost-write", "unseen", "offset-order", "nonmonotonic-send",
         "int-nonmonotonic-send", "ack-mismatch", "inconsistent-offsets", "uncommitted-read",
         "incomplete-leader",
         "committed-truncation", "high-watermark-regression", "log-divergence", "duplicate",
         "poll-skip", "int-poll-skip", "nonmonotonic-poll", "int-nonmonotonic-poll",
         "under-replicated", "log-end-regression", "epoch-mismatch", "high-watermark-ahead",
         "hanging-transaction", "torn-transaction", "G1a", "commit-lost"}),
    ),
}  # fmt: skip
"""The contract's table, row by row; what is always allowed needs no excuse."""
CONTRACT["bit-flip"] = {*CONTRACT["bit-flip"], "corrupt-record"}
WITHOUT_EXCUSE = {"int-send-skip", "G0", "G0-process", "G0-realtime"}
NAMES = sorted({each.name for each in CHECKERS})
ALLOWED: list[tuple[str, Set[str]]] = collected("EXCUSED_BY", folder="tests/checkers")
"""Of checks that are not in the table above: names, and the rows that allow them."""


def table_has(excuse: str, name: str) -> bool:
    return name in CONTRACT[excuse] or any(
        name == other and excuse in rows for other, rows in ALLOWED
    )


@pytest.mark.parametrize("excuse", Excuse)
def test_every_cell_of_the_contracts_table(excuse: Excuse) -> None:
    for name in NAMES:
        fits = table_has(excuse, name) or name in WITHOUT_EXCUSE
        assert (allowed(name, (excuse.value,), Judge.CONTRACT) is not None) == fits, name
        first_line = name in WITHOUT_EXCUSE or (excuse is Excuse.ALWAYS and fits)
        assert (allowed(name, (excuse.value,), Judge.STRICT) is not None) == first_line, name


@pytest.mark.parametrize("judge", [Judge.CONTRACT, Judge.STRICT])
def test_without_an_excuse_only_the_first_line_is_allowed(judge: Judge) -> None:
    assert {name for name in NAMES if allowed(name, (), judge)} == WITHOUT_EXCUSE
    assert allowed("lost-write", ("no such row",), judge) is None


def test_the_table_names_nothing_that_is_not_checked() -> None:
    assert set().union(*CONTRACT.values()) <= set(NAMES)
    assert set(CONTRACT) == {each.value for each in Excuse}


def test_why_it_is_allowed_is_the_row_that_fits() -> None:
    both = ("acks-0-1", "unclean-election")
    assert allowed("lost-write", both, Judge.CONTRACT) == "acks-0-1"
    assert allowed("poll-skip", both, Judge.CONTRACT) == "unclean-election"
    assert allowed("G1c", ("always",), Judge.STRICT) == "always"


@pytest.mark.parametrize("name", ["unavailable", "slow-election", "isr-not-restored"])
def test_liveness_weighs_as_much_as_safety_and_nothing_excuses_it(name: str) -> None:
    every = tuple(excuse.value for excuse in Excuse)
    late = verdict(found(name, excuses=every))
    assert late.valid is Validity.INVALID
    assert late.anomalies[name].anomaly_class is AnomalyClass.LIVENESS
    assert verdict(found(name, broken=("whole-record",))).valid is Validity.UNKNOWN
    malformed = verdict(found("malformed-history"), found(name))
    assert (malformed.valid is Validity.INVALID) == (name != "unavailable")


def test_a_recovery_that_failed_is_invalid_where_a_budget_was_broken() -> None:
    failed = {"failed": "log-0-0 has no leader"}
    stones = tuple(
        replace(each, detail=failed) if each.name == "recovered" else each
        for each in facts().milestones
    )
    sick = verdict(found("slow-election"), about=facts(plan=PLAN, milestones=stones))
    assert sick.valid is Validity.INVALID
    assert "log-0-0 has no leader" in sick.unknown_because[0]


def test_every_premise_has_a_sentence() -> None:
    for premise in Premise:
        doubtful = verdict(found("lost-write", broken=(premise.value,)))
        assert doubtful.anomalies["lost-write"].examples[0].why
        assert doubtful.valid is Validity.UNKNOWN


def test_every_row_of_the_contract_says_why_it_allows() -> None:
    assert set(REASONS) == set(Excuse) - set(DISK_DOUBTS)


def test_what_decides_is_shown_before_what_is_allowed_or_in_doubt() -> None:
    def at(offset: int, *excuses: str, broken: tuple[str, ...] = ()) -> Anomaly:
        return Anomaly(name="lost-write", sentence="", evidence={}, offset=offset,
                       excuses=excuses, broken_premises=broken)  # fmt: skip

    mixed = CheckResult(
        name="lost-write", rows=5,
        anomalies=(at(1, "acks-0-1"), at(2, broken=("recovered",)), at(4),
                   at(3), *(at(9, "acks-0-1") for _ in range(9))),
    )  # fmt: skip
    shown = verdict(mixed).anomalies["lost-write"].examples
    assert [each.offset for each in shown[:4]] == [3, 4, 1, 2]
    assert len(shown) == 10


def test_a_check_of_the_quorum_without_rows_is_unknown_and_one_that_cannot_be_is_not() -> None:
    empty = verdict(CheckResult(name="metadata-divergence", rows=0))
    assert "there was nothing to check for metadata-divergence" in empty.unknown_because
    old = facts(plan={**PLAN, "system": "kafka:3.9.1:zookeeper"})
    absent = verdict(CheckResult(name="metadata-divergence", rows=0), about=old)
    assert absent.checked["metadata-divergence"] is None
    assert not any("metadata" in each for each in absent.unknown_because)


def test_jepsen_knows_its_own_kinds_only() -> None:
    weak = found("lost-write", excuses=("acks-0-1",))
    assert verdict(weak, judge=Judge.JEPSEN).valid is Validity.INVALID
    assert verdict(found("log-divergence"), judge=Judge.JEPSEN).valid is Validity.VALID


def test_harness_anomalies_are_unknown_and_never_allowed() -> None:
    short = verdict(found("final-read-incomplete"))
    assert short.valid is Validity.UNKNOWN
    assert short.unknown_because == ("final-read-incomplete: final-read-incomplete!",)


def test_a_check_that_found_that_there_is_nothing_had_something_to_check() -> None:
    """Of a partition that was never read again there is no row, and an anomaly."""
    unread = replace(found("final-read-incomplete"), rows=0)
    assert verdict(unread).unknown_because == ("final-read-incomplete: final-read-incomplete!",)
    empty = verdict(CheckResult(name="final-read-incomplete", rows=0))
    assert empty.unknown_because == ("there was nothing to check for final-read-incomplete",)


def test_a_run_that_was_interrupted_before_its_clients_says_so_and_not_what_each_check_lacks() -> (
    None
):
    cut = replace(facts(plan=PLAN), milestones=(
        Milestone(name="started", at_ns=1), Milestone(name="interrupted", at_ns=2),
        Milestone(name="failed", at_ns=3, detail={"kind": "interrupted"}),
    ))  # fmt: skip
    early = verdict(CheckResult(name="log-divergence", rows=0), about=cut)
    assert early.valid is Validity.UNKNOWN
    first, second, *_ = early.unknown_because
    assert first == "the run ended before its clients began, so there is nothing to judge"
    assert second.endswith("there is no final log (its last milestone: started)")
    assert not any("nothing to check for" in each for each in early.unknown_because)
    late = replace(cut, milestones=(*cut.milestones, Milestone(name="warmup", at_ns=4)))
    lacking = verdict(CheckResult(name="log-divergence", rows=0), about=late)
    assert "there was nothing to check for log-divergence" in lacking.unknown_because


def test_a_malformed_history_makes_client_side_finds_untrusted_but_not_replica_side_ones() -> None:
    both = verdict(found("malformed-history"), found("lost-write"))
    assert both.valid is Validity.UNKNOWN
    assert verdict(found("malformed-history"), found("log-divergence")).valid is Validity.INVALID


def test_a_check_without_rows_is_unknown() -> None:
    empty = verdict(CheckResult(name="log-divergence", rows=0))
    assert empty.valid is Validity.UNKNOWN
    assert "there was nothing to check for log-divergence" in empty.unknown_because


def test_a_run_without_any_result_is_unknown() -> None:
    nothing = weigh(facts(plan=PLAN), {}, judge=Judge.CONTRACT, engine="local", stats={})
    assert nothing.valid is Validity.UNKNOWN
    assert "nothing was recorded of log-0-0" in nothing.unknown_because


def test_a_run_that_died_or_did_not_recover_is_unknown() -> None:
    dead = facts(plan=PLAN, milestones=(Milestone(name="main", at_ns=1),))
    assert "its last milestone: main" in verdict(about=dead).unknown_because[0]
    failed = {"failed": "log-0-0 has no leader"}
    stones = [
        replace(each, detail=failed) if each.name == "recovered" else each
        for each in facts().milestones
    ]  # fmt: skip
    sick = verdict(about=facts(plan=PLAN, milestones=tuple(stones)))
    assert sick.unknown_because == (
        "not every partition got a leader and a full ISR back: log-0-0 has no leader",
    )


def test_a_checker_that_crashed_is_unknown_with_its_name_and_error() -> None:
    def crash(_group: Group) -> Findings:
        raise ZeroDivisionError("by hand")

    checker = Checker(name="phantom", anomaly_class=AnomalyClass.SAFETY, tables=(), check=crash)
    (result,) = run_checkers(group(), [checker])
    crashed = verdict(result)
    assert crashed.valid is Validity.UNKNOWN
    assert "the checker of phantom crashed: log-0-0: ZeroDivisionError: by hand" in (
        crashed.unknown_because
    )


def test_what_is_counted_beyond_the_examples_weighs_as_well() -> None:
    many = replace(found("lost-write", excuses=("acks-0-1",)), beyond=(((("acks-0-1",), ()), 7),))
    summary = verdict(many).anomalies["lost-write"]
    assert (summary.count, summary.allowed, summary.trusted) == (8, 8, 8)
    partly = replace(many, beyond=((((), ()), 1),))
    assert verdict(partly).valid is Validity.INVALID


def test_what_a_check_lacked_makes_the_verdict_unknown_and_is_told() -> None:
    lacking = CheckResult(name="lost-write", rows=5, gaps=("no log", "no log", "no reads"))
    assert verdict(lacking).valid is Validity.UNKNOWN
    assert verdict(lacking).unknown_because == (
        "lost-write could not be checked completely: no log; no reads",
    )
    assert parse_result(dump_result(lacking)) == lacking


def test_a_failure_is_told_though_an_interruption_followed() -> None:
    ends = (
        Milestone(name="failed", at_ns=98, detail={"kind": "cluster", "sentence": "n1 died"}),
        Milestone(name="failed", at_ns=99, detail={"kind": "interrupted"}),
    )
    stopped = verdict(about=facts(plan=PLAN, milestones=(*facts().milestones, *ends)))
    assert stopped.unknown_because == ("the run failed: n1 died",)


def test_words_of_a_weaker_proof_need_all_that_is_described_not_what_is_stored() -> None:
    def lost(*, in_logs: int, gone: int) -> str:
        held: Evidence = {"missing_from_leaders_log": False, "found_on": ["n1"]}
        each = [held] * in_logs + [{"missing_from_leaders_log": True, "found_on": []}] * gone
        anomalies = tuple(
            Anomaly(name="lost-write", sentence="!", evidence=dict(evidence), topic="log-0",
                    partition=0, offset=at)
            for at, evidence in enumerate(each)
        )  # fmt: skip
        return (
            verdict(CheckResult(name="lost-write", rows=99, anomalies=anomalies))
            .words["lost-write"]
            .one
        )

    assert lost(in_logs=MAX_EXAMPLES + 1, gone=0) != WORDS["lost-write"].one
    assert lost(in_logs=MAX_EXAMPLES + 1, gone=1) == WORDS["lost-write"].one
