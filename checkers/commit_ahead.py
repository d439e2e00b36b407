"""commit-ahead: a coordinator reports a committed offset above all commits of the group's members.

Definition: a member is assigned a partition and asks for the group's committed offset. The answer
is higher than every offset that a member had tried to commit before the answer. It is also this
anomaly if the answer names an offset although no member had tried to commit any.

Why it proves something: only members commit offsets, and all members belong to this run. A consumer
that starts from an offset which is too high skips the records between the last commit and that
offset. So the group may never read these records.

What would not prove it: a commit without an answer may have succeeded, so it counts as tried. If
some of the run's data is missing, commits may be missing.
"""

from checkers.client_reasons import LIBRARY
from checkers.columns import equal, ints, select
from checkers.commit_lost import applies
from checkers.facts import RunFacts
from checkers.findings import anomaly_at, findings, known, number_in, seconds
from checkers.group import Group
from checkers.group_commits import TABLES, Answer, answers, group_id_of
from checkers.group_reasons import as_leaders, coordinators
from checkers.protocol import Chapter, Checker, Findings, Labels, Premise, Promise, Proved, Waits
from checkers.reigns import GROUPS
from results.record.terms import AnomalyClass, GroupAct
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
    most = "no member had tried to commit any offset"
    if answer.most >= 0:
        most = (
            f"no member had tried to commit an offset above {answer.most} (op {answer.most_op_id})"
        )
    return anomaly_at(
        group,
        NAME,
        sentence=f"op {answer.op_id} of process {answer.process} got the answer at"
        f" {seconds(answer.told_ns)} that group {answer.group_id} had committed offset"
        f" {answer.offset} of {group.place}; {most}",
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


def _why(group: Group, found: Anomaly) -> str:
    name, told_ns = str(found.evidence.get("group")), number_in(found, "told_ns")
    told = coordinators(group.facts, GROUPS, name, (number_in(found, "asked_ns"), told_ns))
    who = as_leaders(told) if len(told) == 1 else ""
    named = f"the coordinator ({who})" if who else "the coordinator"
    by, offset = number_in(found, "committed_by"), number_in(found, "offset")
    own = {
        (group_id_of(group.facts.plan, process), position)
        for process, position in _commits_of(group, by)
    }
    positions = [position for group_id, position in own if group_id == name]
    if by >= 0 and positions:
        off = offset - max(positions)
        said = (
            f"the answer has the commit metadata of op {by}, which committed {max(positions)}"
            f" here, so nothing was mixed up: {named} or {LIBRARY} stored or reported a position"
            f" that is {off} too high"
        )
    elif by >= 0 and own:
        said = (
            f"the answer has the commit metadata of op {by}, which belongs to another group:"
            f" {named} mixed up groups"
        )
    elif by >= 0:
        said = (
            f"the answer has the commit metadata of op {by}, which committed nothing of"
            f" {group.place}: {named} or {LIBRARY} mixed up partitions"
        )
    else:
        said = (
            f"the answer has no member's commit metadata, so it is no commit of this run: {named}"
            f" or {LIBRARY} made it up"
        )
    if who:
        return Proved(said)
    missing = (
        "more than one broker may have been the coordinator"
        if told
        else f"the leader of {GROUPS} is not recorded"
    )
    return f"{said}; {missing}"


def _commits_of(group: Group, op_id: int) -> list[tuple[int, int]]:
    """Return (process, offset) of each commit of an op to this partition, successful or not."""
    table = group.table("commits")
    rows = select(table, equal(table, "act", GroupAct.COMMIT.value) & equal(table, "op_id", op_id))
    return list(zip(*(ints(rows, name).tolist() for name in ("process", "offset")), strict=True))


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="position of a group is beyond all commits of its members",
        many="positions of groups are beyond all commits of their members",
        means=("A member got a position beyond all commits, so it skips records."),
        promise="A group gets no position beyond all commits of its members.",
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=TABLES,
    check=_check,
    applies=applies,
    promise=Promise.GROUPS,
    compares="positions that members received",
    chapter=Chapter.GROUPS,
    looks_for="a position above all offsets that members had tried to commit by then",
    waits=Waits.BEFORE,
)
