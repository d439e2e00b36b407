"""Kafka's protocol as a node reads and writes it: every version that it says it knows."""

import asyncio
import io
import struct
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from msgspec.structs import replace

from cluster.reference.machine import Arrived, Event
from cluster.reference.messages import clients, control, data
from cluster.reference.messages.quorum import (
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    VoteRequest,
)
from cluster.reference.process import doors as doors_module
from cluster.reference.process.cuts import Cuts
from cluster.reference.process.doors import MOST_UNANSWERED, Door
from cluster.reference.wire.apis import API_VERSIONS, APIS, Asked
from cluster.reference.wire.codec import MOST_BYTES, RequestError, answered, question
from cluster.reference.wire.frames import LARGEST_FRAME, FrameError, Frames, framed
from cluster.reference.wire.peers import PeerError, greeted, hello, key_of, packed, unpacked
from cluster.reference.wire.translation import Theirs, inner, made

I16 = (1 << 15) - 1
EVERY_VERSION = [
    (key, version) for key, api in APIS.items() for version in range(api.low, api.high + 1)
]
KEY = key_of("c", "s")
FETCHED = data.FetchResponse(
    partitions=(
        data.FetchedPartition(
            topic="t",
            partition=3,
            error_code=ErrorCode.none,
            high_watermark=7,
            last_stable_offset=7,
            log_start_offset=0,
            records=b"batches",
            diverging_epoch=2,
            diverging_end_offset=5,
            current_leader=1,
            current_leader_epoch=4,
        ),
    )
)


def request_bytes(key: int, version: int, **values: object) -> bytes:
    """Return a frame's payload, made by kio alone."""
    form = load_request_schema(key, version)
    header = form.__header_schema__
    named = made(
        header,
        request_api_key=key,
        request_api_version=version,
        correlation_id=5,
        client_id="somebody",
    )
    buffer = io.BytesIO()
    entity_writer(header)(buffer, named)
    entity_writer(form)(buffer, made(form, **values))
    return buffer.getvalue()


def response_in(frame: bytes, key: int, version: int) -> object:
    """Return what a client reads of an answer, by kio alone."""
    form = load_response_schema(key, version)
    header, at = entity_reader(form.__header_schema__)(frame[4:], 0)
    assert header.correlation_id == 5
    response, end = entity_reader(form)(frame[4:], at)
    assert at + end == len(frame) - 4
    return response


def asked(key: int, version: int) -> Asked:
    return Asked(api_key=key, version=version, correlation=5, client_id="")


@pytest.mark.parametrize(("key", "version"), EVERY_VERSION)
def test_every_version_of_a_request_becomes_the_same_message(key: int, version: int) -> None:
    text = {"group_id": "g", "name": "t", "topic": "t", "member_id": "m", "protocol_type": "p"}
    read = question(request_bytes(key, version, **text))
    newest = question(request_bytes(key, APIS[key].high, **text))
    assert type(read.message) is type(newest.message)
    assert (read.asked.version, read.asked.correlation) == (version, 5)
    assert read.asked.client_id == "somebody"


@pytest.mark.parametrize("version", range(APIS[1].low, APIS[1].high + 1))
def test_every_version_of_a_fetch_is_answered_with_its_records(version: int) -> None:
    told = response_in(answered(asked(1, version), FETCHED), 1, version)
    partition = told.responses[0].partitions[0]  # type: ignore[attr-defined]
    assert bytes(partition.records) == b"batches"
    assert (partition.partition_index, partition.high_watermark) == (3, 7)
    if version >= 12:
        assert (partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset) == (2, 5)
        assert partition.current_leader.leader_epoch == 4


@pytest.mark.parametrize("version", range(APIS[3].low, APIS[3].high + 1))
def test_every_version_of_metadata_names_brokers_and_leaders(version: int) -> None:
    partition = clients.MetadataResponsePartition(
        partition_index=0, leader_id=2, leader_epoch=9, replica_nodes=(2, 1), isr_nodes=(2,)
    )
    own = clients.MetadataResponse(
        brokers=(clients.MetadataResponseBroker(node_id=2, host="h", port=9),),
        cluster_id="c",
        controller_id=2,
        topics=(clients.MetadataResponseTopic(name="t", partitions=(partition,)),),
    )
    told = response_in(answered(asked(3, version), own), 3, version)
    assert [(it.node_id, it.host, it.port) for it in told.brokers] == [(2, "h", 9)]  # type: ignore[attr-defined]
    (read,) = told.topics[0].partitions  # type: ignore[attr-defined]
    assert (read.leader_id, tuple(read.replica_nodes), tuple(read.isr_nodes)) == (2, (2, 1), (2,))
    assert version < 7 or read.leader_epoch == 9


@pytest.mark.parametrize("version", [5, 99, I16, -1, -I16 - 1])
def test_a_version_that_nobody_knows_is_answered_with_those_that_are_known(version: int) -> None:
    """Kafka lists only this request's, in version 0, which everybody can read (KIP-511)."""
    frame = struct.pack(">hhih", API_VERSIONS, version, 5, -1)
    told: Any = response_in(question(frame).answer, API_VERSIONS, 0)
    assert told.error_code is ErrorCode.unsupported_version
    assert _ranges(told) == [(API_VERSIONS, 0, 4)]


@pytest.mark.parametrize("version", range(5))
def test_a_client_is_told_all_versions_in_the_one_that_it_speaks(version: int) -> None:
    frame = request_bytes(
        API_VERSIONS, version, client_software_name="a-b.c", client_software_version="1"
    )
    told: Any = response_in(question(frame).answer, API_VERSIONS, version)
    assert told.error_code is ErrorCode.none
    served = [(key, api.low, api.high) for key, api in APIS.items()]
    assert _ranges(told) == sorted([*served, (API_VERSIONS, 0, 4)])


@pytest.mark.parametrize("name", ["", "-", "a b", "a/", "\u00e9"])
def test_software_that_calls_itself_nothing_is_told_so(name: str) -> None:
    frame = request_bytes(API_VERSIONS, 3, client_software_name=name, client_software_version="1")
    told: Any = response_in(question(frame).answer, API_VERSIONS, 3)
    assert (told.error_code, told.api_keys) == (ErrorCode.invalid_request, ())
    with pytest.raises(RequestError):
        question(frame[:-2])


def _ranges(told: Theirs) -> list[tuple[int, int, int]]:
    return [(each.api_key, each.min_version, each.max_version) for each in told.api_keys]


NOT_SERVED = [
    *((key, version) for key, api in APIS.items() for version in (api.low - 1, api.high + 1, I16)),
    *((key, 0) for key in (*range(100), -1, I16, -I16 - 1) if key not in {*APIS, API_VERSIONS}),
]


@pytest.mark.parametrize(("key", "version"), NOT_SERVED)
def test_a_request_that_is_not_served_ends_its_connection_and_no_other(
    key: int, version: int
) -> None:
    """Kafka closes it as well: no answer could be read by who sent it."""

    async def hung_up_on() -> tuple[_Inside, _Pipe]:
        inside, pipe = _Inside(), _Pipe()
        door = Door(inside, 1, {})
        door.connection_made(pipe)
        door.data_received(framed(struct.pack(">hhih", key, version, 5, -1) + bytes(20)))
        return inside, pipe

    inside, pipe = asyncio.run(hung_up_on())
    assert pipe.aborted
    assert not pipe.written
    assert not inside.events
    (complaint,) = inside.complaints
    assert f"request {key} in version {version} is not known" in complaint


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x00",
        struct.pack(">hhih", 3, 13, 5, -1),
        struct.pack(">hhih", 3, -1, 5, -1),
        struct.pack(">hhih", 4, 0, 5, -1),
        request_bytes(0, 9)[:-1],
        request_bytes(1, 12)[:20],
    ],
)
def test_what_is_no_request_that_we_know_is_refused(frame: bytes) -> None:
    with pytest.raises(RequestError):
        question(frame)


MANY = (1 << 31) - 1


@pytest.mark.parametrize(
    ("key", "version", "before", "element"),
    [
        (0, 3, b"\xff\xff" + struct.pack(">hi", 1, 5) + struct.pack(">ih", 1, 0), b"\0" * 8),
        (2, 1, struct.pack(">iih", -1, 1, 0), b"\0" * 12),
        (3, 0, b"", b"\0\0"),
        (3, 9, b"\0", b""),
        (9, 1, struct.pack(">hih", 0, 1, 0), b"\0" * 4),
        (20, 1, b"", b"\0\0"),
    ],
)
@pytest.mark.parametrize(("announced", "sent"), [(MANY, 1), (200_000, 200_000), (90_000, 1)])
def test_what_a_count_announces_takes_no_room_before_it_is_there(
    *, key: int, version: int, before: bytes, element: bytes, announced: int, sent: int
) -> None:
    """kio would take eight bytes for each of two milliards of elements, and abort the process."""
    count = struct.pack(">i", announced) if element else b"\xff\xff\xff\xff\x0f"
    head = struct.pack(">hhih", key, version, 5, -1)
    with pytest.raises(RequestError, match=r"elements|ends too early|refers to byte"):
        question(head + before + count + element * sent)


@pytest.mark.parametrize(
    "body",
    [
        b"\0\1g" + struct.pack(">i", 1) + b"\0\1t" + struct.pack(">i", -1),
        b"\0\1g" + struct.pack(">i", 1) + b"\xff\xff" + struct.pack(">i", 0),
        b"\xff\xff" + struct.pack(">i", 0),
    ],
)
def test_null_where_something_must_be_is_refused(body: bytes) -> None:
    """Kafka says so, too; kio hands None on."""
    with pytest.raises(RequestError, match="null"):
        question(struct.pack(">hhih", 9, 1, 5, -1) + body)


def test_null_where_it_has_a_meaning_is_read() -> None:
    head = struct.pack(">hhih", 9, 2, 5, -1)
    read = question(head + b"\0\1g" + struct.pack(">i", -1)).message
    assert isinstance(read, clients.OffsetFetchRequest)
    assert read.topics is None


@pytest.mark.parametrize(("key", "version"), [(3, 9), (11, 9), (19, 7), (22, 4)])
def test_a_string_is_as_long_as_older_versions_have_room_for(key: int, version: int) -> None:
    """Kafka's generated classes refuse longer ones, and close the connection."""
    question(_naming(key, version, "x" * I16))
    with pytest.raises(RequestError, match=r"too long \(32768 bytes\)"):
        question(_naming(key, version, "x" * (I16 + 1)))


def _naming(key: int, version: int, text: str) -> bytes:
    if key in {3, 19}:
        topic = made(inner(load_request_schema(key, version), "topics"), name=text)
        return request_bytes(key, version, topics=(topic,))
    return request_bytes(key, version, transactional_id=text, reason=text)


def test_only_records_may_make_a_request_very_large() -> None:
    join = request_bytes(11, 5)
    assert question(join + bytes(MOST_BYTES - len(join))).message is not None
    with pytest.raises(RequestError, match="16777217 bytes"):
        question(join + bytes(MOST_BYTES - len(join) + 1))


def test_as_many_elements_as_anybody_needs_are_read() -> None:
    frame = struct.pack(">hhihi", 20, 1, 5, -1, 99_000) + b"\0\1t" * 99_000 + bytes(4)
    read = question(frame).message
    assert isinstance(read, control.DeleteTopicsRequest)
    assert len(read.topics) == 99_000


@pytest.mark.parametrize(("key", "version"), EVERY_VERSION)
def test_a_request_that_is_cut_short_anywhere_is_refused(key: int, version: int) -> None:
    sound = request_bytes(key, version)
    for end in range(len(sound)):
        with pytest.raises(RequestError):
            question(sound[:end])


def test_no_bytes_are_worse_than_a_request_that_is_refused() -> None:
    random = Random(8)
    sound = [request_bytes(key, version) for key, version in EVERY_VERSION]
    refused = 0
    for _ in range(20_000):
        frame = bytearray(random.choice(sound))
        for _ in range(random.randint(1, 4)):
            frame[random.randrange(len(frame))] = random.randrange(256)
        try:
            question(bytes(frame[: random.randint(0, len(frame))]))
        except RequestError:
            refused += 1
    assert refused > 1000  # Others are still requests, of another client, or of other fields.


@given(st.lists(st.binary(max_size=40), max_size=8), st.randoms(use_true_random=False))
def test_frames_come_out_whole_however_their_bytes_come_in(
    payloads: list[bytes], random: Random
) -> None:
    stream = b"".join(framed(each) for each in payloads)
    frames = Frames()
    found: list[bytes] = []
    while stream:
        size = random.randint(1, len(stream))
        found += frames.feed(stream[:size])
        stream = stream[size:]
    assert found == payloads


@pytest.mark.parametrize("length", [-1, LARGEST_FRAME + 1, -(1 << 31)])
def test_a_length_that_no_frame_has_ends_the_connection(length: int) -> None:
    with pytest.raises(FrameError):
        list(Frames().feed(struct.pack(">i", length)))


def test_nodes_send_messages_as_they_are() -> None:
    for message in (FETCHED, DescribeQuorumRequest(), DescribeQuorumResponse(
        error_code=ErrorCode.none, leader_id=2), None):  # fmt: skip
        assert unpacked(packed(17, message)) == (17, message)
    assert greeted(hello(102, KEY), KEY) == 102
    for other in (key_of("c", "another"), key_of("another", "s"), bytes(32)):
        with pytest.raises(PeerError, match="node 102"):
            greeted(hello(102, other), KEY)


@pytest.mark.parametrize("epoch", [(1 << 31) - 1, 1 << 31, 1 << 40, -2])
def test_no_node_is_told_an_epoch_behind_which_there_is_none(epoch: int) -> None:
    """Its next vote would be for one that no file and no message of Kafka's has room for."""
    vote = VoteRequest(
        cluster_id="c", voter_id=1, voter_directory_id=None, replica_epoch=epoch, replica_id=2,
        replica_directory_id=None, last_offset_epoch=0, last_offset=0, pre_vote=False,
    )  # fmt: skip
    begin = BeginQuorumEpochRequest(
        cluster_id="c", voter_id=1, voter_directory_id=None, leader_id=2, leader_epoch=epoch
    )
    told = replace(FETCHED.partitions[0], current_leader_epoch=epoch)
    for message in (vote, begin, data.FetchResponse(partitions=(told,))):
        with pytest.raises(PeerError):
            unpacked(packed(1, message))


def test_what_no_node_would_send_is_refused() -> None:
    sound = packed(1, FETCHED)
    random = Random(9)
    for _ in range(5000):
        frame = bytearray(sound[: random.randint(0, len(sound))])
        if frame:
            frame[random.randrange(len(frame))] ^= 1 << random.randrange(8)
        try:
            unpacked(bytes(frame))
        except PeerError:
            continue
    with pytest.raises(PeerError):
        unpacked(b"\x00" * 8 + b"\xff\xff{}")
    with pytest.raises(PeerError):
        greeted(b"GET / HTTP/1.1\r\n", KEY)


class _Pipe(asyncio.Transport):
    """A connection whose other end reads nothing."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.aborted = self.deaf = False
        self.written: list[bytes] = []
        self.door: Door | None = None
        self.room = 1 << 16

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))
        if sum(map(len, self.written)) > self.room and self.door is not None:
            self.door.pause_writing()

    def pause_reading(self) -> None:
        self.deaf = True

    def resume_reading(self) -> None:
        self.deaf = False


class _Inside:
    def __init__(self) -> None:
        self.cuts, self.key = Cuts(), KEY
        self.events: list[Event] = []
        self.complaints: list[str] = []

    def take(self, event: Event) -> None:
        self.events.append(event)

    def complain(self, sentence: str) -> None:
        self.complaints.append(sentence)


def test_an_answer_that_an_old_version_has_no_room_for_ends_its_connection_only() -> None:
    """A name of 32,767 bytes can be asked for, and not be told of in a sentence as long."""

    async def hung_up_on() -> _Inside:
        inside, pipe = _Inside(), _Pipe()
        door = Door(inside, 1, {})
        door.connection_made(pipe)
        door.data_received(framed(request_bytes(19, 2)))
        (arrived,) = inside.events
        assert isinstance(arrived, Arrived)
        refused = control.CreatableTopicResult(
            name="t", error_code=ErrorCode.invalid_topic_exception, error_message="x" * 32_768
        )
        answer = control.CreateTopicsResponse(topics=(refused,))
        door.reply(arrived.asker.correlation, answer)
        assert pipe.aborted
        return inside

    (complaint,) = asyncio.run(hung_up_on()).complaints
    assert "the answer to request 19 in version 2" in complaint


def test_who_reads_no_answers_gets_few_of_them_and_later_all_in_their_order() -> None:
    """A piece of a stream has room for thousands of requests, whose answers are megabytes."""

    async def told() -> None:
        door, pipe = Door(_Inside(), 1, {}), _Pipe()
        pipe.door = door
        door.connection_made(pipe)
        asked = [struct.pack(">hhih", API_VERSIONS, 0, number, -1) for number in range(5000)]
        door.data_received(b"".join(map(framed, asked)))
        assert pipe.deaf
        answers = len(pipe.written)
        assert sum(map(len, pipe.written)) <= pipe.room + len(pipe.written[-1])
        for _ in range(100):
            pipe.room += 1 << 16
            door.resume_writing()
            answers, before = len(pipe.written), answers
            assert answers > before or answers == len(asked)
        assert [each[4:8] for each in pipe.written] == [each[4:8] for each in asked]
        assert not pipe.deaf

    asyncio.run(told())


def test_who_waits_for_many_answers_is_not_heard_until_some_are_given() -> None:
    async def told() -> None:
        inside, pipe = _Inside(), _Pipe()
        door = Door(inside, 1, {})
        door.connection_made(pipe)
        door.data_received(framed(request_bytes(3, 1)) * (2 * MOST_UNANSWERED + 5))
        for waits in (MOST_UNANSWERED, MOST_UNANSWERED, 5):
            assert len(inside.events) == waits
            assert pipe.deaf is (waits == MOST_UNANSWERED)
            asked, inside.events = inside.events, []
            for each in asked:
                assert isinstance(each, Arrived)
                door.reply(each.asker.correlation, clients.MetadataResponse(
                    brokers=(), cluster_id="c", controller_id=1, topics=()))  # fmt: skip
        assert len(pipe.written) == 2 * MOST_UNANSWERED + 5

    asyncio.run(told())


MOST = 4 << 20


def test_who_announces_much_and_sends_it_slowly_does_not_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The one that holds most goes; those with less can still finish what they began."""

    monkeypatch.setattr(doors_module, "MOST_UNFINISHED", MOST)

    async def told() -> None:
        inside, doors = _Inside(), dict[int, Door]()
        pipes = {number: _Pipe() for number in range(1, 5)}
        for number, pipe in pipes.items():
            Door(inside, number, doors).connection_made(pipe)
        whole = framed(request_bytes(3, 1))
        doors[4].data_received(whole[:-1])
        piece = bytes(MOST // 8)
        for number in (1, 2, 3):
            doors[number].data_received(struct.pack(">i", LARGEST_FRAME) + piece)
            doors[number].data_received(piece)
        assert [pipe.aborted for pipe in pipes.values()] == [False] * 4
        doors[2].data_received(bytes(1000))
        doors[3].data_received(bytes(MOST // 8))
        doors[1].data_received(bytes(MOST // 8 - 100))
        assert [pipe.aborted for pipe in pipes.values()] == [False, False, True, False]
        assert sum(each.unfinished for each in doors.values()) <= MOST
        doors[4].data_received(whole[-1:])
        assert len(inside.events) == 1
        (complaint,) = inside.complaints
        assert "incomplete requests" in complaint

    asyncio.run(told())
