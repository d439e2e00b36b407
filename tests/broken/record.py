"""A stored run as rows, to be changed as a broken broker would have left it."""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from checkers.layout import write_table
from checkers.ordering import ordered
from results.record.paths import RunPaths
from results.record.plan import dump_plan, load_plan, plan_from
from results.record.seal import seal
from results.record.tables import TABLES
from results.record.terms import F

Row = dict[str, Any]


class Record:
    """The tables, milestones and plan of a stored run.

    Rows are plain dictionaries, to be changed in place; tables that nobody asked for are copied as
    they are.

    Args:
        base: The folder of the run, which stays as it is.
    """

    def __init__(self, base: Path) -> None:
        self._base = RunPaths(base)
        self._tables: dict[str, list[Row]] = {}
        lines = self._base.milestones.read_text(encoding="utf-8").splitlines()
        self.milestones: list[Row] = [json.loads(line) for line in lines]
        self.plan: dict[str, Any] = load_plan(self._base.plan)

    def rows(self, name: str, /, **equal: object) -> list[Row]:
        """Return the rows of a table that have these values, in the table's order."""
        if name not in self._tables:
            self._tables[name] = self._table(name).to_pylist()
        wanted = equal.items()
        return [row for row in self._tables[name] if all(row[key] == is_ for key, is_ in wanted)]

    def stone(self, name: str) -> int:
        """Return when the run reached a milestone, in nanoseconds since its start."""
        return next(int(each["at_ns"]) for each in self.milestones if each["name"] == name)

    def drop(self, name: str, unwanted: Callable[[Row], bool], /, **equal: object) -> list[Row]:
        """Take rows out of a table, and return them."""
        gone = [row for row in self.rows(name, **equal) if unwanted(row)]
        numbers = {id(row) for row in gone}
        self._tables[name] = [row for row in self._tables[name] if id(row) not in numbers]
        return gone

    def add(self, name: str, like: Row, /, **changed: object) -> Row:
        """Add a row like another one to a table, and return it."""
        self.rows(name)
        row = {**like, **changed}
        self._tables[name].append(row)
        return row

    def save(self, root: Path) -> Path:
        """Write the run to a folder whose last two names become its id."""
        paths = RunPaths(root)
        paths.record.mkdir(parents=True)
        for each in (self._base.topics, self._base.environment, self._base.ledger):
            if each.exists():
                shutil.copy(each, root)
        if self._base.nodes.exists():
            shutil.copytree(self._base.nodes, paths.nodes)
        paths.plan.write_text(dump_plan(plan_from(self.plan)), encoding="utf-8")
        lines = [json.dumps(each) + "\n" for each in self.milestones]
        paths.milestones.write_text("".join(lines), encoding="utf-8")
        self._count_messages()
        there = [name for name in TABLES if self._base.table(name).exists()]
        for name in there:
            self._write(name, paths)
        notes = json.loads((self._base.record / "ingest.json").read_text(encoding="utf-8"))
        seals = {name: seal(paths.table(name)) for name in there}
        notes = {**notes, "run_id": paths.run_id, "seals": seals}
        (paths.record / "ingest.json").write_text(json.dumps(notes), encoding="utf-8")
        return root

    def _count_messages(self) -> None:
        """Count again what each op sent, or read outside of a transaction."""
        counts = Counter(row["op_id"] for row in self.rows("sends"))
        read = Counter(row["op_id"] for row in self.rows("polls"))
        for op in self.rows("ops"):
            is_txn = op["f"] == F.TXN.value
            op["messages"] = counts[op["op_id"]] + (0 if is_txn else read[op["op_id"]])

    def _write(self, name: str, paths: RunPaths) -> None:
        table = self._table(name)
        if name in self._tables:
            table = pa.Table.from_pylist(self._tables[name], schema=TABLES[name])
        ids = pa.array([paths.run_id] * table.num_rows, type=pa.string())
        table = table.set_column(
            table.column_names.index("run_id"), TABLES[name].field("run_id"), ids
        )
        write_table(paths.table(name), name, [ordered(name, table)])

    def _table(self, name: str) -> pa.Table:
        return pq.read_table(self._base.table(name), partitioning=None).cast(TABLES[name])
