"""The most seconds in a row with sends tried and none ok, beside a count row by row."""

from collections import Counter
from random import Random

import pyarrow as pa
import pytest

from checkers.figures import _longest_unavailable_s
from checkers.statistics import STATISTICS


def row_by_row(availability: pa.Table) -> dict[str, int]:
    longest: Counter[str] = Counter()
    current: Counter[str] = Counter()
    for row in availability.to_pylist():
        place = f"{row['topic']}-{row['partition']}"
        current[place] = 0 if row["ok"] else current[place] + 1
        longest[place] = max(longest[place], current[place])
    return dict(longest)


@pytest.mark.parametrize("seed", range(30))
def test_each_partitions_longest_outage_is_what_a_count_row_by_row_finds(seed: int) -> None:
    random = Random(seed)
    rows = [
        {"topic": topic, "topic_id": topic_id, "partition": partition, "window_ns": second,
         "attempted": 1, "ok": random.choice((0, 0, 1))}
        for topic in ("a", "b") for partition in range(3) for topic_id in ("x", "y")
        for second in range(random.randrange(8))
    ]  # fmt: skip
    table = pa.Table.from_pylist(rows, STATISTICS["availability"])
    found = _longest_unavailable_s(table)
    assert found == row_by_row(table)
    assert max(found.values()) > 1


def test_a_run_without_sends_has_no_outage() -> None:
    assert _longest_unavailable_s(STATISTICS["availability"].empty_table()) == {}
