"""host-not-restored: a bug of Logquake left a host in another state than before the run.

Definition: Logquake compares each host before its set-up and after its clean-up. It compares all
objects with the run's mark, name or label: processes, control groups, network links, firewall
tables, containers, mounts, and files outside of the store. A difference is an anomaly. It is also
an anomaly if Logquake could not look at the hosts.

Why it proves something: it proves a bug of Logquake. The difference may have disturbed the end of
this run, and may disturb the next run.

What would not prove it: a change of an object on the machine that has no mark, name or label of the
run.

If a run was killed before the second comparison, its leftovers are unknown. Then there is a gap,
and the verdict is unknown. The milestone `looked` shows that the first comparison took place. This
milestone is missing in runs of older versions, which had no such comparison.
"""

from checkers.facts import AUDITED, LOOKED, RunFacts
from checkers.findings import anomaly_at, findings
from checkers.group import Group
from checkers.protocol import Chapter, Checker, Findings, Scope
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Words

NAME = "host-not-restored"
_REMEDIES = (("the nft table ", "nft delete table ip"), ("the link ", "ip link delete"))
"""The prefixes of leftovers in the audit, each with the command that removes such a leftover."""
_REMOVED, _CHANGED = (
    ("existed before", "was there before"),
    ("was different before", "was otherwise before"),
)
"""How the audit's phrases (`cluster.hosts.audit`) begin, in new records and in older records."""
_UNCHECKED = "could not be checked"
_NEVER = (
    "the run was ended from outside before its hosts were compared with their earlier state"
    " (`logquake heal` undoes changes that the run may have left)"
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
    # Runs from before this audit existed have neither milestone.
    return any(facts.milestone(name) is not None for name in (LOOKED, AUDITED))


def _why(_group: Group, found: Anomaly) -> str:
    what, change = (str(found.evidence.get(name) or "") for name in ("what", "change"))
    if change.startswith(_UNCHECKED):
        return "the run may have left changes there; `logquake heal` undoes them"
    if change.startswith(_REMOVED):
        return "the run or its clean-up removed it; this is a bug of Logquake"
    if change.startswith(_CHANGED):
        return "the run changed it and its clean-up did not restore it; this is a bug of Logquake"
    by = next(
        (f"; `{command} {what.removeprefix(name)}` removes it" for name, command in _REMEDIES
         if what.startswith(name)), "",
    )  # fmt: skip
    return f"the run created it and its clean-up did not remove it; this is a bug of Logquake{by}"


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="trace of the run was left on its hosts",
        many="traces of the run were left on its hosts",
        means="The hosts differ from their state before the run. This is a bug of Logquake.",
        promise="A run leaves its hosts in their earlier state.",
    ),
    anomaly_class=AnomalyClass.HARNESS,
    tables=(),
    check=_check,
    premises=(),
    scope=Scope.RUN,
    applies=_applies,
    compares="comparisons of the hosts with their earlier state",
    chapter=Chapter.HARNESS,
    looks_for="objects with the run's mark on its hosts differ from their state before the run,"
    " or they were not checked afterwards",
)
