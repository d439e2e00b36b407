"""Polled records as columns: what a poll returned is what the streams have, whatever its shape."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Message

from results.record.contents import HEADERS, messages
from results.record.paths import RunPaths
from results.record.shapes import Shape
from results.record.stream import read_stream
from results.record.topics import CreatedTopic
from workloads.clients.consumer import batch_of as read_batch
from workloads.protocol import Batch, Column
from workloads.recorder import Recorder

AT_MS = 1_700_000_000_000
TOPICS = [CreatedTopic(topic=f"log-{n}", topic_id=f"id-{n}", partitions=2) for n in (0, 1)]


def message(topic: str, partition: int, offset: int, value: bytes | None) -> Message:
    return Message(topic=topic, partition=partition, offset=offset, value=value, leader_epoch=3)


def test_spans_part_topics_and_partitions_where_they_change() -> None:
    places = [("log-0", 1), ("log-0", 1), ("log-1", 1), ("log-1", 0), ("log-0", 1)]
    records = [
        message(topic, partition, 10 + at, (at + 5).to_bytes(8, "big") + b"rest")
        for at, (topic, partition) in enumerate(places)
    ]
    batch = read_batch(records)
    assert batch.spans == [
        (("log-0", 1), 2), (("log-1", 1), 1), (("log-1", 0), 1), (("log-0", 1), 1),
    ]  # fmt: skip
    assert batch.offsets.tolist() == [10, 11, 12, 13, 14]
    assert list(batch.values) == [5, 6, 7, 8, 9]
    assert list(batch.leader_epochs) == [3] * 5
    assert batch.positions == {("log-0", 1): 15, ("log-1", 1): 13, ("log-1", 0): 14}


@pytest.mark.parametrize("odd", [None, b"", b"short", (1 << 63).to_bytes(8, "big") + b"longer"])
def test_one_odd_payload_leaves_the_other_values_as_they_are(odd: bytes | None) -> None:
    whole = (7).to_bytes(8, "big")
    batch = read_batch([message("log-0", 0, at, each) for at, each in enumerate([whole, odd])])
    expected = -(1 << 63) if odd is not None and len(odd) >= 8 else None
    assert list(batch.values) == [7, expected]


def test_a_record_by_itself_has_the_number_of_keys_that_the_plan_has() -> None:
    ((payload, key, headers),) = messages(np.array([16]), Shape(size_bytes=40, keys=5), AT_MS)
    read = Message(
        topic="log-0", partition=0, offset=7, value=payload, key=key, headers=headers,
        timestamp=(TIMESTAMP_CREATE_TIME, AT_MS), leader_epoch=3,
    )  # fmt: skip
    for keys, damage in ((0, [0]), (5, [0]), (4, [HEADERS])):
        found = read_batch([read], keys=keys).damage
        assert found is not None
        assert list(found) == damage


def batch_of(lengths: list[int], values: Column, epochs: Column) -> Batch:
    spans = [((f"log-{at % 2}", at % 2), length) for at, length in enumerate(lengths)]
    return Batch(
        spans=spans, offsets=np.arange(100, 100 + sum(lengths)), values=values,
        leader_epochs=epochs, ends={}, error=None,
    )  # fmt: skip


def polled(folder: Path) -> list[tuple[object, ...]]:
    table = pa.Table.from_batches(list(read_stream(folder / "polled.w.arrows")))
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=lambda row: row[:3])


@pytest.mark.parametrize("lengths", [[40], [40, 30], [40, 2, 30, 16, 17], [3, 1]])
def test_every_polled_record_is_recorded_once_at_its_place(
    run_paths: RunPaths, lengths: list[int]
) -> None:
    total = sum(lengths)
    gaps = [None if at % 7 == 0 else at for at in range(total)]
    numbers = np.arange(total)
    recorder = Recorder(run_paths.live, "w", worker=0, topics=TOPICS, acks="all")
    # Arrays, columns with gaps, and both in one flush.
    recorder.polled(1, batch_of(lengths, numbers, numbers.astype(np.int32)))
    recorder.polled(2, batch_of(lengths, gaps, gaps))
    recorder.flush()
    recorder.polled(3, batch_of(lengths, numbers, gaps))
    recorder.close()
    places = [at % 2 for at, length in enumerate(lengths) for _ in range(length)]
    columns: dict[int, tuple[Column, Column]] = {
        1: (numbers.tolist(),) * 2,
        2: (gaps, gaps),
        3: (numbers.tolist(), gaps),
    }
    assert polled(run_paths.live) == [
        (op, 0, at, f"log-{place}", f"id-{place}", place, 100 + at, values[at], epochs[at],
         "read_uncommitted", None)
        for op, (values, epochs) in columns.items()
        for at, place in enumerate(places)
    ]  # fmt: skip
