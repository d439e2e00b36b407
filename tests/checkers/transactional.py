"""A faithful run with transactions: as Kafka does, so that no checker may call it wrong.

Processes write to several partitions in one transaction, and read in between. A coordinator decides
once, and writes its markers afterwards, partition by partition, in any order. read_committed
readers come as far as the last stable offset, watchers as far as the high watermark. A client may
hear nothing of its commit, or die before it asked for one; then the coordinator decides alone.
"""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from checkers.columns import Mask, equal, ints, select
from checkers.examine import CHECK, Piece, conclude, examine
from checkers.facts import RunFacts
from checkers.ingest import Tables
from checkers.layout import RUN
from checkers.runner import CheckResult, parse_result
from results.record.plan import Plan
from results.record.plan_parts import Minimums
from results.record.values import pack_value
from tests.checkers.faithful import FaithfulRun
from tests.checkers.faithful_clients import FINAL_PROCESS, Clients, Partition, Row
from tests.oracle import transactions as oracle

WRITERS, WATCHER = (0, 1, 2, 3), 4
READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"
OF_WATCHERS = FINAL_PROCESS + 100
"""From here on final readers are read_uncommitted."""


@dataclass
class Transaction:
    op_id: int
    thread: int
    sent: list[tuple[int, int, int | None]] = field(default_factory=list)
    """(mop, offset, or None where no answer came)."""
    first: dict[int, int] = field(default_factory=dict)
    """Its first offset, by partition's number: readers wait before it until its marker stands."""
    values: set[int] = field(default_factory=set)
    mop: int = 0
    decision: str = ""
    positions: dict[int, int] = field(default_factory=dict)
    """Where its process stood when it began: what is read in vain is read again."""


@dataclass
class Transactors(Clients):
    """Clients that write in transactions; one op a thread at a time."""

    under_way: dict[int, Transaction] = field(default_factory=dict)
    """Open at their clients, by thread."""
    unmarked: list[Transaction] = field(default_factory=list)
    """Whose markers do not stand in all of their partitions."""
    aborted: set[int] = field(default_factory=set)
    mop: int = 0

    def stable_end(self, each: Partition) -> int:
        firsts = [txn.first[each.number] for txn in self.unmarked if each.number in txn.first]
        return min([*firsts, each.high_watermark])

    def begin(self, each: Partition) -> None:
        """Begin a transaction, or go on with one."""
        thread = self.random.choice(WRITERS)
        if thread in self.under_way:
            self.go_on(each)
            return
        for txn in [txn for txn in self.unmarked if txn.thread == thread]:
            while txn in self.unmarked:  # The next one may begin only now.
                self._mark_one(txn)
        self._assigned(thread, each)
        txn = Transaction(self._begin("txn", thread, "main"), thread)
        txn.positions = dict(self.positions[self._process(thread)])
        self.under_way[thread] = txn
        self.unmarked.append(txn)

    def go_on(self, each: Partition) -> None:
        if not self.under_way:
            return
        txn = self.random.choice(list(self.under_way.values()))
        if self.random.random() < 0.3:
            self._poll_within(txn)
        else:
            self._send_within(txn, each)
        txn.mop += 1

    def end_one(self, _each: Partition | None = None) -> None:
        if not self.under_way:
            return
        txn = self.random.choice(list(self.under_way.values()))
        del self.under_way[txn.thread]
        unsure = any(offset is None for *_, offset in txn.sent)
        fate = self.random.choice(("ok",) * 5 + ("abort", "unheard", "unheard", "died"))
        fate = "abort" if unsure and fate in ("ok", "unheard") else fate
        outcome = {"ok": "ok", "abort": "fail"}.get(fate, "info")
        txn.decision = {
            "ok": "commit", "abort": "abort", "died": "abort",
            "unheard": self.random.choice(("commit", "abort")),
        }[fate]  # fmt: skip
        for mop, _, offset in txn.sent:
            self.add("send_completions", op_id=txn.op_id, mop=mop, outcome=outcome, offset=offset,
                     acked=offset is not None)  # fmt: skip
        if fate != "died":
            told = {"ok": "committed", "abort": "aborted"}.get(fate, "unknown")
            self.add("transactions", txn_id=txn.op_id, op_id=txn.op_id,
                     transactional_id=f"t-{txn.thread}", outcome=told,
                     decision="abort" if fate == "abort" else "commit")  # fmt: skip
        if txn.decision == "abort":
            self.aborted |= txn.values
        if not txn.first:
            self.unmarked.remove(txn)
        if outcome == "fail":
            self.positions[self._process(txn.thread)] = txn.positions
        self._finish(txn.op_id, txn.thread, outcome)

    def mark(self, _each: Partition | None = None) -> None:
        """Write a marker of some transaction that is decided."""
        decided = [txn for txn in self.unmarked if txn.decision]
        if decided:
            self._mark_one(self.random.choice(decided))

    def poll(self, each: Partition) -> None:
        idle = [thread for thread in (*WRITERS, WATCHER) if thread not in self.under_way]
        thread = self.random.choice(idle)
        self._assigned(thread, each)
        op_id = self._begin("poll", thread, "main")
        self._poll_all(op_id, thread)
        self._finish(op_id, thread, self.random.choice(("ok",) * 6 + ("info",)))

    def read_to_end(self, each: Partition) -> None:
        for thread in (FINAL_PROCESS + each.number, OF_WATCHERS + each.number):
            self._place(thread, {each.number: None}, "final")
            while self.positions[thread][each.number] < each.high_watermark:
                op_id = self._begin("poll", thread, "final")
                self._read(op_id, thread, each, 0)
                self._finish(op_id, thread, "ok")
        end = each.high_watermark
        self.add("final_reads", **each.place, isolation=READ_COMMITTED, target_end=end, reached=end,
                 complete=True)  # fmt: skip

    def _assigned(self, thread: int, each: Partition) -> None:
        known = self.positions.get(self._process(thread))
        if known is None or each.number not in known or self.random.random() < 0.1:
            self._assign(thread, each)

    def _poll_within(self, txn: Transaction) -> None:
        self.mop = txn.mop
        self._poll_all(txn.op_id, txn.thread)
        self.mop = 0

    def _poll_all(self, op_id: int, thread: int) -> None:
        pos = 0
        for number in list(self.positions[self._process(thread)]):
            pos = self._read(op_id, thread, self.partitions[number - 1], pos)

    def _send_within(self, txn: Transaction, each: Partition) -> None:
        self.sequence[each.number] = self.sequence.get(each.number, 0) + 1
        value = pack_value(each.number, self.sequence[each.number])
        self.add("send_invocations", op_id=txn.op_id, mop=txn.mop, **each.place, value=value,
                 acks="all", transactional_id=f"t-{txn.thread}", txn_id=txn.op_id)  # fmt: skip
        fate = self.random.choice(("ok",) * 12 + ("unanswered", "lost"))
        offset = len(each.leaders_log)
        if fate != "lost":
            txn.first.setdefault(each.number, offset)
            txn.values.add(value)
            each.leaders_log.append((each.epoch, value))
            self.replicate(each)
        txn.sent.append((txn.mop, value, offset if fate == "ok" else None))

    def _mark_one(self, txn: Transaction) -> None:
        number = self.random.choice(sorted(txn.first))
        each = self.partitions[number - 1]
        each.leaders_log.append((each.epoch, -1 - txn.op_id))
        del txn.first[number]
        if not txn.first:
            self.unmarked.remove(txn)
        self.replicate(each)

    def _isolation(self, thread: int) -> str:
        return READ_UNCOMMITTED if thread == WATCHER or thread > OF_WATCHERS else READ_COMMITTED

    def _read(self, op_id: int, thread: int, each: Partition, pos: int) -> int:
        isolation = self._isolation(thread)
        committed = isolation == READ_COMMITTED
        positions = self.positions[self._process(thread)]
        start = positions[each.number]
        end = self.stable_end(each) if committed else each.high_watermark
        end = min(end, start + self.random.randint(0, 6))
        for offset in range(start, end):
            epoch, value = each.leaders_log[offset]
            if value < 0 or (committed and value in self.aborted):
                continue
            self.add("polled", op_id=op_id, mop=self.mop, pos=pos, **each.place, offset=offset,
                     value=value, leader_epoch=epoch, isolation=isolation)  # fmt: skip
            pos += 1
        positions[each.number] = max(start, end)
        return pos


class TransactionalRun(FaithfulRun):
    """A run of the workload `txn`; what else happens to brokers is as in a faithful run."""

    def __init__(self, seed: int, *, steps: int = 90, partitions: int = 3) -> None:
        plan = Plan(
            topics=1,
            partitions=partitions,
            workers=1,
            workload="txn",
            nemesis=("kill",),
            minimums=Minimums(ok_sends=1, ok_polls=0, confirmed_faults=0, around_faults=0),
        )
        self._tables: tuple[tuple[int, ...], Tables] | None = None
        super().__init__(seed, steps=steps, plan=plan)

    def steps(self, count: int) -> None:
        self.transactors = Transactors(
            random=self.random, partitions=self.partitions, add=self.add, tick=self.tick,
            replicate=self.replicate,
        )  # fmt: skip
        self.clients = clients = self.transactors
        deeds = (
            *(clients.begin,) * 4, *(clients.go_on,) * 8, *(clients.end_one,) * 3,
            *(clients.mark,) * 4, *(clients.poll,) * 4, self.elect, self.shrink, self.rejoin,
        )  # fmt: skip
        for _ in range(count):
            self.random.choice(deeds)(self.random.choice(self.partitions))

    def end(self) -> None:
        while self.transactors.under_way:
            self.transactors.end_one()
        while self.transactors.unmarked:
            self.transactors.mark()
        for each in self.partitions:
            end = each.high_watermark
            self.add("replica_states", **each.place, node=f"n{each.leader}", incarnation=1,
                     observed_ns=self.tick(), log_start_offset=0, log_end_offset=end,
                     high_watermark=end, last_stable_offset=end)  # fmt: skip
        super().end()

    def snapshot(
        self, each: Partition, broker: int, log: list[tuple[int, int]], *, name: str = "final"
    ) -> None:
        before = len(self.rows["replica_records"])
        super().snapshot(each, broker, log, name=name)
        for row in self.rows["replica_records"][before:]:
            if row["value"] < 0:
                row.update(value=None, control=True)

    def facts(self, **changes: object) -> RunFacts:
        known = oracle.witnessed({name: self.rows_of(name) for name in ("sends", "polls")})
        return super().facts(**{"witnessed": frozenset(known), **changes})

    def rows_of(self, name: str) -> list[Row]:
        return self.tables()[name].to_pylist()

    def tables(self) -> Tables:
        """Work the tables out again only if rows were added or dropped."""
        size = tuple(len(rows) for rows in self.rows.values())
        if self._tables is None or self._tables[0] != size:
            self._tables = size, super().tables()
        return self._tables[1]


def judged(run: TransactionalRun, **changes: object) -> dict[str, list[CheckResult]]:
    """What each checker says of a run, of each partition and across them, by its name."""
    facts = run.facts(**changes)
    tables = run.tables()
    pieces: list[Piece] = []
    for each in run.partitions:
        mine = {
            name: select(rows, _at(rows, each))
            for name, rows in tables.items()
            if "partition" in rows.column_names
        }
        place = each.place
        pieces += examine(facts, mine, (place["topic"], place["topic_id"], place["partition"]))
    whole = {name: rows for name, rows in tables.items() if "partition" not in rows.column_names}
    pieces += examine(facts, whole, RUN)
    pieces += conclude(facts, pieces)
    results: dict[str, list[CheckResult]] = {}
    for piece in pieces:
        if piece.kind == CHECK:
            results.setdefault(piece.name, []).append(parse_result(piece.payload.decode()))
    return results


def _at(rows: pa.Table, each: Partition) -> Mask:
    here = equal(rows, "topic", each.topic) & (ints(rows, "partition") == each.partition)
    return np.asarray(here, dtype=np.bool_)
