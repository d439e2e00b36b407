"""commit-ahead: a group's coordinator tells of a position that no member had reached.

Definition: a member is given a partition, asks what its group has committed of it, and is told more
than anybody had tried to commit before the answer was there; or it is told of a position where
nobody had tried to commit one.

Why it proves something: positions are written by members alone, and all members are ours. Who goes
on from there never reads what lies between: for the group it is lost.

What would not prove it: a commit without an answer, which may have come (it counts as tried). Where
part of the record is cut, commits may be missing from it.
"""

from checkers.commit_lost import applies
from checkers.facts import RunFacts
from checkers.findings import anomaly_at, findings, known, seconds
from checkers.group import Group
from checkers.group_commits import TABLES, Answer, answers
from checkers.protocol import Checker, Findings, Labels, Premise, Promise
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Words

NAME = "commit-ahead"


def _check(group: Group) -> Findings:
    told = answers(group)
    return findings(
        len(told),
        [each for each in told if each.offset > each.most],
        lambda each: _describe(group, each),
        lambda _: _labels(group.facts),
    )


def _labels(facts: RunFacts) -> Labels:
    return (), (Premise.WHOLE_RECORD.value,) if facts.cut_streams else ()


def _describe(group: Group, answer: Answer) -> Anomaly:
    most = "nobody had tried to commit any"
    if answer.most >= 0:
        most = f"nobody had tried to commit more than {answer.most} (op {answer.most_op_id})"
    return anomaly_at(
        group,
        NAME,
        sentence=f"process {answer.process} was told at {seconds(answer.told_ns)}, in op"
        f" {answer.op_id}, that group {answer.group_id} had committed offset {answer.offset} of"
        f" {group.place}; {most}",
        evidence={
            "group": answer.group_id,
            "process": answer.process,
            "op_id": answer.op_id,
            "asked_ns": answer.asked_ns,
            "told_ns": answer.told_ns,
            "offset": answer.offset,
            "committed_by": known(answer.committed_by),
            "most": known(answer.most),
            "most_op_id": known(answer.most_op_id),
        },
        offset=answer.offset,
    )


def _why(_group: Group, _found: Anomaly) -> str:
    return (
        "no member tried to commit it, so the coordinator made it up or mixed up partitions or"
        " groups; which broker coordinated the group is not recorded"
    )


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="position of a group is one that nobody had reached",
        many="positions of groups are ones that nobody had reached",
        means=(
            "A member was given a position beyond what was ever committed: it leaves records out."
        ),
        promise="A group is told no position that none of its members committed.",
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=TABLES,
    check=_check,
    applies=applies,
    promise=Promise.GROUPS,
    compares="positions that members were given",
)
