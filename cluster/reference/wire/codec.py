"""Decode client requests from bytes to our messages, and encode our responses.

If a request is incomplete, or has an unknown type or version, its sender would not understand any
response. Kafka then closes the connection, and so does this cluster. The exception is ApiVersions
in an unknown version: the response has version 0, and lists the supported versions (KIP-511).
"""

import io
import re
import struct
from functools import cache

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32
from msgspec import Struct

from cluster.reference.wire.apis import (
    API_VERSIONS,
    API_VERSIONS_RANGE,
    APIS,
    PRODUCE,
    Asked,
    api_versions,
)
from cluster.reference.wire.packing import answer, produce_request
from cluster.reference.wire.shapes import check_shape
from cluster.reference.wire.translation import Theirs

MOST_BYTES = 16 << 20
"""The largest request without records.

Kafka's limit is 100 MiB. Such requests may contain data of group members, which a broker stores.
"""
_KEY = struct.Struct(">hhi")
_LENGTH = struct.Struct(">i")
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")


class RequestError(Exception):
    """The bytes are not a request that can be answered; the connection must be closed."""


class AnswerError(Exception):
    """The response cannot be encoded in the request's version; the connection is closed."""


class Question(Struct, frozen=True, kw_only=True):
    """A client's request, with the data that are needed to answer it.

    Attributes:
        asked: The request's header.
        message: Our message; None for a request that is answered at once.
        answer: The complete response to a request that is answered at once.
        silent: Whether the request gets no response (a Produce with acks 0).
    """

    asked: Asked
    message: object | None = None
    answer: bytes = b""
    silent: bool = False


def question(frame: bytes) -> Question:
    """Decode a request.

    Raises:
        RequestError: The request is unknown or incomplete.
    """
    if len(frame) < _KEY.size:
        raise RequestError(f"a request has only {len(frame)} bytes")
    key, version, correlation = _KEY.unpack_from(frame)
    if key == API_VERSIONS:
        return _versions(version, correlation, frame)
    api = APIS.get(key)
    if api is None or not api.low <= version <= api.high:
        raise RequestError(f"request {key} in version {version} is not known")
    if key != PRODUCE and len(frame) > MOST_BYTES:
        raise RequestError(
            f"request {key} has {len(frame)} bytes, but at most {MOST_BYTES} are allowed"
        )
    if key == PRODUCE and (plain := produce_request(frame)) is not None:
        client, produce = plain
        asked = Asked(api_key=key, version=version, correlation=correlation, client_id=client)
        return Question(asked=asked, message=produce, silent=produce.acks == 0)
    try:
        check_shape(key, version, frame)
        header, said = _parsed(key, version, frame)
        asked = Asked(
            api_key=key,
            version=version,
            correlation=correlation,
            client_id=header.client_id or "",
        )
        message = api.read(said, asked)
    except Exception as malformed:
        # Any exception of kio or of a reader: invalid bytes from a client must not stop a broker.
        raise RequestError(
            f"request {key} in version {version} is malformed: {malformed!r}"
        ) from malformed
    return Question(asked=asked, message=message, silent=key == PRODUCE and said.acks == 0)


def answered(to: Asked, message: object) -> bytes:
    """Return the frame of a response, in the version of its request.

    Raises:
        AnswerError: The response cannot be encoded in that version.
    """
    try:
        if (plain := answer(to.api_key, to.version, to.correlation, message)) is not None:
            return plain
        form = _response(to.api_key, to.version)
        return _encoded(APIS[to.api_key].write(message, form), to.correlation)
    except Exception as unsayable:
        # A response may repeat a client's text that is too long for an old version's strings.
        sentence = (
            f"the answer to request {to.api_key} in version {to.version} cannot be"
            f" encoded: {unsayable!r}"
        )
        raise AnswerError(sentence) from unsayable


def _versions(version: int, correlation: int, frame: bytes) -> Question:
    low, high = API_VERSIONS_RANGE
    known = low <= version <= high
    spoken = version if known else 0
    error = _wrong_software(version, frame) if known else ErrorCode.unsupported_version
    said = api_versions(_response(API_VERSIONS, spoken), error)
    asked = Asked(api_key=API_VERSIONS, version=spoken, correlation=correlation, client_id="")
    return Question(asked=asked, answer=_encoded(said, correlation))


def _wrong_software(version: int, frame: bytes) -> ErrorCode:
    """Return the error for an invalid name or version of a client's software (KIP-511)."""
    try:
        check_shape(API_VERSIONS, version, frame)
        _header, said = _parsed(API_VERSIONS, version, frame)
    except Exception as malformed:
        raise RequestError(
            f"ApiVersions in version {version} is malformed: {malformed!r}"
        ) from malformed
    names = [getattr(said, f"client_software_{each}", "a") for each in ("name", "version")]
    sound = all(map(_SOFTWARE.fullmatch, names))
    return ErrorCode.none if sound else ErrorCode.invalid_request


def _parsed(key: int, version: int, frame: bytes) -> tuple[Theirs, Theirs]:
    read_header, read = _request(key, version)
    header, size = read_header(frame, 0)
    said, _size = read(frame, size)
    return header, said


@cache
def _request(key: int, version: int) -> tuple[Theirs, Theirs]:
    schema: Theirs = load_request_schema(key, version)
    return entity_reader(schema.__header_schema__), entity_reader(schema)


@cache
def _response(key: int, version: int) -> Theirs:
    return load_response_schema(key, version)


def _encoded(said: Theirs, correlation: int) -> bytes:
    header = _header(type(said))
    buffer = io.BytesIO()
    buffer.write(bytes(_LENGTH.size))
    entity_writer(header)(buffer, header(correlation_id=i32(correlation)))
    entity_writer(type(said))(buffer, said)
    frame = buffer.getbuffer()
    _LENGTH.pack_into(frame, 0, len(frame) - _LENGTH.size)
    return bytes(frame)


def _header(form: Theirs) -> Theirs:
    return form.__header_schema__
