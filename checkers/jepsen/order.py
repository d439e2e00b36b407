"""Order anomalies by the rules of Jepsen's Kafka checker: distances between log positions.

Each value has an index in the version order. For a value at several offsets, the last index counts.
The rule for polls compares two values of one process. The first is the last value that the
process's previous ok poll of a partition returned. The second is the first value that the process's
next op read from the partition, also if that op failed. The distance between the indexes of the two
values must be one. A larger distance is a `poll-skip`, a smaller one a `nonmonotonic-poll`.

For sends, the rule compares ops whose outcome is ok or info (`nonmonotonic-send`). Inside one op,
the rule compares neighbouring values (anomalies whose names begin with `int-`). Reads inside an op
with a rebalance are not compared. A value with an unknown index is not an anomaly. After a seek, or
an assignment without the partition, the process's position is forgotten. After an assignment with
the partition, the position stays. See Jepsen's `jepsen.tests.kafka`.

With Jepsen as the judge, these seven checks (`CHECKERS`) replace `poll_order` and `send_order`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from checkers import poll_order, send_order
from checkers.columns import Ints, Mask, equal, ints
from checkers.facts import RunFacts
from checkers.findings import anomaly_at, could_not_show
from checkers.group import Group
from checkers.positions import Steps, inner_poll_steps, inner_send_steps, remembered_steps
from checkers.protocol import Checker, Findings, Premise, Promise
from checkers.step_findings import step_findings
from checkers.version_order import version_order
from results.record.terms import AnomalyClass, Outcome
from results.record.verdict import Anomaly

_OK, _INFO = Outcome.OK.value, Outcome.INFO.value


def polls_apart(group: Group) -> Steps:
    """Return the steps from each process's last ok poll to the process's next op that read."""
    polls = group.table("polls")
    ok = equal(polls, "outcome", _OK)
    return remembered_steps(polls, _owned(polls), ok, group.table("assignments"))


def polls_inside(group: Group) -> Steps:
    """Return the steps between neighbouring values inside each op that read."""
    return inner_poll_steps(group, _owned(group.table("polls")))


def sends_apart(group: Group) -> Steps:
    """Return the steps between a process's consecutive ops whose sends may have happened."""
    sends = group.table("sends")
    maybe = equal(sends, "outcome", _OK, _INFO)
    return remembered_steps(sends, _owned(sends) & maybe, maybe, group.table("assignments"))


def sends_inside(group: Group) -> Steps:
    """Return the steps between neighbouring values inside each op that sent."""
    return inner_send_steps(group, _owned(group.table("sends")))


def distances(index: Ints, steps: Steps) -> tuple[Ints, Mask]:
    """Return the distance between the two values of each step, and a mask of the known distances.

    Args:
        index: The index of each row's value in the version order, -1 if unknown.
        steps: Steps between these rows.
    """
    since, at = index[steps.since], index[steps.at]
    return at - since, (since >= 0) & (at >= 0)


def _polled(group: Group) -> Ints:
    return group.view(version_order).last_index(ints(group.table("polls"), "value"))


def _sent(group: Group) -> Ints:
    return group.view(version_order).last_index(ints(group.table("sends"), "value"))


def _owned(table: pa.Table) -> Mask:
    return np.asarray(ints(table, "process") >= 0, dtype=np.bool_)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """One of the seven order anomalies.

    Attributes:
        name: The anomaly's name.
        table: The table with the rows at both ends of the steps.
        steps: A function that returns the steps.
        forward: If true, steps that are too long are wrong. If false, steps that go back are wrong.
        apart: Whether steps lead from one op to another, so that an assignment may come in between.
    """

    name: str
    table: str
    steps: Callable[[Group], Steps]
    forward: bool
    apart: bool

    def check(self, group: Group) -> Findings:
        """Return the steps that are too long, or the steps that go back."""
        rows, steps = group.table(self.table), self.steps(group)
        # Cached for all kinds of a table, because looking values up is the most expensive part.
        index = group.view(_polled if self.table == "polls" else _sent)
        distance, known = distances(index, steps)
        wrong = known & ((distance > 1) if self.forward else (distance < 1))
        wrong_steps, apart = steps.where(wrong), distance[wrong]
        found = step_findings(
            int(known.sum()),
            ints(rows, "offset")[wrong_steps.at],
            lambda index: self._describe(group, wrong_steps, index, int(apart[index])),
            {},
            broken=_broken(group.facts) if self.apart else (),
        )
        why = (
            "no process handled two records with known log positions one after another, so a"
            " wrong distance could not be detected"
        )
        return could_not_show(found, why, given=bool(rows.num_rows))

    def _describe(self, group: Group, steps: Steps, index: int, distance: int) -> Anomaly:
        rows = group.table(self.table)
        earlier, later = (_row(rows, int(column[index])) for column in (steps.since, steps.at))
        did = "sent" if self.table == "sends" else "read"
        name_of = group.facts.name_of
        return anomaly_at(
            group,
            self.name,
            sentence=f"process {later['process']} {did} {name_of(earlier['value'])} of"
            f" {group.place} in op {earlier['op_id']} and then {name_of(later['value'])}"
            f" in op {later['op_id']}, {distance} places further in the order of the log",
            evidence={
                "process": later["process"],
                "op_id": later["op_id"],
                "previous_op_id": earlier["op_id"],
                "value": later["value"],
                "previous_value": earlier["value"],
                "distance": distance,
            },
            offset=later["offset"],
        )


def _broken(facts: RunFacts) -> tuple[str, ...]:
    """Return the broken premises if an assignment that left out the partition may be missing."""
    premises = (
        (Premise.WHOLE_RECORD, facts.cut_streams),
        (Premise.KNOWN_MOVES, not facts.moves_known),
    )
    return tuple(premise.value for premise, broken in premises if broken)


def _row(table: pa.Table, row: int) -> dict[str, int]:
    names = ("op_id", "process", "offset", "value")
    return {name: int(ints(table.slice(row, 1), name)[0]) for name in names}


_KINDS = (
    _Kind(name=poll_order.SKIP, table="polls", steps=polls_apart, forward=True, apart=True),
    _Kind(
        name=poll_order.NONMONOTONIC, table="polls", steps=polls_apart, forward=False, apart=True
    ),
    _Kind(name=poll_order.INT_SKIP, table="polls", steps=polls_inside, forward=True, apart=False),
    _Kind(
        name=poll_order.INT_NONMONOTONIC,
        table="polls",
        steps=polls_inside,
        forward=False,
        apart=False,
    ),
    _Kind(
        name=send_order.NONMONOTONIC, table="sends", steps=sends_apart, forward=False, apart=True
    ),
    _Kind(name=send_order.INT_SKIP, table="sends", steps=sends_inside, forward=True, apart=False),
    _Kind(
        name=send_order.INT_NONMONOTONIC,
        table="sends",
        steps=sends_inside,
        forward=False,
        apart=False,
    ),
)
CHECKERS = tuple(
    Checker(
        name=kind.name,
        anomaly_class=AnomalyClass.SAFETY,
        tables=("sends", "polls", "assignments"),
        check=kind.check,
        promise=None if kind.name == send_order.INT_SKIP else Promise.LOG,  # Always allowed.
        compares=f"pairs of {'sent' if kind.table == 'sends' else 'read'} values",
    )
    for kind in _KINDS
)
"""The seven checkers. For Jepsen's judge, they replace the contract's checkers with these names."""
