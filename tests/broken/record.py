"""A stored run as rows, to be changed as a broken broker would have left it."""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from pathlib import Path, PurePath
from typing import Any

import pyarrow as pa

from checkers.columns import coded
from checkers.folder import LATER
from checkers.layout import write_table
from checkers.ordering import ordered
from results.record.declared import Declared, Sight, dump_declared
from results.record.paths import RunPaths
from results.record.plan import dump_plan, load_plan, plan_from
from results.record.seal import seal
from results.record.tables import TABLES
from results.record.terms import F, Outcome, ShareAct
from results.tables import read_table
from tests.broken.node_files import node_files, texts

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Base:
    """A stored run, read once in a process.

    Attributes:
        paths: Where it lies.
        tables: By name, strings coded, without the run's id.
        rows: The same as dictionaries.
    """

    paths: RunPaths
    tables: dict[str, pa.Table]
    rows: dict[str, list[Row]]


@cache
def base_of(folder: Path) -> Base:
    """Read a stored run."""
    paths = RunPaths(folder)
    whole = {
        name: read_table(paths, name) if paths.table(name).exists() else schema.empty_table()
        for name, schema in TABLES.items()
        if name in LATER or paths.table(name).exists()
    }
    read = {name: ordered(name, table).drop_columns(["run_id"]) for name, table in whole.items()}
    rows = {name: table.to_pylist() for name, table in read.items()}
    return Base(paths, {name: _coded(table) for name, table in read.items()}, rows)


def _coded(table: pa.Table) -> pa.Table:
    for at, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            table = table.set_column(at, field.name, pa.chunked_array([coded(table[at])]))
    return table


class Record:
    """The tables, milestones and plan of a stored run.

    Rows are plain dictionaries, to be changed in place; tables that nobody changed are written as
    they are, under the new run's id.

    Args:
        base: The folder of the run, which stays as it is.
    """

    def __init__(self, base: Path) -> None:
        self._base = base_of(base)
        self._tables: dict[str, list[Row]] = {}
        lines = self._base.paths.milestones.read_text(encoding="utf-8").splitlines()
        self.milestones: list[Row] = [json.loads(line) for line in lines]
        self.plan: dict[str, Any] = load_plan(self._base.paths.plan)
        self.declared: Declared | None = None
        """What the system declared; None: nothing, as Kafka may."""
        self._before = deepcopy((self.milestones, self.plan))

    def rows(self, name: str, /, **equal: object) -> list[Row]:
        """Return the rows of a table that have these values, in the table's order."""
        if name not in self._tables:
            self._tables[name] = _copies(name, self._base.rows[name])
        rows = self._tables[name]
        for key, is_ in equal.items():
            rows = [row for row in rows if row[key] == is_]
        return list(rows)

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
        row = {**deepcopy(like), **changed}
        self._tables[name].append(row)
        return row

    @property
    def changed(self) -> frozenset[str]:
        """The tables that are not as they were in the base, `milestones` and `plan`."""
        rest = zip(("milestones", "plan"), self._before, (self.milestones, self.plan), strict=True)
        return frozenset(
            [name for name, rows in self._tables.items() if rows != self._base.rows[name]]
            + [name for name, before, now in rest if before != now]
            + ([] if self.declared is None else ["system"])
        )

    def save(self, root: Path) -> Path:
        """Write the run to a folder whose last two names become its id.

        Nodes' files that no change touches are links to the base.
        """
        base, paths = self._base.paths, RunPaths(root)
        paths.record.mkdir(parents=True)
        for each in (base.topics, base.environment, base.ledger):
            if each.exists():
                shutil.copyfile(each, root / each.name)  # A run's own files are no links.
        if self.declared is not None:
            dump_declared(self.declared, paths.system)
        if self.declared is None or Sight.REPLICA_LOGS in self.declared.sees:
            self._save_nodes(paths.nodes)
        paths.plan.write_text(dump_plan(plan_from(self.plan)), encoding="utf-8")
        lines = [json.dumps(each) + "\n" for each in self.milestones]
        paths.milestones.write_text("".join(lines), encoding="utf-8")
        if self._tables.keys() & {"sends", "polls", "shared"}:
            self._count_messages()
        written = [
            name
            for name in self._base.tables
            if base.table(name).exists() or self._tables.get(name)
        ]
        for name in written:
            write_table(paths.table(name), name, [self._written(name, paths.run_id)])
        notes = json.loads((base.record / "ingest.json").read_text(encoding="utf-8"))
        seals = {name: seal(paths.table(name)) for name in written}
        notes = {**notes, "run_id": paths.run_id, "seals": seals}
        (paths.record / "ingest.json").write_text(json.dumps(notes), encoding="utf-8")
        return root

    def node_files(self) -> dict[PurePath, str]:
        """Return the text of each file of the nodes, by its path in the folder `nodes`."""
        of_files = [
            row
            for row in self.rows("quorum_states", observed_ns=None)
            if row["log_end_offset"] is not None
        ]
        of_files = of_files or self._base.rows["quorum_states"]
        states = self.rows("replica_states", snapshot="final")
        return node_files(self._base.paths.nodes, states, of_files)

    def _save_nodes(self, target: Path) -> None:
        nodes, files = self._base.paths.nodes, self.node_files()
        if files == texts(nodes):
            target.symlink_to(nodes.absolute())
            return
        for path, text in files.items():
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            (target / path).write_text(text, encoding="utf-8")

    def _count_messages(self) -> None:
        """Count again what each op sent, had confirmed, or read outside of a transaction."""
        confirmed = [
            row
            for row in self.rows("shared", outcome=Outcome.OK.value)
            if row["act"] != ShareAct.DELIVER.value
        ]
        counts = Counter(map(itemgetter("op_id"), [*self.rows("sends"), *confirmed]))
        read = Counter(map(itemgetter("op_id"), self.rows("polls")))
        for op in self.rows("ops"):
            is_txn = op["f"] == F.TXN.value
            op["messages"] = counts[op["op_id"]] + (0 if is_txn else read[op["op_id"]])

    def _written(self, name: str, run_id: str) -> pa.Table:
        table, rows = self._base.tables[name], self._tables.get(name)
        if rows is not None and rows != self._base.rows[name]:
            schema = pa.schema([each for each in TABLES[name] if each.name != "run_id"])
            table = ordered(name, pa.Table.from_pylist(rows, schema=schema))
        places = pa.array([0] * table.num_rows, type=pa.int32())
        ids = pa.DictionaryArray.from_arrays(places, pa.array([run_id]))
        return table.append_column("run_id", ids)


def _copies(name: str, rows: list[Row]) -> list[Row]:
    nested = [each.name for each in TABLES[name] if pa.types.is_nested(each.type)]
    copied = [row.copy() for row in rows]
    for row in copied if nested else ():
        row |= {key: deepcopy(row[key]) for key in nested}
    return copied
