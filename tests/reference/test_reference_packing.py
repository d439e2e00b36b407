"""What is packed by hand has the bytes that kio would give it, and reads what kio would read."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode

from cluster.reference.messages.data import (
    FetchedPartition,
    FetchResponse,
    ProducedPartition,
    ProduceRequest,
    ProduceResponse,
)
from cluster.reference.wire import codec
from cluster.reference.wire.apis import APIS
from cluster.reference.wire.codec import Question, RequestError
from cluster.reference.wire.packing import FETCH, PRODUCE, answer, produce_request
from cluster.reference.wire.translation import inner, made
from tests.reference.test_reference_wire import request_bytes

OFFSETS = st.integers(-1, 2**40)
NAMES = st.sampled_from(["t", "other", "ü" * 60, "x" * 200])
CODES = st.sampled_from(
    [ErrorCode.none, ErrorCode.not_leader_or_follower, ErrorCode.corrupt_message]
)
PLACES = st.tuples(NAMES, st.integers(0, 300), CODES)
PRODUCED = st.builds(
    lambda place, base, start: ProducedPartition(
        topic=place[0],
        partition=place[1],
        error_code=place[2],
        base_offset=base,
        log_start_offset=start,
    ),
    PLACES,
    OFFSETS,
    OFFSETS,
)
FETCHED = st.builds(
    lambda place, offsets, records: FetchedPartition(
        topic=place[0],
        topic_id=UUID(int=len(place[0]) + 5),
        partition=place[1],
        error_code=place[2],
        high_watermark=offsets[0],
        last_stable_offset=offsets[1],
        log_start_offset=offsets[2],
        records=records,
    ),
    PLACES,
    st.tuples(OFFSETS, OFFSETS, OFFSETS),
    st.binary(max_size=300) | st.just(bytes(20_000)),
)


def versions(key: int) -> range:
    return range(APIS[key].low, APIS[key].high + 1)


def by_kio(key: int, version: int, message: object) -> bytes:
    form = load_response_schema(key, version)
    return codec._encoded(APIS[key].write(message, form), 5)


@given(partitions=st.lists(PRODUCED, max_size=4), version=st.sampled_from(versions(PRODUCE)))
def test_a_produce_is_answered_in_the_same_bytes(
    partitions: list[ProducedPartition], version: int
) -> None:
    message = ProduceResponse(partitions=tuple(partitions))
    assert answer(PRODUCE, version, 5, message) == by_kio(PRODUCE, version, message)


@given(
    partitions=st.lists(FETCHED, max_size=4),
    version=st.sampled_from(versions(FETCH)),
    code=CODES,
)
def test_a_fetch_is_answered_in_the_same_bytes(
    partitions: list[FetchedPartition], version: int, code: ErrorCode
) -> None:
    message = FetchResponse(partitions=tuple(partitions), error_code=code)
    assert answer(FETCH, version, 5, message) == by_kio(FETCH, version, message)


def requested(version: int, partitions: list[tuple[str, int, bytes]], **values: object) -> bytes:
    schema = load_request_schema(PRODUCE, version)
    of_topic = inner(schema, "topic_data")
    of_partition = inner(of_topic, "partition_data")
    topics = tuple(
        made(of_topic, name=name, partition_data=(made(of_partition, index=index, records=data),))
        for name, index, data in partitions
    )
    return request_bytes(PRODUCE, version, topic_data=topics, **values)


def read_by_kio(frame: bytes, monkeypatch: pytest.MonkeyPatch) -> Question | str:
    with monkeypatch.context() as patched:
        patched.setattr(codec, "produce_request", lambda _frame: None)
        return read(frame)


def read(frame: bytes) -> Question | str:
    try:
        return codec.question(frame)
    except RequestError:
        return "refused"


@pytest.mark.parametrize("version", versions(PRODUCE))
@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_a_produce_is_read_alike(version: int, acks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    partitions = [("t", 3, b"batch" * 100), ("ü" * 70, 0, b""), ("t", 4, bytes(70_000))]
    frame = requested(version, partitions, acks=acks)
    plain = produce_request(frame)
    assert plain is not None
    assert plain[0] == "somebody"
    assert isinstance(plain[1], ProduceRequest)
    assert [(each.topic, each.partition, each.records) for each in plain[1].partitions] == (
        partitions
    )
    assert read(frame) == read_by_kio(frame, monkeypatch)


@pytest.mark.parametrize("version", versions(PRODUCE))
def test_what_is_not_plain_is_left_to_kio(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = requested(version, [("t", 3, b"batch")], transactional_id="writer")
    assert produce_request(frame) is None
    assert read(frame) == read_by_kio(frame, monkeypatch)


@pytest.mark.parametrize("version", versions(PRODUCE))
def test_damaged_produces_are_read_alike(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = requested(version, [("topic", 3, b"batch"), ("t", 1, b"")])
    damaged = [frame[:size] for size in range(8, len(frame))] + [frame + b"more"]
    damaged += [
        frame[:place] + bytes([byte]) + frame[place + 1 :]
        for place in range(8, len(frame))
        for byte in (0, 1, 0x7F, 0x80, 0xFF)
    ]
    for each in damaged:
        assert read(each) == read_by_kio(each, monkeypatch), each
