"""What nobody should send a broker: requests of all kinds and versions, made and spoilt by chance.

Requests are made by the schemas of Kafka's versions, with values that hurt, so that most come as
far as the machine; then bytes, lengths and counts of some are changed. Some are no requests at all.
"""

import io
import struct
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import timedelta
from functools import cache
from random import Random
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints
from uuid import UUID

import cramjam
from crc32c import crc32c
from kio.index import load_request_schema
from kio.serial import entity_writer

from cluster.reference.wire.apis import API_VERSIONS, APIS
from cluster.reference.wire.frames import framed
from cluster.reference.wire.peers import HELLO
from cluster.reference.wire.translation import default_of, made
from tests.reference.batch_maker import produced

PREY, GROUP = "prey", "pack"
"""The topic and the group that everybody falls upon; others are made and removed."""
BROKERS = (1, 2, 3)
I8, I16, I32, I64 = (1 << 7, 1 << 15, 1 << 31, 1 << 63)
_LIMITS: Mapping[str, Sequence[int]] = {
    kind: (0, 0, 0, 1, 1, 2, 3, -1, -1, -2, 7, 100, limit - 1, -limit, limit // 2)
    for kind, limit in (("int8", I8), ("int16", I16), ("int32", I32), ("int64", I64))
}
_MILLISECONDS = (0, 0, 1, 5, 50, 1000, 6000, 10_000, -1, I32 - 1, -I32)
_NAMES = (
    *(PREY,) * 20, "absent", "hostile-1", "hostile-2", "hostile-3",
    "__consumer_offsets", "__cluster_metadata", "", ".", "..", "a/b", "../../x", "\0", "x" * 249,
    "x" * 250, "\u00e9\u4e16", "y" * 32_767,
)  # fmt: skip
_GROUPS = (GROUP, GROUP, GROUP, "other", "", "\0", "g" * 32_767, "\U0001f4a5", "a:b:c")
_CONFIGS = (
    "min.insync.replicas", "max.message.bytes", "segment.bytes", "flush.messages",
    "unclean.leader.election.enable", "retention.ms", "", "nonsense", "z" * 3000,
)  # fmt: skip
_VALUES = (
    "1",
    "2",
    "1048588",
    "100",
    "0",
    "-1",
    "true",
    "false",
    "",
    "99999999999999999999",
    "a,b",
)
_TOPIC_RESOURCE = 2
_PRODUCE = 0
_KEPT = 3000
"""As many requests are kept, to be sent again."""
_FATAL = (20, 44)
"""DeleteTopics, IncrementalAlterConfigs: after them nothing else is taken."""
_FIELDS: Mapping[str, Sequence[Any]] = {
    "acks": (-1, -1, -1, -1, 1, 1, 0, 2, -2, I16 - 1),
    "index": (0, 0, 0, 1, 2, -1, I32 - 1),
    "partition": (0, 0, 0, 1, 2, -1, I32 - 1),
    "partition_index": (0, 0, 0, 1, 2, -1, I32 - 1),
    "partition_indexes": (0, 0, 0, 1, 2, -1, I32 - 1),
    "num_partitions": (1, 1, 2, 3, -1, 0, -2, 10_001, I32 - 1, -I32),
    "count": (1, 2, 3, 4, -1, 0, 100_000, I32 - 1, -I32),
    "replication_factor": (1, 2, 3, -1, 0, 4, I16 - 1, -2),
    "broker_ids": (1, 2, 3, 1, 2, 3, 0, -1, I32 - 1),
    "replicas": (1, 2, 3, 1, 2, 3, 0, -1, I32 - 1),
    "replica_id": (-1, -1, -1, -2, -3, 1, 2, 3, 4, I32 - 1),
    "replica_epoch": (-1, 0, 1, 5, 100, I64 - 1),
    "max_bytes": (1 << 20, 1 << 20, 0, 1, -1, I32 - 1, -I32),
    "partition_max_bytes": (1 << 20, 1 << 20, 0, 1, -1, I32 - 1, -I32),
    "min_bytes": (0, 0, 1, 1, -1, I32 - 1),
    "timestamp": (-1, -1, -2, -2, -3, -4, -5, 0, 1000, I64 - 1, -I64),
    "session_timeout": (6000, 6000, 6000, 1000, 10_000, 0, -1, I32 - 1),
    "resource_type": (_TOPIC_RESOURCE, _TOPIC_RESOURCE, _TOPIC_RESOURCE, 4, 0, 8, 127, -1),
    "resource_name": (*_NAMES, "1", "9", "-1"),
    "config_operation": (0, 0, 1, 2, 3, 9, -1),
    "protocol_type": ("consumer", "consumer", "consumer", "connect", ""),
    "group_instance_id": (None, None, None, "static", "", "s" * 300),
    "key_type": (0, 0, 0, 1, 2, -1),
    "transactional_id": (None, None, None, None, "", "t", "t" * 32_767),
    "value": _VALUES,
    "committed_metadata": (None, "", "m", "m" * 4096, "m" * 4097, "\u4e16" * 4096),
    "cluster_id": (None, None, "", "another"),
    "metadata": (b"", b"\0\1", b"x" * 1000),
    "assignment": (b"", b"\0\1", b"x" * 1000),
    "election_type": (0, 0, 1, 2, -1),
}
"""Values by the names of fields; others are of what their types make dangerous."""


HEADER_BYTES = 61
PLAIN = produced(b"abc", b"", b"x" * 200, producer=(5, 0, 3))
BODY = PLAIN[HEADER_BYTES:]


def _snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


SOUND_BATCHES = {
    "plain": PLAIN,
    "gzip": produced(b"", b"", b"", attributes=1, packed=bytes(cramjam.gzip.compress(BODY))),
    "snappy": produced(b"", b"", b"", attributes=2, packed=_snappy(BODY)),
    "framed": produced(
        b"", b"", b"",
        attributes=2,
        packed=b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"
        + b"".join(
            len(chunk).to_bytes(4, "big") + chunk
            for chunk in (_snappy(BODY[:9]), _snappy(BODY[9:]))
        ),
    ),
    "lz4": produced(b"", b"", b"", attributes=3, packed=bytes(cramjam.lz4.compress(BODY))),
    "zstd": produced(b"", b"", b"", attributes=4, packed=bytes(cramjam.zstd.compress(BODY))),
}  # fmt: skip
BOMBS = {
    "snappy that announces 4 GiB": (2, b"\xff\xff\xff\xff\x0f\0a"),
    "zstd of 1 GiB": (4, bytes(cramjam.zstd.compress(bytes(1 << 24))) * 64),
    "gzip of 80 MiB": (1, bytes(cramjam.gzip.compress(bytes(80 << 20)))),
}
"""Codecs and bodies."""
_BATCHES = tuple(SOUND_BATCHES.values())
_SMALL_BOMBS = tuple(
    produced(b"1", attributes=codec, packed=packed)
    for codec, packed in (BOMBS["snappy that announces 4 GiB"], BOMBS["zstd of 1 GiB"])
)
_ATTRIBUTES = (1, 3, 5, 7, 8, 0x10, 0x20, 0x30, 0x40, I16 - 1, -1)
_TIMES = (0, 1000, -1, I64 - 1, -I64)
_EVERY_VERSION = [
    (key, version) for key, api in APIS.items() for version in range(api.low, api.high + 1)
]


def _with_bytes_changed(random: Random, payload: bytes) -> bytes:
    hostile = bytearray(payload)
    for _ in range(random.randint(1, 4)):
        hostile[random.randrange(8, len(hostile))] = random.choice((0, 1, 0x7F, 0x80, 0xFF, 65))
    return framed(bytes(hostile))


def _with_numbers_changed(random: Random, payload: bytes) -> bytes:
    hostile = bytearray(payload)
    for _ in range(random.randint(1, 2)):
        form, limit = random.choice(((">h", I16), (">i", I32), (">q", I64)))
        number = struct.pack(form, random.choice((limit - 1, -limit, -1, 0, 1, -2)))
        at = random.randrange(8, len(hostile))
        hostile[at : at + len(number)] = number
    return framed(bytes(hostile))


def _cut(random: Random, payload: bytes) -> bytes:
    return framed(payload[: random.randrange(len(payload))])


def _with_more_behind(random: Random, payload: bytes) -> bytes:
    return framed(payload + random.randbytes(random.randint(1, 40)))


def _of_wrong_length(random: Random, payload: bytes) -> bytes:
    length = random.choice((-1, 0, len(payload) - 1, len(payload) + 1, 104_857_601, I32 - 1, -I32))
    return struct.pack(">i", length) + payload


def _unknown(random: Random, payload: bytes) -> bytes:
    key = random.choice((*APIS, API_VERSIONS, 4, 5, 52, 68, 1000, -1, -I16, I16 - 1))
    version = random.choice((0, 1, 5, 20, 99, -1, I16 - 1, -I16))
    return framed(struct.pack(">hh", key, version) + payload[4:])


def _with_tags(random: Random, payload: bytes) -> bytes:
    """End with tagged fields that are none, of wrong sizes, or twice the same."""
    tags = random.choice(
        (b"\1\0\0", b"\1\0\x7f", b"\2\0\1\0\0\1\0", b"\xff\xff\xff\xff\x0f", b"\x80")
    )
    return framed(payload[:-1] + tags)


def _as_a_node(random: Random, payload: bytes) -> bytes:
    """Greet as a node would, with whatever comes to hand in place of what it must know."""
    who = struct.pack(">i", random.choice((1, 2, 3, 0, -1, I32 - 1)))
    return HELLO + who + random.randbytes(random.choice((0, 16, 32))) + framed(payload)


_SPOILS: Sequence[tuple[str, float, Callable[[Random, bytes], bytes]]] = (
    ("bytes changed", 0.15, _with_bytes_changed),
    ("numbers changed", 0.15, _with_numbers_changed),
    ("cut", 0.06, _cut),
    ("more behind", 0.04, _with_more_behind),
    ("wrong length", 0.03, _of_wrong_length),
    ("unknown", 0.03, _unknown),
    ("tags", 0.04, _with_tags),
    ("as a node", 0.02, _as_a_node),
)


@cache
def _hints(form: type) -> Mapping[str, Any]:
    return get_type_hints(form)


@dataclass(slots=True)
class HostileFrames:
    """Makes them. The same chance makes the same ones, if it is told the same.

    Attributes:
        random: The chance.
        members: Ids and generations of group members, as brokers told them.
        topic_ids: Of topics that there are.
    """

    random: Random
    members: list[tuple[str, int]] = field(default_factory=list)
    topic_ids: list[UUID] = field(default_factory=list)
    _made: deque[tuple[int, int, bytes]] = field(default_factory=lambda: deque(maxlen=_KEPT))

    def __call__(self, correlation: int) -> tuple[str, bytes, tuple[int, int] | None]:
        """Return one: what it is called, its bytes, and key and version if it is well formed."""
        random = self.random
        key, version, payload = self._some(correlation)
        chance = random.random()
        if chance < 0.45:
            return "sound", framed(payload), (key, version)
        for name, share, spoil in _SPOILS:
            chance -= share
            if chance < 0.45:
                return name, spoil(random, payload), None
        return "random", framed(random.randbytes(random.randint(0, 300))), None

    def _some(self, correlation: int) -> tuple[int, int, bytes]:
        """Return a sound request; most were sent before, which is quicker than to make one."""
        random = self.random
        if len(self._made) < _KEPT or random.random() < 0.1:
            key, version = random.choice(_EVERY_VERSION)
            if key in _FATAL and random.random() < 0.95:
                key, version = _PRODUCE, random.randint(3, 11)  # Or nobody is left to be hurt.
            self._made.append((key, version, self.request(key, version, 0)))
            chosen = self._made[-1]
        else:
            chosen = random.choice(self._made)
        key, version, payload = chosen
        return key, version, payload[:4] + struct.pack(">i", correlation) + payload[8:]

    def request(self, key: int, version: int, correlation: int) -> bytes:
        """Return a request that can be read, whatever it says."""
        form: Any = load_request_schema(key, version)
        header = form.__header_schema__
        client = self.random.choice((None, "", "c", "c", "client" * 40))
        named = made(
            header,
            request_api_key=key,
            request_api_version=version,
            correlation_id=correlation,
            client_id=client,
        )
        buffer = io.BytesIO()
        entity_writer(header)(buffer, named)
        entity_writer(form)(buffer, self._message(form))
        return buffer.getvalue()

    def batch(self) -> bytes:
        """Return the records of a producer."""
        random = self.random
        makers: Sequence[Callable[[], bytes]] = (
            lambda: produced(*[b"v%d" % random.randrange(99)] * random.randint(1, 3)),
            lambda: produced(b"1", producer=self._producer(), time=random.choice(_TIMES)),
            lambda: produced(b"1", producer=self._producer()),
            lambda: damaged(random.choice(_BATCHES), random),
            lambda: produced(b"1", b"2", attributes=random.choice(_ATTRIBUTES)),
            lambda: produced(b"1", count=random.choice((0, 2, -1, I32 - 1, 1 - I32))),
            lambda: produced(b"1", magic=random.choice((0, 1, 3, -1))),
            lambda: random.choice(_BATCHES) + random.choice(_BATCHES),
            lambda: random.choice((b"", b"\0", *_BATCHES)),
            lambda: random.choice((*_BATCHES, *_SMALL_BOMBS)),
        )
        return random.choice(makers)()

    def _producer(self) -> tuple[int, int, int]:
        random = self.random
        return (
            random.choice((-1, 0, 1, 2, 3, 1000, 1001, I64 - 1, -I64)),
            random.choice((-1, 0, 0, 0, 1, I16 - 1, -I16)),
            random.choice((-1, 0, 0, 1, 2, I32 - 1, -I32)),
        )

    def _message(self, form: type) -> object:
        values: dict[str, object] = {}
        for each in fields(form):
            hint = _hints(form)[each.name]
            if "tag" in each.metadata and self.random.random() < 0.7:
                values[each.name] = each.default
            else:
                values[each.name] = self._value(each.name, hint, each.metadata.get("kafka_type"))
        if "group_id" in values and self.members and self.random.random() < 0.7:
            self._pose_as_member(values)
        try:
            return form(**values)
        except (TypeError, ValueError, OverflowError):  # A default of kio's that cannot be set.
            return form(**{each.name: default_of(each) for each in fields(form)})

    def _pose_as_member(self, values: dict[str, object]) -> None:
        member, generation = self.random.choice(self.members)
        named = {"member_id": member, "generation_id": generation, "group_id": GROUP}
        named["generation_id_or_member_epoch"] = generation
        values.update({name: value for name, value in named.items() if name in values})

    def _value(self, name: str, hint: object, kind: str | None) -> object:
        choices = [hint, *get_args(hint)]
        array = next((each for each in choices if get_origin(each) is tuple), None)
        if NoneType in choices and self.random.random() < 0.15:
            return None
        if array is not None:
            element = get_args(array)[0]
            count = self.random.choice((0, 1, 1, 1, 1, 1, 2, 3))
            return tuple(self._value(name, element, kind) for _ in range(count))
        message = next((each for each in choices if is_dataclass(each)), None)
        if isinstance(message, type):
            return self._message(message)
        return self._plain(name, kind)

    def _plain(self, name: str, kind: str | None) -> object:  # noqa: PLR0911 - a line a kind
        random = self.random
        match kind:
            case "records":
                return self.batch()
            case "uuid":
                return random.choice(
                    (*self.topic_ids, UUID(int=1), UUID(int=random.getrandbits(128)))
                )
            case "bool":
                return random.random() < 0.5
            case "timedelta_i32" | "timedelta_i64":
                return timedelta(milliseconds=random.choice(_FIELDS.get(name, _MILLISECONDS)))
            case _ if name in _FIELDS:
                return random.choice(_FIELDS[name])
            case "bytes":
                return random.randbytes(random.choice((0, 1, 60)))
            case "string":
                return random.choice(_texts(name))
            case _:
                return random.choice(_LIMITS[kind or ""])


def _texts(name: str) -> Sequence[str]:
    if name in {"group_id", "key", "coordinator_keys", "groups"}:
        return _GROUPS
    if name in {"name", "topics", "topic", "topic_names"}:
        return _NAMES if name != "name" else (*_NAMES, *_CONFIGS, "range")
    return ("", "", "x", "range", "consumer", *_CONFIGS)


def damaged(data: bytes, random: Random) -> bytes:
    """Change some bytes of a batch, and mostly have size and sum agree with what it is then."""
    hostile = bytearray(data)
    for _ in range(random.randint(1, 3)):
        hostile[random.randrange(len(hostile))] = random.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
    if random.random() < 0.2:
        del hostile[random.randrange(len(hostile)) :]
    if random.random() < 0.9 and len(hostile) > HEADER_BYTES:
        hostile[8:12] = struct.pack(">i", len(hostile) - 12)
        hostile[16] = 2
        hostile[17:21] = struct.pack(">I", crc32c(bytes(hostile[21:])))
    return bytes(hostile)
