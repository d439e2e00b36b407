import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.wording.amounts import duration, size


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.42, "0.4 s"), (5, "5 s"), (9.94, "9.9 s"), (9.96, "10 s"), (59.4, "59 s"), (60, "1 min"),
        (90, "1 min 30 s"), (3599, "1 h 00 min"), (720, "12 min"), (11_100, "3 h 05 min"),
        (86_369, "23 h 59 min"), (86_370, "1 d 00 h"), (604_800, "7 d 00 h"),
    ],
)  # fmt: skip
def test_a_duration_is_in_the_units_that_people_use(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (999, "999 B"), (1000, "1.0 kB"), (999_950, "1.0 MB"), (3 << 20, "3.1 MB"),
        (25_300_000_000, "25.3 GB"),
    ],
)  # fmt: skip
def test_a_size_is_in_the_units_of_disks(count: int, words: str) -> None:
    assert size(count) == words


@given(st.floats(0, 10**15))
def test_a_size_never_reaches_the_next_unit_and_is_near(count: float) -> None:
    number, unit = size(count).split()
    power = ("B", "kB", "MB", "GB", "TB").index(unit)
    assert power == 4 or float(number) < 1000
    assert abs(float(number) * 1000**power - count) <= max(0.5, 0.051 * 1000**power)


@given(st.floats(0, 10**7))
def test_a_duration_never_reaches_the_next_unit_and_is_near(seconds: float) -> None:
    words = duration(seconds)
    parts = {unit: float(number) for number, unit in re.findall(r"([\d.]+) (\w+)", words)}
    limits = {"s": 60, "min": 60, "h": 24}
    assert all(number < limits.get(unit, 10**9) for unit, number in parts.items())
    lengths = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
    means = sum(number * lengths[unit] for unit, number in parts.items())
    assert abs(means - seconds) <= lengths[list(parts)[-1]] / 2 + 1e-6
    assert ("." in words) == (seconds != round(seconds) and round(seconds, 1) < 10)
