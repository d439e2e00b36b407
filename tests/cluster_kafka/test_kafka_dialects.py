import importlib
import io
import socket
import struct
from collections.abc import Mapping
from typing import cast

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v12.request import FetchRequest
from kio.schema.list_offsets.v4.response import ListOffsetsResponse as ListOffsetsResponse4
from kio.schema.list_offsets.v7.request import ListOffsetsRequest
from kio.schema.list_offsets.v7.response import ListOffsetsResponse
from kio.schema.metadata.v12.request import MetadataRequest
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.offset_for_leader_epoch.v4.response import OffsetForLeaderEpochResponse
from kio.serial import entity_reader, entity_writer
from kio.static.protocol import Entity, RequestPayload

from cluster.kafka import questions, rows
from cluster.kafka.dialects import inexpressible, recast
from cluster.kafka.old_messages import (
    OLD_MESSAGES,
    EpochRequestV0,
    EpochRequestV1,
    EpochResponseV0,
    EpochResponseV1,
)
from cluster.kafka.wire import Connection
from results.record.clock import stopwatch_s, wait_until

PLACE = ("log-0", 3)
LIMIT_S = 10
EPOCH_KEY = 23

ASKED: Mapping[str, tuple[RequestPayload, int]] = {
    "metadata": (questions.metadata(["log-0"]), 4),
    "list_offsets": (questions.leader_end(PLACE), 1),
    "fetch": (questions.log_starts({PLACE: 0}), 4),
    "offset_for_leader_epoch": (questions.epoch_end(PLACE, epoch=2), 2),
    "create_topics": (
        questions.new_topic("t", assignment={0: [2, 1]}, configs={"a": "b"}, timeout_s=1),
        2,
    ),
}
"""Questions that every broker is asked, and the oldest version that kio has of each."""


def encoded(message: Entity) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def decoded(form: type[Entity], data: bytes) -> Entity:
    message, size = entity_reader(form)(data, 0)
    assert size == len(data)
    return message


def older_form(name: str, version: int) -> type[Entity]:
    module = importlib.import_module(f"kio.schema.{name}.v{version}.request")
    (form,) = (
        each
        for key, each in vars(module).items()
        if key.endswith("Request") and getattr(each, "__module__", "") == module.__name__
    )
    return cast("type[Entity]", form)


@pytest.mark.parametrize("name", ASKED)
def test_a_question_can_be_asked_in_every_version_and_says_the_same(name: str) -> None:
    question, oldest = ASKED[name]
    for version in range(oldest, question.__version__):
        form = older_form(name, version)
        assert inexpressible(question, form) is None
        older = recast(question, form)
        assert decoded(form, encoded(older)) == older
        assert recast(older, type(question)) == question


def test_what_an_old_version_cannot_say_is_not_left_out_in_silence() -> None:
    form = older_form("list_offsets", 3)
    fenced = questions.leader_end(PLACE, current_leader_epoch=4)
    assert inexpressible(fenced, form) == "current_leader_epoch"
    assert inexpressible(fenced, older_form("list_offsets", 4)) is None
    committed = questions.leader_ends([PLACE], committed=True)
    assert inexpressible(committed, older_form("list_offsets", 1)) == "isolation_level"


def test_what_an_old_broker_does_not_tell_is_not_known() -> None:
    # Topic "t", partition 3, no error, timestamp -1, offset 17: version 2 has no leader epoch.
    answer = struct.pack(">iih1sii hqq", 0, 1, 1, b"t", 1, 3, 0, -1, 17)
    form = importlib.import_module("kio.schema.list_offsets.v2.response").ListOffsetsResponse
    told = recast(decoded(form, answer), ListOffsetsResponse)
    (claim,) = rows.claims(told, "n2", {"t": "id"})
    assert (claim.place, claim.high_watermark, claim.leader_epoch) == (("t", 3), 17, -1)
    newer = struct.pack(">iih1sii hqqi", 0, 1, 1, b"t", 1, 3, 0, -1, 17, 5)
    told = recast(decoded(ListOffsetsResponse4, newer), ListOffsetsResponse)
    assert next(rows.claims(told, "n2", {"t": "id"})).leader_epoch == 5


def test_metadata_of_an_old_broker_have_an_isr_and_no_epoch() -> None:
    form = importlib.import_module("kio.schema.metadata.v4.response").MetadataResponse
    head = struct.pack(">iihi", 0, 0, -1, 1)  # Throttled 0 ms, no broker, no cluster, controller 1.
    topic = struct.pack(">ihh1sbi", 1, 0, 1, b"t", 0, 1)
    part = (
        struct.pack(">hii", 0, 3, 2) + struct.pack(">iii", 2, 1, 2) + struct.pack(">iii", 2, 2, 1)
    )
    told = recast(decoded(form, head + topic + part), MetadataResponse)
    (belief,) = rows.beliefs(told, {"t": "id-of-t"})
    assert (belief.leader, belief.leader_epoch, belief.isr) == (2, -1, (1, 2))
    assert belief.topic_id == "id-of-t"


def test_the_oldest_question_for_an_epochs_end_is_written_as_kafka_reads_it() -> None:
    asked = questions.epoch_end(("t", 0), epoch=6)
    expected = struct.pack(">ih1siii", 1, 1, b"t", 1, 0, 6)
    assert OLD_MESSAGES[EPOCH_KEY, 0] == (EpochRequestV0, EpochResponseV0)
    for form in (EpochRequestV0, EpochRequestV1):
        assert inexpressible(asked, form) is None
        assert encoded(recast(asked, form)) == expected
    fenced = questions.epoch_end(("t", 0), epoch=6, current_leader_epoch=7)
    assert inexpressible(fenced, EpochRequestV1) == "current_leader_epoch"


def test_the_oldest_answers_on_an_epochs_end_are_read() -> None:
    head = struct.pack(">ih1si", 1, 1, b"t", 1)
    first = decoded(EpochResponseV0, head + struct.pack(">hiq", 0, 3, 42))
    (told,) = recast(first, OffsetForLeaderEpochResponse).topics[0].partitions
    assert (told.error_code, told.partition, told.end_offset, told.leader_epoch) == (
        ErrorCode.none,
        3,
        42,
        -1,
    )
    second = decoded(EpochResponseV1, head + struct.pack(">hiiq", 6, 3, 5, 42))
    (told,) = recast(second, OffsetForLeaderEpochResponse).topics[0].partitions
    assert (told.error_code.name, told.leader_epoch) == ("not_leader_or_follower", 5)


def test_questions_that_a_new_broker_knows_are_asked_as_they_are() -> None:
    metadata, fetch = ASKED["metadata"][0], ASKED["fetch"][0]
    assert recast(metadata, MetadataRequest) == metadata
    assert recast(fetch, FetchRequest) == fetch
    assert recast(ASKED["list_offsets"][0], ListOffsetsRequest) == ASKED["list_offsets"][0]


def test_a_connection_that_the_broker_has_closed_is_not_asked_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = Connection(*server.getsockname())
        assert not connection.is_open()
        connection._connected(stopwatch_s() + LIMIT_S)
        accepted, _address = server.accept()
        assert connection.is_open()
        accepted.close()
        wait_until(lambda: not connection.is_open(), timeout_s=LIMIT_S, what="its end to arrive")
