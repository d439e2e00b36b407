"""commit-lost: a group's coordinator forgot a position that it had acknowledged.

Definition: a member is given a partition, asks what its group has committed of it, and is told less
than the least that can stand there: the last commit that was acknowledged before it asked, or any
that cannot be told to be older than that one (`group_commits`); or it is told that there is none.

Why it proves something: a commit is acknowledged when every in-sync replica of the offsets topic
has it, and who coordinates the group next has read that topic to its end. Who goes on from an older
position reads records a second time: they are processed twice.

What would not prove it: a commit without an answer, which may have come late and written over a
later one; one of a member that was fenced; positions of transactions, which are no commits of
members. Where an unclean election, or disks that lost it on every replica, may have cost the
position, it is allowed; where disks may have, nobody knows.
"""

from checkers.excuses import TAKES_RECORDS
from checkers.facts import RunFacts
from checkers.findings import anomaly_at, could_not_show, findings, known, number_in, seconds
from checkers.group import Group
from checkers.group_commits import TABLES, Answer, answers, labels
from checkers.group_reasons import as_leaders, coordinators
from checkers.protocol import Chapter, Checker, Findings, Promise, Proved, Waits
from checkers.reigns import GROUPS, Reign
from results.record.clock import NS_PER_S
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Words

NAME = "commit-lost"


def _check(group: Group) -> Findings:
    told = answers(group)
    found = findings(
        sum(each.least >= 0 for each in told),
        [each for each in told if each.offset < each.least],
        lambda each: _describe(group, each),
        lambda each: labels(group, each),
    )
    why = (
        "no member asked for its group's position after a commit was acknowledged, so a forgotten"
        " one could not show"
    )
    return could_not_show(found, why, given=bool(told))


def _describe(group: Group, answer: Answer) -> Anomaly:
    last = f"op {answer.last_op_id} at {seconds(answer.last_ns)}"
    said = "nothing" if answer.offset < 0 else f"offset {answer.offset}"
    return anomaly_at(
        group,
        NAME,
        sentence=f"process {answer.process} was told at {seconds(answer.told_ns)}, in op"
        f" {answer.op_id}, that group {answer.group_id} had committed {said} of {group.place};"
        f" after the last commit that was acknowledged before ({last}) it can be no less than"
        f" {answer.least}",
        evidence={
            "group": answer.group_id,
            "process": answer.process,
            "op_id": answer.op_id,
            "asked_ns": answer.asked_ns,
            "told_ns": answer.told_ns,
            "offset": known(answer.offset),
            "committed_by": known(answer.committed_by),
            "least": answer.least,
            "last_op_id": answer.last_op_id,
            "acknowledged_ns": answer.last_ns,
        },
        offset=answer.offset,
    )


def applies(facts: RunFacts) -> bool:
    """Tell whether a run has groups."""
    return facts.plan.workload == "groups"


def _why(group: Group, found: Anomaly) -> str:
    name, last = str(found.evidence.get("group")), number_in(found, "last_op_id")
    acked_ns, told_ns = number_in(found, "acknowledged_ns"), number_in(found, "told_ns")
    asked_ns = number_in(found, "asked_ns")
    older = number_in(found, "committed_by")
    answer = f"the older position of op {older}" if older >= 0 else "another position"
    if number_in(found, "offset") < 0:
        answer = "no position at all"
    acked = coordinators(group.facts, GROUPS, name, (acked_ns, acked_ns))
    told = coordinators(group.facts, GROUPS, name, (asked_ns, told_ns))
    if not acked or not told:
        return (
            f"the coordinator had acknowledged op {last}, and answered with {answer}; the record"
            f" does not have who led {GROUPS}, so it does not show which broker that was"
        )
    kept = _kept(group, found)
    if len(acked) == 1 and acked == told:
        later_s = max(0, told_ns - acked_ns) / NS_PER_S
        return Proved(
            f"{as_leaders(acked)}, coordinated the group all along: it acknowledged op {last}"
            f"{_hit(group, acked[0].node, found)}, and {later_s:.1f} s later it answered with"
            f" {answer}, without an election in between{kept}"
        )
    if len(acked) > 1 or len(told) > 1:
        doubt = ": an election was close, and the record does not show which of them it was"
        return (
            f"{as_leaders(acked)}, acknowledged op {last}, and {as_leaders(told)}, answered with"
            f" {answer}{doubt}{kept}"
        )
    lost = "" if kept else ": it lacked what had been acknowledged, or had not loaded it"
    return (
        f"{as_leaders(acked)}, acknowledged op {last}{_hit(group, acked[0].node, found)}, and"
        f" {told[0].node}, elected later (epoch"
        f" {told[0].epoch}), answered with {answer}{lost}{_was_cut(group, acked[0])}{kept}"
    )


def _kept(group: Group, found: Anomaly) -> str:
    """Say so if a later answer had the forgotten position, so that it was stored all the time."""
    last = number_in(found, "last_op_id")
    later = [
        each.told_ns
        for each in answers(group)
        if each.group_id == found.evidence.get("group")
        and each.asked_ns > number_in(found, "told_ns")
        and each.committed_by == last >= 0
    ]
    return f"; at {seconds(min(later))} it was given again, so it was stored" if later else ""


def _hit(group: Group, node: str, found: Anomaly) -> str:
    """Say which fault hit a broker first after it had acknowledged, and before the answer."""
    hits = [
        (each.confirmed_ns, each.kind)
        for each in group.facts.disturbances
        if node in each.nodes
        and number_in(found, "acknowledged_ns") <= each.confirmed_ns <= number_in(found, "told_ns")
    ]
    return f" and was hit by {min(hits)[1]} at {seconds(min(hits)[0])}" if hits else ""


def _was_cut(group: Group, reign: Reign) -> str:
    """Say from where on the log of the coordinator that acknowledged it was cut."""
    starts = [
        each.from_offset
        for each in group.facts.inner_cuts
        if (each.topic, each.partition, each.node) == (reign.topic, reign.partition, reign.node)
    ]
    told = ", or from ".join(str(start) for start in sorted({*starts}))
    untimed = "at a time that is not recorded"
    return f"; {reign.node} cut its copy from offset {told} on, {untimed}" if starts else ""


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="position of a group was forgotten",
        many="positions of groups were forgotten",
        means="A member was given an older position than the group had committed: it reads again.",
        promise="What a group committed it is told when it asks.",
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=TABLES,
    check=_check,
    applies=applies,
    promise=Promise.GROUPS,
    compares="positions that members were given after a commit was acknowledged",
    chapter=Chapter.GROUPS,
    looks_for="the answer is less than the least that can stand there",
    waits=Waits.BEFORE,
    excuses=TAKES_RECORDS,
)
