"""Hand-made pipelines: which op handled which input, and what became of it."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from checkers.group import Group
from checkers.handled import EFFECTS, INPUTS
from checkers.protocol import Checker
from tests.checkers.partition_rows import A, S, facts, found, whole_run

PIPELINE = {"workload": "pipeline", "topics": 2}
Row = dict[str, Any]


def handles(offset: int, op_id: int, *, place: str = "log-0-0", excuse: str = "") -> Row:
    return {
        "place": place, "offset": offset, "value": A + offset, "op_id": op_id, "kept": True,
        "excuse": excuse,
    }  # fmt: skip


def effect(
    op_id: int,
    fate: str,
    *,
    answered: bool = True,
    complete: bool = True,
    shown: bool = False,
    excuse: str = "",
) -> Row:
    return {
        "op_id": op_id, "committed": fate == "committed", "aborted": fate == "aborted",
        "answered": answered and fate == "committed",
        "complete": complete, "shown": shown, "excuse": excuse,
        "invoke_ns": op_id * S, "complete_ns": op_id * S + 1,
    }  # fmt: skip


def pipeline(rows: Iterable[Row], ops: Iterable[Row]) -> Group:
    derived = {
        "inputs": pa.Table.from_pylist([*rows], schema=INPUTS),
        "effects": pa.Table.from_pylist([*ops], schema=EFFECTS),
    }
    return replace(whole_run(facts(plan=PIPELINE)), derived=derived)


DONE = effect(1, "committed")


def places(checker: Checker, rows: Iterable[Row], *ops: Row) -> list[int]:
    told = found(checker, pipeline(rows, ops)).anomalies
    offsets = [each.evidence["input_offset"] for each in told]
    return [at for at in offsets if isinstance(at, int)]


def drawn() -> tuple[st.SearchStrategy[Any], ...]:
    """Return what draws pairs of offsets and ops, the fates of five ops, and if all was read."""
    fates = st.sampled_from(["committed", "aborted", "unknown"])
    return (
        st.lists(st.tuples(st.integers(0, 5), st.integers(-1, 4)), max_size=12),
        st.lists(fates, min_size=5, max_size=5),
        st.booleans(),
    )
