"""What concerns a whole run's ops is the same whether they are worked on at once or in pieces."""

from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from checkers import columns
from checkers.columns import ints, pieces, slices
from checkers.examine import Piece, examine
from checkers.groups import reader_of
from checkers.layout import RUN
from checkers.run import judge_runs
from checkers.stored import load_facts
from tests.checkers.faithful import FaithfulRun
from tests.checkers.transactional import TransactionalRun

RUNS = (FaithfulRun(5, steps=60), TransactionalRun(6, steps=60))


def confused(ops: pa.Table, seed: int) -> pa.Table:
    """Give ops other processes, some of them ids, times or outcomes of others, or none."""
    random = np.random.default_rng(seed)
    rows = np.arange(ops.num_rows)
    for name in ("op_id", "process", "invoke_ns", "complete_ns", "outcome", "f"):
        moved = np.where(random.random(len(rows)) < 0.2, random.permutation(rows), rows)
        column = ops[name].take(moved)
        if name not in {"op_id", "f"}:
            gone = pa.array(random.random(len(rows)) < 0.05)
            column = pc.if_else(gone, pa.scalar(None, column.type), column)
        ops = ops.set_column(ops.column_names.index(name), name, column)
    return ops


def of_the_run(root: Path, seed: int | None) -> list[Piece]:
    facts = load_facts(root)
    tables = reader_of(root, facts).tables(RUN)
    if seed is not None:
        tables["ops"] = confused(tables["ops"], seed).combine_chunks()
    return examine(facts, tables, RUN)


@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize(("run", "seed"), list(product(RUNS, (None, 1, 2, 3))))
def test_checks_and_figures_of_ops_in_pieces_are_those_of_all_ops(
    tmp_path: Path, run: FaithfulRun | TransactionalRun, seed: int | None, rows: int
) -> None:
    root = run.write(tmp_path / "t" / "run")
    judge_runs([root], engine="local")
    whole = of_the_run(root, seed)
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(columns, "PIECE_ROWS", rows)
        assert of_the_run(root, seed) == whole
    assert (b"malformed" in b"".join(each.payload for each in whole)) or seed is None


@pytest.mark.parametrize("rows", [1, 2, 7, 100])
def test_a_key_is_in_one_piece_and_pieces_have_all_rows_in_the_order_of_keys(
    monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    keys = np.random.default_rng(rows).integers(-1, 20, 90)
    table = pa.table({"at": np.arange(90), "key": keys, "left": keys})
    monkeypatch.setattr(columns, "PIECE_ROWS", rows)
    found = list(pieces(table, ("at", "key"), keys))
    assert all(each.column_names == ["at", "key"] for each in found)
    assert len(found) == (1 if rows == 100 else len(found))
    assert len(found) > 1 or rows == 100
    least, most = ([fold(ints(each, "key")) for each in found] for fold in (np.min, np.max))
    assert all(end < start for end, start in zip(most, least[1:], strict=False))
    assert sorted(np.concatenate([ints(each, "at") for each in found])) == list(range(90))
    told = np.concatenate([ints(each, "at") for each in slices(table, ("at",))])
    assert told.tolist() == list(range(90))


def test_a_table_without_rows_is_one_piece() -> None:
    empty = pa.table({"at": pa.array([], pa.int64())})
    assert [each.num_rows for each in slices(empty, ("at",))] == [0]
    assert [each.num_rows for each in pieces(empty, ("at",), ints(empty, "at"))] == [0]
