"""Derive guarantees and recovery times from an attached cluster's settings. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cluster.systems.attached.asking import LAG, PROMISED, SESSIONS, Told
from results.record.plan_parts import Budgets
from results.record.tuning import ABORT_INTERVAL

SESSION = SESSIONS[0]
_OURS_S = {SESSION: 3.0, LAG: 4.0}
"""The values, in seconds, that the default budgets assume."""
_SLOWEST = {SESSION: "18000", LAG: "30000", ABORT_INTERVAL: "60000"}
"""The assumed values, in milliseconds, of settings that a broker does not report. With these
values, Logquake waits longest."""
_COUNTS = frozenset(PROMISED) - {"unclean.leader.election.enable"}
"""The settings whose value counts replicas. If brokers differ, the smallest value counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of brokers, in the form of a run's plan.

    Attributes:
        of_all: The common settings of all brokers.
        of_single: By node, the settings in which one broker differs.
    """

    of_all: Mapping[str, str]
    of_single: Mapping[str, Mapping[str, str]]

    @property
    def least_insync(self) -> int:
        """The smallest number of replicas that store an acknowledged record; 1 if not reported."""
        return int(self.of_all.get("min.insync.replicas", "1"))


def played_settings(told: Told) -> Settings:
    """Return the reported settings; leave out a guarantee if any broker did not report it.

    The interval after which a coordinator aborts a transaction is always included, because the run
    waits that long.
    """
    gone = unread(told)
    each = {
        node: {key: value for key, value in _of_one(told, node) if key not in gone}
        for node in told.endpoints
    }
    of_all = dict(next(iter(each.values())))
    for count in _COUNTS & of_all.keys():
        of_all[count] = min((own[count] for own in each.values()), key=int)
    of_all[ABORT_INTERVAL] = str(_longest_ms(told, ABORT_INTERVAL))
    single = {
        node: {key: value for key, value in own.items() if of_all.get(key) != value}
        for node, own in each.items()
    }
    return Settings(of_all=of_all, of_single={node: own for node, own in single.items() if own})


def unread(told: Told) -> frozenset[str]:
    """Return the settings that affect guarantees, if at least one broker did not report them."""
    return frozenset(
        name
        for name in PROMISED
        if any(name not in told.settings.get(node, {}) for node in told.endpoints)
    )


def budgets_for(asked: Budgets, told: Told) -> Budgets:
    """Return a plan's time budgets, extended by the cluster's own timeouts.

    Budgets that the plan sets explicitly stay unchanged.
    """
    usual = Budgets()
    session_s = _longest_ms(told, SESSION) / 1000 - _OURS_S[SESSION]
    lag_s = 1.5 * (_longest_ms(told, LAG) / 1000 - _OURS_S[LAG])
    more = {
        "unavailable_s": session_s,
        "election_s": session_s,
        "group_s": session_s,
        "heal_s": session_s,
        "isr_s": max(session_s, lag_s),
    }
    return asked.model_copy(
        update={
            name: getattr(usual, name) + max(0.0, extra_s)
            for name, extra_s in more.items()
            if getattr(asked, name) == getattr(usual, name)
        }
    )


def _of_one(told: Told, node: str) -> Iterator[tuple[str, str]]:
    """Yield the settings that one broker reports, and the longest of its session timeouts."""
    own = told.settings.get(node, {})
    yield from ((key, own[key]) for key in (*PROMISED, LAG, ABORT_INTERVAL) if key in own)
    sessions = [int(own[key]) for key in SESSIONS if own.get(key, "").isdecimal()]
    if sessions:
        yield SESSION, str(max(sessions))


def _longest_ms(told: Told, name: str) -> int:
    each = (dict(_of_one(told, node)).get(name, _SLOWEST[name]) for node in told.endpoints)
    return max(map(int, each))
