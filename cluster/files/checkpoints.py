"""The small text files beside the logs: offsets, epochs, ids.

Brokers replace them whole (written aside, flushed, renamed), so a torn one means a broken disk.
Each reader takes a file's text and raises `DamagedFileError` if it is not what Kafka writes.
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from cluster.files.damage import DamagedFileError

_PROPERTY_ESCAPE = re.compile(r"\\(.)")
_UUID_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochStart:
    """A line of `leader-epoch-checkpoint`: the first offset that a leader wrote in its epoch."""

    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    """`quorum-state`: what a member of the controllers' quorum must not forget.

    Attributes:
        leader: The leader's broker id, None if none was known.
        epoch: The quorum's.
        voted_for: Whom the node voted for in this epoch, None if for nobody.
        voted_directory: The id of the log folder voted for, as a UUID's 36 characters (KIP-853).
    """

    leader: int | None
    epoch: int
    voted_for: int | None
    voted_directory: str | None


def offset_checkpoint(text: str) -> dict[tuple[str, int], int]:
    """Read `replication-offset-checkpoint` and its likes: an offset for each (topic, partition).

    `recovery-point-offset-checkpoint`, `log-start-offset-checkpoint` and
    `cleaner-offset-checkpoint` have the same form: `0`, the number of lines, then
    `topic partition offset`.
    """
    lines = _counted_lines(text, columns=3)
    return {(topic, _number(part)): _number(offset) for topic, part, offset in lines}


def leader_epochs(text: str) -> list[EpochStart]:
    """Read `leader-epoch-checkpoint`: `0`, the number of lines, then `epoch start-offset`."""
    return [
        EpochStart(epoch=_number(epoch), start_offset=_number(start))
        for epoch, start in _counted_lines(text, columns=2)
    ]


def quorum_state(text: str) -> QuorumState:
    """Read `quorum-state`, JSON of the quorum's epoch, leader and vote (versions 0 and 1)."""
    try:
        fields = json.loads(text)
        directory = fields.get("votedDirectoryId")
        return QuorumState(
            leader=_known(int(fields["leaderId"])),
            epoch=int(fields["leaderEpoch"]),
            voted_for=_known(int(fields["votedId"])),
            voted_directory=None if directory is None else _unless_zero(uuid_text(directory)),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as broken:
        raise DamagedFileError(f"this is no quorum state: {_shown(text)}") from broken


def partition_topic_id(text: str) -> str:
    """Read the topic's id, a UUID's 36 characters, from `partition.metadata`."""
    topic_id = properties(text, separator=":").get("topic_id")
    if topic_id is None:
        raise DamagedFileError(f"there is no topic_id in {_shown(text)}")
    return uuid_text(topic_id)


def properties(text: str, *, separator: str = "=") -> Mapping[str, str]:
    """Read `meta.properties` (`cluster.id`, `node.id`, `directory.id`): a line each, `#` comments.

    Args:
        text: The file's.
        separator: `:` in `partition.metadata`.
    """
    pairs = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            key, found, value = line.partition(separator)
            if not found:
                raise DamagedFileError(f"there is no {separator!r} in the line {_shown(line)}")
            pairs[key.strip()] = _PROPERTY_ESCAPE.sub(r"\1", value.strip())
    return pairs


def uuid_text(kafka_id: str) -> str:
    """Return the 36 characters of a UUID that Kafka writes as 22 of url-safe base64."""
    try:
        raw = base64.b64decode(kafka_id + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as broken:
        raise DamagedFileError(f"{_shown(kafka_id)} is no id of Kafka's") from broken
    if len(raw) != _UUID_BYTES:
        raise DamagedFileError(f"{_shown(kafka_id)} is no id of Kafka's")
    return str(UUID(bytes=raw))


def _counted_lines(text: str, *, columns: int) -> list[list[str]]:
    if not text:
        return []  # A broker makes these files empty when it starts, and fills them later.
    version, _, rest = text.partition("\n")
    count, _, body = rest.partition("\n")
    if version != "0":
        raise DamagedFileError(f"the version is {_shown(version)}, not 0")
    lines = [line.split() for line in body.splitlines()]
    if _number(count) != len(lines):
        raise DamagedFileError(f"{count} lines are announced, {len(lines)} there")
    wrong = [line for line in lines if len(line) != columns]
    if wrong:
        raise DamagedFileError(f"the line {_shown(' '.join(wrong[0]))} has not {columns} columns")
    return lines


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError as broken:
        raise DamagedFileError(f"{_shown(text)} is no number") from broken


def _known(broker: int) -> int | None:
    return broker if broker >= 0 else None


def _unless_zero(uuid: str) -> str | None:
    return uuid if UUID(uuid).int else None


def _shown(text: str) -> str:
    """Return what a message may show of a file that might be anything."""
    return repr(text if len(text) <= 80 else text[:77] + "...")  # noqa: PLR2004 - half a line
