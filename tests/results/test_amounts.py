import pytest

from results.wording.amounts import duration, size


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.42, "0.4 s"), (5, "5 s"), (9.96, "10.0 s"), (59.4, "59 s"), (60, "1 min"),
        (90, "1 min 30 s"), (3599, "1 h 00 min"), (720, "12 min"), (11_100, "3 h 05 min"),
    ],
)  # fmt: skip
def test_a_duration_is_in_the_units_that_people_use(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("count", "words"),
    [(999, "999 B"), (1000, "1.0 kB"), (3 << 20, "3.1 MB"), (25_300_000_000, "25.3 GB")],
)
def test_a_size_is_in_the_units_of_disks(count: int, words: str) -> None:
    assert size(count) == words
