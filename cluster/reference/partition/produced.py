"""Check a producer's batches of magic 2, as Kafka's LogValidator does."""

from kio.schema.errors import ErrorCode

from cluster.reference.log.batches import (
    CODEC_BITS,
    CONTROL,
    TRANSACTIONAL,
    BadBatchError,
    Batch,
    sound_batches,
)
from cluster.reference.log.records import check_records

_LOG_APPEND_TIME = 0x08
_MAX_CODEC = 4


class RefusedError(Exception):
    """A request must be answered with an error.

    Attributes:
        code: The error.
    """

    def __init__(self, code: ErrorCode, what: str = "") -> None:
        super().__init__(what)
        self.code = code


def accepted(records: bytes, *, max_bytes: int) -> Batch:
    """Return the one valid batch that a producer sent.

    Args:
        records: The received bytes.
        max_bytes: The topic's `max.message.bytes`.

    Raises:
        RefusedError: The batch is damaged or too large, there are several batches, or clients may
            not write it.
    """
    found = _only_batch(records)
    if len(records) > max_bytes:
        raise RefusedError(
            ErrorCode.message_too_large,
            f"the batch has {len(records)} bytes, but max.message.bytes is {max_bytes}",
        )
    wrong = _wrong_header(found)
    if wrong:
        raise RefusedError(*wrong)
    try:
        check_records(found)
    except ValueError as broken:
        raise RefusedError(ErrorCode.invalid_record, str(broken)) from broken
    return found


def _only_batch(records: bytes) -> Batch:
    try:
        batches = sound_batches(records)
    except BadBatchError as bad:
        old = bad.magic is not None
        code = ErrorCode.invalid_record if old else ErrorCode.corrupt_message
        raise RefusedError(code, str(bad)) from bad
    if len(batches) != 1:
        raise RefusedError(
            ErrorCode.invalid_record, f"{len(batches)} batches for one partition instead of 1"
        )
    return batches[0]


def _wrong_header(found: Batch) -> tuple[ErrorCode, str] | None:
    """Return why a client may not write a batch; None if it may."""
    span, attributes = found.end_offset - found.base_offset, found.attributes
    sequenced = found.producer_id < 0 or found.base_sequence >= 0
    if found.count == span and 0 <= attributes <= _MAX_CODEC and sequenced:
        return None  # Almost all batches.
    wrong = (
        (
            found.count != span,
            ErrorCode.invalid_record,
            (f"the batch has {found.count} records but {span} offsets"),
        ),
        (attributes & CONTROL, ErrorCode.invalid_record, "clients may not write control records"),
        (
            attributes & TRANSACTIONAL,
            ErrorCode.invalid_txn_state,
            "this cluster does not support transactions",
        ),
        (
            attributes & _LOG_APPEND_TIME,
            ErrorCode.invalid_timestamp,
            "timestamps must come from the producer",
        ),
        (
            attributes & CODEC_BITS > _MAX_CODEC,
            ErrorCode.unsupported_compression_type,
            f"the codec {attributes & CODEC_BITS} does not exist",
        ),
        (
            not sequenced,
            ErrorCode.invalid_record,
            f"the batch has a producer id but the sequence number {found.base_sequence}",
        ),
    )
    return next(((code, what) for true, code, what in wrong if true), None)
