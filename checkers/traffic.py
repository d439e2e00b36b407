"""not-enough-traffic: too little happened for a verdict; the harness's own anomaly.

Definition: under 100 ok sends or 100 ok polls in the main phase (the plan's minimums), or none
before, during or after the faults (a scenario whose story is that nobody serves asks for none).

Why it proves something: that the run cannot prove anything. A cluster that answered nobody loses
nothing. Sends are counted as messages, those of transactions too; a poll counts if it returned any,
as an empty poll succeeds even where no broker answers.

What would not prove it: a low rate; ops that failed while the cluster was cut, as long as others
did not.
"""

import numpy as np
import pyarrow as pa

from checkers.columns import Ints, Mask, equal, ints, present, select
from checkers.findings import anomaly_at, findings
from checkers.group import Group
from checkers.protocol import Checker, Findings, Scope
from results.record.terms import AnomalyClass, F, Outcome, Phase
from results.record.verdict import Anomaly, Words

NAME = "not-enough-traffic"
_Count = tuple[str, int, int]
"""What was counted, how many there were, and how many the plan asks for."""


def _useful(ops: pa.Table) -> pa.Table:
    """The ops that sent or read something, and succeeded."""
    traffic = equal(ops, "f", F.SEND.value, F.POLL.value, F.TXN.value)
    ok = equal(ops, "outcome", Outcome.OK.value) & present(ops, "complete_ns")
    return select(ops, traffic & ok & (ints(ops, "messages") > 0))


def _around_faults(group: Group, useful: pa.Table) -> list[_Count]:
    faults = group.table("faults")
    confirmed = select(faults, present(faults, "confirmed_ns"))
    if not confirmed.num_rows:
        return []
    begun, healed = ints(confirmed, "confirmed_ns"), ints(confirmed, "healed_ns")
    at = ints(useful, "complete_ns")
    counts = {"before": at < begun.min(), "during": _within(at, begun, healed)}
    if (healed >= 0).all():
        counts["after"] = at > healed.max()
    least = group.facts.plan.minimums.around_faults
    return [(f"ok ops {when} the faults", int(mask.sum()), least) for when, mask in counts.items()]


def _within(at: Ints, begun: Ints, healed: Ints) -> Mask:
    mask = np.zeros(len(at), dtype=np.bool_)
    for start, end in zip(begun, healed, strict=True):
        mask |= (at >= start) & ((at <= end) | (end < 0))
    return mask


def _in_main(group: Group, useful: pa.Table) -> list[_Count]:
    minimums = group.facts.plan.minimums
    main = equal(useful, "phase", Phase.MAIN.value)
    sending = equal(useful, "f", F.SEND.value, F.TXN.value)
    sent = int(ints(useful, "messages")[main & sending].sum())
    polled = int((main & equal(useful, "f", F.POLL.value)).sum())
    wanted = [("ok sends", sent, minimums.ok_sends), ("ok polls", polled, minimums.ok_polls)]
    return [(f"{what} in the main phase", had, least) for what, had, least in wanted]


def _check(group: Group) -> Findings:
    useful = _useful(group.table("ops"))
    counts = _in_main(group, useful) + _around_faults(group, useful)
    asked = [each for each in counts if each[2] > 0]
    gaps = [each for each in asked if each[1] < each[2]]
    return findings(len(asked), gaps, lambda gap: _describe(group, gap))


def _describe(group: Group, gap: _Count) -> Anomaly:
    what, had, least = gap
    return anomaly_at(
        group,
        NAME,
        sentence=f"{had} {what}; at least {least} are needed for a verdict",
        evidence={"what": what, "count": had, "minimum": least},
    )


def _why(_group: Group, _found: Anomaly) -> str:
    return "the outcomes and errors of operations, on the page and in `logquake show`, say why"


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="part of the run had too little traffic",
        many="parts of the run had too little traffic",
        means="Too few operations succeeded for a verdict to mean something.",
    ),
    anomaly_class=AnomalyClass.HARNESS,
    tables=("ops", "faults"),
    check=_check,
    premises=(),
    scope=Scope.RUN,
    compares="amounts of traffic that the plan asks for",
)
