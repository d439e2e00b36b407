"""host-not-restored: a host is not as it was before the run; the harness's own anomaly.

Definition: what the run's mark, name or label is on, compared before the hosts were made and after
they were taken down, differs: a process that still runs, a table, a container, a mount, a file
outside of the store.

Why it proves something: that the harness does not do what it promises. What it left behind may
have disturbed this run's end, and may disturb the next one.

What would not prove it: a change on the machine that is nobody's of the run.

A run that was killed before its hosts were looked at again left nobody knows what: that is a gap,
and the verdict unknown. That they were looked at before is a milestone (`looked`), which runs of
before there was an audit do not have, nor those whose audit was their first word on it.
"""

from checkers.facts import AUDITED, LOOKED, RunFacts
from checkers.findings import anomaly_at, findings
from checkers.group import Group
from checkers.protocol import Chapter, Checker, Findings, Scope
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Words

NAME = "host-not-restored"
_REMEDIES = (("the nft table ", "nft delete table ip"), ("the link ", "ip link delete"))
"""What the audit calls things that a command removes, and the command."""
_NEVER = (
    "the run was ended from outside before its hosts were compared with how they were before"
    " (`logquake heal` undoes what it may have left)"
)


def _check(group: Group) -> Findings:
    audited = group.facts.milestone(AUDITED)
    if audited is None:
        return Findings(rows=1, gaps=(_NEVER,))
    return findings(1, sorted(audited.detail.items()), lambda item: _describe(group, item))


def _describe(group: Group, item: tuple[str, str]) -> Anomaly:
    what, how = item
    return anomaly_at(group, NAME, sentence=f"{what} {how}", evidence={"what": what, "change": how})


def _applies(facts: RunFacts) -> bool:
    # Runs of before there was an audit have neither.
    return any(facts.milestone(name) is not None for name in (LOOKED, AUDITED))


def _why(_group: Group, found: Anomaly) -> str:
    what, change = (str(found.evidence.get(name) or "") for name in ("what", "change"))
    if change.startswith("was there before"):
        return "the run or its clean-up removed it, which is a bug of Logquake"
    if change.startswith("was otherwise"):
        return "the run changed it and its clean-up did not change it back: a bug of Logquake"
    by = next(
        (f"; `{command} {what.removeprefix(name)}` removes it" for name, command in _REMEDIES
         if what.startswith(name)), "",
    )  # fmt: skip
    return f"the run made it and its clean-up left it there, which is a bug of Logquake{by}"


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="trace of the run was left on its hosts",
        many="traces of the run were left on its hosts",
        means="The hosts are not as they were before the run, which is a bug of Logquake.",
        promise="A run leaves its hosts as they were.",
    ),
    anomaly_class=AnomalyClass.HARNESS,
    tables=(),
    check=_check,
    premises=(),
    scope=Scope.RUN,
    applies=_applies,
    compares="comparisons of the hosts with how they were before",
    chapter=Chapter.HARNESS,
    looks_for="what carries the run's mark on its hosts is not as it was before the run, or nobody"
    " looked afterwards",
)
