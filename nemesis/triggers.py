"""States of the cluster that a fault waits for: `when = "leader epoch of log-0-0 >= 3"`.

| trigger | holds when |
|---|---|
| `leader epoch of log-0-0 >= 3` | the partition's leader epoch is at least 3 |
| `isr of log-0-0 <= 2` | at most two replicas are in sync |
| `leader of log-0-0 = n2` | that node leads; `none`: there is no leader |
| `controller = n2` | that node is the controller; `none`: none is known |
| `controller epoch >= 3` | the controller's epoch is at least 3 |
| `registered <= 2` | at most two brokers are registered |

To compare numbers, use `>=`, `<=`, `>`, `<` or `=`. To compare names, use `=` or `!=`. The
functions are pure: the caller passes the metadata view.
"""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cluster.protocol import ClusterView, PartitionState
from nemesis.roster import Roster
from results.record.plan import PlanError

NONE = "none"
_TRIGGER = re.compile(
    r"(?P<what>leader epoch|isr|leader|controller epoch|controller|registered)"
    r"( of (?P<topic>\S+)-(?P<partition>\d{1,9}))? (?P<compare>>=|<=|!=|>|<|=) (?P<wanted>\S+)"
)
_COMPARES: Mapping[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
    "!=": operator.ne,
}
_OF_PARTITION: Mapping[str, Callable[[PartitionState], int | str]] = {
    "leader epoch": lambda state: state.leader_epoch,
    "isr": lambda state: len(state.isr),
    "leader": lambda state: state.leader or NONE,
}
_OF_CLUSTER: Mapping[str, Callable[[ClusterView], int | str]] = {
    "controller": lambda view: view.controller or NONE,
    "controller epoch": lambda view: view.controller_epoch,
    "registered": lambda view: len(view.registered),
}
_NAMES = frozenset({"leader", "controller"})
"""Triggers that are compared with a name. All others are compared with a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """A state that a fault waits for.

    Attributes:
        text: The text in the plan.
        what: `leader epoch`, `isr`, ...
        place: The partition, if the trigger has one.
        compare: The comparison: `>=`, ...
        wanted: A number, a node's name, or `none`.
    """

    text: str
    what: str
    place: tuple[str, int] | None
    compare: str
    wanted: int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """The result of one check of a trigger.

    Attributes:
        holds: Whether the cluster is in the wanted state.
        seen: The current state: `leader n1 of log-0-0 in epoch 3, ISR n1, n2`.
    """

    holds: bool
    seen: str


def parse_trigger(text: str, roster: Roster) -> Trigger:
    """Parse a trigger, and check that it is possible in this cluster.

    Args:
        text: The text in a plan.
        roster: All possible targets.

    Raises:
        PlanError: The trigger is wrong. The message has the reason and a remedy.
    """
    match = _TRIGGER.fullmatch(" ".join(text.split()))
    if match is None:
        raise PlanError(
            f"when {text!r} is not valid; write a state such as 'leader epoch of log-0-0 >= 3',"
            " 'isr of log-0-0 <= 2', 'leader of log-0-0 = n2', 'controller = n2', 'controller"
            " epoch >= 3' or 'registered <= 2'"
        )
    what = match["what"]
    return Trigger(
        text=match[0],
        what=what,
        place=_place(text, match, roster),
        compare=_compare(text, what, match["compare"]),
        wanted=_name(text, match["wanted"], roster)
        if what in _NAMES
        else _number(text, match["wanted"]),
    )


def look(trigger: Trigger, view: ClusterView | None) -> Sight:
    """Return the current state of the cluster, and whether this is the wanted state.

    Args:
        trigger: The wanted state.
        view: The cluster's metadata. None if no node answers.
    """
    if view is None:
        return Sight(holds=False, seen="no answer from any node")
    if trigger.place is None:
        return Sight(holds=_holds(trigger, _OF_CLUSTER[trigger.what](view)), seen=_cluster(view))
    state = view.partitions.get(trigger.place)
    if state is None:
        return Sight(holds=False, seen=f"no state of {_named(trigger.place)}")
    return Sight(holds=_holds(trigger, _OF_PARTITION[trigger.what](state)), seen=_partition(state))


def _holds(trigger: Trigger, found: int | str) -> bool:
    if isinstance(found, int) and found < 0:  # No response has told the epoch.
        return False
    return _COMPARES[trigger.compare](found, trigger.wanted)


def _cluster(view: ClusterView) -> str:
    epoch = "unknown" if view.controller_epoch < 0 else view.controller_epoch
    registered = ", ".join(sorted(view.registered)) or NONE
    return f"controller {view.controller or NONE} in epoch {epoch}, registered {registered}"


def _partition(state: PartitionState) -> str:
    place = _named((state.topic, state.partition))
    isr = ", ".join(state.isr) or NONE
    return f"leader {state.leader or NONE} of {place} in epoch {state.leader_epoch}, ISR {isr}"


def _named(place: tuple[str, int]) -> str:
    return f"{place[0]}-{place[1]}"


def _place(text: str, match: re.Match[str], roster: Roster) -> tuple[str, int] | None:
    what, topic = match["what"], match["topic"]
    if what in _OF_CLUSTER:
        if topic is not None:
            raise PlanError(f"when {text!r}: {what!r} does not accept a partition")
        return None
    if topic is None:
        raise PlanError(f"when {text!r}: {what!r} needs a partition: write '{what} of log-0-0'")
    place = (topic, int(match["partition"]))
    if place not in roster.partitions:
        raise PlanError(
            f"when {text!r}: the plan has no partition {_named(place)}; use"
            f" {_named(min(roster.partitions))} to {_named(max(roster.partitions))}"
        )
    return place


def _compare(text: str, what: str, compare: str) -> str:
    if (what in _NAMES and compare not in {"=", "!="}) or (what not in _NAMES and compare == "!="):
        would = "= or !=" if what in _NAMES else ">=, <=, >, < or ="
        raise PlanError(f"when {text!r}: compare {what!r} with {would}, not with {compare}")
    return compare


def _name(text: str, wanted: str, roster: Roster) -> str:
    if wanted != NONE and wanted not in roster.everybody:
        raise PlanError(
            f"when {text!r}: {wanted!r} is neither a node ({', '.join(roster.everybody)}) nor"
            f" {NONE}"
        )
    return wanted


def _number(text: str, wanted: str) -> int:
    if not re.fullmatch(r"\d{1,9}", wanted):
        raise PlanError(f"when {text!r}: {wanted!r} is not a number")
    return int(wanted)
