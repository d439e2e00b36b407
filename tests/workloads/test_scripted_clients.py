"""What a scenario sends and reads: named messages, whole batches, and an honest record."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cluster.files.batches import read_segment, records
from cluster.kafka.cluster import KafkaCluster
from results.record.clock import RunClock
from results.record.contents import message_name, message_payload
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.stream import read_stream, table_of
from results.record.terms import Outcome, Phase
from results.record.topics import CreatedTopic
from results.record.values import pack_value
from workloads.scripted import Script

PLAN = Plan(nodes=1, replication=1, min_insync=1)
NOWHERE = CreatedTopic(topic="story", topic_id="none", partitions=1)
Row = dict[str, Any]


def table(live: Path, name: str) -> list[Row]:
    batches = [
        batch
        for path in sorted(live.iterdir())
        if table_of(path) == name
        for batch in read_stream(path)
    ]
    return pa.Table.from_batches(batches).to_pylist() if batches else []


def script_of(plan: Plan, topic: CreatedTopic, bootstrap: str, paths: RunPaths) -> Script:
    return Script(plan, topic, bootstrap, clock=RunClock.starting_now(), live=paths.live)


def test_a_message_has_its_value_and_its_name() -> None:
    value = pack_value(1, 12)
    assert message_name(value) == "message12"
    assert message_payload(value) == value.to_bytes(8, "big") + b"message12"


def test_without_a_broker_each_message_is_given_up_and_its_process_retired(
    run_paths: RunPaths,
) -> None:
    script = script_of(PLAN, NOWHERE, "127.0.0.1:9", run_paths)
    sent = script.send(2, within_s=1)
    assert script.read(within_s=1) == []
    script.close()
    assert [(each.name, each.outcome, each.offset) for each in sent] == [
        ("message1", Outcome.INFO, None),
        ("message2", Outcome.INFO, None),
    ]
    assert all((each.error or "").startswith("_MSG_TIMED_OUT") for each in sent)
    sends = [row for row in table(run_paths.live, "op_invocations") if row["f"] == "send"]
    assert len({row["process"] for row in sends}) == len(sends) == 2
    ended = {row["op_id"]: row["outcome"] for row in table(run_paths.live, "op_completions")}
    assert all(ended[row["op_id"]] == "info" for row in sends)
    for stream in run_paths.live.iterdir():
        with pa.ipc.open_stream(stream.read_bytes()) as whole:
            whole.read_all()


@pytest.mark.kafka
class TestWithABroker:
    @pytest.fixture
    def topic(self, one_broker: KafkaCluster, request: pytest.FixtureRequest) -> CreatedTopic:
        name = request.node.name.replace("_", "-")[:40]
        (topic,) = one_broker.create_topics([name], partitions=1, replication=1)
        return topic

    def test_what_was_sent_is_read_and_recorded(
        self, one_broker: KafkaCluster, topic: CreatedTopic, run_paths: RunPaths
    ) -> None:
        script = script_of(PLAN, topic, one_broker.bootstrap(), run_paths)
        script.phase = Phase.WARMUP
        sent = script.send(2)
        script.phase = Phase.MAIN
        sent += script.send(9, together=True, only_to="n1")
        sent += script.send(1, acks="1")
        read = script.read()
        script.close()
        names = [f"message{number}" for number in range(1, 13)]
        assert [each.name for each in sent] == names
        assert [each.offset for each in sent] == list(range(12))
        assert [(each.name, each.offset, each.leader_epoch) for each in read] == [
            (name, offset, 0) for offset, name in enumerate(names)
        ]
        live = run_paths.live
        invoked = table(live, "op_invocations")
        assert Counter((row["f"], row["phase"]) for row in invoked)["send", "warmup"] == 2
        sends = {row["op_id"] for row in invoked if row["f"] == "send"}
        assert len(sends) == 4
        assert {row["op_id"] for row in table(live, "op_completions")} == {
            row["op_id"] for row in invoked
        }
        rows = table(live, "send_invocations")
        assert Counter(row["acks"] for row in rows) == {"all": 11, "1": 1}
        assert {row["topic_id"] for row in rows} == {topic.topic_id}
        ranges = [(row["value_from"], row["value_to"]) for row in table(live, "reservations")]
        assert all(any(low <= row["value"] < high for low, high in ranges) for row in rows)
        polled = table(live, "polled")
        assert [(row["offset"], row["value"]) for row in polled] == [
            (offset, pack_value(1, offset + 1)) for offset in range(12)
        ]

    def test_messages_that_are_sent_together_are_one_batch(
        self,
        one_broker: KafkaCluster,
        broker_paths: RunPaths,
        topic: CreatedTopic,
        run_paths: RunPaths,
    ) -> None:
        script = script_of(PLAN, topic, one_broker.bootstrap(), run_paths)
        script.send(100, together=True)
        script.send(2)
        script.close()
        folder = broker_paths.node("n1") / "data" / f"{topic.topic}-0"
        segment = read_segment((folder / f"{0:020}.log").read_bytes())
        batches = [
            [(record.value or b"")[8:].decode() for record in records(batch)]
            for batch in segment.batches
        ]
        assert batches == [
            [f"message{number}" for number in range(1, 101)],
            ["message101"],
            ["message102"],
        ]

    def test_a_paused_broker_takes_nothing_within_the_limit(
        self, one_broker: KafkaCluster, topic: CreatedTopic, run_paths: RunPaths
    ) -> None:
        script = script_of(PLAN, topic, one_broker.bootstrap(), run_paths)
        one_broker.pause_node("n1")
        try:
            (given_up,) = script.send(1, within_s=2)
        finally:
            one_broker.resume_node("n1")
        (sent,) = script.send(1)
        script.close()
        assert given_up.outcome is Outcome.INFO
        assert (sent.name, sent.outcome) == ("message2", Outcome.OK)
