"""What a run of the model leaves: rows for a judge, and a folder as a real run has it.

Brokers' logs carry the broker's own clock and time zone. A clock that is wrong is a fault of the
record, as it is in real runs.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq

from checkers.columns import NEVER
from checkers.examine import conclude, examine, gathered
from checkers.facts import RunFacts
from checkers.group import Group, group_of
from checkers.judge import weigh
from checkers.stored import write_statistics
from results.page.investigation import Investigation, investigate
from results.record.clock import NS_PER_S
from results.record.milestones import Milestone, append_milestone
from results.record.paths import RunPaths
from results.record.plan import dump_plan
from results.record.tables import TABLES
from results.record.verdict import Example, Verdict
from results.tables import RunTables
from results.verdict_json import write_verdict
from tests.checkers import partition_rows
from tests.checkers.acknowledged_model import BROKERS, CONTROL, AcknowledgedRun
from tests.checkers.faithful_clients import Row

STARTED = datetime(2026, 11, 22, 1, 0, tzinfo=UTC)
PLACE = ("log-0", "id-0", 0)
_EFFECTS = {"kill": {"kind": "kill"}, "isolate": {"kind": "cut", "links": []}}


def group_of_run(run: AcknowledgedRun) -> Group:
    """Return what a judge sees of the partition."""
    topic, topic_id, partition = PLACE
    return group_of(
        facts_of(run), tables_of(run), topic=topic, topic_id=topic_id, partition=partition
    )


def facts_of(run: AcknowledgedRun) -> RunFacts:
    """Return the run's context."""
    return partition_rows.facts(
        plan=run.kind.plan,
        absences=tuple(run.absences),
        collected_nodes=frozenset(f"n{number}" for number in BROKERS),
        disturbances=tuple(run.disturbances),
        disk_losses=tuple(run.disk_losses),
        quorum_high_watermark=run.decided if run.kind.controllers else None,
    )


def tables_of(run: AcknowledgedRun) -> dict[str, pa.Table]:
    """Return the rows of the record."""
    logs = {each.node: each.log for each in run.brokers.values()}
    end = len(logs[f"n{run.leader}"])
    states = [partition_rows.state(node, len(held)) for node, held in logs.items()]
    rows: dict[str, list[Row]] = {
        "sends": run.sends,
        "polls": [*run.polls, *_final_polls(run)],
        "final_reads": [
            {**partition_rows.final_read(end), "isolation": each} for each in _isolations(run)
        ],
        "leadership": run.leadership,
        "truncations": run.truncations,
        "replica_records": [row for node, held in logs.items() for row in _records(node, held)],
        "replica_states": [*run.looks, *states],
    }
    return {
        name: pa.Table.from_pylist(
            [{**partition_rows.PLACE, "run_id": "hand/made", **row} for row in each],
            schema=TABLES[name],
        )
        for name, each in rows.items()
    }


def _records(node: str, held: list[tuple[int, int]]) -> list[Row]:
    rows = partition_rows.log(node, *held)
    return [row if row["value"] != CONTROL else {**row, "value": None, "control": True}
            for row in rows]  # fmt: skip


def _isolations(run: AcknowledgedRun) -> list[str]:
    return ["read_uncommitted", *(["read_committed"] if run.kind.transactions else [])]


def _final_polls(run: AcknowledgedRun) -> Iterator[Row]:
    """Yield the final reads; one of transactions may leave out half of one: its marker is lost."""
    found = list(enumerate(run.brokers[run.leader].log))
    for number, isolation in enumerate(_isolations(run)):
        torn = run.random.randrange(len(found) + 1) if number else len(found)
        shown = [each for each in found if each[0] != torn]
        for row in run.polled(shown, run.now, process=20 + number, phase="final"):
            yield {**row, "op_id": 10_000 + number, "isolation": isolation}


class Told:
    """A run, judged, and stored as a folder.

    Args:
        run: Which.
        paths: The folder, which is made.
    """

    def __init__(self, run: AcknowledgedRun, paths: RunPaths) -> None:
        self.paths, facts = paths, facts_of(run)
        tables = tables_of(run)
        pieces = examine(facts, tables, PLACE)
        found = gathered([*pieces, *conclude(facts, pieces)])
        self.verdict = weigh(facts, found.checks, judge=facts.judge, engine="local", stats={})
        for folder in (paths.record, paths.statistics):
            folder.mkdir(parents=True, exist_ok=True)
        write_statistics(paths, found.statistics)
        faults = pa.Table.from_pylist(list(_faults(run)), schema=TABLES["faults"])
        for name, table in {**tables, "faults": faults}.items():
            pq.write_table(table, paths.table(name))
        paths.plan.write_text(dump_plan(facts.plan), encoding="utf-8")
        append_milestone(paths.milestones, Milestone(name="stopped", at_ns=run.now))
        environment = {"started_unix_s": STARTED.timestamp()}
        paths.environment.write_text(json.dumps(environment), encoding="utf-8")
        _write_logs(run, paths)

    def examples(self) -> Iterator[tuple[str, Example]]:
        """Yield the verdict's examples with the names of their anomalies."""
        for name, summary in self.verdict.anomalies.items():
            yield from ((name, each) for each in summary.examples)

    def story_of(self, name: str, example: Example) -> Investigation:
        """Return what page and terminal tell if this example is the first one."""
        write_verdict(self.paths, _only(self.verdict, name, example))
        return investigate(self.paths, RunTables(self.paths))


def _only(verdict: Verdict, name: str, example: Example) -> Verdict:
    summary = replace(verdict.anomalies[name], examples=(example,))
    return replace(verdict, anomalies={name: summary}, ranked=(name,))


def _faults(run: AcknowledgedRun) -> Iterator[Row]:
    number = 0
    for number, each in enumerate(run.disturbances, 1):
        yield {
            "fault_id": number, "kind": each.kind, "targets": sorted(each.nodes),
            "requested_ns": each.begun_ns, "confirmed_ns": each.confirmed_ns,
            "healed_ns": None if each.ended_ns == NEVER else each.ended_ns,
            "spec": json.dumps({"begun": True}),
            "effect": json.dumps(_EFFECTS.get(each.kind, {})), "heal_effect": "{}",
        }  # fmt: skip
    for broker, skew_s in run.kind.skews.items():
        if skew_s:
            number += 1
            yield {
                "fault_id": number, "kind": "clock-skew", "targets": [f"n{broker}"],
                "requested_ns": 0, "confirmed_ns": 1, "healed_ns": None,
                "spec": json.dumps({"begun": True}), "effect": "{}", "heal_effect": "{}",
            }  # fmt: skip


def _write_logs(run: AcknowledgedRun, paths: RunPaths) -> None:
    for broker in run.brokers.values() if run.kind.logs else ():
        file = paths.node(broker.node) / "logs" / "server.log"
        file.parent.mkdir(parents=True)
        ahead_s = run.kind.skews[broker.number] + run.kind.zones[broker.number]
        lines = []
        for at_ns, text in run.said[broker.node]:
            at = STARTED + timedelta(seconds=at_ns / NS_PER_S + ahead_s)
            lines.append(f"[{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03d}] INFO {text}\n")
        file.write_text("".join(lines), encoding="utf-8")
