"""Where faults or answers of brokers are damaged, what would allow an anomaly may be missing."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from checkers.folder import notes_file
from checkers.judge import weigh
from checkers.run import judge_runs
from checkers.runner import CheckResult
from checkers.stored import load_facts, without_tables
from results.record.paths import RunPaths
from results.record.terms import Judge, Validity
from results.record.verdict import Anomaly
from tests.broken import catalogue
from tests.checkers.partition_rows import facts

ALLOWED = "power-is-lost-on-every-replica-before-it-is-flushed.disks.power-loss"
"""A valid run: every replica of a partition lost records by a fault, as the contract permits."""


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
