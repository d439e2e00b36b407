"""Sends requests to brokers of every version, and converts messages between versions.

`questions` defines each request once, in one version. If a broker supports only older versions, the
newest supported version is used. Fields that this version lacks are dropped, unless the request
needs them. The response is converted to the expected version. Missing fields then get the default
from Kafka's definitions, usually -1.

A broker reports its supported versions (ApiVersions) once per connection.
"""

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import timedelta
from functools import cache
from types import MappingProxyType, NoneType
from typing import Any, TypeVar, cast, get_args, get_type_hints

from kio.index import KioIndexError, load_request_schema, load_response_schema
from kio.schema.api_versions.v0.request import ApiVersionsRequest
from kio.schema.api_versions.v0.response import ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta
from kio.static.protocol import Entity, RequestPayload, ResponsePayload

from cluster.kafka.old_messages import OLD_MESSAGES
from cluster.kafka.wire import A, WireError, channel_to
from results.record.clock import stopwatch_s

E = TypeVar("E", bound=Entity)


class UnknownQuestionError(WireError):
    """A broker does not support a request, or supports only versions that lack a needed field."""


class Dialogue:
    """A connection to a broker of any version; only one thread at a time may use it.

    Args:
        host: The broker's address.
        port: The broker's port.
    """

    def __init__(self, host: str, port: int) -> None:
        self._connection = channel_to(host, port)
        self._where = f"{host}:{port}"
        self._versions: Mapping[int, tuple[int, int]] = {}

    def ask(self, question: RequestPayload, answer: type[A], *, timeout_s: float) -> A:
        """Send a request, and return the response converted to the expected version.

        Args:
            question: A request, in the newest version that may be used.
            answer: The response's type, of the same version.
            timeout_s: The time limit in seconds for the whole call.

        Raises:
            UnknownQuestionError: The broker does not support this request.
            WireError: No complete response came in time.
        """
        deadline_s = stopwatch_s() + timeout_s
        if not self._connection.is_open():
            self._versions = self._asked_versions(timeout_s)
        spoken = self._spoken(question)
        remaining_s = deadline_s - stopwatch_s()
        if spoken == question.__version__:
            return self._connection.ask(question, answer, timeout_s=remaining_s)
        request, response = _schemas(question.__api_key__, spoken)
        said = self._connection.ask(self._older(question, request), response, timeout_s=remaining_s)
        return recast(said, answer)

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._connection.close()

    def _asked_versions(self, timeout_s: float) -> dict[int, tuple[int, int]]:
        # Every broker since 0.10 supports version 0.
        said = self._connection.ask(ApiVersionsRequest(), ApiVersionsResponse, timeout_s=timeout_s)
        return {each.api_key: (each.min_version, each.max_version) for each in said.api_keys}

    def _spoken(self, question: RequestPayload) -> int:
        lowest, highest = self._versions.get(question.__api_key__, (0, -1))
        version = min(int(question.__version__), highest)
        if version < lowest:
            raise UnknownQuestionError(f"{self._where} does not support {_named(question)}")
        return version

    def _older(self, question: RequestPayload, form: type[RequestPayload]) -> RequestPayload:
        if lost := inexpressible(question, form):
            raise UnknownQuestionError(
                f"{self._where} cannot receive {_named(question)}: its newest version of this"
                f" request, {form.__version__}, has no {lost}"
            )
        return recast(question, form)


def recast(said: Entity, form: type[E]) -> E:
    """Convert a message to another version: copy fields by name, use defaults for others."""
    values = {
        name: _recast_value(getattr(said, name), inner) if known else default
        for name, inner, known, default in _plan(type(said), form)
    }
    return form(**values)


def inexpressible(question: Entity, form: type[Entity]) -> str | None:
    """Return the name of a non-default field that the other version of the message does not have.

    Return None if there is no such field.

    Args:
        question: The message.
        form: The message's class in the other version.
    """
    there = {each.name: each for each in fields(form)}
    nested = _nested(form)
    for each in fields(question):
        value = getattr(question, each.name)
        if each.name not in there:
            if value != _default(each):
                return each.name
        elif each.name in nested and value:
            for inner in value if isinstance(value, tuple) else (value,):
                if lost := inexpressible(inner, nested[each.name]):
                    return lost
    return None


def _recast_value(value: Any, inner: type[Entity] | None) -> Any:  # noqa: ANN401 - any field's
    if inner is None or value is None:
        return value
    if isinstance(value, tuple):
        return tuple(recast(each, inner) for each in value)
    return recast(value, inner)


@cache
def _plan(
    source: type[Entity], form: type[Entity]
) -> tuple[tuple[str, type[Entity] | None, bool, object], ...]:
    """Return how to fill each field of `form` when a message of type `source` is converted.

    Returns:
        For each field: the name, the class of nested messages, whether `source` has the field, and
        the default.
    """
    there = {each.name for each in fields(source)}
    nested = _nested(form)
    return tuple(
        (each.name, nested.get(each.name), True, None)
        if each.name in there
        else (each.name, None, False, _default(each))
        for each in fields(form)
    )


@cache
def _nested(form: type[Entity]) -> Mapping[str, type[Entity]]:
    """Return the fields that hold nested messages, each with the class of these messages."""
    hints = get_type_hints(form)
    found = {each.name: _entity(hints[each.name]) for each in fields(form)}
    return MappingProxyType({name: entity for name, entity in found.items() if entity})


def _entity(hint: object) -> type[Entity] | None:
    if isinstance(hint, type) and is_dataclass(hint):
        return cast("type[Entity]", hint)
    inner = [_entity(each) for each in get_args(hint) if each not in (NoneType, Ellipsis)]
    return inner[0] if inner else None


_DEFAULTS: Mapping[str, object] = {
    "error_code": ErrorCode.none,
    "timedelta_i32": i32Timedelta.parse(timedelta()),
    "uuid": None,
    "bool": False,
    "int8": 0,
}
"""The defaults of Kafka's own classes, for fields that have no default in kio."""


def _default(missing: "Field[Any]") -> object:
    if missing.default is not MISSING:
        return missing.default
    kind = missing.metadata.get("kafka_type")
    if kind is None or kind == "string":
        return () if kind is None else None
    return _DEFAULTS[kind]


def _named(question: RequestPayload) -> str:
    return type(question).__name__.removesuffix("Request")


@cache
def _schemas(key: int, version: int) -> tuple[type[RequestPayload], type[ResponsePayload]]:
    if declared := OLD_MESSAGES.get((key, version)):
        return declared
    try:
        return load_request_schema(key, version), load_response_schema(key, version)
    except KioIndexError as unknown:
        raise UnknownQuestionError(f"version {version} of request {key} is too old") from unknown
