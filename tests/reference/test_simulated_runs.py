"""Whole runs in virtual time: plan, workload, faults, record, pipeline and verdict."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from benchmarks.playing import play_here
from checkers.run import judge_runs
from cluster.protocol import Ability, UserError
from cluster.reference.broker.node import Node
from cluster.reference.bugs import Bug
from cluster.reference.simulator.process import Process
from cluster.reference.simulator.simulation import Simulation
from cluster.reference.simulator.tasks import TaskError
from harness.cli.running import run
from harness.endings import Ending
from harness.scenarios.choices import scenario_named, story_values, waits_s
from harness.simulated.world import SimulatedWorld
from harness.staging import prepared
from nemesis.registry import KINDS
from nemesis.schedule import deal_schedule
from results.record.clock import NS_PER_S, pause_until, stopwatch_s
from results.record.milestones import ENDED, load_milestones
from results.record.paths import RunPaths
from results.record.plan import Plan, PlanError, load_plan, plan_from
from results.record.runtime import new_event
from results.record.terms import Validity
from results.record.verdict import Verdict
from results.report import write_report
from tests.reference.invariants import PartitionInvariants, QuorumInvariants

Row = dict[str, Any]
BUGS = Path(__file__).parents[2] / "benchmarks" / "bugs"


def plan_of(seed: int, **settings: object) -> Plan:
    return plan_from({
        "system": "reference", "hosts": "simulated", "seed": seed, "rate": 60, "concurrency": 8,
        "partitions": 2, "warmup_s": 2, "nemesis": "partition,kill,pause", **settings,
    })  # fmt: skip


def played(store: Path, plan: Plan) -> RunPaths:
    """Play a run, with the invariants at every moment unless a bug breaks them on purpose."""
    partitions, quorum = PartitionInvariants(), QuorumInvariants()

    def watch(process: Process) -> None:
        node = process.machine
        assert isinstance(node, Node)
        quorum.look(process.id, node.plane.quorum)
        for partition in node.replicas.partitions.values() if node.replicas else ():
            partitions.look(process.id, partition)

    def before(simulation: Simulation) -> None:
        if plan.bug is None:
            simulation.watch = watch

    run = play_here(plan, store, before=before)
    assert run.result.ending is Ending.PLAYED, run.result.sentence
    return run.paths


def judged(paths: RunPaths) -> Verdict:
    return judge_runs([paths.root], engine="local")[0]


def fault_rows(paths: RunPaths) -> list[Row]:
    judged(paths)
    rows: list[Row] = pq.read_table(paths.table("faults")).to_pylist()
    return rows


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunPaths, Verdict]:
    paths = played(tmp_path_factory.mktemp("good"), plan_of(3, time_limit_s=45))
    return paths, judged(paths)


def test_a_run_without_a_bug_is_valid(good: tuple[RunPaths, Verdict]) -> None:
    _, verdict = good
    assert verdict.valid is Validity.VALID, (verdict.unknown_because, verdict.anomalies)
    assert verdict.checked["lost-write"]
    assert verdict.checked["log-divergence"]
    assert verdict.checked["double-vote"]


def test_a_run_goes_through_the_phases_of_all_runs(good: tuple[RunPaths, Verdict]) -> None:
    paths, _ = good
    reached = load_milestones(paths.milestones)
    assert [each.name for each in reached] == [
        "started", "ready", "warmup", "main", "main-ended", "healed", "recovered",
        "stopping-clients", "final-reads", "noted", "stopped", "collected",
    ]  # fmt: skip
    assert not [each for each in reached if "failed" in each.detail]
    stopped = next(each for each in reached if each.name == "stopped")
    assert set(stopped.detail.values()) == {"clean"}
    assert list((paths.node("n1") / "data").glob("log-0-*/*.log"))
    said = (paths.node("n1") / "logs" / "server.log").read_text()
    assert "starts at leader epoch" in said


def written_for(bug: Bug) -> dict[str, object]:
    """Return the faults that are written down for a bug, as for nodes that are processes."""
    found = load_plan(BUGS / f"{bug}.toml")
    return {each: found[each] for each in ("nodes", "topics", "partitions", "rate", "faults")}


DISPUTED = {"kind": "disputed-election", "target": "quorum-voters", "at_s": 3, "hold_s": 25}
FINDING: dict[Bug, tuple[int, dict[str, object]]] = {
    Bug.ACK_BEFORE_COMMIT: (4, {"time_limit_s": 16, "nemesis": "partition"}),
    Bug.VOTE_NOT_PERSISTED: (
        8,
        {
            "system": "reference:controllers",
            "time_limit_s": 40,
            "rate": 20,
            "topics": 1,
            "partitions": 1,
            "faults": [DISPUTED],
        },
    ),
    Bug.TRUNCATE_TO_HIGH_WATERMARK: (
        10,
        {"time_limit_s": 32, **written_for(Bug.TRUNCATE_TO_HIGH_WATERMARK)},
    ),
    Bug.COMMIT_NOT_KEPT: (2, {"time_limit_s": 20, "workload": "groups", "nemesis": "kill"}),
    Bug.ONE_ASSIGNMENT_FOR_ALL: (3, {"time_limit_s": 20, "workload": "groups", "nemesis": "kill"}),
}
"""Within how many seeds each bug is found, and with what; a forgotten vote shows in four of ten."""


@pytest.mark.everything
@pytest.mark.parametrize("bug", Bug)
def test_a_bug_is_found_by_its_anomaly(tmp_path: Path, bug: Bug) -> None:
    seeds, settings = FINDING[bug]
    for seed in range(seeds):
        plan = plan_of(seed, bug=bug.value, **settings)
        verdict = judged(played(tmp_path, plan))
        if verdict.valid is Validity.INVALID:
            assert verdict.anomalies[bug.anomaly].trusted
            return
    pytest.fail(f"it was not found within {seeds} seeds")


def test_the_same_plan_gives_the_same_bytes(tmp_path: Path) -> None:
    def digest(folder: str, seed: int) -> str:
        plan = plan_of(seed, time_limit_s=14, warmup_s=1, nemesis="all", rate=30)
        run = play_here(plan, tmp_path / folder)
        told, of_this_process = hashlib.sha256(), {run.paths.environment, run.paths.lock}
        for path in sorted(run.paths.root.rglob("*")):
            told.update(str(path.relative_to(run.paths.root)).encode())
            if path.is_file() and path not in of_this_process:
                told.update(path.read_bytes())
        return f"{told.hexdigest()} {run.simulation.agenda.happened}"

    first = digest("one", 5)
    assert digest("again", 5) == first
    assert digest("other", 6) != first


@pytest.mark.parametrize("seed", range(6))
def test_what_is_dealt_can_be_played(seed: int) -> None:
    ready = prepared(plan_of(seed, time_limit_s=300, nemesis="all"), keep=False, say=lambda _: None)
    faults = deal_schedule(ready.plan, abilities=frozenset(Ability)).faults
    assert {KINDS[fault.kind].family for fault in faults} == {*ready.plan.nemesis}
    assert {"partition", "splits", "kill", "pause", "power-loss"} <= {*ready.plan.nemesis}


def test_a_default_run_of_15_s_has_what_fits() -> None:
    asked = plan_from({"system": "reference", "hosts": "simulated", "time_limit_s": 15, "seed": 3})
    ready = prepared(asked, keep=False, say=lambda _: None)
    assert ready.plan.nemesis == ("partition", "pause")
    (sentence,) = ready.dropped
    assert sentence.startswith("faults of kill are left out")


def test_what_is_under_way_at_the_end_is_all_undone_before_it_is_looked_at(tmp_path: Path) -> None:
    faults = [{"kind": "kill", "target": "n1", "at_s": 2, "hold_s": 10},
              {"kind": "isolate", "target": "n1", "at_s": 4, "hold_s": 8}]  # fmt: skip
    paths = played(tmp_path, plan_of(1, time_limit_s=12, faults=faults))
    at_ns = {each.name: each.at_ns for each in load_milestones(paths.milestones)}
    assert at_ns["healed"] - at_ns["main-ended"] < 10 * NS_PER_S
    assert not [row for row in fault_rows(paths) if json.loads(row["spec"]).get("not_healed")]


@pytest.mark.parametrize("kind", ["slow-disk", "clock-drift"])
def test_a_broker_that_is_down_waits_for_no_disk_and_goes_by_no_clock(
    tmp_path: Path, kind: str
) -> None:
    faults = [{"kind": "kill", "target": "n1", "at_s": 2, "hold_s": 15},
              {"kind": kind, "target": "n1", "at_s": 5, "hold_s": 3}]  # fmt: skip
    rows = fault_rows(played(tmp_path, plan_of(1, time_limit_s=20, faults=faults)))
    (row,) = [each for each in rows if each["kind"] == kind]
    assert row["confirmed_ns"] is None
    # Whoever is to tell of the effect is waited for, for a while.
    why = {"slow-disk": "no broker runs on n1", "clock-drift": "the broker of n1 is not available"}
    assert why[kind] in row["effect"]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"system": "kafka:4.3.1"}, "add --system reference"),
        ({"nemesis": "no-such"}, "does not exist; use one of partition"),
        ({"compression": "gzip"}, "use compression none"),
        (
            {"client": {"socket.keepalive.enable": "true"}},
            "simulated clients support only the group settings",
        ),
        ({"clients": "lab"}, "remove --clients"),
        ({"image": "apache/kafka:4.3.1"}, "add --hosts docker, or remove the image"),
        ({"workload": "txn"}, "does not support transactions; use log or groups"),
        ({"broker": {"log.segment.bytes": "abc"}}, "log.segment.bytes cannot be 'abc'"),
        ({"bug": "no-such-bug"}, "use one of truncate-to-high-watermark"),
        ({"nodes": 1, "replication": 1, "min_insync": 1}, "none of its faults is possible"),
    ],
)
def test_what_cannot_be_simulated_is_refused(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises((UserError, PlanError), match=sentence):
        prepared(plan_of(1, **settings), keep=False, say=lambda _: None)


def test_the_command_shows_what_would_be_played() -> None:
    options = ["--system", "reference", "--hosts", "simulated", "--seed", "7", "--dry-run"]
    shown = CliRunner().invoke(run, options, standalone_mode=False)
    assert "isolate" in shown.output
    assert "kill" in shown.output


def test_no_simulated_cluster_is_kept() -> None:
    options = ["--system", "reference", "--hosts", "simulated", "--keep"]
    with pytest.raises(UserError, match="remove --keep"):
        CliRunner().invoke(run, options, standalone_mode=False, catch_exceptions=False)


def test_the_page_promises_that_all_of_it_repeats(good: tuple[RunPaths, Verdict]) -> None:
    page = write_report(good[0]).read_text()
    assert "each run is equal, byte for byte" in page
    assert "client library" not in page  # No librdkafka was among the clients.


def faults_of(tmp_path: Path, *faults: dict[str, object], time_limit_s: float) -> list[Row]:
    """Play a run with faults written by hand; return its rows."""
    plan = plan_of(5, time_limit_s=time_limit_s, faults=list(faults), rate=30)
    paths = played(tmp_path, plan)
    judged(paths)
    rows = pq.read_table(paths.table("faults")).to_pylist()
    return sorted(rows, key=lambda row: row["fault_id"])


def test_a_fault_that_begins_as_the_main_phase_ends_is_healed_after_it(tmp_path: Path) -> None:
    """A cut is probed for half a second before it: its heal must not come before the cut."""
    late = {"kind": "isolate", "target": "one", "at_s": 5.8, "hold_s": 0.2}
    (row,) = faults_of(tmp_path, late, time_limit_s=6)
    assert row["requested_ns"] < row["confirmed_ns"] < row["healed_ns"]
    healed = json.loads(row["heal_effect"])
    assert not any(link["cut_by_others"] for link in healed["links"])


def test_a_broker_that_is_gone_is_not_killed_again(tmp_path: Path) -> None:
    kill = {"kind": "kill", "target": "n1", "at_s": 1, "hold_s": 4}
    again = {"kind": "kill", "target": "n1", "at_s": 2, "hold_s": 1}
    first, second = faults_of(tmp_path, kill, again, time_limit_s=8)
    assert first["healed_ns"] - first["confirmed_ns"] > 3.9e9
    assert second["confirmed_ns"] is None
    assert "fault 1 already holds the broker of n1" in second["effect"]


def test_a_bug_in_a_broker_ends_the_run_as_one_of_ours(tmp_path: Path) -> None:
    def fail() -> None:
        raise ZeroDivisionError("by zero")

    def before(simulation: Simulation) -> None:
        simulation.agenda.at(10 * NS_PER_S, fail)

    run = play_here(plan_of(1, time_limit_s=10, nemesis=""), tmp_path, before=before)
    assert (run.result.ending, run.result.sentence) == (
        Ending.INTERNAL,
        "ZeroDivisionError: by zero",
    )
    (last,) = [each for each in load_milestones(run.paths.milestones) if each.name == "failed"]
    assert last.detail["sentence"] == run.result.sentence
    verdict = judged(run.paths)
    assert verdict.valid is Validity.UNKNOWN
    assert verdict.stats["ops"]


def test_a_run_that_hangs_ends_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.simulated.world.longest_s", lambda plan: plan.time_limit_s + 2)
    monkeypatch.setattr("harness.life.Life._recover", lambda *_: new_event().wait())
    run = play_here(plan_of(1, time_limit_s=2, nemesis=""), tmp_path)
    assert run.result.ending is Ending.INTERNAL
    assert run.result.sentence == "TaskError: life did not end within 4 s of virtual time"


def with_n3_cut_off(store: Path, for_s: int) -> Verdict:
    """Play a run in which a broker is cut off just after the run has recovered."""
    links = [pair for other in (1, 2) for pair in ((3, other), (other, 3))]

    def before(simulation: Simulation) -> None:
        agenda, network = simulation.agenda, simulation.network
        agenda.at(14 * NS_PER_S, network.cut, links)
        agenda.at((14 + for_s) * NS_PER_S, network.join, links)

    fault = {"kind": "pause", "target": "n2", "at_s": 3, "hold_s": 1}
    plan = plan_of(3, time_limit_s=10, faults=[fault], budgets={"isr_s": 8})
    run = play_here(plan, store, before=before)
    assert run.result.ending is Ending.PLAYED, run.result.sentence
    reached = {each.name: each for each in load_milestones(run.paths.milestones)}
    assert reached["recovered"].at_ns < 14 * NS_PER_S
    return judged(run.paths)


def test_a_follower_that_is_missed_only_after_the_recovery(tmp_path: Path) -> None:
    verdict = with_n3_cut_off(tmp_path, for_s=100)
    found = verdict.anomalies["isr-not-restored"]
    assert (verdict.valid, found.count, found.allowed) == (Validity.INVALID, 4, 0)
    assert "it had been full): as n" in found.examples[0].sentence


def test_a_follower_that_comes_back_in_time_after_the_recovery(tmp_path: Path) -> None:
    assert with_n3_cut_off(tmp_path, for_s=8).valid is Validity.VALID


def test_a_broker_that_ends_in_the_recovery_is_noticed_soon(tmp_path: Path) -> None:
    def before(simulation: Simulation) -> None:
        def end() -> None:
            simulation.hosts[3].kill()  # There is no such host before the run begins.

        simulation.agenda.at(15 * NS_PER_S, end)

    fault = {"kind": "pause", "target": "n2", "at_s": 3, "hold_s": 1}
    plan = plan_of(3, time_limit_s=10, faults=[fault], budgets={"isr_s": 20})
    run = play_here(plan, tmp_path, before=before)
    reached = {each.name: each for each in load_milestones(run.paths.milestones)}
    assert reached["recovered"].at_ns < 14 * NS_PER_S
    assert reached[ENDED].detail["node"] == "n3"
    assert 15 * NS_PER_S < reached[ENDED].at_ns < 20 * NS_PER_S


def wait_for_long() -> None:
    pause_until(stopwatch_s() + 2000)


@pytest.mark.parametrize(
    "settings",
    [
        {"warmup_s": 2000},
        {"time_limit_s": 2000},
        {"delivery_timeout_s": 2000},
        *({"budgets": {name: 2000}} for name in ("heal_s", "isr_s", "unavailable_s", "group_s")),
    ],
)
def test_a_life_may_take_as_long_as_its_plan_lets_it_wait(settings: dict[str, object]) -> None:
    SimulatedWorld(plan_of(1, **settings)).play(wait_for_long)


def test_a_life_may_wait_twice_for_full_isrs() -> None:
    def wait() -> None:
        pause_until(stopwatch_s() + 3000)

    SimulatedWorld(plan_of(1, budgets={"isr_s": 1500})).play(wait)


def test_a_story_may_take_as_long_as_its_steps_wait() -> None:
    story = story_values(scenario_named("replication-steps"), {}, system="reference")
    plan = plan_from({**story, "hosts": "simulated"})
    SimulatedWorld(plan).play(wait_for_long, story_s=waits_s(plan))


@pytest.mark.parametrize("for_a_signal", [True, False])
def test_a_wait_for_what_nobody_will_do_is_noticed_at_once(*, for_a_signal: bool) -> None:
    world = SimulatedWorld(plan_of(1))
    finish = world.event()

    def life() -> None:
        finish.wait(1)
        (finish if for_a_signal else new_event()).wait()

    with pytest.raises(TaskError, match="life waits, but no further event is scheduled"):
        world.play(life)


def test_controllers_of_their_own_and_faults_that_wait_for_a_state(tmp_path: Path) -> None:
    faults = [
        {"kind": "kill", "target": "leader(log-0,0)", "at_s": 1, "hold_s": 5},
        {"kind": "pause", "target": "one", "hold_s": 1, "when": "leader epoch of log-0-0 >= 1"},
        {"kind": "kill", "target": "controller", "at_s": 9, "hold_s": 3},
    ]
    asked = plan_of(2, system="reference:controllers", time_limit_s=15, faults=faults)
    paths = played(tmp_path, asked)
    verdict = judged(paths)
    assert verdict.valid is Validity.VALID, (verdict.unknown_because, verdict.anomalies)
    rows = pq.read_table(paths.table("faults")).to_pylist()
    assert all(row["confirmed_ns"] is not None for row in rows)
    first, paused, last = sorted(rows, key=lambda row: row["requested_ns"])
    assert paused["requested_ns"] - first["confirmed_ns"] > NS_PER_S, "once another one leads"
    assert last["targets"][0] in {"n101", "n102", "n103"}
