"""Where faults or answers of brokers are damaged, what would allow an anomaly may be missing."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from checkers.folder import notes_file
from checkers.ingest import writer_of
from checkers.judge import weigh
from checkers.run import judge_runs
from checkers.runner import CheckResult
from checkers.stored import load_facts, missing_streams, without_tables
from results.record.declared import Declared, Sight
from results.record.paths import RunPaths
from results.record.plan import dump_plan
from results.record.terms import Judge, Validity
from results.record.verdict import Anomaly
from tests.broken import catalogue
from tests.checkers.faithful import FaithfulRun
from tests.checkers.partition_rows import facts, made_plan

ALLOWED = "power-is-lost-on-every-replica-before-it-is-flushed.disks.power-loss"
"""A valid run: every replica of a partition lost records by a fault, as the contract permits."""

KEPT_OUT = "a-follower-never-comes-back-to-the-isr.log.kill"
"""An invalid run, if its observers' streams were whole."""
LATE = "isr-not-restored"


@pytest.mark.parametrize("table", ["faults", "leadership", "replica_states", "truncations"])
def test_a_damaged_table_makes_no_valid_run_invalid(table: str, tmp_path: Path) -> None:
    (change,) = (each for each in catalogue() if each.name == ALLOWED)
    root = change.save(tmp_path)
    path = RunPaths(root).table(table)
    path.write_bytes(path.read_bytes()[:-8])
    (verdict,) = judge_runs([root], engine="local")
    assert verdict.valid is Validity.UNKNOWN
    assert f"the table {table} cannot be read" in verdict.unknown_because


@pytest.mark.parametrize("unit", ["nemesis", "observer-n2", "observer-zookeeper", "worker-0"])
def test_a_cut_stream_of_events_counts_and_no_clients_stream(unit: str, tmp_path: Path) -> None:
    (change,) = (each for each in catalogue() if each.name == ALLOWED)
    root = change.save(tmp_path)
    path = notes_file(RunPaths(root))
    notes = json.loads(path.read_text())
    notes["problems"] = [{"unit": unit, "sentence": "it is cut off", "cut": True}]
    path.write_text(json.dumps(notes))
    about = load_facts(root)
    assert about.events_known is (unit == "worker-0")
    assert without_tables(about, ["polls"]).events_known is about.events_known
    assert not without_tables(about, ["polls", "faults"]).events_known


@pytest.mark.parametrize(
    ("system", "wanted"),
    [
        ("kafka:3.9.1", {f"observer-n{at}" for at in (1, 2, 3)}),
        ("kafka:3.9.1:controllers", {f"observer-n{at}" for at in (1, 2, 3, 101, 102, 103)}),
        ("kafka:3.9.1:zookeeper", {"observer-n1", "observer-n2", "observer-n3", "observer-zk"}),
    ],
)
def test_the_streams_of_events_must_be_there(system: str, wanted: set[str], tmp_path: Path) -> None:
    paths = RunPaths(FaithfulRun(1).write(tmp_path / "t" / "run"))
    assert not {each.unit for each in missing_streams(paths)}
    for path in paths.live.iterdir():
        if writer_of(path).startswith(("nemesis", "observer-")):
            path.unlink()
    paths.plan.write_text(dump_plan(made_plan(system=system, workers=1)))
    missed = missing_streams(paths)
    assert {each.unit for each in missed} == {"nemesis", *wanted}
    assert all(each.cut for each in missed)


def test_a_run_without_the_nemesis_stream_is_not_judged_as_if_there_were_no_faults(
    tmp_path: Path,
) -> None:
    root = FaithfulRun(1).write(tmp_path / "t" / "run")
    (RunPaths(root).live / "faults.nemesis.arrows").unlink()
    (verdict,) = judge_runs([root], engine="local")
    assert verdict.valid is Validity.UNKNOWN
    assert "the stream faults.nemesis.arrows is missing" in verdict.unknown_because
    assert not load_facts(root).events_known


@pytest.mark.parametrize("name", ["assignments.worker-0", "quorum_states.observer-n2"])
def test_without_moves_or_answers_about_the_quorum_nothing_is_sure(
    name: str, tmp_path: Path
) -> None:
    """A reader that was moved seems to go back; a quorum that nobody asked seems to be sound."""
    root = FaithfulRun(1).write(tmp_path / "t" / "run")
    (RunPaths(root).live / f"{name}.arrows").unlink()
    (verdict,) = judge_runs([root], engine="local")
    assert verdict.valid is Validity.UNKNOWN
    assert f"the stream {name}.arrows is missing" in verdict.unknown_because


@pytest.mark.parametrize("text", ["{", None])
def test_without_the_notes_nobody_knows_which_streams_were_cut(
    text: str | None, tmp_path: Path
) -> None:
    (change,) = (each for each in catalogue() if each.name == KEPT_OUT)
    root = change.save(tmp_path)
    (verdict,) = judge_runs([root], engine="local")
    assert verdict.valid is Validity.INVALID
    if text is None:
        notes_file(RunPaths(root)).unlink()
    else:
        notes_file(RunPaths(root)).write_text(text)
    assert not load_facts(root).events_known
    (verdict,) = judge_runs([root], engine="local")
    assert verdict.valid is Validity.UNKNOWN
    told = "the notes of ingest are missing" if text is None else "the notes of ingest cannot be"
    assert any(told in each for each in verdict.unknown_because)


@pytest.mark.parametrize(("lines", "rest"), [(7, ""), (7, "{"), (9, "")])
def test_unless_it_was_looked_for_brokers_that_ended_nobody_knows_who_ended_one(
    lines: int, rest: str, tmp_path: Path
) -> None:
    (change,) = (each for each in catalogue() if each.name == KEPT_OUT)
    root = change.save(tmp_path)
    path = RunPaths(root).milestones
    kept = path.read_text().splitlines(keepends=True)[:lines]
    assert not any('"noted"' in each for each in kept)
    path.write_text("".join(kept) + rest)
    (verdict,) = judge_runs([root], engine="local")
    assert (verdict.valid, verdict.anomalies[LATE].trusted) == (Validity.UNKNOWN, 0)
    blind = Declared(sees=frozenset(Sight) - {Sight.ENDS})
    found = Anomaly(name=LATE, sentence="late!", evidence={}, run_id="hand/made")
    for name, about, trusted in (
        (LATE, facts(milestones=()), 0),
        (LATE, facts(milestones=(), declared=blind), 1),
        (LATE, facts(), 1),
        ("broker-ended", facts(milestones=()), 1),
    ):
        results = {
            ("log-0", "id-0", 0): [
                CheckResult(name=name, rows=1, anomalies=(replace(found, name=name),))
            ]
        }
        told = weigh(about, results, judge=Judge.CONTRACT, engine="local", stats={})
        assert told.anomalies[name].trusted == trusted


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("lost-write", Validity.UNKNOWN),
        ("forbidden-election", Validity.UNKNOWN),
        ("broker-ended", Validity.UNKNOWN),
        ("phantom", Validity.INVALID),
        ("double-vote", Validity.INVALID),
    ],
)
def test_what_no_event_allows_counts_all_the_same(name: str, valid: Validity) -> None:
    found = Anomaly(name=name, sentence=f"{name}!", evidence={}, run_id="hand/made")
    results = {("log-0", "id-0", 0): [CheckResult(name=name, rows=1, anomalies=(found,))]}
    about = replace(facts(), events_known=False)
    verdict = weigh(about, results, judge=Judge.CONTRACT, engine="local", stats={})
    assert verdict.valid is valid
