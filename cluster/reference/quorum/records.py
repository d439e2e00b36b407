"""Build the batches of the metadata log, which only the quorum's leader writes.

Metadata records have no key, no producer and no compression. The quorum's own records are control
records: the leader's message that begins its epoch (KIP-595), and the header and footer of a
snapshot (KIP-630).
"""

import struct
from collections.abc import Sequence
from io import BytesIO

from crc32c import crc32c
from kio.schema.leader_change_message.v0 import LeaderChangeMessage
from kio.schema.leader_change_message.v0.data import Voter
from kio.schema.snapshot_footer_record.v0 import SnapshotFooterRecord
from kio.schema.snapshot_header_record.v0 import SnapshotHeaderRecord
from kio.schema.types import BrokerId
from kio.serial import entity_writer
from kio.serial.writers import write_signed_varint
from kio.static.primitive import i16, i32, i64

_HEADER = struct.Struct(">qiibIhiqqqhii")
_COVERED = struct.Struct(">hiqqqhii")
_CONTROL_KEY = struct.Struct(">hh")
_MAGIC = 2
_CONTROL = 0x20
_PREFIX_BYTES = 12
_LEADER_CHANGE, _SNAPSHOT_HEADER, _SNAPSHOT_FOOTER = 2, 3, 4

_write_leader_change = entity_writer(LeaderChangeMessage)
_write_snapshot_header = entity_writer(SnapshotHeaderRecord)
_write_snapshot_footer = entity_writer(SnapshotFooterRecord)


def metadata_batch(values: Sequence[bytes], *, base_offset: int, epoch: int, time_ms: int) -> bytes:
    """Return a batch of metadata records; each record gets one offset."""
    records = [_record(number, None, value) for number, value in enumerate(values)]
    return _batch(records, base_offset=base_offset, epoch=epoch, time_ms=time_ms, attributes=0)


def leader_change(
    leader: int,
    *,
    voters: Sequence[int],
    granting: Sequence[int],
    base_offset: int,
    epoch: int,
    time_ms: int,
) -> bytes:
    """Return the record with which a leader begins its epoch."""
    message = LeaderChangeMessage(
        version=i16(0),
        leader_id=BrokerId(leader),
        voters=tuple(Voter(voter_id=i32(each)) for each in voters),
        granting_voters=tuple(Voter(voter_id=i32(each)) for each in granting),
    )
    coded = BytesIO()
    _write_leader_change(coded, message)
    record = _record(0, _CONTROL_KEY.pack(0, _LEADER_CHANGE), coded.getvalue())
    return _batch(
        [record], base_offset=base_offset, epoch=epoch, time_ms=time_ms, attributes=_CONTROL
    )


def snapshot_bytes(values: Sequence[bytes], *, epoch: int, time_ms: int) -> bytes:
    """Return a whole snapshot file: header, records, footer. The offsets begin at 0."""
    header, footer = BytesIO(), BytesIO()
    _write_snapshot_header(
        header, SnapshotHeaderRecord(version=i16(0), last_contained_log_timestamp=i64(time_ms))
    )
    _write_snapshot_footer(footer, SnapshotFooterRecord(version=i16(0)))
    head = _record(0, _CONTROL_KEY.pack(0, _SNAPSHOT_HEADER), header.getvalue())
    foot = _record(0, _CONTROL_KEY.pack(0, _SNAPSHOT_FOOTER), footer.getvalue())
    parts = [
        _batch([head], base_offset=0, epoch=epoch, time_ms=time_ms, attributes=_CONTROL),
        metadata_batch(values, base_offset=1, epoch=epoch, time_ms=time_ms) if values else b"",
        _batch(
            [foot],
            base_offset=1 + len(values),
            epoch=epoch,
            time_ms=time_ms,
            attributes=_CONTROL,
        ),
    ]
    return b"".join(parts)


def _record(offset_delta: int, key: bytes | None, value: bytes) -> bytes:
    body = BytesIO()
    body.write(b"\0")  # The attributes: none.
    write_signed_varint(body, i32(0))  # The timestamp's distance from the batch's.
    write_signed_varint(body, i32(offset_delta))
    write_signed_varint(body, i32(-1 if key is None else len(key)))
    body.write(key or b"")
    write_signed_varint(body, i32(len(value)))
    body.write(value)
    write_signed_varint(body, i32(0))  # Headers.
    framed = BytesIO()
    write_signed_varint(framed, i32(body.tell()))
    framed.write(body.getvalue())
    return framed.getvalue()


def _batch(
    records: Sequence[bytes], *, base_offset: int, epoch: int, time_ms: int, attributes: int
) -> bytes:
    body = b"".join(records)
    last, none = len(records) - 1, -1
    covered = _COVERED.pack(
        attributes, last, time_ms, time_ms, none, none, none, len(records)
    )  # fmt: skip
    length = _HEADER.size - _PREFIX_BYTES + len(body)
    head = struct.pack(">qiibI", base_offset, length, epoch, _MAGIC, crc32c(covered + body))
    return head + covered + body
