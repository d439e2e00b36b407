"""Scenarios: ZooKeeper's word, copies of live replicas at each step, messages with names."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from checkers import log_divergence, lost_write, two_leaders
from checkers.facts import RunFacts
from checkers.group import final_isr
from checkers.ingest import NO_ID, Problem, Unit, ingest, step_units, with_topic_ids
from checkers.protocol import Findings
from checkers.run import judge_runs
from checkers.runner import run_checkers
from checkers.spark.nodes import read_node
from checkers.statistics import partition_statistics
from checkers.stored import load_facts, missing_streams, units_of
from checkers.unclean_elections import unclean_elections
from checkers.unseen import UNSEEN_CHECKER
from checkers.witnesses import truncations_of, vanished
from results.record.paths import RunPaths
from results.record.plan import dump_plan
from results.record.steps import Step, append_step, step_name
from results.record.tables import TABLES
from tests.checkers.faithful import FaithfulRun
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import (
    A,
    B,
    C,
    S,
    ack,
    elected,
    facts,
    final_read,
    found,
    group,
    isr,
    leads,
    log,
    made_plan,
    read,
    state,
    whole_run,
)  # fmt: skip

ZOOKEEPER: dict[str, object] = {"system": "kafka:2.8.2", "replication": 2, "nodes": 2}
UNCLEAN: dict[str, object] = {"broker": {"unclean.leader.election.enable": "true"}}
SCENARIO: dict[str, object] = {
    "scenario": {"name": "leader-epoch-1", "topic": "log-0"},
    "workload": "script",
}


def named(broker: int, epoch: int, *isr_of: int, at: int = S) -> Row:
    """A row of ZooKeeper's: who leads, and who is in sync."""
    row = leads(broker, epoch, at=at, source="zookeeper")
    return {**row, "observer": "zk", "isr": list(isr_of) or None}


def old_metadata(broker: int, *isr_of: int, at: int = S) -> Row:
    """What a broker before 2.1 answers: no epoch."""
    return {**leads(broker, -1, at=at, source="metadata"), "isr": list(isr_of)}


def step(name: str, node: str, *records: tuple[int, int], mark: int | None) -> dict[str, list[Row]]:
    """One replica's copy at a step, its high watermark as its checkpoint file has it."""
    return {
        "replica_records": log(node, *records, snapshot=name),
        "replica_states": [{**state(node, len(records), mark), "snapshot": name}],
    }


def rows_of(*parts: dict[str, list[Row]]) -> dict[str, list[Row]]:
    names = {name for part in parts for name in part}
    return {name: [row for part in parts for row in part.get(name, [])] for name in names}


def steps(*isrs: set[str], plan: dict[str, object] | None = None) -> RunFacts:
    names = [f"step-{number:02}" for number, _ in enumerate(isrs, start=1)]
    return facts(
        plan={**ZOOKEEPER, **(plan or {})},
        step_isrs={name: frozenset(isr) for name, isr in zip(names, isrs, strict=True)},
    )


DIVERGED = rows_of(
    step("step-01", "n1", (0, A), (0, B), mark=2), step("step-01", "n2", (0, A), (1, C), mark=2)
)
STILL = rows_of(
    DIVERGED,
    step("step-02", "n1", (0, A), (0, B), mark=2), step("step-02", "n2", (0, A), (1, C), mark=2),
)  # fmt: skip


def test_replicas_that_differ_below_both_marks_at_a_step_diverge() -> None:
    (anomaly,) = found(log_divergence.CHECKER, group(steps({"n2"}), **DIVERGED)).anomalies
    assert anomaly.sentence.startswith("at the end of step-01, the logs of n1 and n2 differ")
    assert (anomaly.offset, anomaly.excuses, anomaly.broken_premises) == (1, (), ())


def test_a_copy_that_is_shorter_than_its_mark_was_only_made_earlier() -> None:
    rows = rows_of(
        step("step-01", "n1", (0, A), (0, B), mark=2), step("step-01", "n2", (0, A), mark=2)
    )
    result = found(log_divergence.CHECKER, group(steps({"n1", "n2"}), **rows))
    assert (result.rows, result.anomalies) == (1, ())
    hole = rows_of(
        step("step-01", "n1", (0, A), (0, B), (0, C), mark=3),
        step("step-01", "n2", (0, A), (0, B), (0, C), mark=3),
    )
    del hole["replica_records"][4]  # Within what the copy has, a record is missing.
    assert len(found(log_divergence.CHECKER, group(steps({"n1"}), **hole)).anomalies) == 1


def test_a_follower_that_has_not_truncated_yet_differs_above_its_mark_only() -> None:
    rows = rows_of(
        step("step-01", "n1", (0, A), (0, B), mark=1), step("step-01", "n2", (0, A), (1, C), mark=2)
    )
    assert found(log_divergence.CHECKER, group(steps({"n2"}), **rows)).anomalies == ()


def test_what_a_broker_says_of_its_mark_counts_as_its_file_does() -> None:
    rows = rows_of(
        step("step-01", "n1", (0, A), (0, B), mark=0), step("step-01", "n2", (0, A), (1, C), mark=2)
    )
    assert found(log_divergence.CHECKER, group(steps({"n2"}), **rows)).anomalies == ()
    said = {**state("n1", 2, 2), "snapshot": "step-01", "observed_ns": S,
            "high_watermark_source": "fetch"}  # fmt: skip
    rows["replica_states"].insert(0, said)
    assert len(found(log_divergence.CHECKER, group(steps({"n2"}), **rows)).anomalies) == 1
    # A file that is older than a truncation claims too much: the broker knows better.
    old = {**rows, "replica_states": [{**said, "high_watermark": 1}, *DIVERGED["replica_states"]]}
    assert found(log_divergence.CHECKER, group(steps({"n2"}), **old)).anomalies == ()


Told = tuple[str, object, tuple[str, ...]]


def told_of(about: RunFacts, rows: dict[str, list[Row]]) -> list[Told]:
    """By which snapshot it is told, in which it was seen, and what excuses it."""
    result = found(log_divergence.CHECKER, group(about, **rows))
    return [
        (str(each.evidence["snapshot"]), each.evidence["snapshots"], each.excuses)
        for each in result.anomalies
    ]


def test_an_unclean_election_excuses_until_the_return_to_the_isr_is_certain() -> None:
    outside = steps({"n2"}, {"n2"}, plan=UNCLEAN)
    both, excused = ["step-01", "step-02"], ("unclean-election",)
    assert told_of(outside, STILL) == [("step-01", both, excused)]
    # The copy of step-02 may have been made before the return, which the ISR's answer saw.
    returned = steps({"n2"}, {"n1", "n2"}, plan=UNCLEAN)
    assert told_of(returned, STILL) == [("step-01", both, excused)]
    # Nobody who was back in the ISR at the end of step-01 may still differ at step-02.
    back = steps({"n1", "n2"}, {"n1", "n2"}, plan=UNCLEAN)
    assert told_of(back, STILL) == [("step-02", both, ())]
    allowed_by_nobody = steps({"n2"}, {"n2"})
    assert told_of(allowed_by_nobody, STILL) == [("step-01", both, ())]


def test_with_zookeeper_it_is_enough_that_unclean_elections_are_allowed_if_any_was() -> None:
    rows = {
        "replica_records": [*log("n1", (0, A)), *log("n2", (1, C))],
        "replica_states": [state("n1", 1, 1), state("n2", 1, 1)],
        "leadership": [named(2, 1, 2)],
    }
    about = facts(plan={**ZOOKEEPER, **UNCLEAN})
    (anomaly,) = found(log_divergence.CHECKER, group(about, **rows)).anomalies
    assert anomaly.excuses == ("unclean-election",)
    for told, excused in (
        ([leads(1, 3)], True),
        ([leads(1, 0), named(1, 0)], False),
        ([leads(1, 3), named(1, 0)], True),
        ([leads(1, 0), named(1, 0), named(2, 1)], True),
    ):
        assert unclean_elections(group(about, leadership=told)).seen is excused
    kraft = facts(plan=UNCLEAN)
    (anomaly,) = found(log_divergence.CHECKER, group(kraft, **rows)).anomalies
    assert anomaly.excuses == ()


def leading(about: RunFacts, rows: list[Row]) -> str:
    leader = group(about, leadership=rows).leader
    assert leader is not None
    return leader.node


def test_zookeeper_names_the_leader_where_nobody_claims_to_be_one() -> None:
    old = facts(plan={**ZOOKEEPER, "system": "kafka:0.11.0.3"})
    rows = [named(1, 0, 1, 2, at=S), named(2, 1, 2, at=2 * S), old_metadata(1, 1, 2, at=3 * S)]
    assert leading(old, rows) == "n2"
    nameless = {**leads(1, 0, at=4 * S), "leader_epoch": None}
    assert leading(old, [*rows, nameless]) == "n2"
    assert leading(old, [*rows, named(-1, 2, 2, at=4 * S)]) == "n2"  # Nobody leads, by now.
    claimed = leads(1, 2, at=4 * S)
    assert leading(old, [*rows, claimed]) == "n1"


def test_zookeepers_isr_counts_more_than_what_a_broker_believes() -> None:
    believed = old_metadata(1, 1, 2, at=9 * S)
    assert final_isr(group(leadership=[named(2, 1, 2), believed])) == {"n2"}
    assert final_isr(group(leadership=[believed])) == {"n1", "n2"}
    assert final_isr(group(leadership=[isr(1)])) == {"n1"}
    silent = leads(1, 7, at=9 * S, source="metadata")  # An answer without an ISR.
    assert final_isr(group(leadership=[isr(1, 2), silent])) == {"n1", "n2"}


def test_zookeeper_that_names_two_leaders_of_one_epoch() -> None:
    rows = [named(1, 0), named(1, 1, at=2 * S), named(2, 1, at=3 * S)]
    (anomaly,) = found(two_leaders.CHECKER, group(leadership=rows)).anomalies
    assert anomaly.sentence.startswith("ZooKeeper named n1 and n2 as leaders of log-0-0 in epoch 1")
    apart = [named(1, 0), named(2, 1, at=2 * S)]
    result = found(two_leaders.CHECKER, group(leadership=apart))
    assert (result.rows, result.anomalies) == (0, ())


def test_leaders_whose_epoch_nobody_told_are_not_two_in_one() -> None:
    nameless = [{**leads(broker, 0, at=broker * S), "leader_epoch": None} for broker in (1, 2)]
    result = found(two_leaders.CHECKER, group(leadership=nameless))
    assert (result.rows, result.anomalies) == (0, ())
    states = [{**quorum_row(node, 0, "leader"), "epoch": None} for node in ("n101", "n102")]
    result = found(two_leaders.QUORUM_CHECKER, whole_run(quorum_states=states))
    assert (result.rows, result.anomalies) == (0, ())


def quorum_row(node: str, epoch: int, role: str, *, at: int | None = None) -> Row:
    return {"node": node, "epoch": epoch, "role": role, "observed_ns": at, "incarnation": 0}


def test_two_controllers_that_led_the_quorum_in_one_epoch() -> None:
    one = quorum_row("n101", 3, "leader")
    twice = [one, one, quorum_row("n102", 3, "follower"), quorum_row("n102", 4, "leader")]
    result = found(two_leaders.QUORUM_CHECKER, whole_run(quorum_states=twice))
    assert (result.rows, result.anomalies) == (3, ())
    both = [*twice, quorum_row("n103", 3, "leader")]
    (anomaly,) = found(two_leaders.QUORUM_CHECKER, whole_run(quorum_states=both)).anomalies
    assert anomaly.evidence["leaders"] == ["n101", "n103"]
    assert (anomaly.topic, anomaly.partition) == ("__cluster_metadata", 0)
    told_by_others = [*twice, quorum_row("n103", 3, "leader", at=S)]
    on = whole_run(quorum_states=told_by_others)
    assert found(two_leaders.QUORUM_CHECKER, on).anomalies == ()


def lost(about: RunFacts) -> Findings:
    """A (epoch 0) is followed by n2, which drops B, leads in epoch 1, and writes C."""
    return found(
        lost_write.CHECKER,
        group(
            about,
            sends=[ack(A, 0), ack(B, 1, op=2), ack(C, 1, op=3)],
            polls=[read(A, 0), read(C, 1)],
            final_reads=[final_read(2)],
            leadership=[named(1, 0, 1, 2, at=2 * S), named(2, 1, 2, 1, at=3 * S)],
            replica_records=[*log("n1", (-1, A), (-1, C)), *log("n2", (-1, A), (-1, C))],
            replica_states=[state("n1", 2, 2), state("n2", 2, 2)],
            truncations=[
                {"node": "n1", "from_offset": 1, "source": "server-log",
                 "reason": "follower of broker 2: the leader's log ends at offset 1"},
                {"node": "n2", "from_offset": 1, "source": "server-log",
                 "reason": "follower of broker 1: local high watermark 1"},
            ],
        ),
    )  # fmt: skip


def test_a_lost_message_is_named_and_so_is_who_dropped_it_and_why() -> None:
    (anomaly,) = lost(facts(plan={**ZOOKEEPER, **SCENARIO})).anomalies
    assert anomaly.sentence.startswith(
        f"message2 (value {B}), acknowledged at offset 1 of log-0-0 at 1.000 s to op 2 (by n1,"
        " leader of epoch 0), is in no replica's log; at that offset: n1: message3"
        f" (value {C}) without an epoch"
    )
    blame = anomaly.sentence.split("; ")[-2:]
    assert blame == [
        ("n2 truncated offset 1 (follower of n1: local high watermark 1)"),
        "n1 truncated offset 1 (follower of n2: the leader's log ends at offset 1)",
    ]


def test_a_lost_message_vanished_between_two_steps() -> None:
    copies = rows_of(
        step("step-01", "n1", (0, A), (0, B), mark=2),
        step("step-01", "n2", (0, A), (0, B), mark=1),
        step("step-02", "n1", (0, A), (0, B), mark=2), step("step-02", "n2", (0, A), mark=1),
    )  # fmt: skip
    copies["replica_records"] += [*log("n1", (0, A)), *log("n2", (0, A))]
    copies["replica_states"] += [state("n1", 1, 1), state("n2", 1, 1)]
    rows = {"sends": [ack(A, 0), ack(B, 1, op=2)], "leadership": [named(2, 1, 2, 1)], **copies}
    about = steps({"n1", "n2"}, {"n1"}, plan=SCENARIO)
    (anomaly,) = found(lost_write.CHECKER, group(about, **rows)).anomalies
    said = "n2 had it at the end of step-01, and no longer at the end of step-02"
    assert anomaly.evidence["vanished"] == [said]
    assert anomaly.sentence.endswith(f"; {said}")


def test_a_leader_of_old_brokers_has_no_epoch_rather_than_epoch_minus_one() -> None:
    rows = {
        "sends": [ack(A, 0)],
        "leadership": [old_metadata(1, 1, 2)],
        "final_reads": [final_read(2)],
    }
    (gone,) = found(lost_write.CHECKER, group(**rows, polls=[read(C, 1)])).anomalies
    (hidden,) = found(UNSEEN_CHECKER, group(**rows)).anomalies
    for anomaly in (gone, hidden):
        assert (anomaly.evidence["leader_then"], anomaly.evidence["leader_epoch_then"]) == (1, None)
        assert "(by n1)" in anomaly.sentence


def test_only_scenarios_have_messages_with_names() -> None:
    (anomaly,) = lost(facts(plan=ZOOKEEPER)).anomalies
    assert anomaly.sentence.startswith(f"value {B}, acknowledged")
    scenario = facts(plan={**ZOOKEEPER, **SCENARIO})
    assert [scenario.name_of(value) for value in (A, 7, 9 << 32 | 1)] == [
        f"message1 (value {A})", "value 7", f"value {9 << 32 | 1}",
    ]  # fmt: skip


def test_old_brokers_metadata_make_no_elections() -> None:
    rows = [named(1, 0, 1, 2), old_metadata(1, 1, 2, at=2 * S), old_metadata(2, 1, 2, at=3 * S)]
    leaders = partition_statistics(group(leadership=rows))["leaders"].to_pylist()
    assert [(row["leader"], row["epoch"]) for row in leaders] == [(1, 0)]


def test_old_formats_leave_no_check_of_a_partition_without_rows() -> None:
    """Epochs are -1 everywhere: what could not be compared must not make the verdict unknown."""
    old = {**ZOOKEEPER, "system": "kafka:0.11.0.3", "replication": 2}
    about = facts(plan=old, reservations=((A, C + 1),), calm_from_ns=0)
    rows = group(
        about,
        sends=[ack(A, 0), ack(B, 1, op=2)],
        polls=[read(A, 0), read(B, 1)],
        final_reads=[final_read(2)],
        leadership=[named(1, 0, 1, 2), old_metadata(1, 1, 2, at=2 * S)],
        replica_records=[*log("n1", (-1, A), (-1, B)), *log("n2", (-1, A), (-1, B))],
        replica_states=[state("n1", 2, 2), state("n2", 2, 2)],
    )
    results = run_checkers(rows)
    assert [each for each in results if each.anomalies or each.gaps or each.error] == []
    assert [each.name for each in results if not (each.rows or each.unshown)] == []


def test_zookeepers_clusters_have_no_quorum_to_check() -> None:
    assert not two_leaders.QUORUM_CHECKER.applies(facts(plan=ZOOKEEPER))
    assert two_leaders.QUORUM_CHECKER.applies(facts())


def test_ids_of_topics_that_nobody_was_told() -> None:
    table = pa.Table.from_pylist(
        [{"topic": "log-0", "topic_id": each} for each in (None, NO_ID, "of-a-file")]
        + [{"topic": "other", "topic_id": "x"}],
        schema=TABLES["replica_states"],
    )
    filled = with_topic_ids(table, {"log-0": "known"})["topic_id"].to_pylist()
    assert filled == ["known", "known", "of-a-file", "x"]
    nameless = with_topic_ids(table, {"log-0": NO_ID})["topic_id"].to_pylist()
    assert nameless == [NO_ID, NO_ID, NO_ID, "x"]


def test_a_step_is_read_from_its_own_folder(tmp_path: Path) -> None:
    node = Path(__file__).parents[1] / "cluster_files" / "data" / "zookeeper" / "n1"
    for name in ("step-02", "step-01"):
        target = tmp_path / name / "n1" / "data" / "t-0"
        target.mkdir(parents=True)
        for file in (node / "data" / "t-0").iterdir():
            (target / file.name).write_bytes(file.read_bytes())
    units = step_units("a/run", tmp_path)
    assert [(each.snapshot, each.name, each.label) for each in units] == [
        ("step-01", "n1", "step-01/n1"),
        ("step-02", "n1", "step-02/n1"),
    ]
    tables, problems = ingest(units[0], read_node)
    assert set(tables) == {"replica_records", "replica_states"}
    assert set(tables["replica_records"]["snapshot"].to_pylist()) == {"step-01"}
    assert {each.unit for each in problems} == {"step-01/n1"}
    assert problems[0].sentence.startswith("step-01: n1: data/")
    assert step_units("a/run", tmp_path / "nowhere") == []


def test_a_runs_units_are_its_nodes_and_its_steps_copies(tmp_path: Path) -> None:
    root = FaithfulRun(1).write(tmp_path / "t" / "told")
    paths = RunPaths(root)
    (paths.snapshots / "step-01" / "n1").mkdir(parents=True)
    (paths.nodes / "n1").mkdir(parents=True)
    assert {each.label for each in units_of(paths) if each.snapshot} == {"n1", "step-01/n1"}
    judge_runs([root], engine="local")
    assert load_facts(root).unreadable_nodes == {"n1", "step-01/n1"}
    left = Unit(run_id="a/run", name="n1", folder=tmp_path, snapshot="crash")
    assert (left.of_step, left.label) == (False, "n1")
    assert facts(plan={**ZOOKEEPER, **SCENARIO}).name_of(1 << 32) == f"value {1 << 32}"


def test_a_copy_of_a_step_that_cannot_be_read_says_nothing_of_the_node(tmp_path: Path) -> None:
    (tmp_path / "step-01" / "n1").mkdir(parents=True)

    def unreadable(_unit: Unit, _problems: list[Problem]) -> list[tuple[str, pa.RecordBatch]]:
        raise ValueError("torn")

    (unit,) = step_units("a/run", tmp_path)
    _, (problem,) = ingest(unit, unreadable)
    assert (problem.unit, problem.cut) == ("step-01/n1", False)
    assert problem.sentence == "the files of step-01/n1 cannot be read: torn"


def test_a_scenarios_folder_has_its_steps_and_its_own_writer(tmp_path: Path) -> None:
    paths = RunPaths(FaithfulRun(1).write(tmp_path / "t" / "told"))
    for number, isr_of in enumerate(((1, 2, 3), (2,)), start=1):
        told = Step(
            number=number, name=step_name(number), tells="It goes on.", begun_ns=0, ended_ns=1,
            isr=isr_of,
        )  # fmt: skip
        append_step(paths.steps, told)
    assert load_facts(paths.root).step_isrs == {"step-01": {"n1", "n2", "n3"}, "step-02": {"n2"}}
    assert missing_streams(paths) == []
    paths.plan.write_text(dump_plan(made_plan(**SCENARIO)))
    missed = {each.sentence for each in missing_streams(paths)}
    assert "the stream op_invocations.script.arrows is missing" in missed
    assert {each.unit for each in missing_streams(paths)} == {"script"}


def test_steps_that_failed_or_cannot_be_read_are_no_whole_story(tmp_path: Path) -> None:
    paths = RunPaths(FaithfulRun(1).write(tmp_path / "t" / "told"))
    paths.plan.write_text(dump_plan(made_plan(**SCENARIO)))
    missing = load_facts(paths.root)
    assert "the steps are missing" in missing.problems
    assert not missing.whole_story
    first = Step(number=1, name=step_name(1), tells="It goes on.", begun_ns=0, ended_ns=1)
    append_step(paths.steps, first)
    whole = load_facts(paths.root)
    assert whole.whole_story
    assert not [each for each in whole.problems if "steps" in each]
    paths.steps.write_bytes(paths.steps.read_bytes() + b'{"number": 2')
    cut = load_facts(paths.root)
    assert "the steps cannot be read to their end: only 1 of 2" in cut.problems
    assert not cut.whole_story
    paths.steps.unlink()
    append_step(paths.steps, first.model_copy(update={"failed": "it never came"}))
    assert not load_facts(paths.root).whole_story


def test_what_a_copy_that_cannot_be_read_lacks_has_not_vanished() -> None:
    copies = rows_of(
        step("step-01", "n2", (0, A), (0, B), mark=1), step("step-02", "n2", (0, A), mark=1),
        step("step-03", "n2", (0, A), mark=1),
    )  # fmt: skip
    about = steps({"n2"}, {"n2"}, {"n2"})
    said = "n2 had it at the end of step-01, and no longer at the end of"
    assert vanished(group(about, **copies), B) == [f"{said} step-02"]
    hurt = replace(about, unreadable_nodes=frozenset({"step-02/n2"}))
    assert vanished(group(hurt, **copies), B) == [f"{said} step-03"]


def test_a_truncation_whose_old_end_nobody_noted_is_not_said_to_have_hit_an_offset() -> None:
    rows = [{"node": "n1", "from_offset": 1, "source": "server-log"},
            {"node": "n2", "from_offset": 1, "to_offset": 9, "source": "server-log"}]  # fmt: skip
    on = group(truncations=rows)
    assert [cut.text(4) for cut in truncations_of(on, 4)] == [
        "n1 truncated all that it had from offset 1 on",
        "n2 truncated offset 4 together with all offsets from 1 on",
    ]
    assert [cut.text(1) for cut in truncations_of(on, 1)] == [
        "n1 truncated offset 1", "n2 truncated offset 1",
    ]  # fmt: skip


def test_unclean_elections_that_one_node_allows_are_allowed() -> None:
    one: dict[str, object] = {"node": {"n101": UNCLEAN["broker"]}}
    assert facts(plan=one).plan.unclean_elections
    assert not facts(plan={"node": {"n101": {}}}).plan.unclean_elections


def test_the_metadata_log_still_tells_of_unclean_elections_without_zookeeper() -> None:
    rows = {
        "replica_records": [*log("n1", (0, A)), *log("n2", (1, C))],
        "replica_states": [state("n1", 1, 1), state("n2", 1, 1)],
        "leadership": [isr(2), elected(2, 1, 5, unclean=True)],
    }
    (anomaly,) = found(log_divergence.CHECKER, group(facts(plan=UNCLEAN), **rows)).anomalies
    assert anomaly.excuses == ("unclean-election",)
