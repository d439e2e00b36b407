"""This module reads the small text files beside the logs: offsets, epochs and ids.

A broker writes each new version to a temporary file, flushes it and renames it. An incomplete file
is therefore a sign of a broken disk. Each reader takes the text of a file and raises
`DamagedFileError` if Kafka cannot have written this text.
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
    """A line of `leader-epoch-checkpoint`: a leader epoch and its first offset."""

    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    """The content of `quorum-state`: the saved vote of a member of the controllers' quorum.

    Attributes:
        leader: The leader's node id, or None if the member knows no leader.
        epoch: The quorum's epoch.
        voted_for: The node id that the member voted for in this epoch, or None if the member did
            not vote.
        voted_directory: The candidate's log folder id, as a UUID of 36 characters (KIP-853).
    """

    leader: int | None
    epoch: int
    voted_for: int | None
    voted_directory: str | None


def offset_checkpoint(text: str) -> dict[tuple[str, int], int]:
    """Read `replication-offset-checkpoint` as an offset for each (topic, partition).

    `recovery-point-offset-checkpoint`, `log-start-offset-checkpoint` and
    `cleaner-offset-checkpoint` have the same format: a line `0`, a line with the number of entries,
    then lines with `topic partition offset`.
    """
    lines = _counted_lines(text, columns=3)
    return {(topic, _number(part)): _number(offset) for topic, part, offset in lines}


def leader_epochs(text: str) -> list[EpochStart]:
    """Read `leader-epoch-checkpoint`.

    The file has a line `0`, a line with the number of entries, then lines with `epoch
    start-offset`.
    """
    return [
        EpochStart(epoch=_number(epoch), start_offset=_number(start))
        for epoch, start in _counted_lines(text, columns=2)
    ]


def quorum_state(text: str) -> QuorumState:
    """Read `quorum-state` (versions 0 and 1): JSON with the quorum's epoch, leader and vote."""
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
        raise DamagedFileError(f"this is not a quorum state: {_shown(text)}") from broken


def partition_topic_id(text: str) -> str:
    """Read the topic's id from `partition.metadata`, as a UUID of 36 characters."""
    topic_id = properties(text, separator=":").get("topic_id")
    if topic_id is None:
        raise DamagedFileError(f"there is no topic_id in {_shown(text)}")
    return uuid_text(topic_id)


def properties(text: str, *, separator: str = "=") -> Mapping[str, str]:
    """Read a properties file such as `meta.properties`. Each line is a pair, or a comment with `#`.

    `meta.properties` has the keys `cluster.id`, `node.id` and `directory.id`.

    Args:
        text: The text of the file.
        separator: The character between key and value; `:` in `partition.metadata`.
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
    """Convert a Kafka id, 22 characters of url-safe base64, to a UUID of 36 characters."""
    try:
        raw = base64.b64decode(kafka_id + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as broken:
        raise DamagedFileError(f"{_shown(kafka_id)} is not a Kafka id") from broken
    if len(raw) != _UUID_BYTES:
        raise DamagedFileError(f"{_shown(kafka_id)} is not a Kafka id")
    return str(UUID(bytes=raw))


def _counted_lines(text: str, *, columns: int) -> list[list[str]]:
    if not text:
        return []  # A starting broker creates empty files and fills them later.
    version, _, rest = text.partition("\n")
    count, _, body = rest.partition("\n")
    if version != "0":
        raise DamagedFileError(f"the version is {_shown(version)}, not 0")
    lines = [line.split() for line in body.splitlines()]
    if _number(count) != len(lines):
        raise DamagedFileError(f"the file announces {count} lines but has {len(lines)}")
    wrong = [line for line in lines if len(line) != columns]
    if wrong:
        raise DamagedFileError(
            f"the line {_shown(' '.join(wrong[0]))} does not have {columns} columns"
        )
    return lines


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError as broken:
        raise DamagedFileError(f"{_shown(text)} is not a number") from broken


def _known(broker: int) -> int | None:
    return broker if broker >= 0 else None


def _unless_zero(uuid: str) -> str | None:
    return uuid if UUID(uuid).int else None


def _shown(text: str) -> str:
    """Return a short quotation of a file's text for an error message."""
    return repr(text if len(text) <= 80 else text[:77] + "...")  # noqa: PLR2004 - half a line
