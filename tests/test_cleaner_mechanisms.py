"""KAFKA-14055: a cleaner removes the marker of an abort, and later takes other records for aborted.

The record at offset 889 of producer t is committed. The producer had aborted before, at offset 870,
and the marker of this abort was at offset 873.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.mechanisms import MECHANISMS, shows
from results.record.keys import key_number
from tests.test_mechanisms import broken_by

KEYS = 14
MARKER, LOST, ABORTED, LATER = (
    next(value for value in range(first, first + 999) if (key_number(value, KEYS) == 0) == same)
    for first, same in ((1000, True), (2000, False), (3000, False), (4000, False))
)
"""Values; only the first one has the key of an abort's marker."""
ROWS = (
    (870, ABORTED, "fail", "t"), (871, LATER, "ok", None), (872, LATER, "ok", None),
    (877, MARKER, "ok", None), (889, LOST, "ok", "t"),
)  # fmt: skip
BEFORE, NEXT = (868, 884), (884, 890)
MINE = 7
"""The id of the producer."""


@dataclass(frozen=True, kw_only=True)
class Lost:
    """A lost record: the passes of each cleaner, the logs that have the record, and the sends.

    Attributes:
        more: Other records of `n1`: offset, producer id, whether it is a marker.
        read: The values that the final read returned.
        cut: From where `n1` truncated its log.
    """

    passes: Mapping[str, Sequence[tuple[int, int]]]
    having: Sequence[str] = ("n3",)
    rows: Sequence[tuple[int | None, int, str, str | None]] = ROWS
    final_read: bool = False
    partition: int = 0
    more: Sequence[tuple[int, int, bool]] = ()
    read: Sequence[int] = (LATER,)
    cut: int | None = None

    def shown(self, folder: Path) -> bool:
        evidence = {
            "value": LOST, "offset": 889, "final_leader": 1,
            "missing_from_final_read": self.final_read,
        }  # fmt: skip
        run = broken_by(
            "lost-write", folder / "run", offset=889, evidence=evidence, partition=self.partition
        )
        run.plan.write_text(f'workload = "keyed"\nkeys = {KEYS}\n')
        run.table("sends").parent.mkdir()
        for name, rows in self._tables().items():
            place = {"topic": "log-0", "partition": 0}
            pq.write_table(
                pa.Table.from_pylist([{**place, **row} for row in rows]), run.table(name)
            )
        for node, passes in self.passes.items():
            path = run.root / "nodes" / node / "logs" / "server.log"
            path.parent.mkdir(parents=True)
            path.write_text("".join(
                f"\tLog cleaner thread 0 cleaned log log-0-0 (dirty section = [{one}, {end}])\n"
                for one, end in passes
            ))  # fmt: skip
        return shows(MECHANISMS["KAFKA-14055"], run) == ("lost-write",)

    def _tables(self) -> dict[str, list[dict[str, object]]]:
        columns = ("offset", "value", "outcome", "transactional_id")
        kept = [
            (node, offset, value, producer, control)
            for node in self.passes
            for offset, value, producer, control in (
                (871, LATER, 1, False), (889, LOST, MINE, False),
                *((at, -1, by, is_marker) for at, by, is_marker in self.more if node == "n1"),
            )
            if value != LOST or node in self.having
        ]  # fmt: skip
        final = ("node", "offset", "value", "producer_id", "control")
        main = [{"offset": each, "value": LATER, "phase": "main"} for each in range(874, 889)]
        read = [{"offset": 1, "value": each, "phase": "final"} for each in self.read]
        return {
            "sends": [
                {**dict(zip(columns, row, strict=True)), "op_id": op_id, "invoke_ns": op_id}
                for op_id, row in enumerate(self.rows)
            ],
            "replica_records": [
                {"snapshot": "final", **dict(zip(final, row, strict=True))} for row in kept
            ],
            "polls": [*main, *read],
            "truncations": [{"node": "n1", "from_offset": self.cut or 999}],
        }


REMOVED = Lost(passes={"n1": [BEFORE, NEXT], "n2": [BEFORE, NEXT], "n3": [BEFORE, (884, 886)]})
SKIPPED = Lost(
    passes={"n1": [(0, 868), BEFORE], "n2": [BEFORE, NEXT], "n3": []},
    having=("n1", "n2", "n3"), final_read=True,
)  # fmt: skip
BETWEEN = (*ROWS[:2], (None, LATER, "fail", "t"), *ROWS[2:])
"""The client aborted once more, and the offset of this abort is unknown."""


@pytest.mark.parametrize(
    "lost",
    [
        REMOVED,
        SKIPPED,
        replace(REMOVED, more=[(873, 8, True), (891, MINE, False), (895, MINE, True)]),
        replace(
            REMOVED,
            rows=(*ROWS, (892, LATER, "fail", "t")),
            more=[(893, MINE, False)],
            passes={"n1": [BEFORE, (884, 900)], "n2": [BEFORE, (884, 900)], "n3": [BEFORE]},
        ),
    ],
)
def test_the_two_effects_of_an_abort_without_its_marker(lost: Lost, tmp_path: Path) -> None:
    assert lost.shown(tmp_path)


@pytest.mark.parametrize(
    "lost",
    [
        replace(REMOVED, having=()),  # Then nothing shows which logs are affected.
        replace(REMOVED, having=("n2", "n3")),  # The next pass of n2 went beyond it, too.
        replace(REMOVED, passes={**REMOVED.passes, "n2": [BEFORE, (884, 889)]}),
        replace(REMOVED, passes={**REMOVED.passes, "n2": [BEFORE]}),
        replace(REMOVED, passes={**REMOVED.passes, "n2": [(868, 877), (877, 890)]}),
        replace(REMOVED, passes={**REMOVED.passes, "n2": [(871, 884), NEXT]}),
        replace(
            REMOVED,
            rows=[(row[0], LATER if row[1] == MARKER else row[1], *row[2:]) for row in ROWS],
        ),
        replace(REMOVED, rows=[row for row in ROWS if row[1] != ABORTED]),
        replace(REMOVED, rows=[(*row[:2], "ok", row[3]) for row in ROWS]),
        replace(REMOVED, rows=[(*row[:3], None) for row in ROWS]),
        # The marker may have been behind the record with its key.
        replace(REMOVED, rows=[(872, *row[1:]) if row[1] == MARKER else row for row in ROWS]),
        replace(REMOVED, rows=BETWEEN),
        replace(REMOVED, partition=1),
        replace(REMOVED, more=[(873, MINE, True)]),  # The marker is still there.
        replace(REMOVED, more=[(889, 8, False)]),  # Another record took its place.
        replace(REMOVED, more=[(880, MINE, False)]),  # The client's other record is still there.
        replace(REMOVED, cut=889),
        replace(SKIPPED, final_read=False),
        replace(SKIPPED, passes={**SKIPPED.passes, "n1": [BEFORE, NEXT]}),
        replace(SKIPPED, passes={**SKIPPED.passes, "n1": []}),
        replace(SKIPPED, more=[(873, MINE, True)]),
        replace(SKIPPED, rows=(*ROWS, (892, LATER + 1, "ok", "t")), read=[LATER + 1]),
    ],
)
def test_what_only_looks_like_it_does_not_show_it(lost: Lost, tmp_path: Path) -> None:
    assert not lost.shown(tmp_path)
