"""Recorded runs, handed to a window bit by bit, as they were written."""

from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from checkers.changes import disturbances
from checkers.columns import Mask, equal, ints, present, select
from checkers.contract import allowed
from checkers.disk_losses import disk_losses
from checkers.facts import FINAL, RunFacts
from checkers.folder import load_table
from checkers.group import group_of
from checkers.groups import StoredGroups
from checkers.live.kernels import kernels
from checkers.live.look import Looks, Violation
from checkers.live.window import Window
from checkers.protocol import Scope
from checkers.runner import run_checkers
from checkers.stored import load_facts
from checkers.unclean_orders import unclean_orders
from results.record.paths import RunPaths
from results.record.tables import LIVE
from results.record.terms import AnomalyClass, Judge

_BEFORE = -1
_STEPS = ("requested_ns", "confirmed_ns", "healed_ns")
Places = set[tuple[str, str, int, int]]


class CutRecord:
    """One run of which the tables are kept.

    Args:
        root: Its folder.
        judge: Who judges.
    """

    def __init__(self, root: Path, judge: Judge) -> None:
        self.root = root
        self.facts = replace(load_facts(root), judge=judge)
        ended = self.facts.milestone("main-ended")
        assert ended is not None
        self.end_ns = ended.at_ns

    @cached_property
    def _tables(self) -> dict[str, pa.Table]:
        names = ("ops", "sends", "polls", "leadership", "replica_states", "replica_records",
                 "faults")  # fmt: skip
        return {name: load_table(RunPaths(self.root), name) for name in names}

    def looked_at(self, times_ns: list[int], *, rows: list[int] | None = None) -> Violation | None:
        """Return what looks at some times find, None if nothing; note how much each kept."""
        window = Window(self.facts.plan, self.facts.topics)
        looks, since_ns = Looks(window), _BEFORE
        for time_ns in times_ns:
            self._feed(window, since_ns, time_ns)
            found = looks.look(self._known(window), time_ns)
            if rows is not None:
                rows.append(window.rows)
            if found is not None:
                return found
            since_ns = time_ns
        return None

    @property
    def rows(self) -> int:
        """How many rows there are to look at."""
        return sum(table.num_rows for table in self._tables.values())

    @cached_property
    def found_by_all(self) -> Places:
        """Return what the kernels find that count, and look meanwhile, in the whole record."""
        reader, found = StoredGroups(self.root, self.facts), Places()
        for place in reader.rows():
            topic, topic_id, partition = place
            group = group_of(
                self.facts, reader.tables(place), topic=topic, topic_id=topic_id,
                partition=partition,
            )  # fmt: skip
            if group.of_quorum:
                continue
            scope = Scope.PARTITION if partition >= 0 else Scope.RUN
            mine = [each for each in kernels() if each.scope is scope]
            mine = [each for each in mine if each.anomaly_class is not AnomalyClass.HARNESS]
            found |= {
                (each.name, topic, partition, anomaly.offset)
                for each in run_checkers(group, mine)
                for anomaly in each.anomalies
                if not anomaly.broken_premises
                and allowed(each.name, anomaly.excuses, self.facts.judge) is None
            }
        return found

    def _known(self, window: Window) -> RunFacts:
        early = {"warmup", "main", "ready", "started", "looked"}
        return RunFacts(
            run_id=self.facts.run_id,
            recorded_id=self.facts.run_id,
            plan=self.facts.plan,
            topics=self.facts.topics,
            milestones=tuple(each for each in self.facts.milestones if each.name in early),
            disk_losses=disk_losses(window.faults),
            unclean_orders=unclean_orders(window.faults),
            disturbances=disturbances(window.faults),
            judge=self.facts.judge,
        )

    def _feed(self, window: Window, since_ns: int, until_ns: int) -> None:
        def within(table: pa.Table, column: str) -> Mask:
            times = ints(table, column)
            return np.asarray((times > since_ns) & (times <= until_ns), dtype=np.bool_)

        ops, sends, polls = (self._tables[name] for name in ("ops", "sends", "polls"))
        whole = (
            ("op_invocations", ops, "invoke_ns"),
            ("op_completions", ops, "complete_ns"),
            ("send_invocations", sends, "invoke_ns"),
            ("send_completions", sends, "complete_ns"),
            ("polled", polls, "complete_ns"),
        )
        for name, table, column in whole:
            self._add(window, "worker-0", name, select(table, within(table, column)))
        for name in ("leadership", "replica_states"):
            table = self._tables[name]
            live = within(table, "observed_ns") & present(table, "observed_ns")
            if name == "replica_states":
                live &= ~present(table, "snapshot")
            for node in ("n1", "n2", "n3"):
                who = "observer" if name == "leadership" else "node"
                mine = select(table, live & equal(table, who, node)).sort_by("observed_ns")
                self._add(window, f"observer-{node}", name, mine)
        faults = self._tables["faults"]
        for at, step in enumerate(_STEPS):
            due = select(faults, within(faults, step) & present(faults, step))
            for later in _STEPS[at + 1 :]:
                due = _without(due, later)
            if step == "requested_ns":
                due = _without(due, "effect")
            self._add(window, "nemesis", "faults", due)
        self._logs(window, since_ns, until_ns)

    def _add(self, window: Window, writer: str, name: str, table: pa.Table) -> None:
        rows = table.select(LIVE[name].names).cast(LIVE[name]).combine_chunks()
        window.add(writer, name, rows.to_batches())

    def _logs(self, window: Window, since_ns: int, until_ns: int) -> None:
        """Let all logs grow, as the last one is, as far as anybody has heard of."""
        records = self._tables["replica_records"]
        final = select(records, equal(records, "snapshot", FINAL))
        for place in window.low:
            before, end = (self._heard(place, time_ns) for time_ns in (since_ns, until_ns))
            here = equal(final, "topic", place[0]) & (ints(final, "partition") == place[1])
            mine = select(final, here & (ints(final, "offset") < end))
            for node in ("n1", "n2", "n3"):
                log = select(mine, equal(mine, "node", node)).sort_by("offset")
                new = select(log, ints(log, "offset") >= before)
                rows = new.select(LIVE["replica_records"].names).cast(LIVE["replica_records"])
                copy = window.store(place, node, rows, cut=None)
                offsets = ints(log, "offset")
                copy.end = int(offsets[-1]) + 1 if len(offsets) else 0
                copy.whole = True

    def _heard(self, place: tuple[str, int], time_ns: int) -> int:
        ends = [0]
        for name in ("sends", "polls"):
            table = self._tables[name]
            here = equal(table, "topic", place[0]) & (ints(table, "partition") == place[1])
            here &= (ints(table, "complete_ns") <= time_ns) & (ints(table, "complete_ns") >= 0)
            ends.append(1 + int(ints(table, "offset")[here].max(initial=-1)))
        return max(ends)


def _without(table: pa.Table, name: str) -> pa.Table:
    at = table.schema.get_field_index(name)
    field = table.schema.field(at)
    return table.set_column(at, field, pa.nulls(table.num_rows, field.type))
