"""not-enough-traffic: too few operations succeeded for a verdict. This anomaly is Logquake's own.

Definition: any of these three cases.

- Fewer ok sends or ok polls in the main phase than the plan's minimums. The defaults are 100 each.
- No ok op in one of three periods: before, during or after the confirmed faults. The plan can set
  another minimum. If a confirmed fault was never healed, there is no period after the faults.
- In a run with a share group: the main phase had no confirmed acknowledgement by a member.

The defaults of a scenario are lower: one ok send, no poll, and no op in the periods.

Why it proves something: with so little traffic, the run itself cannot prove anything. A cluster
that answers no client cannot lose a message. Sends are counted as messages, including those in
transactions. A poll counts only if it returned a message, because an empty poll succeeds even if no
broker answers. The op of an acknowledgement is ok even if the broker rejected the acknowledgement.
So an acknowledgement counts only if a broker confirmed it for at least one record.

What would not prove it: a low rate, or ops that failed while the cluster was cut off, as long as
enough other ops succeeded.
"""

from collections import Counter

import numpy as np
import pyarrow as pa

from checkers.columns import Ints, Mask, equal, ints, present, select, slices, texts
from checkers.findings import anomaly_at, findings, number_in
from checkers.group import Group
from checkers.protocol import Chapter, Checker, Findings, Scope
from results.record.shares import has_shares
from results.record.terms import AnomalyClass, F, Outcome, Phase
from results.record.verdict import Anomaly, Words

NAME = "not-enough-traffic"
_Count = tuple[str, int, int]
"""A description of what was counted, the count, and the plan's minimum."""


def _useful(ops: pa.Table) -> pa.Table:
    """Return the ok ops that sent or read a message."""
    traffic = equal(ops, "f", F.SEND.value, F.POLL.value, F.TXN.value)
    ok = equal(ops, "outcome", Outcome.OK.value) & present(ops, "complete_ns")
    return select(ops, traffic & ok & (ints(ops, "messages") > 0))


def _around_faults(group: Group, useful: pa.Table) -> list[_Count]:
    least = group.facts.plan.minimums.around_faults
    masks = _around(group, ints(useful, "complete_ns"))
    return [(f"ok ops {when} the faults", int(mask.sum()), least) for when, mask in masks.items()]


def _around(group: Group, at: Ints) -> dict[str, Mask]:
    """Return masks of the times before, during and after the faults.

    The result is empty if no fault was confirmed.
    """
    faults = group.table("faults")
    confirmed = select(faults, present(faults, "confirmed_ns"))
    if not confirmed.num_rows:
        return {}
    begun, healed = ints(confirmed, "confirmed_ns"), ints(confirmed, "healed_ns")
    masks = {"before": at < begun.min(), "during": _within(at, begun, healed)}
    if (healed >= 0).all():
        masks["after"] = at > healed.max()
    return masks


def _within(at: Ints, begun: Ints, healed: Ints) -> Mask:
    mask = np.zeros(len(at), dtype=np.bool_)
    for start, end in zip(begun, healed, strict=True):
        mask |= (at >= start) & ((at <= end) | (end < 0))
    return mask


_COUNTED = ("f", "outcome", "phase", "messages", "complete_ns")


def _counts(group: Group) -> list[_Count]:
    parts = []
    for ops in slices(group.table("ops"), _COUNTED):
        useful = _useful(ops)
        parts.append(_in_main(group, ops, useful) + _around_faults(group, useful))
    same = zip(*parts, strict=True)
    return [(each[0][0], sum(had for _, had, _ in each), each[0][2]) for each in same]


def _in_main(group: Group, ops: pa.Table, useful: pa.Table) -> list[_Count]:
    minimums = group.facts.plan.minimums
    main = equal(useful, "phase", Phase.MAIN.value)
    sending = equal(useful, "f", F.SEND.value, F.TXN.value)
    sent = int(ints(useful, "messages")[main & sending].sum())
    polled = int((main & equal(useful, "f", F.POLL.value)).sum())
    wanted = [("ok sends", sent, minimums.ok_sends), ("ok polls", polled, minimums.ok_polls)]
    if has_shares(group.facts.plan):
        wanted.append(("confirmed acknowledgements", _acknowledged(ops), 1))
    return [(f"{what} in the main phase", had, least) for what, had, least in wanted]


def _acknowledged(ops: pa.Table) -> int:
    """Return the number of confirmed acknowledgements in the main phase."""
    mine = equal(ops, "f", F.ACKNOWLEDGE.value) & equal(ops, "phase", Phase.MAIN.value)
    ok = equal(ops, "outcome", Outcome.OK.value) & (ints(ops, "messages") > 0)
    return int((mine & ok).sum())


def _check(group: Group) -> Findings:
    asked = [each for each in _counts(group) if each[2] > 0]
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


def _why(group: Group, found: Anomaly) -> str:
    what = str(found.evidence.get("what"))
    ops = group.table("ops")
    traffic = equal(ops, "f", F.SEND.value, F.POLL.value, F.TXN.value)
    if what.endswith("in the main phase"):
        traffic = equal(ops, "f", *_kinds(what)) & equal(ops, "phase", Phase.MAIN.value)
    else:
        masks = _around(group, ints(ops, "invoke_ns"))
        traffic &= next((mask for when, mask in masks.items() if f" {when} " in what), traffic)
    tried = select(ops, traffic)
    if not tried.num_rows:
        none = f"clients began no operations that could count as {what.removeprefix('ok ')}"
        return f"{none}{_busy(ops) if what.endswith('in the main phase') else ''}"
    ok = equal(tried, "outcome", Outcome.OK.value)
    empty = ok & (ints(tried, "messages") <= 0)
    failed = select(tried, ~ok | (empty & equal(tried, "f", F.ACKNOWLEDGE.value)))
    mostly = _mostly(failed)
    count = number_in(found, "minimum")
    if failed.num_rows:
        return f"{failed.num_rows} of the {tried.num_rows} operations that began failed{mostly}"
    if empty.any():
        return (
            f"no operation failed, but {int(empty.sum())} of {tried.num_rows} returned no message"
        )
    return (
        f"none of the {tried.num_rows} operations failed: clients began too few of them for the"
        f" plan's minimum of {count}"
    )


def _kinds(what: str) -> tuple[str, ...]:
    """Return the kinds of op that are counted for a description."""
    if "acknowledgements" in what:
        return (F.ACKNOWLEDGE.value,)
    return (F.POLL.value,) if "polls" in what else (F.SEND.value, F.TXN.value)


def _mostly(failed: pa.Table) -> str:
    """Return a phrase with the most frequent error of the given failed operations."""
    told = Counter(each.partition(":")[0] for each in texts(failed, "error") if each)
    return f", mostly with {max(told, key=lambda each: (told[each], each))}" if told else ""


def _busy(ops: pa.Table) -> str:
    """Return a phrase about the clients' other ops in the main phase, if all of them failed."""
    traffic = equal(ops, "f", F.SEND.value, F.POLL.value, F.TXN.value)
    other = select(ops, traffic & equal(ops, "phase", Phase.MAIN.value))
    if not other.num_rows or equal(other, "outcome", Outcome.OK.value).any():
        return ""
    return (
        f"; all {other.num_rows} other operations that they began in this phase"
        f" failed{_mostly(other)}"
    )


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
    chapter=Chapter.HARNESS,
    looks_for="fewer than 100 messages sent ok, or fewer than 100 ok polls with records, in the"
    " main phase (`[minimums]` of the plan); or none before, during or after the"
    " faults. With a share group: none of its members' acknowledgements was confirmed"
    " in the main phase",
)
