"""The first sentence tells what decides, not what comes first by name or by luck."""

import dataclasses

import pytest

from results.record.terms import AnomalyClass, Judge, Validity
from results.record.verdict import AnomalySummary, Evidence, Example, Verdict
from results.wording.glossary import terms_in
from results.wording.headline import clauses, headline, ranked_anomalies
from tests.results.told import told


def summary(
    *, of: AnomalyClass = AnomalyClass.SAFETY, allowed: int = 0, trusted: int = 2, count: int = 2
) -> AnomalySummary:
    shown = Example(
        sentence="told", evidence={}, topic="log-0", topic_id="", partition=0, offset=3,
        allowed=allowed == count, trusted=trusted == count, why="",
    )  # fmt: skip
    return AnomalySummary(
        anomaly_class=of, count=count, allowed=allowed, trusted=trusted, examples=(shown,)
    )


def verdict(valid: Validity, *because: str, **anomalies: AnomalySummary) -> Verdict:
    named = {name.replace("_", "-"): each for name, each in anomalies.items()}
    return told(Verdict(
        run_id="log/20261122T010000Z-1", valid=valid, judge="contract", engine="local",
        anomalies=named, unknown_because=because,
    ))  # fmt: skip


def test_from_when_on_nobody_watched_is_said_and_which_violation_stopped_a_run() -> None:
    blind = dataclasses.replace(verdict(Validity.VALID), stats={"watched_until_s": 31.5})
    assert headline(blind).sentence.endswith(
        " From 31.5 s on, the run was not judged while it ran (watcher.log has the reason)."
    )
    assert "watched" not in headline(verdict(Validity.VALID)).sentence


def test_what_cannot_be_trusted_makes_no_headline_beside_what_decides() -> None:
    given = verdict(
        Validity.INVALID,
        lost_write=summary(trusted=0),
        unavailable=summary(of=AnomalyClass.LIVENESS),
        not_enough_traffic=summary(of=AnomalyClass.HARNESS),
        duplicate=summary(allowed=2),
    )
    assert headline(given).anomaly == "unavailable"
    assert headline(given).sentence.startswith(
        "Invalid: 2 periods in which a partition accepted no"
    )
    assert "2 acknowledged writes were lost (not to be trusted)" in headline(given).more[0]
    assert [name for name, _ in ranked_anomalies(given)] == [
        "unavailable", "lost-write", "not-enough-traffic", "duplicate",
    ]  # fmt: skip


def test_a_verdict_of_a_run_that_somebody_cut_short_begins_with_it() -> None:
    cut = dataclasses.replace(verdict(Validity.VALID), stats={"interrupted_at_s": 12.5})
    assert headline(cut).sentence == "Interrupted at 12.5 s. Valid: every promise was kept."


@pytest.mark.parametrize(
    ("load", "is_told"), [(14.2, True), (6.1, True), (6.0, False), (1.5, False), (None, False)]
)
def test_an_unknown_verdict_names_a_busy_machine(load: float | None, *, is_told: bool) -> None:
    stats: dict[str, object] = {} if load is None else {"load": load, "cores": 2}
    told = [
        headline(dataclasses.replace(verdict(valid), stats=stats, unknown_because=(because,))).more
        for valid, because in (
            (Validity.UNKNOWN, "fault-without-effect: 3 faults were confirmed"),
            (Validity.UNKNOWN, "the run failed: it broke"),
            (Validity.INVALID, ""),
            (Validity.VALID, ""),
        )
    ]
    sentence = (
        f"This may be the cause: the machine was busy, with a load of {load} on 2 cores. Repeat the"
        " run while nothing else runs."
    )
    assert [sentence in each for each in told] == [is_told, False, False, False]


def test_what_is_allowed_is_not_coloured_as_what_is_good_and_says_why() -> None:
    given = summary(allowed=2)
    why = "allowed (new-producer-epoch): its producer took another epoch (librdkafka#4953)"
    shown = dataclasses.replace(given.examples[0], why=why)
    head = headline(
        verdict(Validity.VALID, duplicate=dataclasses.replace(given, examples=(shown,)))
    )
    assert head.tone == "allowed"
    assert (
        head.sentence == "Valid, by contract: 2 values are in the log twice, and that is allowed."
    )
    assert head.more[0] == f"A{why[1:]}."
    assert headline(verdict(Validity.VALID)).tone == "valid"


def test_what_another_judge_allows_is_not_allowed_by_contract() -> None:
    strict = dataclasses.replace(
        verdict(Validity.VALID, duplicate=summary(allowed=2)), judge=Judge.STRICT
    )
    assert headline(strict).sentence.startswith("Valid, by the judge strict: 2 values are")


def test_lost_is_said_only_of_what_no_log_holds() -> None:
    lost = summary()
    kept: Evidence = {"missing_from_leaders_log": False, "found_on": ["n1", "n2", "n3"]}
    read = dataclasses.replace(
        lost, examples=(dataclasses.replace(lost.examples[0], evidence=kept),)
    )
    given = verdict(Validity.INVALID, lost_write=read, G1a=summary())
    assert headline(given).anomaly == "G1a"
    assert "2 acknowledged writes were skipped by final reads" in headline(given).more[0]
    assert (
        headline(verdict(Validity.INVALID, lost_write=lost, G1a=summary())).anomaly == "lost-write"
    )
    alone = headline(verdict(Validity.INVALID, lost_write=read))
    assert alone.sentence == "Invalid: 2 acknowledged writes were skipped by final reads."


def test_an_example_decides_where_the_counts_do_not_tell() -> None:
    # One of two is allowed, one is trusted: by the counts they may be the same one.
    mixed = summary(allowed=1, trusted=1)
    light = dataclasses.replace(mixed.examples[0], allowed=True, trusted=True)
    given = verdict(
        Validity.INVALID,
        lost_write=dataclasses.replace(mixed, examples=(light,)),
        phantom=dataclasses.replace(mixed, examples=(dataclasses.replace(light, allowed=False),)),
    )
    assert headline(given).anomaly == "phantom"


def test_an_unknown_run_is_headed_by_the_cause_and_not_by_what_follows_from_it() -> None:
    cause = "the run failed: no broker answered within 30 s"
    given = verdict(Validity.UNKNOWN, "there was nothing to check for G1a", cause, "x is cut")
    assert headline(given).sentence == f"Unknown: {cause}."
    assert headline(given).more == ("there was nothing to check for G1a", "x is cut")
    assert headline(verdict(Validity.UNKNOWN)).sentence == "Unknown: not enough was checked."


def test_a_cause_is_divided_into_why_and_what_it_adds() -> None:
    assert clauses("n1 led, and n2 was elected; n3 had it too; n1 cut it (first; last)") == (
        "n1 led, and n2 was elected", "n3 had it too", "n1 cut it (first; last)",
    )  # fmt: skip
    assert clauses("") == ("",)


def test_words_are_explained_where_they_stand_and_no_others() -> None:
    told = terms_in("value 7 was acknowledged (acks=1), and n2, in the ISR, was elected in epoch 1")
    assert list(told) == ["acknowledged", "value", "leader epoch", "ISR"]
    assert list(terms_in("n1 led; n2 truncated offset 7")) == ["offset", "leader", "truncation"]
