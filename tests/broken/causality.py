"""Rules of cause and time that every record of the corpus keeps, whatever its brokers did wrong.

A rule takes the facts of a record and yields a sentence for each contradiction that it finds.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from operator import itemgetter

from results.record.clock import NS_PER_S
from results.record.milestones import ENDED
from results.record.terms import QUORUM_TOPIC
from tests.broken.record import Record, Row

UNCERTAINTY_NS = NS_PER_S
"""Between a fact and the moment at which an observer notes it."""
LAG_NS = 10 * NS_PER_S
"""After so long a broker that can be reached has heard what the controllers decided."""
MILESTONES = "milestones"
"""Stands for the milestones among the tables that a rule looks at."""
Place = tuple[str, int]


def place_of(row: Row) -> Place:
    """Return topic and partition of a row."""
    return row["topic"], row["partition"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule that records keep.

    Attributes:
        name: Of its function.
        tables: What it looks at: where nothing of that is changed, the base keeps it.
        contradictions: Yields a sentence for each contradiction in the facts of a record.
    """

    name: str
    tables: frozenset[str]
    contradictions: "Callable[[Facts], Iterator[str]]"


RULES: list[Rule] = []


def rule(
    *tables: str,
) -> "Callable[[Callable[[Facts], Iterator[str]]], Callable[[Facts], Iterator[str]]]":
    """Take a function among the rules that looks at tables."""

    def take(find: "Callable[[Facts], Iterator[str]]") -> "Callable[[Facts], Iterator[str]]":
        RULES.append(Rule(name=find.__name__, tables=frozenset(tables), contradictions=find))
        return find

    return take


class Facts:
    """What the rules ask of a record, each computed once.

    Args:
        record: The record, which stays as it is.
    """

    def __init__(self, record: Record) -> None:
        self.record = record

    @property
    def compacted(self) -> bool:
        """Whether cleaners may have taken records out of the middle of logs."""
        return bool(self.record.plan.get("keys"))

    @cached_property
    def sent_ns(self) -> dict[int, int]:
        """When the first send of each value began."""
        sent: dict[int, int] = {}
        for row in self.record.rows("sends"):
            sent[row["value"]] = min(row["invoke_ns"], sent.get(row["value"], row["invoke_ns"]))
        return sent

    @cached_property
    def logs(self) -> dict[tuple[Place, str], list[Row]]:
        """The final log of each replica, in the order of offsets."""
        logs: dict[tuple[Place, str], list[Row]] = {}
        rows = self.record.rows("replica_records", snapshot="final")
        for row in sorted(rows, key=lambda row: int(row["offset"])):
            logs.setdefault((place_of(row), row["node"]), []).append(row)
        return logs

    @cached_property
    def epochs(self) -> dict[tuple[Place, int, int], int]:
        """The epoch of each record in a final log: by its place, its offset and its value."""
        return {
            (place, row["offset"], row["value"]): row["leader_epoch"]
            for (place, _), rows in self.logs.items()
            for row in rows
        }

    @cached_property
    def finals(self) -> list[Row]:
        """What the files of each replica say."""
        return self.record.rows("replica_states", snapshot="final")

    @cached_property
    def changes(self) -> dict[Place, list[Row]]:
        """The changes of leader and ISR in the controllers' log, in its order."""
        found: dict[Place, dict[tuple[object, ...], Row]] = {}
        for row in self.record.rows("leadership", source="metadata-log"):
            names = ("log_offset", "leader", "leader_epoch", "isr")
            found.setdefault(place_of(row), {})[tuple(str(row[each]) for each in names)] = row
        return {
            place: sorted(rows.values(), key=lambda row: int(row["log_offset"]))
            for place, rows in found.items()
        }

    @cached_property
    def _quorum(self) -> list[Row]:
        """What the leader of the quorum told of its log, in the order of time."""
        told = [row for row in self.record.rows("quorum_states") if row["observed_ns"]]
        told.sort(key=lambda row: int(row["observed_ns"]))
        epochs = accumulate((int(row["epoch"]) for row in told), max)
        return [
            row
            for row, epoch in zip(told, epochs, strict=True)
            if row["epoch"] == epoch and row["role"] == "leader"
        ]

    def not_before_ns(self, log_offset: int) -> int:
        """Return until when an offset of the controllers' log was not written yet."""
        without = [
            row["observed_ns"] for row in self._quorum if row["log_end_offset"] <= log_offset
        ]
        return max(without, default=0)

    def known_ns(self, log_offset: int) -> int:
        """Return from when on an offset of the controllers' log was committed."""
        had = [row["observed_ns"] for row in self._quorum if row["high_watermark"] > log_offset]
        return min(had, default=1 << 62)

    def epoch_from_ns(self, place: Place, epoch: int) -> int | None:
        """Return until when a leader epoch did not exist; None: the controllers never gave it."""
        offsets = [row["log_offset"] for row in self.changes.get(place, ())
                   if row["leader_epoch"] == epoch]  # fmt: skip
        return self.not_before_ns(min(offsets)) if offsets else None

    @cached_property
    def down(self) -> list[tuple[str, int, int]]:
        """Nodes whose broker was not running, from when to when."""
        back: list[tuple[str, int]] = []
        spans: list[tuple[str, int, int]] = []
        for fault in self.record.rows("faults"):
            heal = json.loads(fault["heal_effect"] or "{}")
            if "was_gone" not in heal:
                continue
            begun_ns = int(fault["healed_ns"]) - int(heal["took_s"] * NS_PER_S)
            back += [(node, begun_ns) for node in heal["was_gone"]]
            if fault["confirmed_ns"] is not None:
                spans += [(node, fault["confirmed_ns"], begun_ns) for node in heal["was_gone"]]
        return spans + [
            (node, at_ns, min((ns for who, ns in back if who == node and ns > at_ns),
                              default=1 << 62))
            for node, at_ns in self.ended.items()
        ]  # fmt: skip

    @cached_property
    def ended(self) -> dict[str, int]:
        """When brokers ended by themselves; one that was stopped from outside is of them."""
        found = [each for each in self.record.milestones if each["name"] == ENDED]
        return {each["detail"]["node"]: int(each["at_ns"]) for each in found}

    @cached_property
    def gone(self) -> dict[str, int]:
        """When brokers ended that never came back."""
        return {node: from_ns for node, from_ns, to_ns in self.down if to_ns == 1 << 62}

    @cached_property
    def uncut(self) -> dict[Place, int]:
        """Up to where no log was ever cut, and not every disk lost what it held."""
        uncut: dict[Place, int] = {}
        for row in self.record.rows("truncations"):
            uncut[place_of(row)] = min(row["from_offset"], uncut.get(place_of(row), 1 << 62))
        brokers = {f"n{number}" for number in range(1, self.record.plan["nodes"] + 1)}
        losses = self.record.rows("faults", kind="power-loss")
        for fault in (each for each in losses if set(each["targets"]) == brokers):
            for each in json.loads(fault["effect"])["replicas"]:
                place = place_of(each)
                uncut[place] = min(each["log_end_after"], uncut.get(place, 1 << 62))
        return uncut

    def is_hit(self, node: str, at_ns: int) -> bool:
        """Tell whether a fault was in force on a node, or just over."""
        return any(
            node in fault["targets"]
            and fault["requested_ns"] <= at_ns <= (fault["healed_ns"] or 1 << 62) + LAG_NS
            for fault in self.record.rows("faults")
        )


def told_rows(facts: Facts) -> Iterator[Row]:
    """Yield what brokers answered of leaders, with its times."""
    for source in ("metadata", "list-offsets"):
        yield from facts.record.rows("leadership", source=source)


@rule("polls", "sends")
def reads_before_sends(facts: Facts) -> Iterator[str]:
    """A value is not read before its send begins."""
    for row in facts.record.rows("polls"):
        sent_ns = facts.sent_ns.get(row["value"], 0)
        if row["complete_ns"] < sent_ns:
            yield (
                f"op {row['op_id']} read value {row['value']} at {row['complete_ns']},"
                f" sent at {sent_ns}"
            )


@rule("replica_records", "replica_states", "leadership", "sends", "truncations")
def ends_before_sends(facts: Facts) -> Iterator[str]:
    """No log reaches beyond what was sent by then, as far as none was ever cut."""
    latest: dict[Place, list[int]] = {}
    for (place, _), rows in facts.logs.items():
        sent = {row["offset"]: facts.sent_ns.get(row["value"], 0) for row in rows}
        whole = [sent.get(offset, 0) for offset in range(max(sent) + 1)]
        if len(whole) >= len(latest.get(place, ())):
            latest[place] = [0, *accumulate(whole, max)]
    uncut = facts.uncut
    ends = [(row, row["log_end_offset"]) for row in facts.record.rows("replica_states")]
    marks = [(row, row["high_watermark"]) for row in told_rows(facts)]
    for row, end in ends + marks:
        place = place_of(row)
        if end is None or row["observed_ns"] is None or place not in latest:
            continue
        known = min(end, uncut.get(place, 1 << 62), len(latest[place]) - 1)
        if latest[place][known] > row["observed_ns"]:
            yield (
                f"{row.get('observer') or row.get('node')} told the end {end} of {place} at"
                f" {row['observed_ns']}, where a record of {latest[place][known]} stands"
            )


@rule("leadership", "polls", "sends", "replica_records", "quorum_states")
def epochs_before_elections(facts: Facts) -> Iterator[str]:
    """Nothing is of a leader epoch that the controllers had not given yet."""
    seen = [(place_of(row), row["leader_epoch"], row["observed_ns"]) for row in told_rows(facts)]
    read = facts.record.rows("polls")
    seen += [(place_of(row), row["leader_epoch"], row["complete_ns"]) for row in read]
    for row in facts.record.rows("sends", acked=True):
        epoch = facts.epochs.get((place_of(row), row["offset"], row["value"]))
        seen.append((place_of(row), epoch, row["complete_ns"]))
    first: dict[tuple[Place, int], int] = {}
    for place, epoch, at_ns in seen:
        if epoch is not None and epoch >= 0:
            first[place, epoch] = min(at_ns, first.get((place, epoch), at_ns))
    for (place, epoch), at_ns in first.items():
        from_ns = facts.epoch_from_ns(place, epoch)
        if from_ns is None:
            yield f"the controllers never gave epoch {epoch} of {place}, seen at {at_ns}"
        elif at_ns < from_ns - UNCERTAINTY_NS:
            yield f"epoch {epoch} of {place} was seen at {at_ns}, not elected before {from_ns}"


@rule("leadership", "quorum_states")
def stale_answers(facts: Facts) -> Iterator[str]:
    """A broker that nothing hits hears what the controllers decided."""
    since: dict[tuple[Place, int, frozenset[int]], int] = {}
    for place, rows in facts.changes.items():
        for row, after in pairwise(rows):
            key = (place, row["leader_epoch"], frozenset(row["isr"] or ()))
            since[key] = max(since.get(key, 0), facts.known_ns(after["log_offset"]))
        last = (place, rows[-1]["leader_epoch"], frozenset(rows[-1]["isr"] or ()))
        since[last] = 1 << 62
    for row in facts.record.rows("leadership", source="metadata"):
        key = (place_of(row), row["leader_epoch"], frozenset(row["isr"] or ()))
        over_ns = since.get(key, 1 << 62) + LAG_NS
        if row["asked_ns"] > over_ns and not facts.is_hit(row["observer"], row["asked_ns"]):
            yield (
                f"{row['observer']} told epoch {key[1]} and ISR {sorted(key[2])} of {key[0]} at"
                f" {row['asked_ns']}, over since {since[key]}"
            )


@rule("leadership", "replica_states", "quorum_states", "faults", MILESTONES)
def answers_of_the_dead(facts: Facts) -> Iterator[str]:
    """A broker that is not running answers nothing."""
    tables = {"leadership": "observer", "replica_states": "node", "quorum_states": "node"}
    for table, who in tables.items():
        for row in facts.record.rows(table):
            at_ns = row.get("asked_ns") or (row["observed_ns"] or 0) - UNCERTAINTY_NS
            for node, from_ns, to_ns in facts.down:
                if row[who] == node and from_ns < at_ns and (row["observed_ns"] or 0) < to_ns:
                    yield f"{node} is down from {from_ns} to {to_ns}, told {table} at {at_ns}"


@rule("sends", "replica_records", "leadership", "faults", MILESTONES)
def acknowledgements_of_the_dead(facts: Facts) -> Iterator[str]:
    """A leader that is down all the while acknowledges nothing."""
    leaders = {
        (place, row["leader_epoch"], f"n{row['leader']}")
        for place, rows in facts.changes.items()
        for row in rows
    }
    for row in facts.record.rows("sends", acked=True):
        place = place_of(row)
        epoch = facts.epochs.get((place, row["offset"], row["value"]))
        for node, from_ns, to_ns in facts.down:
            within = from_ns < row["invoke_ns"] and row["complete_ns"] < to_ns
            if within and (place, epoch, node) in leaders:
                yield f"{node}, down from {from_ns} to {to_ns}, acknowledged op {row['op_id']}"


@rule("leadership", "replica_states", "quorum_states")
def lives_out_of_order(facts: Facts) -> Iterator[str]:
    """What a node tells in a later life it tells later."""
    tables = {"leadership": "observer", "replica_states": "node", "quorum_states": "node"}
    told: dict[tuple[str, int], list[int]] = {}
    for table, who in tables.items():
        for row in facts.record.rows(table):
            if row["observed_ns"] and row["incarnation"]:
                told.setdefault((row[who], row["incarnation"]), []).append(row["observed_ns"])
    for (node, life), times in told.items():
        later = told.get((node, life + 1))
        if later and min(later) < max(times):
            yield f"{node} told of life {life} at {max(times)}, of the next one at {min(later)}"


@rule("leadership", "quorum_states", MILESTONES)
def roles_of_the_dead(facts: Facts) -> Iterator[str]:
    """A broker that ended for good is in no ISR after a while, and leads nothing."""
    roles = [(row, {*(row["isr"] or ()), row["leader"]}) for row in told_rows(facts)]
    roles += [(row, {row["leader"]}) for row in facts.record.rows("quorum_states")]
    for row, counted in roles:
        for node, from_ns in facts.gone.items():
            if (row["observed_ns"] or 0) > from_ns + LAG_NS and int(node[1:]) in counted:
                yield f"{node} ended at {from_ns} and counts at {row['observed_ns']}: {counted}"


@rule("ops", "sends", "polls")
def rows_apart_from_their_op(facts: Facts) -> Iterator[str]:
    """A send and a poll begin, end and belong as their op does; no op ends before it begins."""
    ops = {row["op_id"]: row for row in facts.record.rows("ops")}
    for op in ops.values():
        if op["complete_ns"] is not None and op["complete_ns"] < op["invoke_ns"]:
            yield f"op {op['op_id']} ends before it begins"
    names = itemgetter("process", "phase", "invoke_ns", "complete_ns")
    whole = {op_id: names(op) for op_id, op in ops.items()}
    for table in ("sends", "polls"):
        for row in facts.record.rows(table):
            if whole.get(row["op_id"]) != names(row):
                yield f"a row of {table} differs from its op {row['op_id']}"


@rule("commits")
def answers_to_groups(facts: Facts) -> Iterator[str]:
    """A coordinator answers with what was committed by then, and that is where its member goes."""
    commits: dict[tuple[Place, int], list[Row]] = {}
    for row in facts.record.rows("commits", act="commit"):
        commits.setdefault((place_of(row), row["op_id"]), []).append(row)
    for row in facts.record.rows("commits", act="fetch"):
        if row["committed_by"] is None or row["offset"] is None:
            continue
        asked = commits.get((place_of(row), row["committed_by"]), ())
        before = [each for each in asked if each["asked_ns"] <= (row["told_ns"] or 1 << 62)]
        if row["offset"] not in {each["offset"] for each in before}:
            yield f"op {row['op_id']} was told what op {row['committed_by']} had not committed yet"


@rule("leadership", MILESTONES)
def recoveries_unlike_answers(facts: Facts) -> Iterator[str]:
    """The cluster had recovered if each broker that answers tells of leaders and full ISRs."""
    (recovered,) = [each for each in facts.record.milestones if each["name"] == "recovered"]
    last: dict[tuple[Place, str], Row] = {}
    rows = facts.record.rows("leadership", source="metadata")
    for row in sorted(rows, key=lambda row: int(row["asked_ns"])):
        if row["asked_ns"] < facts.record.stone("final-reads"):
            last[place_of(row), row["observer"]] = row
    replicas = int(facts.record.plan["replication"])
    lacks = {place for (place, _), row in last.items()
             if row["leader"] < 0 or len(row["isr"]) < replicas}  # fmt: skip
    if bool(lacks) is not ("failed" in recovered["detail"]):
        yield f"the milestone is {recovered['detail']}, and brokers tell that {lacks} lack replicas"


def is_quorum(place: Place) -> bool:
    """Tell whether a place is the controllers' log."""
    return place[0] == QUORUM_TOPIC
