"""How far a share group is, as its coordinator tells: what counts as known."""

import io
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta

import pytest
from kio.schema.api_versions.v0.response import ApiVersion, ApiVersionsResponse
from kio.schema.describe_share_group_offsets.v1.response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v3.response import FindCoordinatorResponse
from kio.schema.types import BrokerId, GroupId, TopicName
from kio.serial import entity_writer
from kio.static.primitive import i16, i32, i32Timedelta, i64
from kio.static.protocol import ResponsePayload

from cluster.kafka.share_lags import share_lags
from cluster.protocol import Endpoint

NOW = i32Timedelta.parse(timedelta())
LAGS, COORDINATOR, VERSIONS = 90, 10, 18
KNOWN = {LAGS: 1, COORDINATOR: int(FindCoordinatorResponse.__version__)}
PLACES = [("log-0", 0), ("log-0", 1)]
GROUP = "shares-0"


def encoded(answer: ResponsePayload, correlation_id: int) -> bytes:
    body = io.BytesIO()
    entity_writer(type(answer))(body, answer)
    tags = b"" if type(answer).__header_schema__.__version__ == 0 else b"\0"
    frame = struct.pack(">i", correlation_id) + tags + body.getvalue()
    return struct.pack(">i", len(frame)) + frame


@contextmanager
def broker(answers: Mapping[int, ResponsePayload]) -> Iterator[dict[str, Endpoint]]:
    """A broker that gives the same answers again and again, to one client."""

    def serve() -> None:
        accepted, _ = server.accept()
        with accepted, accepted.makefile("rb") as asked:
            while head := asked.read(4):
                request = asked.read(struct.unpack(">i", head)[0])
                key, _, correlation_id = struct.unpack(">hhi", request[:8])
                accepted.sendall(encoded(answers[key], correlation_id))

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = int(server.getsockname()[1])
        thread = threading.Thread(target=serve)
        thread.start()
        yield {"n1": Endpoint(host="127.0.0.1", broker_port=port, controller_port=0)}
        thread.join()


def asked_of(
    *groups: DescribeShareGroupOffsetsResponseGroup, coordinator: ErrorCode = ErrorCode.none
) -> dict[tuple[str, int], int]:
    """What is known of the group if its coordinator answers so."""
    known = tuple(
        ApiVersion(api_key=i16(key), min_version=i16(0), max_version=i16(highest))
        for key, highest in KNOWN.items()
    )
    answers: dict[int, ResponsePayload] = {
        VERSIONS: ApiVersionsResponse(error_code=ErrorCode.none, api_keys=known),
        COORDINATOR: FindCoordinatorResponse(
            throttle_time=NOW, error_code=coordinator, error_message=None, node_id=BrokerId(1),
            host="127.0.0.1", port=i32(1),
        ),
        LAGS: DescribeShareGroupOffsetsResponse(throttle_time=NOW, groups=groups),
    }  # fmt: skip
    with broker(answers) as endpoints:
        return share_lags(endpoints, lambda _: True, GROUP, PLACES)


def part(
    number: int, lag: int, error: ErrorCode = ErrorCode.none
) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=i32(number), start_offset=i64(0), leader_epoch=i32(0), lag=i64(lag),
        error_code=error,
    )  # fmt: skip


def group(
    *parts: DescribeShareGroupOffsetsResponsePartition,
    group_id: str = GROUP,
    error: ErrorCode = ErrorCode.none,
) -> DescribeShareGroupOffsetsResponseGroup:
    topic = DescribeShareGroupOffsetsResponseTopic(
        topic_name=TopicName("log-0"), topic_id=None, partitions=parts
    )
    return DescribeShareGroupOffsetsResponseGroup(
        group_id=GroupId(group_id), topics=(topic,), error_code=error
    )


def test_lags_are_by_partition() -> None:
    assert asked_of(group(part(0, 0), part(1, 7))) == {("log-0", 0): 0, ("log-0", 1): 7}


@pytest.mark.parametrize(
    "first",
    [
        part(0, 0, ErrorCode.not_leader_or_follower),
        part(0, -1),
    ],
    ids=["error", "lag -1"],
)
def test_what_a_coordinator_does_not_know_of_a_partition_is_not_known(
    first: DescribeShareGroupOffsetsResponsePartition,
) -> None:
    assert asked_of(group(first, part(1, 0))) == {("log-0", 1): 0}


def test_a_partition_that_an_answer_lacks_is_not_known() -> None:
    assert asked_of(group(part(1, 0))) == {("log-0", 1): 0}
    assert asked_of(group()) == {}
    assert asked_of() == {}


def test_an_answer_with_an_error_and_one_on_another_group_tell_nothing() -> None:
    whole = (part(0, 0), part(1, 0))
    assert asked_of(group(*whole, error=ErrorCode.not_coordinator)) == {}
    assert asked_of(group(*whole, group_id="another")) == {}


def test_nothing_is_known_of_a_group_without_a_coordinator() -> None:
    lost = ErrorCode.coordinator_not_available
    assert asked_of(group(part(0, 0), part(1, 0)), coordinator=lost) == {}


def test_nothing_is_known_where_no_broker_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = int(server.getsockname()[1])
    nobody = {"n1": Endpoint(host="127.0.0.1", broker_port=port, controller_port=0)}
    assert share_lags(nobody, lambda _: True, GROUP, PLACES) == {}
    assert share_lags(nobody, lambda _: False, GROUP, PLACES) == {}
