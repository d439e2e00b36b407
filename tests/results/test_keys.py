"""Messages of a compacted topic: key, tombstone and mark, which follow from the value."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.record.contents import (
    HEADERS,
    KEY,
    PAYLOAD,
    TIME,
    damage,
    messages,
    value_in,
)
from results.record.headers import HEADER, coded_header, mark_of
from results.record.keys import (
    are_tombstones,
    is_tombstone,
    key_bytes,
    key_number,
    key_numbers,
    mark_of_value,
    marked_value,
)
from results.record.shapes import Shape
from results.record.values import pack_value

AT_MS = 1_700_000_000_123
VALUES = np.arange(pack_value(2, 0), pack_value(2, 4000), dtype=np.int64)
DEAD = next(each for each in VALUES.tolist() if is_tombstone(each))
ALIVE = next(each for each in VALUES.tolist() if not is_tombstone(each))
KEYS = 16


def looked_at(
    value: int, payload: bytes | None, key: bytes | None, mark: object, *, at_ms: int = AT_MS
) -> int:
    (found,) = damage([payload], [key], [mark], [at_ms]).tolist()
    assert value_in(payload, mark) == value
    return int(found)


def message(value: int, keys: int = KEYS) -> tuple[bytes | None, bytes, bytes]:
    ((payload, key, headers),) = messages(
        np.array([value]), Shape(size_bytes=100, keys=keys), AT_MS
    )
    assert headers is not None
    ((name, mark),) = headers
    assert name == HEADER
    assert isinstance(mark, bytes)
    return payload, key, mark


@given(st.integers(0, (1 << 63) - 1), st.integers(1, 1_000_000))
def test_one_value_alone_has_what_it_has_among_others(value: int, keys: int) -> None:
    """Writers ask for one, the judge for columns: who sends and who judges must agree."""
    values = np.array([value, 0], np.int64)
    assert int(key_numbers(values, keys)[0]) == key_number(value, keys) < keys
    assert bool(are_tombstones(values)[0]) == is_tombstone(value)
    assert marked_value(mark_of_value(value, keys)) == (value, keys)


def test_all_keys_come_and_the_first_more_often_than_the_last() -> None:
    numbers = key_numbers(VALUES, KEYS)
    counts = np.bincount(numbers, minlength=KEYS)
    assert (counts > 0).all()
    assert counts[:4].sum() > 3 * counts[-4:].sum()
    tombstones = are_tombstones(VALUES)
    assert 0.1 < tombstones.mean() < 0.15
    assert set(numbers[tombstones].tolist()) >= set(range(KEYS // 2)), "whichever the key"


def test_a_key_is_a_number_of_four_bytes() -> None:
    """As those of markers are, which are 0 and 1."""
    zero = next(each for each in VALUES.tolist() if key_number(each, KEYS) == 0)
    assert key_bytes(zero, KEYS) == bytes(4)


@pytest.mark.parametrize("value", [DEAD, ALIVE])
def test_what_was_sent_is_intact_and_any_other_is_not(value: int) -> None:
    payload, key, mark = message(value)
    assert (payload is None) == is_tombstone(value)
    assert looked_at(value, payload, key, mark) == 0
    assert looked_at(value, payload, bytes(8), mark) == KEY
    assert looked_at(value, payload, None, mark) == KEY
    assert mark_of(coded_header(b"")[:-1] + bytes([len(mark) << 1]) + mark) == mark


def test_a_payload_and_its_mark_belong_together() -> None:
    payload, key, mark = message(ALIVE)
    assert payload is not None
    other = next(each for each in VALUES.tolist() if not is_tombstone(each) and each != ALIVE)
    assert looked_at(ALIVE, None, key, mark) == PAYLOAD, "no tombstone"
    assert looked_at(ALIVE, payload[:-1] + b"?", key, mark) == PAYLOAD
    assert looked_at(ALIVE, payload, key, mark, at_ms=AT_MS + 1) == TIME
    assert looked_at(ALIVE, payload, message(other)[1], message(other)[2]) & HEADERS
    assert looked_at(ALIVE, payload, message(DEAD)[1], message(DEAD)[2]) == PAYLOAD


@pytest.mark.parametrize("value", [DEAD, ALIVE])
@pytest.mark.parametrize("among", [2, 20])
def test_a_mark_of_another_number_of_keys_is_not_what_was_sent(value: int, among: int) -> None:
    """Also where that is the same key."""
    alike = next(n for n in range(KEYS + 1, 9 * KEYS) if key_number(value, n) == key_number(
        value, KEYS))  # fmt: skip
    others = [each for each in VALUES.tolist() if each != value][:among]
    sent = [message(each) for each in others] + [message(value, alike)]
    payloads, keys, marks = (list(column) for column in zip(*sent, strict=True))
    assert damage(payloads, keys, marks, [AT_MS] * len(sent)).tolist() == [0] * among + [HEADERS]
    # One of two by themselves, nobody knows which; a record without a mark says nothing of keys.
    tie = damage(payloads[-2:], keys[-2:], marks[-2:], [AT_MS] * 2)
    assert not tie.any()
    assert looked_at(value, payloads[-1], keys[-1], marks[-1]) == 0
    # Who knows the plan needs no others; and a damaged majority does not decide.
    told = damage(payloads[-2:], keys[-2:], marks[-2:], [AT_MS] * 2, of_keys=KEYS)
    assert told.tolist() == [0, HEADERS]
    payloads, keys, marks = ([one[-2], *[one[-1]] * 3] for one in (payloads, keys, marks))
    told = damage(payloads, keys, marks, [AT_MS] * 4, of_keys=KEYS)
    assert told.tolist() == [0, *[HEADERS] * 3]


def test_nothing_else_is_a_mark() -> None:
    for strange in (None, (), b"", bytes(8), bytes(13), mark_of_value(7, 0), "text"):
        assert marked_value(strange) is None
        assert value_in(None, strange) is None
    _, key, _ = message(DEAD)
    assert looked_at(None, None, key, None) & PAYLOAD  # type: ignore[arg-type]


def test_many_are_looked_at_as_one_is() -> None:
    sent = list(messages(VALUES[:200], Shape(size_bytes=100, keys=KEYS), AT_MS))
    payloads, keys, headers = zip(*sent, strict=True)
    marks = [header[0][1] for header in headers if header]
    stamps = [AT_MS] * len(sent)
    assert not damage(payloads, keys, marks, stamps).any()
    assert [value_in(*each) for each in zip(payloads, marks, strict=True)] == VALUES[:200].tolist()
