"""One pass of the checks over a run in progress. If two passes agree, there is a violation.

A pass judges the window (the recent rows) as if the run ended now. A finding counts only if the
final judge would count it, too, with the facts that are known now.

Brokers change while they are asked and while files are read, so one pass can be wrong. A violation
therefore needs two passes that find the same anomaly at the same place. Each pass in between must
find it, too. If the judge allows some losses, an answer that excuses a loss may arrive a few
seconds late. In that case the two passes must be at least `SETTLED_NS` apart.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from checkers.changes import TOLD_LATE_NS
from checkers.columns import equal, ints, take, within
from checkers.facts import RunFacts
from checkers.group import Group, group_of
from checkers.ingest import Tables
from checkers.judge import weigh
from checkers.live.kernels import kernels
from checkers.live.window import TopicPartition, Window
from checkers.ordering import ordered
from checkers.protocol import Checker, Proof, Scope
from checkers.runner import CheckResult, run_checkers
from results.record.clock import NS_PER_S
from results.record.declared import Sight
from results.record.tables import LIVE
from results.record.terms import AnomalyClass, Judge
from results.record.verdict import Example

SETTLED_NS = TOLD_LATE_NS + NS_PER_S
"""After this time, brokers have reported every fact that may excuse a loss."""
OBSERVED_EVERY = 3
"""Only every third pass compares brokers' answers, because the comparison is costly. While an
anomaly is suspected, every pass compares them."""
_LOST = 5
Identity = tuple[str, str, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """An anomaly that stops a run.

    Attributes:
        name: The anomaly's name.
        example: One finding: its sentence, evidence and place.
        first_ns: When a pass first found it.
        seen_ns: When a later pass confirmed it.
    """

    name: str
    example: Example
    first_ns: int
    seen_ns: int


class Looks:
    """The passes of the checks over one run.

    Args:
        window: The recent rows of the run.
    """

    def __init__(self, window: Window) -> None:
        self._window = window
        self._suspects: dict[Identity, int] = {}
        self._run = tuple(each for each in kernels() if each.scope is Scope.RUN)
        self._partition = tuple(each for each in kernels() if each.scope is Scope.PARTITION)
        self._turn = 0

    @property
    def suspects(self) -> bool:
        """Whether the last pass found an anomaly that a later pass must confirm."""
        return bool(self._suspects)

    def look(self, facts: RunFacts, now_ns: int) -> Violation | None:
        """Judge the current window. If nothing is suspected, drop old rows.

        Args:
            facts: The known facts of the run.
            now_ns: Nanoseconds since the run's start, taken after all reading ended.

        Returns:
            A violation that two passes agree on, or None.
        """
        tables = self._window.tables()
        self._turn += 1
        found = self._found(facts, tables)
        apart_ns = 1 if facts.judge is Judge.STRICT else SETTLED_NS
        suspects = {key: self._suspects.get(key, now_ns) for key in found}
        for key, first_ns in suspects.items():
            if now_ns - first_ns >= apart_ns:
                return Violation(name=key[0], example=found[key], first_ns=first_ns, seen_ns=now_ns)
        self._suspects = suspects
        if not suspects:
            self._window.slide(now_ns, tables)
        return None

    def _found(
        self, facts: RunFacts, tables: Mapping[TopicPartition, Tables]
    ) -> dict[Identity, Example]:
        results = {
            (topic, "", partition): self._of_partition(facts, (topic, partition), rows)
            for (topic, partition), rows in tables.items()
        }
        results["", "", -1] = run_checkers(
            group_of(facts, {"faults": self._window.faults}), self._run
        )
        if not any(each.anomalies for group in results.values() for each in group):
            return {}
        verdict = weigh(facts, results, judge=facts.judge, engine="live", stats={})
        return {
            (name, each.topic, each.partition, each.offset): each
            for name, summary in sorted(verdict.anomalies.items())
            if summary.anomaly_class is not AnomalyClass.HARNESS
            for each in summary.examples
            if each.trusted and not each.allowed
        }

    def _of_partition(
        self, facts: RunFacts, place: TopicPartition, tables: Tables
    ) -> list[CheckResult]:
        view = _View(facts=facts, window=self._window, place=place, tables=tables)
        due = self.suspects or self._turn % OBSERVED_EVERY == 0
        return [
            each
            for checker in self._partition
            if due or checker.meanwhile is not Proof.OBSERVED
            for each in view.results(checker)
        ]


@dataclass(frozen=True, kw_only=True)  # Without slots, because the groups are cached properties.
class _View:
    """The rows of one partition in the current window, and the findings of the checks."""

    facts: RunFacts
    window: Window
    place: TopicPartition
    tables: Tables

    @cached_property
    def alone(self) -> Group:
        """The rows that clients and observers recorded, without the replicas' logs."""
        return self._group(self.tables)

    @cached_property
    def with_logs(self) -> Group:
        """The recorded rows, with the replicas' logs as if the brokers had stopped now."""
        told = self.tables.get("replica_states", LIVE["replica_states"].empty_table())
        logs = self.window.logs(self.place, told)
        names = told.column_names
        stated = [_plain(each.select(names)) for each in (told, logs["replica_states"])]
        return self._group({**self.tables, **logs, "replica_states": pa.concat_tables(stated)})

    def results(self, checker: Checker) -> Iterator[CheckResult]:
        """Yield the results of one check for this partition."""
        match checker.meanwhile:
            case Proof.GONE:
                if gone := self._gone():
                    yield from run_checkers(gone, [checker])
            case Proof.COPIED:
                if self.window.differ(self.place):
                    yield from run_checkers(self.with_logs, [checker])
            case Proof.TOLD | Proof.OBSERVED | None:
                yield from self._told(checker)

    def _told(self, checker: Checker) -> Iterator[CheckResult]:
        """Yield the results that follow only from the answers that clients and observers got.

        The replicas' logs serve only to find excuses, because records in them may still be
        truncated.
        """
        told = run_checkers(self.alone, [checker])
        places = {anomaly.offset for each in told for anomaly in each.anomalies}
        for each in run_checkers(self.with_logs, [checker]) if places else ():
            kept = tuple(anomaly for anomaly in each.anomalies if anomaly.offset in places)
            yield replace(each, anomalies=kept, beyond=())

    def _gone(self) -> Group | None:
        """Return a group with acknowledged sends whose records are in no replica's log.

        The group has at most `_LOST` of these sends. The sends were acknowledged before the logs
        were read. So a replica that had such a record has dropped it. The result is None if no
        record is missing, if a log was not read to its end, or if the system shows no logs.
        """
        whole = self.facts.shows(Sight.REPLICA_LOGS) and self.window.logs_are_whole(self.place)
        if "sends" not in self.tables or not whole:
            return None
        sends = self.tables["sends"]
        acked = equal(sends, "acked", True) & (ints(sends, "offset") >= 0)  # noqa: FBT003 - a value
        missing = np.flatnonzero(
            acked & ~within(ints(sends, "value"), self.window.held(self.place))
        )
        if not len(missing):
            return None
        # A description takes time, and a few lost records are enough.
        first = missing[np.argsort(ints(sends, "offset")[missing], kind="stable")][:_LOST]
        tables = {**self.with_logs.tables, "sends": ordered("sends", take(sends, np.sort(first)))}
        return replace(self.with_logs, tables=tables)

    def _group(self, tables: Tables) -> Group:
        topic, partition = self.place
        return group_of(self.facts, tables, topic=topic, partition=partition)


def _plain(table: pa.Table) -> pa.Table:
    """Return a table with plain strings in place of dictionary columns.

    Such tables can be joined.
    """
    return pa.table({
        name: table[name].cast(pa.string())
        if pa.types.is_dictionary(table[name].type)
        else table[name]
        for name in table.column_names
    })  # fmt: skip
