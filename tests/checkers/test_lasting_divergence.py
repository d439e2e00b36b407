"""One divergence that many snapshots show is one anomaly; the last look is no snapshot of files."""

from checkers import log_divergence, lost_write
from checkers.facts import RunFacts
from checkers.protocol import Findings
from results.record.verdict import Anomaly
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import (
    A,
    B,
    C,
    S,
    ack,
    facts,
    found,
    group,
    isr,
    leads,
    log,
    state,
)

UNCLEAN: dict[str, object] = {
    "system": "kafka:2.8.2", "broker": {"unclean.leader.election.enable": "true"},
}  # fmt: skip
OURS, THEIRS = ((0, A), (0, B)), ((0, A), (1, C))
Rows = dict[str, list[Row]]


def look(name: str, *copies: tuple[str, tuple[tuple[int, int], ...]]) -> Rows:
    """Each replica's copy in a snapshot, all of it below its high watermark."""
    return {
        "replica_records": [
            row for node, records in copies for row in log(node, *records, snapshot=name)
        ],
        "replica_states": [
            {**state(node, len(records), len(records)), "snapshot": name}
            for node, records in copies
        ],
    }


def joined(*parts: Rows) -> Rows:
    return {name: [row for part in parts for row in part[name]] for name in parts[0]}


def differ(name: str) -> Rows:
    return look(name, ("n1", OURS), ("n2", THEIRS))


def agree(name: str) -> Rows:
    return look(name, ("n1", OURS), ("n2", OURS))


def check(
    rows: Rows, about: RunFacts | None = None, *, leadership: list[Row] | None = None
) -> Findings:
    return found(log_divergence.CHECKER, group(about, **rows, leadership=leadership or []))


def seen_in(anomaly: Anomaly) -> object:
    return anomaly.evidence["snapshots"]


def test_a_divergence_that_lasts_counts_once_and_is_told_by_the_final_logs_in_the_isr() -> None:
    rows = joined(differ("step-05"), differ("step-06"), differ("final"))
    result = check(rows, leadership=[isr(1, 2)])
    (anomaly,) = result.anomalies
    assert result.rows == 2 + 2 + 2
    assert seen_in(anomaly) == ["step-05", "step-06", "final"]
    assert "because both replicas are in the ISR" in anomaly.sentence
    assert anomaly.sentence.endswith("; they also differ at the end of step-05 and step-06")


def test_without_an_isr_it_is_told_by_the_first_look_and_the_others_are_named() -> None:
    rows = joined(differ("step-05"), differ("step-06"), differ("step-07"), differ("final"))
    (anomaly,) = check(rows).anomalies
    assert anomaly.sentence.startswith("at the end of step-05, the logs of n1 and n2 differ")
    also = "; they also differ at the end of step-06 and step-07, and after all brokers had stopped"
    assert anomaly.sentence.endswith(also)
    (once,) = check(differ("step-05")).anomalies
    assert "also" not in once.sentence


def test_divergences_at_other_offsets_and_of_other_replicas_count_by_themselves() -> None:
    early = look("step-01", ("n1", ((0, A),)), ("n2", ((1, C),)))
    late = look("step-03", ("n1", OURS), ("n2", THEIRS))
    assert [seen_in(each) for each in check(joined(early, late)).anomalies] == [
        ["step-01"], ["step-03"],
    ]  # fmt: skip
    three = look("step-01", ("n1", OURS), ("n2", THEIRS), ("n3", THEIRS))
    assert [each.evidence["nodes"] for each in check(three).anomalies] == [
        ["n1", "n2"], ["n1", "n3"],
    ]  # fmt: skip


def test_records_of_old_formats_have_no_epoch_rather_than_epoch_minus_one() -> None:
    rows = look("final", ("n1", ((-1, A),)), ("n2", ((0, C),)))
    (anomaly,) = check(rows).anomalies
    assert anomaly.evidence["records"] == [
        f"no epoch, hash {A * 7}, control 0", f"epoch 0, hash {C * 7}, control 0",
    ]  # fmt: skip


def test_a_look_that_shares_offsets_with_two_others_joins_them() -> None:
    none, first, second = ((0, A), (0, B)), ((0, A), (1, C)), ((1, C), (0, B))
    looks = [
        look(name, ("n1", none), ("n2", theirs))
        for name, theirs in (
            ("step-01", first), ("step-02", second), ("step-03", ((1, C), (1, C))),
        )
    ]  # fmt: skip
    assert [seen_in(each) for each in check(joined(*looks[:2])).anomalies] == [
        ["step-02"], ["step-01"],
    ]  # fmt: skip
    (one,) = check(joined(*looks)).anomalies
    assert seen_in(one) == ["step-01", "step-02", "step-03"]


def test_a_divergence_is_allowed_only_if_each_look_at_it_is() -> None:
    steps = joined(differ("step-01"), agree("step-02"))
    unclean, whole = facts(plan=UNCLEAN), [isr(1, 2)]
    (healed,) = check(joined(steps, agree("final")), unclean, leadership=whole).anomalies
    assert (seen_in(healed), healed.excuses) == (["step-01"], ("unclean-election",))
    (lasting,) = check(joined(steps, differ("final")), unclean, leadership=whole).anomalies
    assert (seen_in(lasting), lasting.excuses) == (["step-01", "final"], ())


def test_the_excuse_ends_only_for_what_differed_before_while_both_were_in_the_isr() -> None:
    first = look("step-01", ("n1", ((0, A), (0, B))), ("n2", ((1, C), (0, B))))
    second, both, one = differ("step-02"), frozenset({"n1", "n2"}), frozenset({"n2"})

    def excused(rows: Rows, *isrs: frozenset[str]) -> list[tuple[object, bool]]:
        names = [f"step-0{number}" for number, _ in enumerate(isrs, start=1)]
        about = facts(plan=UNCLEAN, step_isrs=dict(zip(names, isrs, strict=True)))
        return [(seen_in(each), bool(each.excuses)) for each in check(rows, about).anomalies]

    # What differs now is not what differed then: the copy may be from before the return.
    assert excused(joined(first, second), both, both) == [(["step-01"], True), (["step-02"], True)]
    assert excused(joined(agree("step-01"), second), both, both) == [(["step-02"], True)]
    lasting = joined(differ("step-01"), second)
    assert excused(lasting, both, one) == [(["step-01", "step-02"], True)]
    assert excused(lasting, both, both) == [(["step-01", "step-02"], False)]


def test_a_hole_within_a_copy_counts_unless_the_copy_could_not_be_read() -> None:
    rows = look("step-01", ("n1", (*OURS, (0, C))), ("n2", (*OURS, (0, C))))
    del rows["replica_records"][4]  # The middle one of n2, whose broker says that it went on.
    rows["replica_states"][1]["log_end_offset"] = 9
    for hurt, broken in (("n2", ()), ("step-01/n2", ("readable-final-logs",))):
        (anomaly,) = check(rows, facts(unreadable_nodes=frozenset({hurt}))).anomalies
        assert anomaly.broken_premises == broken
    hurt_copy = facts(unreadable_nodes=frozenset({"step-01/n2"}))
    (both_there,) = check(differ("step-01"), hurt_copy).anomalies
    assert both_there.broken_premises == ()  # What could be read differs all the same.


def test_a_look_at_what_could_not_be_read_does_not_take_the_trust_of_another() -> None:
    short = look("final", ("n1", OURS), ("n2", ((0, A),)))
    short["replica_states"] = [{**row, "high_watermark": 2} for row in short["replica_states"]]
    hurt = facts(unreadable_nodes=frozenset({"n2"}))
    anomalies = check(joined(differ("step-01"), short), hurt).anomalies
    assert [(seen_in(each), each.broken_premises) for each in anomalies] == [
        (["step-01"], ()), (["final"], ("readable-final-logs",)),
    ]  # fmt: skip


def test_a_step_that_was_not_written_down_is_a_step_all_the_same() -> None:
    """The harness died between the copies and the line: the copies are of different moments."""
    for short, long in (("n1", "n2"), ("n2", "n1")):
        rows = look("step-04", (long, OURS), (short, ((0, A),)))
        rows["replica_states"] = [{**row, "high_watermark": 2} for row in rows["replica_states"]]
        result = check(rows, facts(step_isrs={}))
        assert (result.rows, result.anomalies) == (1, ())


def test_what_a_harness_that_died_left_behind_is_no_step() -> None:
    rows = look("crash", ("n1", OURS), ("n2", ((0, A),)))
    rows["replica_states"] = [{**row, "high_watermark": 2} for row in rows["replica_states"]]
    (anomaly,) = check(rows, facts(milestones=())).anomalies
    assert anomaly.sentence.startswith("the logs of n1 and n2 differ at offset 1")


NOTED = {**state("n1", 2, 2), "snapshot": "noted", "observed_ns": S}


def test_what_brokers_said_last_is_no_log_that_was_compared() -> None:
    rows = joined(agree("final"))
    rows["replica_states"] += [NOTED, {**NOTED, "node": "n2"}]
    assert check(rows).rows == 2
    assert set(group(**rows).logs) == {"final"}


def test_what_brokers_said_last_counts_for_the_end_of_their_logs() -> None:
    rows: Rows = {
        "sends": [ack(A, 0), ack(B, 1, op=2)],
        "leadership": [leads(1, 0)],
        "replica_records": log("n1", (0, A)),
    }
    (cut,) = found(
        lost_write.CHECKER, group(**rows, replica_states=[state("n1", 1), NOTED])
    ).anomalies
    assert cut.broken_premises == ("readable-final-logs",)
    (lost,) = found(lost_write.CHECKER, group(**rows, replica_states=[state("n1", 1)])).anomalies
    assert lost.broken_premises == ()
