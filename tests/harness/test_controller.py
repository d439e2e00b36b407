"""The controller's small parts: interrupts, the end of the stage, heal of a store, the doctor."""

import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from rich.console import Console

from cluster.hosts.heal import Healed
from cluster.hosts.ledger import mark
from cluster.hosts.signals import environment_of
from cluster.java import Java
from cluster.protocol import UserError
from harness import doctor
from harness.doctor import examine_machine, print_findings
from harness.endings import Ending
from harness.heal import heal_store
from harness.interrupt import Answers, Interrupts
from harness.judgement import choose_engine
from harness.plans import as_played, refuse_impossible
from harness.staging import Staging
from nemesis.ledger import Ledger
from nemesis.schedule import deal_schedule
from nemesis.undo import Join
from results.record.clock import RunClock, wait_until
from results.record.milestones import Milestone, append_milestone, load_milestones
from results.record.paths import RunPaths
from results.record.plan import dump_plan, plan_from
from results.store import Store


def test_the_first_interrupt_ends_the_main_phase_and_the_second_everything() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM,
                                                              signal.SIGHUP)}  # fmt: skip
    interrupts = Interrupts()
    interrupts.listen()
    try:
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupts.finish.is_set()
        assert not interrupts.abandon.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupts.abandon.is_set()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_process_that_watches_its_parent_dies_with_it() -> None:
    program = (
        "import threading; from harness.interrupt import die_with_parent;"
        "die_with_parent(); print('up', flush=True); threading.Event().wait()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdin is not None
    assert child.stdout.readline() == b"up\n"
    child.stdin.close()
    assert child.wait(timeout=60) == -signal.SIGKILL
    child.stdout.close()


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("#!/bin/sh\nexit 3\n", "exit status 3"),
        (
            "#!/bin/sh\nkill -9 $$\n",
            ("signal 9; the kernel does this when there is too little memory"),
        ),
    ],
    ids=["exit", "kill"],
)
def test_a_stage_that_died_is_told_and_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, said: str
) -> None:
    stage = tmp_path / "stage"
    stage.write_text(program, encoding="ascii")
    stage.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(stage))
    plan = plan_from({"hosts": "process"})
    with Store(tmp_path / "runs").create("log", 1) as paths:
        session = Staging(plan, tmp_path / "runs", Console(quiet=True))
        with Answers(paths.run_id, pytest.fail) as answers:
            result = session._play(plan, paths, RunClock.starting_now(), answers)
    assert result.ending is Ending.CLUSTER
    assert said in result.sentence
    noted = load_milestones(paths.milestones)[-1]
    assert noted.name == "failed"
    assert noted.detail["sentence"] == result.sentence


def test_a_stage_without_a_plan_fails_at_the_time_of_its_run(tmp_path: Path) -> None:
    def broken(paths: RunPaths) -> None:
        paths.plan.write_text("no plan", encoding="ascii")

    plan = plan_from({"hosts": "simulated", "system": "reference", "nemesis": []})
    with Staging(plan, tmp_path, Console(quiet=True)).played(begun=broken) as played:
        assert played.result.ending is Ending.USER
        there = load_milestones(played.paths.milestones)
        assert [each.name for each in there] == ["looked", "failed", "audited"]
        assert there[1].detail["sentence"] == played.result.sentence
        assert {each.at_ns for each in there} == {0}, "virtual time had not begun"


def test_heal_leaves_a_living_run_alone(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    assert heal_store(store.root) == Healed()
    with store.create("log", 1) as paths:
        assert heal_store(store.root).done == (
            f"{paths.run_id} is still running, so it was not changed",
        )
    assert heal_store(store.root) == Healed()


def test_heal_says_once_what_became_of_a_dead_run_and_how_to_judge_it(tmp_path: Path) -> None:
    with Store(tmp_path / "runs").create("log", 1) as paths:
        for name, at_ns in (("started", 1), ("main", 4 * 10**9), ("broker-ended", 7 * 10**9)):
            append_milestone(paths.milestones, Milestone(name=name, at_ns=at_ns))
        Ledger(paths.ledger).write(1, [Join(cut_id="fault-1", links=(("n1", "n2"),))])
    run = paths.run_id
    assert heal_store(tmp_path / "runs").done == (
        f"{run}: the run's command ended in its main phase, 4 s after its start or later",
        f"{run}: 1 fault was in force; no fault is in force any more",
        f"{run}: the run has no verdict; to judge its record, type: logquake check {paths.root}",
    )
    noted = load_milestones(paths.milestones)[-1]
    assert (noted.name, noted.detail["kind"]) == ("failed", "died")
    assert noted.detail["sentence"] == "the run's command ended in its main phase"
    assert heal_store(tmp_path / "runs") == Healed()


@pytest.mark.parametrize("end", ["failed", "collected", "audited"])
def test_heal_takes_no_run_that_came_to_its_end_for_a_dead_one(tmp_path: Path, end: str) -> None:
    with Store(tmp_path / "runs").create("log", 1) as paths:
        for name in ("main", end):
            append_milestone(paths.milestones, Milestone(name=name, at_ns=1))
    assert heal_store(tmp_path / "runs") == Healed()
    assert len(load_milestones(paths.milestones)) == 2


def test_heal_ends_the_processes_of_a_dead_run(tmp_path: Path) -> None:
    with Store(tmp_path / "runs").create("log", 1) as paths:
        pass
    orphan = subprocess.Popen(
        ["sleep", "600"], env={**os.environ, **mark(paths.processes)}, start_new_session=True
    )
    try:
        # A process that begins has no environment for a moment; the product's own are announced.
        wait_until(lambda: environment_of(orphan.pid), timeout_s=30, what="its environment")
        healed = heal_store(tmp_path / "runs")
        assert orphan.wait(timeout=30) < 0
        assert healed.done
        assert all(sentence.startswith(f"{paths.run_id}: ") for sentence in healed.done)
        assert heal_store(tmp_path / "runs") == Healed()
    finally:
        orphan.kill()
        orphan.wait()


def test_the_doctor_has_a_remedy_for_whatever_does_not_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    findings = examine_machine(tmp_path / "runs")
    assert any(each.what == "Kafka at hand" and not each.works for each in findings)
    console = Console(record=True, width=200, quiet=False, file=(tmp_path / "out").open("w"))
    print_findings(findings, console)
    shown = console.export_text()
    console.file.close()
    for each in findings:
        assert each.what in shown
        assert each.works or each.remedy.split()[0] in shown, each.what


def test_the_doctor_says_what_runs_without_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_java() -> Java:
        raise UserError("type this")

    monkeypatch.setattr(doctor, "find_java", no_java)
    (java,) = (each for each in examine_machine(tmp_path) if each.what == "Java for brokers")
    assert (java.works, java.remedy) == (False, "type this; --system reference needs no Java")


def test_the_local_engine_needs_no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert choose_engine("local", None).name == "local"


def test_the_reference_cluster_needs_no_java_and_takes_spark_when_it_is_asked_for() -> None:
    assert choose_engine(None, None, light=True).name == "local"
    assert choose_engine(None, None).name == "spark"
    assert choose_engine("spark", None, light=True).name == "spark"
    assert choose_engine(None, "local[1]", light=True).spark_master == "local[1]"


def test_the_stored_plan_of_hosts_without_partitions_runs_again_with_the_same_schedule() -> None:
    plan = plan_from({"seed": 5})
    stored = plan_from(tomllib.loads(dump_plan(as_played(plan, "process", abilities=frozenset()))))
    refuse_impossible(stored, abilities=frozenset())
    again = deal_schedule(stored, abilities=frozenset())
    assert again.faults == deal_schedule(plan, abilities=frozenset()).faults
    assert not again.dropped
