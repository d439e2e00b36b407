"""The input of a checker: the rows of one partition or one run, and views of these rows.

Several checkers need the same views, such as the last leader and the committed sends. Each view is
computed only once for each group.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, wraps
from itertools import pairwise
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import numpy as np
import pyarrow as pa

from checkers.columns import (
    NONE,
    Ints,
    Mask,
    codes,
    equal,
    ints,
    present,
    runs_of,
    select,
    texts,
    within,
)
from checkers.facts import FINAL, NOTED, RemadeTopic, RunFacts
from checkers.keeper import keeper_lost
from checkers.ordering import PLACE, ordered
from checkers.shelf import Shelf, is_shelved, shelf_of
from results.record.declared import Sight
from results.record.tables import TABLES
from results.record.terms import QUORUM_TOPIC, Isolation, Judge, Outcome, Phase, Source

T = TypeVar("T")
P = ParamSpec("P")
KEY = ("run_id", *PLACE)
"""The columns that identify a group."""
_NO_END = np.iinfo(np.int64).max
_READ_AGAIN = ("logs", "final_log", "committed", "doubtful", "final_polls")
"""The views of a group that hold copies of columns. The columns can be read again."""
_KEPT = 1 << 16
"""The maximum number of cached results for a group (`once`)."""
_ISR_FROM = (Source.ZOOKEEPER, Source.METADATA)
LEADER_SOURCES = (Source.LIST_OFFSETS, Source.ZOOKEEPER)
"""The sources that certainly know the leader: first the leader itself, then ZooKeeper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """A broker that led a partition in an epoch; -1 means that the broker or epoch is unknown."""

    broker: int
    epoch: int

    @property
    def node(self) -> str:
        """The node's name: broker 2 is n2."""
        return f"n{self.broker}" if self.broker >= 0 else "an unknown leader"


@dataclass(frozen=True, kw_only=True, eq=False)  # Not slotted, because columns are cached.
class ReplicaLog:
    """One replica's log in one snapshot; columns are in offset order and computed on demand.

    Attributes:
        node: The replica's node.
        start, end: The log start offset and the log end offset (exclusive) in the files. If the
            broker did not stop cleanly, the end in the final snapshot may be higher: it is at least
            the last reported log end. After a clean stop, readable files are complete.
        whole: Whether the records could be read up to that end.
        records: The log's rows of `replica_records`.
    """

    node: str
    start: int
    end: int
    whole: bool
    records: pa.Table

    @cached_property
    def offsets(self) -> Ints:
        """The offset of each record."""
        return ints(self.records, "offset")

    @cached_property
    def epochs(self) -> Ints:
        """The leader epoch in which each record was written."""
        return ints(self.records, "leader_epoch")

    @cached_property
    def values(self) -> Ints:
        """Each record's value, -1 if the payload has none."""
        return ints(self.records, "value")

    @cached_property
    def hashes(self) -> Ints:
        """Each record's hash."""
        return ints(self.records, "record_hash")

    @cached_property
    def controls(self) -> Ints:
        """Whether each record is a transaction's marker: 0 or 1."""
        return ints(self.records, "control")

    @property
    def producer_ids(self) -> Ints:
        """Each record's producer id. Not cached, because few checkers use it."""
        return ints(self.records, "producer_id")

    @property
    def producer_epochs(self) -> Ints:
        """Each record's producer epoch."""
        return ints(self.records, "producer_epoch")

    @property
    def sequences(self) -> Ints:
        """Each record's producer sequence number."""
        return ints(self.records, "sequence")

    @property
    def read_end(self) -> int:
        """The offset after the last record that could be read."""
        return int(self.offsets[-1]) + 1 if len(self.offsets) else 0

    def has(self, value: int) -> bool:
        """Return whether the log holds a value at any offset."""
        return bool((self.values == value).any())

    def holds(self, offsets: Ints, values: Ints) -> Mask:
        """Return a mask of the pairs of offset and value that are in the log."""
        if not len(self.offsets):
            return np.zeros(len(offsets), dtype=np.bool_)
        at = np.minimum(np.searchsorted(self.offsets, offsets), len(self.offsets) - 1)
        found = (self.offsets[at] == offsets) & (self.values[at] == values)
        return np.asarray(found, dtype=np.bool_)

    def at(self, offset: int) -> int | None:
        """Return the index of the record at an offset, or None."""
        index = int(np.searchsorted(self.offsets, offset))
        here = index < len(self.offsets) and int(self.offsets[index]) == offset
        return index if here else None


@dataclass(frozen=True, kw_only=True)  # Not slotted, because views are cached.
class Group:
    """The rows of one group.

    Attributes:
        facts: The run's context.
        tables: Every table of the record by name, sorted (`ordering`). A table may be empty. The
            group of a whole run has the rows without a partition.
        topic, topic_id, partition: The partition; empty and -1 for a whole run.
        derived: The tables that derivations computed from all partitions of the run. Only the group
            of a whole run has such tables.
    """

    facts: RunFacts
    tables: Mapping[str, pa.Table]
    topic: str = ""
    topic_id: str = ""
    partition: int = -1
    derived: Mapping[str, pa.Table] = field(default_factory=dict)

    @property
    def of_quorum(self) -> bool:
        """Whether the rows belong to the controllers' log."""
        return self.topic == QUORUM_TOPIC

    @property
    def remade(self) -> RemadeTopic | None:
        """The topic if a fault recreated it; otherwise None."""
        return self.facts.remade_at(self.topic, self.topic_id, self.partition)

    @property
    def members(self) -> int:
        """The number of replicas that the partition should have."""
        remade = self.remade
        return len(remade.replicas[self.partition]) if remade else self.facts.plan.replication

    @property
    def place(self) -> str:
        """The partition's name as Kafka writes it: `log-0-3`."""
        return f"{self.topic}-{self.partition}"

    def table(self, name: str) -> pa.Table:
        """Return a table of the record."""
        return self.tables[name]

    def view(self, work: "Callable[[Group], T]") -> T:
        """Return the result of a function of the group.

        The function runs only once for each group.
        """
        if work not in self._views:
            self._views[work] = work(self)
        return cast("T", self._views[work])

    @cached_property
    def _views(self) -> "dict[Callable[[Group], Any], Any]":
        return {}

    @cached_property
    def answers(self) -> dict[object, Any]:
        """The cached results for the group (`once`)."""
        return {}

    def forget(self) -> None:
        """If the cache for big tables is full, drop the cached columns that can be read again."""
        if self._shelf is not None and self._shelf.full:
            for name in _READ_AGAIN:
                self.__dict__.pop(name, None)
            self._shelf.clear()
            pa.default_memory_pool().release_unused()

    @cached_property
    def _shelf(self) -> Shelf | None:
        """The cache for the columns of the group's big tables; None if no table is big."""
        return shelf_of(self.tables.values())

    @cached_property
    def leader(self) -> Leader | None:
        """The last leader before the stop: the last answer to ListOffsets in the highest epoch.

        Before Kafka 2.1, these answers name no epoch. Then the last leader in ZooKeeper is used. If
        the observer lost ZooKeeper, the last leader is unknown.
        """
        seen = self.table("leadership")
        claims = (ints(seen, "leader") >= 0) & (ints(seen, "leader_epoch") >= 0)
        known = LEADER_SOURCES[:1] if keeper_lost(seen) else LEADER_SOURCES
        sources = (select(seen, claims & equal(seen, "source", name)) for name in known)
        led = next((rows for rows in sources if rows.num_rows), None)
        if led is None:
            return None
        last = int(np.lexsort((ints(led, "observed_ns"), ints(led, "leader_epoch")))[-1])
        return Leader(
            broker=int(ints(led, "leader")[last]), epoch=int(ints(led, "leader_epoch")[last])
        )

    @cached_property
    def logs(self) -> Mapping[str, Mapping[str, ReplicaLog]]:
        """All replicas' logs, by snapshot and node."""
        records = self.table("replica_records")
        found = {
            place: records.slice(start, end - start)
            for place, (start, end) in self._log_rows.items()
        }
        logs: dict[str, dict[str, ReplicaLog]] = {}
        places = {*found, *self._stated_places()}
        for place in sorted({*places, *self._gone()}):
            mine = found.get(place, records.slice(0, 0))
            logs.setdefault(place[0], {})[place[1]] = self._log(mine, *place)
        return logs

    def _gone(self) -> Iterator[tuple[str, str]]:
        """Yield (snapshot, node) for each final log that must exist on a node that was read.

        The last leader and each member of the ISR after the recovery had such a log.
        """
        had = {self.leader.node} if self.leader else set()
        had |= final_isr(self) if self.facts.recovered else set()
        if self.facts.snapshot == FINAL:
            yield from ((FINAL, node) for node in sorted(had & self.facts.proving_nodes))

    @cached_property
    def _log_rows(self) -> Mapping[tuple[str, str], tuple[int, int]]:
        """The range of rows (end exclusive) of each replica's log, by snapshot and node."""
        records = self.table("replica_records")
        (snapshot, snapshots), (node, nodes) = codes(records, "snapshot"), codes(records, "node")
        return {
            (snapshots[snapshot[start]], nodes[node[start]]): (start, end)
            for start, end in pairwise(runs_of(snapshot, node).tolist())
            if snapshot[start] >= 0 and node[start] >= 0
        }

    @cached_property
    def final_log(self) -> ReplicaLog | None:
        """The log of the last leader, as it was after the stop."""
        if self.leader is None:
            return None
        return self.logs.get(FINAL, {}).get(self.leader.node)

    @cached_property
    def log_start(self) -> int:
        """The lowest offset that must still be in logs: 0 if brokers keep each log's beginning.

        Otherwise (`RunFacts.forgets`), the start of the last leader's log counts. Without that log,
        the highest start of any log counts. If the system shows no logs, the first offset of the
        final reads counts, too.
        """
        if not self.facts.forgets:
            return 0
        if self.final_log is not None:
            return self.final_log.start
        told = int(ints(self.table("replica_states"), "log_start_offset").max(initial=0))
        return told if self.shows_logs else max(told, self._reads_begin)

    @property
    def shows_logs(self) -> bool:
        """Whether the system shows replicas' logs, and leader epochs to find the last leader."""
        return {Sight.REPLICA_LOGS, Sight.LEADER_EPOCHS} <= self.facts.declared.sees

    @property
    def shows_cuts(self) -> bool:
        """Whether brokers' own log files show the truncations of replicas."""
        return self.shows_logs and self.facts.shows(Sight.BROKER_LOGS)

    @cached_property
    def _reads_begin(self) -> int:
        """The highest first offset that the final reads of an isolation level returned.

        If the reads returned nothing, their end counts: records below that end may be deleted.
        """
        reads, polls = self.table("final_reads"), self.final_polls
        begun = [0]
        for isolation in set(texts(reads, "isolation")):
            given = ints(select(polls, equal(polls, "isolation", isolation)), "offset")
            mine = select(reads, equal(reads, "isolation", isolation))
            end = int(ints(mine, "target_end").max(initial=0))
            begun.append(int(given.min(initial=end)))
        return max(begun)

    @cached_property
    def committed(self) -> pa.Table:
        """The sends that are certainly committed.

        A plain send is committed if it was acknowledged, with acks other than 0. A send of a
        transaction is committed if the commit succeeded, or if a read_committed reader got any of
        the transaction's sends.
        """
        sends = self.table("sends")
        in_txn = present(sends, "txn_id")
        plain = ~in_txn & ~equal(sends, "acks", "0") & equal(sends, "acked", True)  # noqa: FBT003 - a value
        witnessed = np.isin(ints(sends, "op_id"), list(self.facts.witnessed))
        decided = equal(sends, "outcome", Outcome.OK.value) | witnessed
        return select(sends, (plain | (in_txn & decided)) & present(sends, "value"))

    @cached_property
    def doubtful(self) -> pa.Table:
        """The sends of transactions that did not certainly commit: aborted or unknown."""
        sends = self.table("sends")
        in_txn = select(sends, present(sends, "txn_id"))
        return select(in_txn, ~within(ints(in_txn, "value"), ints(self.committed, "value")))

    @cached_property
    def final_polls(self) -> pa.Table:
        """The records that the final reads returned."""
        polls = self.table("polls")
        return select(polls, equal(polls, "phase", Phase.FINAL.value))

    @cached_property
    def final_reads_complete(self) -> bool:
        """Whether there were final reads, and each of these reads was complete."""
        reads = self.table("final_reads")
        return bool(reads.num_rows) and bool(equal(reads, "complete", True).all())  # noqa: FBT003 - a value

    def truncated(self, offsets: Ints) -> Mask:
        """Return a mask of the offsets that some replica truncated, as the run recorded it."""
        cuts = self.table("truncations")
        starts, ends = ints(cuts, "from_offset"), ints(cuts, "to_offset")
        order = np.argsort(starts)
        reached = np.maximum.accumulate(np.where(ends < 0, _NO_END, ends)[order])
        before = np.searchsorted(starts[order], offsets, side="right")
        return np.asarray(offsets < np.append(NONE, reached)[before], dtype=np.bool_)

    def _noted_end(self, node: str, snapshot: str) -> int:
        """Return the last log end that a replica reported after all sends had ended; 0 if none.

        Observers record only changes, but the last observation repeats each log end.
        """
        ended = self.facts.milestone("final-reads")
        if snapshot != FINAL or ended is None:
            return 0
        states = self.table("replica_states")
        said = ~present(states, "snapshot") | equal(states, "snapshot", NOTED)
        seen = said & equal(states, "node", node)
        seen &= ints(states, "observed_ns") >= ended.at_ns
        noted = ints(select(states, seen & present(states, "log_end_offset")), "log_end_offset")
        return int(noted[-1]) if len(noted) else 0

    def _stated_places(self) -> list[tuple[str, str]]:
        states = self.table("replica_states")
        pairs = zip(texts(states, "snapshot"), texts(states, "node"), strict=True)
        return [pair for pair in pairs if pair[0] and pair[0] != NOTED]

    def _log(self, records: pa.Table, snapshot: str, node: str) -> ReplicaLog:
        states = self.table("replica_states")
        state = select(states, equal(states, "snapshot", snapshot) & equal(states, "node", node))
        offsets = ints(records, "offset")
        first, last = (int(offsets[0]), int(offsets[-1]) + 1) if len(offsets) else (0, 0)
        starts, ends = (ints(state, f"log_{side}_offset") for side in ("start", "end"))
        start = int(starts.max()) if len(starts) and starts.max() >= 0 else first
        end = max(last, int(ends.max(initial=0)))
        if snapshot != FINAL or node not in self.facts.proving_nodes:
            end = max(end, self._noted_end(node, snapshot))
        return ReplicaLog(
            node=node,
            start=start,
            end=end,
            whole=end == (last if len(offsets) else start),
            records=records,
        )


def once(
    work: Callable[Concatenate[Group, P], T],
) -> Callable[Concatenate[Group, P], T]:
    """Cache a function of a group, so that it runs once for the same arguments.

    Several anomalies may concern one lost record, and each anomaly calls such a function.

    Args:
        work: The function. Its arguments must be hashable, and its result must not be changed.
    """

    @wraps(work)
    def asked(group: Group, /, *args: P.args, **named: P.kwargs) -> T:
        key, known = (work, args, tuple(named.items())), group.answers
        if key not in known:
            answer = work(group, *args, **named)
            if len(known) >= _KEPT:
                known.clear()
            known[key] = answer
        return cast("T", known[key])

    return asked


def claimed_mark(group: Group, snapshot: str, node: str) -> int:
    """Return the high watermark that a replica claims, or -1.

    In a step's snapshot, a broker and its checkpoint file may claim different ones. Then the
    broker's claim counts, because the file may be 5 s old. After a truncation or a power loss, the
    high watermark in the file may be too high.
    """
    states = group.table("replica_states")
    mine = equal(states, "snapshot", snapshot) & equal(states, "node", node)
    stated = select(states, mine & present(states, "high_watermark"))
    said = select(stated, equal(stated, "high_watermark_source", "fetch"))
    return int(ints(said if said.num_rows else stated, "high_watermark").max(initial=-1))


def final_isr(group: Group) -> frozenset[str]:
    """Return the nodes of the last ISR that is known for the highest leader epoch.

    ZooKeeper stores the ISR itself. Metadata shows what one broker knows; old brokers name no
    epoch. If the observer lost ZooKeeper, the last ISR is unknown.
    """
    rows = group.table("leadership")
    if keeper_lost(rows):
        return frozenset()
    told = (select(rows, equal(rows, "source", name) & present(rows, "isr")) for name in _ISR_FROM)
    known = next((each for each in told if each.num_rows), None)
    if known is None:
        return frozenset()
    last = int(np.lexsort((ints(known, "observed_ns"), ints(known, "leader_epoch")))[-1])
    return frozenset(f"n{broker}" for broker in known["isr"][last].as_py())


def group_of(
    facts: RunFacts,
    tables: Mapping[str, pa.Table],
    *,
    topic: str = "",
    topic_id: str = "",
    partition: int = -1,
) -> Group:
    """Return a group with every table of the record, sorted. Missing tables are empty.

    The columns that identify the group are dropped: at ten million rows, they need a gigabyte.
    """
    given = {name: ordered(name, _bare(tables[name])) for name in TABLES if name in tables}
    if "polls" in given and facts.judge is Judge.JEPSEN and facts.plan.transactional:
        given["polls"] = _read_committed(given["polls"])
    whole = {name: given.get(name, table) for name, table in _nothing().items()}
    return Group(facts=facts, tables=whole, topic=topic, topic_id=topic_id, partition=partition)


def _read_committed(polls: pa.Table) -> pa.Table:
    """Return the polls that Jepsen's rules use with transactions: only read_committed polls.

    By Jepsen's rules, aborted records that other readers got would be anomalies.
    """
    return select(polls, equal(polls, "isolation", Isolation.READ_COMMITTED.value))


def _bare(table: pa.Table) -> pa.Table:
    """Return a table without the columns that identify the group. Each column is one chunk."""
    if is_shelved(table):
        return table
    rest = [name for name in table.column_names if name not in KEY]
    return table.select(rest).combine_chunks()


@cache
def _nothing() -> Mapping[str, pa.Table]:
    """Return an empty table for every table. It is cached, because most groups lack most tables."""
    return {name: _bare(schema.empty_table()) for name, schema in TABLES.items()}
