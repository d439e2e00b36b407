"""What of a stored plan stays where its failure is played on another system."""

import pytest

from harness.another_system import moved, without_prefix
from harness.plans import completed_plan
from harness.scenarios.choices import scenario_named, story_values
from results.record.plan import Plan, PlanError
from results.record.plan_parts import PlannedFault

RUN = "log/1"
FAULTS = (PlannedFault(at_s=3, kind="kill", target="n1", hold_s=4),)


def test_seed_faults_and_settings_stay_and_what_the_old_system_told_goes() -> None:
    stored = Plan(
        system="kafka:/old/kafka",
        version="4.3.0-SNAPSHOT",
        hosts="namespace",
        seed=7,
        faults=FAULTS,
        broker={"replica.lag.time.max.ms": "5000"},
    )
    there = moved(stored, "kafka:4.3.1", run_id=RUN)
    assert there.notes == ()
    expected = stored.model_copy(update={"system": "kafka:4.3.1", "version": None})
    assert there.plan == expected


def test_what_only_the_old_system_could_mean_is_left_out_and_named() -> None:
    stored = Plan(system="reference", hosts="simulated", bug="ack-before-commit", seed=7)
    there = moved(stored, "kafka:4.3.1", run_id=RUN)
    assert (there.plan.bug, there.plan.hosts, there.plan.seed) == (None, "auto", 7)
    assert any(note.startswith("bug of the stored plan is left out") for note in there.notes)
    assert any("hosts simulated" in note for note in there.notes)
    assert moved(stored, "reference", run_id=RUN).plan == stored


def test_brokers_that_others_start_have_no_features_and_no_ids_of_the_old() -> None:
    stored = Plan(
        system="attached:/a.toml", broker_ids=(4, 5, 6), features={"metadata.version": 20}
    )
    there = moved(stored, "command:/b.toml", run_id=RUN).plan
    assert (there.broker_ids, there.features, there.hosts) == (None, {}, "auto")


def test_a_cluster_that_runs_already_keeps_the_settings_of_its_owner() -> None:
    broker, node = {"min.insync.replicas": "2"}, {"n1": {"min.insync.replicas": "1"}}
    stored = Plan(hosts="namespace", broker=broker, node=node, disk_mb=512)
    there = moved(stored, "attached:/a.toml", run_id=RUN)
    assert (there.plan.broker, there.plan.node, there.plan.disk_mb) == ({}, {}, None)
    assert len(there.notes) == 3 + 1, "and one of the hosts"


def test_topics_of_an_attached_cluster_lose_its_prefix() -> None:
    fault = {"at_s": 3, "target": "leader(logquake-1-log-0,0)", "when": "x of logquake-1-log-0-0"}
    values = {"seed": 7, "prefix": "logquake-1-", "faults": [fault]}
    plain = {"at_s": 3, "target": "leader(log-0,0)", "when": "x of log-0-0"}
    assert without_prefix(values) == {"seed": 7, "faults": [plain]}
    assert without_prefix({"seed": 7, "prefix": "logquake-1-"}) == {"seed": 7}
    owners = {"min.insync.replicas": "1", "replica.lag.time.max.ms": "30000"}
    stored = Plan(
        system="attached:/a.toml", hosts="attached", prefix="logquake-0123abcd-", min_insync=1,
        broker=owners, node={"n2": {"unclean.leader.election.enable": "true"}},
    )  # fmt: skip
    result = moved(stored, "kafka:4.3.1", run_id=RUN)
    there = result.plan
    assert (there.broker, there.node, there.min_insync) == ({}, {}, 2)
    assert any("the attached cluster's broker settings" in note for note in result.notes)
    alone = stored.model_copy(update={"replication": 1})
    assert moved(alone, "kafka:4.3.1", run_id=RUN).plan.min_insync == 1
    assert (there.prefix, there.hosts, there.topic_names) == (None, "auto", ["log-0", "log-1"])


@pytest.mark.parametrize(
    ("system", "ends"),
    [
        ("kafka:.//", "for the same mode, use kafka:.//:controllers"),
        ("kafka:4.3.1:combined", "kafka:4.3.1:combined has the mode combined"),
        ("kafka:2.8.2", "kafka:2.8.2 has the mode zookeeper"),
    ],
)
def test_another_mode_is_named_with_the_way_to_the_same_one_if_there_is_one(
    system: str, ends: str
) -> None:
    (note,) = moved(Plan(system="kafka:4.3.1:controllers"), system, run_id=RUN).notes
    assert note.endswith(ends)


def test_a_story_that_is_told_otherwise_there_is_played_by_its_name() -> None:
    values = story_values(scenario_named("leader-epoch-1"), {}, system="reference")
    stored = completed_plan(values, {}, broker={}, client={})
    with pytest.raises(PlanError, match=r"logquake repro leader-epoch-1 .*--system kafka:4\.3\.1"):
        moved(stored, "kafka:4.3.1", run_id=RUN)


def test_no_system_is_refused_in_a_sentence() -> None:
    with pytest.raises(PlanError, match="the plan's system cannot be 'nonsense'"):
        moved(Plan(), "nonsense", run_id=RUN)
