"""Scripted runs made by hand: example 1 of the leader-epoch stories by either rule, as files.

A (n1) leads and B (n2) follows; message1 and message2 are on both, and B's own high watermark is
still 1. B is killed and returns while A is paused: by the old rule it truncates message2. A dies,
B leads, message3 is written, A returns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from results.record.milestones import Milestone, append_milestone
from results.record.paths import RunPaths
from results.record.plan import dump_plan, plan_from
from results.record.steps import Answer, Belief, Line, NodeAtStep, Step, Waited, append_step
from results.record.story import Story, dump_story
from results.record.tables import TABLES
from results.record.terms import AnomalyClass, Rule, Validity
from results.record.topics import CreatedTopic, dump_topics
from results.record.values import pack_value
from results.record.verdict import AnomalySummary, Example, Verdict
from results.verdict_json import write_verdict
from tests.results.told import told

TOPIC, TOPIC_ID = "peter-test01", "4f5b7c5e-0000-4000-8000-000000000002"
PLACE = {"topic": TOPIC, "topic_id": TOPIC_ID, "partition": 0}
NS = 1_000_000_000

Records = Sequence[tuple[int | None, int]]
"""(leader epoch, sequence of the message), by offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A replica at a step: state, log, high watermark, and the lines of its epochs' file."""

    state: str = "up"
    log: Records
    mark: int
    epochs: tuple[tuple[int, int], ...] | None
    deaf_to: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class At:
    """A step: what it tells, the replicas, who leads in which epoch, the ISR."""

    tells: str
    replicas: Mapping[str, Replica]
    leader: int | None
    epoch: int
    isr: tuple[int, ...]
    why: str = ""
    failed: str = ""


def example_1(rule: Rule) -> list[At]:
    """Return the steps of the story."""
    old = rule is Rule.HIGH_WATERMARK
    zero, one = (None, None) if old else (0, 1)
    none = None if old else ((0, 0),)
    both: Records = [(zero, 1), (zero, 2)]
    after: Records = [(zero, 1), (one, 3)] if old else [*both, (one, 3)]
    led = None if old else ((0, 0), (1, 2))
    a = Replica(log=both, mark=2, epochs=none)
    b = Replica(log=both, mark=1, epochs=none)
    cut = Replica(log=both[:1] if old else both, mark=1, epochs=none)
    a_down = Replica(state="down", log=both, mark=2, epochs=none)
    b_after = Replica(log=after, mark=len(after), epochs=led)
    a_after = Replica(
        log=both if old else after, mark=len(both if old else after), epochs=none if old else led
    )
    return [
        At(
            tells="message1 and message2 are written to A with acks=all, and B fetches both.",
            why="B hears of A's high watermark only with its next fetch, so its own is still 1.",
            replicas={"n1": a, "n2": b}, leader=1, epoch=0, isr=(1, 2),
        ),
        At(
            tells="B is killed; its session ends, and A alone is in sync.",
            replicas={"n1": a, "n2": Replica(state="down", log=both, mark=1, epochs=none)},
            leader=1, epoch=0, isr=(1,),
        ),
        At(
            tells="A stops answering, and B returns.",
            why="What B does now with its log is the whole difference between the two rules.",
            replicas={"n1": Replica(state="paused", log=both, mark=2, epochs=none), "n2": cut},
            leader=1, epoch=0, isr=(1,),
        ),
        At(
            tells="A dies. B, the only one left, becomes the leader.",
            replicas={"n1": a_down, "n2": cut}, leader=2, epoch=1, isr=(2,),
        ),
        At(
            tells="message3 is written to B.",
            replicas={"n1": a_down, "n2": b_after}, leader=2, epoch=1, isr=(2,),
        ),
        At(
            tells="A returns and follows B.",
            replicas={"n1": a_after, "n2": b_after}, leader=2, epoch=1, isr=(1, 2),
        ),
    ]  # fmt: skip


def write_story(paths: RunPaths, rule: Rule, steps: Sequence[At] | None = None) -> RunPaths:
    """Write a whole run: plan, steps, copies of files, tables, verdict."""
    told = example_1(rule) if steps is None else list(steps)
    paths.record.mkdir(parents=True)
    plan = plan_from({
        "name": "leader-epoch-1", "system": "kafka:2.8.2", "nodes": 3, "replication": 2,
        "min_insync": 1, "workload": "script", "judge": "strict", "topics": 1, "partitions": 1,
        "broker": {"unclean.leader.election.enable": "true"},
        "scenario": {"name": "leader-epoch-1", "topic": TOPIC, "rule": rule.value},
    })  # fmt: skip
    paths.plan.write_text(dump_plan(plan), encoding="utf-8")
    dump_topics([CreatedTopic(topic=TOPIC, topic_id=TOPIC_ID, partitions=1)], paths.topics)
    append_milestone(paths.milestones, Milestone(name="collected", at_ns=70 * NS))
    dump_story(_story(rule), paths.story)
    for number, at in enumerate(told, start=1):
        append_step(paths.steps, step_of(number, at))
        _copy_files(paths, f"step-{number:02}", at)
    _tables(paths, told)
    write_verdict(paths, _verdict(paths.run_id, rule))
    return paths


def step_of(number: int, at: At) -> Step:
    """Return the line of `steps.jsonl`."""
    return Step(
        number=number,
        name=f"step-{number:02}",
        tells=at.tells,
        why=at.why,
        did=("Kill n2",),
        waited=(Waited(what="the ISR is n1", saw="ISR n1", took_s=6.2, came=not at.failed),),
        begun_ns=number * 10 * NS,
        ended_ns=(number + 1) * 10 * NS,
        nodes=tuple(
            NodeAtStep(node=node, state=each.state, incarnation=1, deaf_to=each.deaf_to)
            for node, each in {**at.replicas, "n3": Replica(log=(), mark=0, epochs=None)}.items()
        ),
        leader=at.leader,
        leader_epoch=at.epoch,
        isr=at.isr,
        beliefs=(Belief(node="n2", leader=at.leader, leader_epoch=at.epoch, isr=at.isr),),
        answers=(
            Answer(
                node="n1",
                question="where does epoch 0 end?",
                answer="FENCED_LEADER_EPOCH",
                accepted=False,
            ),
        ),
        lines=(Line(node="n2", file="server.log", text="Truncating to offset 1"),),
        failed=at.failed,
    )


def _story(rule: Rule) -> Story:
    old = rule is Rule.HIGH_WATERMARK
    other = Rule.LEADER_EPOCH if old else Rule.HIGH_WATERMARK
    command = "logquake scenario run leader-epoch-1 --rule"
    return Story(
        name="leader-epoch-1",
        title="An acknowledged message is lost",
        about="A follower's high watermark lags behind its leader's by one fetch.",
        moral="B threw message2 away." if old else "Nothing is truncated, nothing is lost.",
        expected="invalid with lost-write" if old else "valid",
        as_expected=True,
        choices={"rule": rule.value},
        roles={"n1": "A", "n2": "B"},
        spectators=("n3",),
        command=f"{command} {rule.value}",
        other_commands={other.value: f"{command} {other.value}"},
    )


def _copy_files(paths: RunPaths, snapshot: str, at: At) -> None:
    for node, replica in at.replicas.items():
        data = paths.snapshots / snapshot / node / "data"
        partition = data / f"{TOPIC}-0"
        partition.mkdir(parents=True)
        marks = f"0\n2\n__consumer_offsets 3 0\n{TOPIC} 0 {replica.mark}\n"
        (data / "replication-offset-checkpoint").write_text(marks, encoding="utf-8")
        for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
            (data / name).write_text(f"0\n1\n{TOPIC} 0 0\n", encoding="utf-8")
        if replica.epochs is not None:
            lines = [f"{epoch} {start}" for epoch, start in replica.epochs]
            text = "\n".join(["0", str(len(lines)), *lines]) + "\n"
            (partition / "leader-epoch-checkpoint").write_text(text, encoding="utf-8")


def _tables(paths: RunPaths, told: Sequence[At]) -> None:
    records: list[dict[str, Any]] = []
    states: list[dict[str, Any]] = []
    for number, at in enumerate(told, start=1):
        for node, replica in at.replicas.items():
            here = {**PLACE, "snapshot": f"step-{number:02}", "node": node}
            records += [
                {
                    **here, "offset": offset, "leader_epoch": epoch, "control": False,
                    "value": pack_value(1, sequence), "record_hash": sequence,
                }
                for offset, (epoch, sequence) in enumerate(replica.log)
            ]  # fmt: skip
            state = {
                **here, "observed_ns": number, "log_start_offset": 0,
                "log_end_offset": len(replica.log), "high_watermark": replica.mark,
            }  # fmt: skip
            states.append({**state, "high_watermark_source": "checkpoint"})
            if replica.state == "up":
                states.append({**state, "high_watermark_source": "fetch"})
    sends = [
        {
            **PLACE, "op_id": sequence, "mop": 0, "value": pack_value(1, sequence),
            "outcome": "ok", "acked": True, "acks": "all", "phase": "main",
        }
        for sequence in (1, 2, 3)
    ]  # fmt: skip
    last = told[-1].replicas[f"n{told[-1].leader}"]
    read = [sequence for _, sequence in last.log]
    polls = [
        {**PLACE, "op_id": 9, "offset": at, "value": pack_value(1, each), "phase": "final"}
        for at, each in enumerate(read)
    ]
    tables = {"replica_records": records, "replica_states": states, "sends": sends, "polls": polls}
    for name, rows in tables.items():
        whole = [{"run_id": paths.run_id, **row} for row in rows]
        pq.write_table(pa.Table.from_pylist(whole, schema=TABLES[name]), paths.table(name))


def _verdict(run_id: str, rule: Rule) -> Verdict:
    value = pack_value(1, 2)
    lost = Example(
        sentence=f"value {value}, acknowledged at offset 1 of {TOPIC}-0, is in no replica's log",
        evidence={"value": value, "offset": 1},
        topic=TOPIC,
        topic_id=TOPIC_ID,
        partition=0,
        offset=1,
        allowed=False,
        trusted=True,
        why="",
    )
    found = AnomalySummary(
        anomaly_class=AnomalyClass.SAFETY, count=1, allowed=0, trusted=1, examples=(lost,)
    )
    old = rule is Rule.HIGH_WATERMARK
    return told(
        Verdict(
            run_id=run_id,
            valid=Validity.INVALID if old else Validity.VALID,
            judge="strict",
            engine="local",
            anomalies={"lost-write": found} if old else {},
            checked={"lost-write": 3},
        )
    )


def run_folder(store: Path, second: int = 0) -> RunPaths:
    """Return a folder of a run in a store; a later second is a newer run."""
    return RunPaths(store / "leader-epoch-1" / f"20261121T1530{second:02}Z-0")
