"""High watermarks after the last heal, of many partitions and leaders."""

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from checkers import taking as module
from checkers.taking import MARK_COLUMNS, taking
from results.record.tables import TABLES


def rows(seed: int) -> list[dict[str, Any]]:
    random = Random(seed)
    return [
        {
            "topic": random.choice(("a", "b", None)), "partition": random.randrange(3),
            "observer": random.choice(("n1", "n2", None)), "leader": random.choice((1, 2, -1)),
            "source": random.choice(("list-offsets", "list-offsets", "metadata")),
            "observed_ns": random.randrange(30), "high_watermark": random.choice((None, at, at)),
        }
        for at in range(200)
    ]  # fmt: skip


@pytest.mark.parametrize("most", [7, 4096])
@pytest.mark.parametrize("seed", range(5))
def test_each_leaders_marks_come_by_time_and_of_many_some(
    monkeypatch: pytest.MonkeyPatch, seed: int, most: int
) -> None:
    monkeypatch.setattr(module, "_MOST", most)
    told = rows(seed)
    schema = pa.schema([TABLES["leadership"].field(name) for name in MARK_COLUMNS])
    kept = [
        each for each in told
        if each["source"] == "list-offsets" and each["leader"] >= 0
        and each["observed_ns"] >= 10 and each["high_watermark"] is not None
    ]  # fmt: skip
    expected: dict[tuple[str, int, str], list[tuple[int, int]]] = {}
    for each in sorted(kept, key=lambda row: row["observed_ns"]):
        place = (each["topic"] or "", each["partition"], each["observer"] or "")
        expected.setdefault(place, []).append((each["observed_ns"], each["high_watermark"]))
    found = {
        (each.topic, each.partition, each.node): list(each.marks)
        for each in taking(pa.Table.from_pylist(told, schema), 10)
    }
    step = len(kept) // most + 1
    assert found == {place: marks[::step] for place, marks in expected.items()}
    assert list(found) == sorted(found)


def test_nothing_is_told_where_the_last_heal_is_not_known() -> None:
    schema = pa.schema([TABLES["leadership"].field(name) for name in MARK_COLUMNS])
    assert taking(pa.Table.from_pylist(rows(1), schema), None) == ()
    assert taking(schema.empty_table(), 0) == ()
