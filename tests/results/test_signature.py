"""One cause is one line: what varies by chance is in no signature, and what matters is."""

import dataclasses

import pytest

from checkers.registry import WORDS
from results.record.plan import Plan, plan_from
from results.record.terms import AnomalyClass, Validity
from results.record.verdict import AnomalySummary, Example, Verdict
from results.samples import find_sample
from results.signature import Signature, class_of, reason_for, signature_of
from results.verdict_json import read_verdict
from tests.results.told import told

PLAN = plan_from({"nemesis": ["kill", "partition"]})


def example(topic: str = "log-0", **changes: object) -> Example:
    whole = Example(
        sentence="value 4294967298 is in no replica's log", evidence={"value": 4294967298},
        topic=topic, topic_id="id", partition=1, offset=121, allowed=False, trusted=True, why="",
    )  # fmt: skip
    return dataclasses.replace(whole, **changes)  # type: ignore[arg-type]  # by field name


def summary(
    count: int = 3,
    *,
    of: AnomalyClass = AnomalyClass.SAFETY,
    allowed: int = 0,
    trusted: int | None = None,
    shown: Example | None = None,
) -> AnomalySummary:
    return AnomalySummary(
        anomaly_class=of, count=count, allowed=allowed,
        trusted=count if trusted is None else trusted, examples=(shown or example(),),
    )  # fmt: skip


def verdict(
    valid: Validity = Validity.INVALID, *because: str, **anomalies: AnomalySummary
) -> Verdict:
    named = {name.replace("_", "-"): each for name, each in anomalies.items()}
    return told(
        Verdict(
            run_id="log/20261122T010000Z-1", valid=valid, judge="contract", engine="local",
            anomalies=named, unknown_because=because,
        )
    )  # fmt: skip


def signed(given: Verdict, plan: Plan | None = PLAN, faults: tuple[str, ...] = ()) -> Signature:
    found = signature_of(given, plan, faults)
    assert found is not None
    return found


def test_a_valid_run_has_none() -> None:
    assert signature_of(verdict(Validity.VALID), PLAN, ["kill"]) is None
    assert class_of(verdict(Validity.VALID)) == ""


def test_chance_changes_nothing() -> None:
    one = signed(verdict(lost_write=summary(3)), PLAN, ("kill",))
    other = signed(
        verdict(
            lost_write=summary(977, shown=example("log-1", partition=3, offset=9)),
            offset_order=summary(12),
            nonmonotonic_poll=summary(1),
            committed_truncation=summary(2),
            isr_not_restored=summary(1, of=AnomalyClass.LIVENESS),
        ),
        PLAN.model_copy(update={"seed": 99, "name": "other"}),
        ("isolate", "kill"),
    )
    assert one == other
    assert one.key == other.key
    assert one.anomalies == ("lost-write",)
    assert one.sentence == "Acknowledged writes were lost, under kill and partition."


@pytest.mark.parametrize(
    ("changed", "plan"),
    [
        (verdict(duplicate=summary()), PLAN),
        (verdict(lost_write=summary(shown=example("__cluster_metadata"))), PLAN),
        (verdict(lost_write=summary()), plan_from({"nemesis": ["kill"]})),
        # A loss that acks=1 brings about must not hide one that a bug brings about.
        (verdict(lost_write=summary()), plan_from({"nemesis": "kill,partition", "acks": "1"})),
        (
            verdict(lost_write=summary()),
            plan_from({
                "nemesis": "kill,partition", "broker": {"unclean.leader.election.enable": "true"},
            }),
        ),
        (verdict(lost_write=summary(), duplicate=summary(), phantom=summary()), PLAN),
    ],
    ids=["anomaly", "place", "faults", "acks", "unclean", "a second cause"],
)  # fmt: skip
def test_what_matters_changes_the_key(changed: Verdict, plan: Plan) -> None:
    assert signed(changed, plan).key != signed(verdict(lost_write=summary())).key


def found_together(*names: str) -> tuple[str, ...]:
    return signed(verdict(Validity.INVALID, **dict.fromkeys(names, summary()))).anomalies


@pytest.mark.parametrize(
    "other",
    ["duplicate", "ack-mismatch", "unseen", "epoch-regression", "two-leaders-in-epoch", "phantom",
     "G1a", "torn-transaction"],
)  # fmt: skip
def test_what_a_loss_does_not_bring_about_is_a_cause_of_its_own(other: str) -> None:
    assert found_together("lost-write", other) == tuple(sorted(("lost-write", other)))


@pytest.mark.parametrize("root", [name for name, words in WORDS.items() if words.explains])
def test_a_symptom_changes_no_signature_and_has_a_reason(root: str) -> None:
    for symptom, why in WORDS[root].explains.items():
        assert found_together(root, symptom) == (root,)
        assert reason_for(symptom, [root], WORDS) == (root, why)
        assert len(why.split()) > 5


def test_a_loss_is_a_symptom_of_nothing_and_nothing_of_itself() -> None:
    assert not [name for name, each in WORDS.items() if {"lost-write", name} & {*each.explains}]


def test_a_wrong_answer_is_filed_as_one_whatever_it_brings_about() -> None:
    assert found_together("ack-mismatch", "inconsistent-offsets", "offset-order") == (
        "ack-mismatch",
    )
    assert found_together("inconsistent-offsets", "poll-skip") == ("inconsistent-offsets",)


def test_what_is_wrong_in_the_quorum_explains_nothing_in_a_topic() -> None:
    quorum = summary(shown=example("__cluster_metadata"))
    found = signed(verdict(two_leaders_in_epoch=quorum, log_divergence=summary()))
    assert found.anomalies == ("log-divergence", "two-leaders-in-epoch")


def test_what_does_not_count_is_left_out() -> None:
    found = signed(
        verdict(
            duplicate=summary(4, allowed=4),
            phantom=summary(2, trusted=0),
            not_enough_traffic=summary(1, of=AnomalyClass.HARNESS),
            G1a=summary(1),
        )
    )
    assert found.anomalies == ("G1a",)


def test_a_liveness_failure_is_told_by_what_weighs_most() -> None:
    slow = verdict(
        isr_not_restored=summary(of=AnomalyClass.LIVENESS),
        unavailable=summary(of=AnomalyClass.LIVENESS),
    )
    assert signed(slow).anomalies == ("unavailable",)
    assert class_of(slow) == "liveness"


def test_an_unknown_run_is_filed_by_the_kind_of_its_heaviest_reason() -> None:
    def failed(number: int, *more: str) -> Verdict:
        why = f"the run failed: worker {number} said: no broker answered within {number + 30} s"
        return verdict(Validity.UNKNOWN, *more, why)

    one = signed(failed(1))
    assert one == signed(failed(2, "there was nothing to check for G1a", "x is cut"))
    assert one.anomalies[0].startswith("the run failed: worker … said")
    assert class_of(failed(1)) == "unknown"
    quiet = verdict(
        Validity.UNKNOWN,
        "not-enough-traffic: 12 ok sends in the main phase",
        not_enough_traffic=summary(1, of=AnomalyClass.HARNESS),
    )
    assert signed(quiet).anomalies == ("not-enough-traffic",)
    assert class_of(quiet) == "harness"
    assert signed(verdict(Validity.UNKNOWN)).anomalies == ("no reason given",)


def test_a_story_is_a_place_of_its_own_with_the_faults_that_it_played() -> None:
    told = {"name": "leader-epoch-1", "rule": "high-watermark"}
    story = plan_from({"workload": "script", "scenario": told, "nemesis": [], "faults": []})
    found = signed(verdict(lost_write=summary()), story, ("kill", "cut", "kill"))
    assert (found.place, found.faults) == ("leader-epoch-1", ("cut", "kill"))
    assert "in the story leader-epoch-1" in found.sentence


def test_without_a_plan_the_record_tells_the_faults() -> None:
    assert signed(verdict(lost_write=summary()), None, ("pause", "kill")).faults == (
        "kill", "pause",
    )  # fmt: skip


def test_keys_are_the_same_on_every_machine_and_in_every_release() -> None:
    found = Signature(anomalies=("lost-write",), place="topics", faults=("kill",))
    assert found.key == "42cf9092877a"


def test_both_losses_of_the_samples_are_told_apart() -> None:
    keys = set()
    unclean = {"unclean.leader.election.enable": "true"}
    for name, terms in (("loss-acks-1", {"acks": "1"}), ("loss-unclean", {"broker": unclean})):
        stored = read_verdict(find_sample(name) / "verdict.json")
        assert stored is not None
        keys.add(signed(stored, plan_from({**terms, "faults": []})).key)
    assert len(keys) == 2


def test_reasons_of_others_are_made_harmless() -> None:
    found = signed(verdict(Validity.UNKNOWN, "the run failed: \x1b[31m\ud83d\x00 broke"))
    assert found.sentence.isprintable()
    assert len(found.key) == 12
