"""What a message holds beside its value, and what its readers say of it."""

import zlib
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.record import contents
from results.record.contents import (
    FEW,
    HEADERS,
    KEY,
    PAYLOAD,
    TIME,
    TIMED_FROM,
    UNKNOWN_MS,
    Message,
    damage,
    key_of,
    message_payload,
    payload_of,
)
from results.record.headers import (
    HEADER,
    KINDS,
    Header,
    coded_header,
    coded_headers,
    mark,
    mark_of,
    mixed_headers,
)
from results.record.plan import Plan, plan_from
from results.record.shapes import Shape, shape_of
from results.record.values import decode_payload, pack_value

AT_MS = 1_700_000_000_123
VALUE = pack_value(2, 32)
SIZES = (8, 9, 12, 16, 17, 19, TIMED_FROM, 21, 24, 100, 1001)


def messages(
    values: npt.NDArray[np.int64], shape: Shape, at_ms: int
) -> Iterator[tuple[bytes, bytes, Header | None]]:
    """Yield messages of which none is a tombstone."""
    for payload, key, headers in contents.messages(values, shape, at_ms):
        assert payload is not None
        yield payload, key, headers


def looked_at(
    payload: bytes | None,
    key: bytes | None,
    mark: object,
    *,
    at_ms: int = AT_MS,
    among: int = 0,
) -> int:
    """Look at one record, among so many that are intact and as long."""
    size = 8 if payload is None else len(payload)
    values = np.arange(pack_value(1, 1), pack_value(1, 1 + among), dtype=np.int64)
    others = list(messages(values, Shape(size_bytes=max(8, size)), AT_MS))
    found = damage(
        [*(other for other, _, _ in others), payload],
        [*(each for _, each, _ in others), key],
        [*(headers[0][1] if headers else None for _, _, headers in others), mark],
        [*[AT_MS] * among, at_ms],
    ).tolist()
    assert found[:-1] == [0] * among
    return int(found[-1])


def test_a_message_is_what_it_was_yesterday() -> None:
    (message,) = messages(np.array([VALUE]), Shape(size_bytes=29), AT_MS)
    payload, key, headers = message
    assert payload.hex() == "00000002000000200000018bcfe5687bdf8aea5ce8e3b72afc537c9bd2"
    assert key.hex() == "67f59aa391a6e00c"
    assert headers == [(HEADER, key)]


@given(first=st.integers(0, (1 << 62)), size=st.sampled_from(SIZES), at_ms=st.integers(0, 1 << 41))
def test_many_messages_are_what_each_is(first: int, size: int, at_ms: int) -> None:
    values = np.arange(first, first + 2 * FEW, dtype=np.int64)
    shape = Shape(size_bytes=size)
    together = list(messages(values, shape, at_ms))
    alone = [one for value in values for one in messages(values[values == value], shape, at_ms)]
    assert together == alone
    assert [len(payload) for payload, *_ in together] == [size] * len(values)
    assert [decode_payload(payload) for payload, *_ in together] == values.tolist()
    assert sum(headers is not None for *_, headers in together) == 2
    without = list(messages(values, Shape(size_bytes=size, headers=False), at_ms))
    assert without == [(payload, key, None) for payload, key, _ in together]


@pytest.mark.parametrize("among", [0, 3 * FEW])
@pytest.mark.parametrize("size", SIZES)
def test_an_intact_record_has_no_damage(size: int, among: int) -> None:
    key = key_of(VALUE)
    payload = payload_of(VALUE, size, AT_MS)
    assert looked_at(payload, key, key, among=among) == 0
    assert looked_at(payload, key, key, at_ms=UNKNOWN_MS, among=among) == 0


@pytest.mark.parametrize("among", [0, 3 * FEW])
@pytest.mark.parametrize("size", [9, 17, TIMED_FROM, 100])
def test_each_byte_behind_the_value_is_compared(size: int, among: int) -> None:
    key, sent = key_of(VALUE), payload_of(VALUE, size, AT_MS)
    for at in range(8, size):
        payload = sent[:at] + bytes([sent[at] ^ 1]) + sent[at + 1 :]
        assert looked_at(payload, key, key, among=among) == PAYLOAD


@pytest.mark.parametrize("among", [0, 3 * FEW])
def test_a_payload_that_is_cut_off_or_another_one_is_damaged(among: int) -> None:
    key, sent = key_of(VALUE), payload_of(VALUE, 100, AT_MS)
    for payload in (sent[:-1], sent + b"\0", sent[:8] + bytes(92), sent[:8], None, b"short"):
        whole = payload is not None and len(payload) == 8  # There is no more to compare.
        assert looked_at(payload, key, key, among=among) == PAYLOAD * (not whole)
    other = payload_of(VALUE + 16, 100, AT_MS)
    assert looked_at(sent[:8] + other[8:], key, key, among=among) == PAYLOAD


@pytest.mark.parametrize("among", [0, 3 * FEW])
def test_key_headers_and_time_stamp_are_compared(among: int) -> None:
    key, sent = key_of(VALUE), payload_of(VALUE, 100, AT_MS)
    for wrong in (None, b"", key[:-1], key_of(VALUE + 1)):
        assert looked_at(sent, wrong, key, among=among) == KEY
        assert looked_at(sent, key, wrong, among=among) == HEADERS
    assert looked_at(sent, key, [("other", key)], among=among) == HEADERS
    assert looked_at(sent, key, key, at_ms=AT_MS + 1, among=among) == TIME
    small = payload_of(VALUE, TIMED_FROM - 1, AT_MS)
    assert looked_at(small, key, key, at_ms=AT_MS + 1, among=among) == 0
    bare, bare_key = payload_of(VALUE + 1, 100, AT_MS), key_of(VALUE + 1)
    assert looked_at(bare, bare_key, None, among=among) == 0
    assert looked_at(bare, bare_key, bare_key, among=among) == HEADERS
    assert looked_at(bare, b"", b"", at_ms=5, among=among) == KEY | HEADERS | TIME


def test_headers_that_nobody_looked_at_are_not_missed() -> None:
    for count in (1, 2 * FEW):
        values = np.arange(VALUE, VALUE + count, dtype=np.int64)
        sent = list(messages(values, Shape(size_bytes=100, headers=False), AT_MS))
        payloads, keys = [each[0] for each in sent], [each[1] for each in sent]
        assert not damage(payloads, keys, None, [AT_MS] * count).any()
        assert damage(payloads, keys, [None] * count, [AT_MS] * count)[0] == HEADERS


def test_a_scenarios_message_has_a_name_and_nothing_else() -> None:
    sent = message_payload(pack_value(1, 16))
    assert sent == pack_value(1, 16).to_bytes(8, "big") + b"message16"
    assert looked_at(sent, None, None) == 0
    assert looked_at(sent, b"k", None) == KEY
    assert looked_at(sent, None, b"h") == HEADERS
    assert looked_at(sent[:-1] + b"7", None, None) == PAYLOAD | KEY | HEADERS


def test_headers_are_known_by_their_code() -> None:
    key = key_of(VALUE)
    assert coded_header(key) == b"\x02\x10logquake\x10" + key
    assert mark_of(coded_header(key)) == key
    assert mark_of(b"\0") is None
    assert mark_of(b"\x02\x10logquakf\x10" + key) not in {None, key}


LONGER = Shape(size_bytes=40, others=[(4000, 8), (90_000, 100)], mixed=True, salt=7)
MANY = np.arange(pack_value(1, 0), pack_value(1, 1200), dtype=np.int64)


def marks_of(sent: Sequence[Message]) -> list[bytes | None]:
    """As each reader makes them."""
    return [mark(headers) for _, _, headers in sent]


def columns_of(
    sent: Sequence[tuple[bytes, bytes, Header | None]],
) -> tuple[list[bytes], list[bytes], list[int]]:
    return [each[0] for each in sent], [each[1] for each in sent], [AT_MS] * len(sent)


def test_payloads_are_of_the_sizes_of_the_plan_in_their_shares() -> None:
    sent = list(messages(MANY, LONGER, AT_MS))
    sizes = [len(payload) for payload, _, _ in sent]
    assert set(sizes) == {40, 4000, 90_000}
    assert 100 < sizes.count(4000) < 200
    assert 4 < sizes.count(90_000) < 25
    assert sent[:50] == [one for value in MANY[:50] for one in messages(np.array([value]), LONGER,
                                                                        AT_MS)]  # fmt: skip
    other = Shape(size_bytes=40, others=LONGER.others, mixed=True, salt=8)
    assert sizes != [len(payload) for payload, _, _ in messages(MANY, other, AT_MS)]


@pytest.mark.parametrize("count", [FEW, len(MANY)])
def test_messages_of_many_sizes_with_mixed_headers_are_intact(count: int) -> None:
    sent = list(messages(MANY[:count], LONGER, AT_MS))
    payloads, keys, stamps = columns_of(sent)
    assert not damage(payloads, keys, marks_of(sent), stamps).any()
    coded = [mark_of(coded_headers(headers)) for _, _, headers in sent]
    assert coded == marks_of(sent)
    assert not damage(payloads, keys, coded, stamps).any()
    assert not damage(payloads, keys, None, stamps).any()


def test_there_are_mixed_headers_of_each_kind() -> None:
    sent = messages(MANY, LONGER, AT_MS)
    found = {key[-1] for _, key, headers in sent if headers is not None}
    assert found == set(range(KINDS))
    contents = [
        content for key in found for _, content in mixed_headers(bytes([0] * 7 + [key])) or ()
    ]
    assert None in contents
    assert b"" in contents


@pytest.mark.parametrize("count", [FEW, 2 * FEW])
def test_each_change_of_mixed_headers_is_found(count: int) -> None:
    values = MANY[[row for row, value in enumerate(MANY) if key_of(int(value))[-1] < KINDS]]
    values = np.concatenate([values, MANY])[:count]
    sent = list(messages(values, LONGER, AT_MS))
    payloads, keys, stamps = columns_of(sent)
    for row, (_, key, headers) in enumerate(sent[:FEW]):
        if headers is None:
            continue
        first, *rest = headers
        wrongs: list[Header] = [
            [], rest, [*headers, first], [(first[0], b"other"), *rest],
            [("logquaker", first[1]), *rest], headers[:-1], [(HEADER, None)], [(HEADER, key)],
            [(HEADER, b"")],
        ]  # fmt: skip
        for wrong in wrongs:
            marks = marks_of(sent)
            marks[row] = mark(wrong)
            differs = HEADERS * (wrong != headers)
            found = damage(payloads, keys, marks, stamps)
            assert found[row] == differs
            assert np.count_nonzero(found) == (differs > 0)


def test_a_header_of_nobody_is_found_among_messages_without() -> None:
    sent = list(messages(MANY, LONGER, AT_MS))
    payloads, keys, stamps = columns_of(sent)
    row = next(row for row, each in enumerate(sent) if each[2] is None and not MANY[row] % 16)
    marks = marks_of(sent)
    marks[row] = keys[row]  # What a message with plain headers would have.
    assert damage(payloads, keys, marks, stamps)[row] == HEADERS


def test_of_a_damaged_payload_the_headers_are_known_by_what_is_left() -> None:
    sent = list(messages(MANY, LONGER, AT_MS))
    for payload, key, headers in sent[:200]:
        hurt = payload[:-1] + bytes([payload[-1] ^ 1])
        assert damage([hurt], [key], [mark(headers)], [AT_MS])[0] == PAYLOAD


def test_a_plan_without_contents_has_messages_as_there_were_before() -> None:
    assert shape_of(Plan(seed=9)) == Shape(size_bytes=100, salt=shape_of(Plan(seed=9)).salt)
    old = plan_from({"broker": {"log.message.format.version": "0.10.2"}})
    assert not shape_of(old).headers


def test_the_longest_payload_costs_no_more_than_its_bytes() -> None:
    values = MANY[: FEW + 1]
    shape = Shape(size_bytes=995_000, mixed=True)
    together = list(messages(values, shape, AT_MS))
    assert list(messages(values[:1], shape, AT_MS)) == together[:1]
    payloads, keys, stamps = columns_of(together)
    assert not damage(payloads, keys, marks_of(together), stamps).any()


def test_a_payload_beside_mixed_headers_can_be_compressed() -> None:
    for size in (100, 1000):
        plain, other = (payload_of(VALUE, size, AT_MS, with_mixed=each) for each in (False, True))
        assert len(zlib.compress(plain)) > len(plain) - 10
        assert len(zlib.compress(other)) < len(other) * 0.9
        words = [other[at : at + 8] for at in range(16, size - 7, 8)]
        assert len(set(words)) == len(words)
