"""commit-lost: a group's coordinator forgot a committed offset that it had acknowledged.

Definition: a member is assigned a partition and asks for the group's committed offset. The answer
names no offset, or an offset that is too low. An offset is too low if it is below the last commit
that was acknowledged before the request, and below each commit that may be newer (`group_commits`).
The anomaly is also reported if, after the stop, an acknowledged commit is in no broker's log of
`__consumer_offsets` (`kept_commits`).

Why it proves something: a commit is acknowledged when every in-sync replica of the offsets topic
has it. The next coordinator of the group reads that topic to its end. A consumer that continues
from an older offset reads records again, so these records are processed twice.

What would not prove it: a coordinator that was replaced, but does not know this, answers from its
old state. A commit without an answer may arrive late and overwrite a later commit. A commit of a
fenced member does not count. Offsets that a transaction commits do not count as commits of members.
If a log with commits may have been compacted, no log is searched. If the plan sets how long
coordinators keep positions, an answer without an offset may be right after that time. Before Kafka
2.1, the positions of groups in use expire, too (KIP-211). The anomaly is allowed if the commit may
have been lost by an unclean election that the plan permits, or by a loss on the disks of all
replicas. If the loss on disk is uncertain, the anomaly is not trusted.
"""

from checkers.columns import NEVER
from checkers.excuses import TAKES_RECORDS
from checkers.facts import RunFacts
from checkers.findings import anomaly_at, could_not_show, findings, known, number_in, seconds
from checkers.group import Group
from checkers.group_commits import TABLES, Answer, answers, labels
from checkers.group_reasons import as_leaders, coordinators
from checkers.kept_commits import Gone, looked_for, unread_premises
from checkers.protocol import (
    Chapter,
    Checker,
    Findings,
    Labels,
    Premise,
    Promise,
    Proved,
    Waits,
)
from checkers.reigns import GROUPS, Reign
from results.record.clock import NS_PER_S
from results.record.terms import AnomalyClass
from results.record.tuning import number_of
from results.record.verdict import Anomaly, Words

NAME = "commit-lost"
_FORGETS = "offsets.retention.minutes"
"""The setting for how long coordinators keep a position. The default is a day or more."""
_CLOCK = "clock"


def _check(group: Group) -> Findings:
    kept_ns = _kept_ns(group)
    told = [each for each in answers(group) if not _may_be_forgotten(each, kept_ns)]
    commits, gone = looked_for(group)
    wrong: list[Answer | Gone] = [*(each for each in told if each.offset < each.least), *gone]
    found = findings(
        sum(each.least >= 0 for each in told) + commits,
        wrong,
        lambda each: _describe(group, each),
        lambda each: _labels(group, each),
    )
    why = (
        "no member asked for its group's position after a commit was acknowledged and before the"
        " plan let the position expire, so a forgotten position could not be detected"
    )
    return could_not_show(found, why, given=bool(answers(group)))


def _kept_ns(group: Group) -> int:
    """Return the minimum time for which coordinators keep a position; 0 if clocks may be wrong."""
    plan, facts = group.facts.plan, group.facts
    if facts.silences or any(each.kind.startswith(_CLOCK) for each in facts.disturbances):
        return 0
    told = [number_of(each[_FORGETS]) or 0 for each in plan.settings if _FORGETS in each]
    return round(min(told) * 60 * NS_PER_S) if told else NEVER


def _may_be_forgotten(answer: Answer, kept_ns: int) -> bool:
    return answer.offset < 0 and answer.told_ns - answer.last_asked_ns >= kept_ns


def _labels(group: Group, item: Answer | Gone) -> Labels:
    if isinstance(item, Answer):
        return labels(group, item.last_ns, item.told_ns)
    excuses, broken = labels(group, item.acknowledged_ns, NEVER)
    return excuses, (*broken, *unread_premises(group))


def _describe(group: Group, item: Answer | Gone) -> Anomaly:
    return _describe_gone(group, item) if isinstance(item, Gone) else _describe_answer(group, item)


def _describe_gone(group: Group, gone: Gone) -> Anomaly:
    return anomaly_at(
        group,
        NAME,
        sentence=f"process {gone.process} committed offset {gone.offset} of {group.place} for"
        f" group {gone.group_id} in op {gone.op_id}, acknowledged at"
        f" {seconds(gone.acknowledged_ns)}; after the stop no log of {GROUPS} has that"
        f" commit ({', '.join(gone.looked_on)})",
        evidence={
            "group": gone.group_id,
            "process": gone.process,
            "last_op_id": gone.op_id,
            "offset": gone.offset,
            "asked_ns": gone.asked_ns,
            "acknowledged_ns": gone.acknowledged_ns,
            "looked_on": list(gone.looked_on),
        },
        offset=gone.offset,
    )


def _describe_answer(group: Group, answer: Answer) -> Anomaly:
    last = f"op {answer.last_op_id} at {seconds(answer.last_ns)}"
    said = "nothing" if answer.offset < 0 else f"offset {answer.offset}"
    return anomaly_at(
        group,
        NAME,
        sentence=f"op {answer.op_id} of process {answer.process} got the answer at"
        f" {seconds(answer.told_ns)} that group {answer.group_id} had committed {said}"
        f" of {group.place}; after the last commit that was acknowledged before its request"
        f" ({last}) the position must be {answer.least} or higher",
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
    """Return whether the workload is `groups`. A pipeline commits offsets in its transactions."""
    return facts.plan.workload == "groups"


def _why(group: Group, found: Anomaly) -> str:
    return _why_gone(group, found) if "looked_on" in found.evidence else _why_told(group, found)


def _why_gone(group: Group, found: Anomaly) -> str:
    if Premise.READABLE_LOGS.value in found.broken_premises:
        return "a log that could not be read may have the commit"
    span = number_in(found, "asked_ns"), number_in(found, "acknowledged_ns")
    acked = coordinators(group.facts, GROUPS, str(found.evidence.get("group")), span)
    if len(acked) != 1:
        doubt = (
            "an election may have happened at about that time"
            if acked
            else (f"the run's record does not have the leader of {GROUPS}")
        )
        return f"{doubt}, so the broker that acknowledged the commit is unknown"
    hit = _hit(group, acked[0].node, span[1], NEVER)
    return Proved(f"{as_leaders(acked)}, acknowledged the commit{hit}{_was_cut(group, acked[0])}")


def _why_told(group: Group, found: Anomaly) -> str:
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
            f"the coordinator had acknowledged op {last}, and answered with {answer}; the run's"
            f" record does not have the leader of {GROUPS}, so the coordinator's broker is"
            " unknown"
        )
    kept = _kept(group, found)
    hit = _hit(group, acked[0].node, acked_ns, told_ns)
    if len(acked) == 1 and acked == told:
        later_s = max(0, told_ns - acked_ns) / NS_PER_S
        return Proved(
            f"{as_leaders(acked)}, was the coordinator during the whole time: it acknowledged op"
            f" {last}{hit}, and {later_s:.1f} s later it answered with {answer}, without an"
            f" election in between{kept}"
        )
    if len(acked) > 1 or len(told) > 1:
        doubt = (
            ": an election may have happened at about that time, and the run's record does not show"
            " which broker answered"
        )
        return (
            f"{as_leaders(acked)}, acknowledged op {last}, and {as_leaders(told)}, answered with"
            f" {answer}{doubt}{kept}"
        )
    lost = "" if kept else ": it lacked the acknowledged commit, or had not loaded it"
    return (
        f"{as_leaders(acked)}, acknowledged op {last}{hit}, and"
        f" {told[0].node}, elected later (epoch"
        f" {told[0].epoch}), answered with {answer}{lost}{_was_cut(group, acked[0])}{kept}"
    )


def _kept(group: Group, found: Anomaly) -> str:
    """Return a clause if a later answer named the forgotten offset, so it had been stored."""
    last = number_in(found, "last_op_id")
    later = [
        each.told_ns
        for each in answers(group)
        if each.group_id == found.evidence.get("group")
        and each.asked_ns > number_in(found, "told_ns")
        and each.committed_by == last >= 0
    ]
    return (
        (
            f"; at {seconds(min(later))} another answer had this position, so the commit had been"
            " stored"
        )
        if later
        else ""
    )


def _hit(group: Group, node: str, acked_ns: int, missed_ns: int) -> str:
    """Return a clause about the first fault that hit a broker after it acknowledged a commit."""
    hits = [
        (each.confirmed_ns, each.kind)
        for each in group.facts.disturbances
        if node in each.nodes and acked_ns <= each.confirmed_ns <= missed_ns
    ]
    return f" and was hit by {min(hits)[1]} at {seconds(min(hits)[0])}" if hits else ""


def _was_cut(group: Group, reign: Reign) -> str:
    """Return a clause if a coordinator truncated its log of the offsets topic; otherwise ""."""
    starts = [
        each.from_offset
        for each in group.facts.inner_cuts
        if (each.topic, each.partition, each.node) == (reign.topic, reign.partition, reign.node)
    ]
    told = ", or from ".join(str(start) for start in sorted({*starts}))
    untimed = "at a time that is not recorded"
    return f"; {reign.node} truncated its copy from offset {told} on, {untimed}" if starts else ""


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="position of a group was forgotten",
        many="positions of groups were forgotten",
        means="A committed offset of a group is lost, so the next member reads records again.",
        promise="A group that asks for its position gets the position that it committed.",
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=TABLES,
    check=_check,
    applies=applies,
    promise=Promise.GROUPS,
    compares="positions that members got after a commit was acknowledged; acknowledged commits,"
    " searched for in the brokers' logs",
    chapter=Chapter.GROUPS,
    looks_for=(
        "an answer below the lowest offset that can be the committed one; a commit that no log has"
    ),
    waits=Waits.BEFORE,
    excuses=TAKES_RECORDS,
)
