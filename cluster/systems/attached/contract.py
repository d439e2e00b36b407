"""What an attached cluster's settings promise, and how long its recovery may take. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from cluster.systems.attached.asking import RETENTIONS, SESSIONS, Told
from results.record.plan import ABORT_INTERVAL
from results.record.plan_parts import Budgets

LAG = "replica.lag.time.max.ms"
SESSION = SESSIONS[0]
DAY_MS = 86_400_000
_OURS_S = {SESSION: 3.0, LAG: 4.0}
"""What the default budgets were made for."""
_WEAKEST: Mapping[str, str] = {
    "min.insync.replicas": "1",
    "unclean.leader.election.enable": "true",
    LAG: "30000",
    SESSION: "18000",
    "log.retention.ms": "1",
    ABORT_INTERVAL: "60000",
}
"""Of what cannot be read: it promises least, and waits longest."""
_UNPROMISED: Mapping[str, str] = {
    "min.insync.replicas": "that an acknowledged record outlives one broker",
    "unclean.leader.election.enable": "that no leader is elected from outside of the ISR",
    "log.retention.ms": "that a log keeps its beginning",
}
_UNIT_MS = {
    "log.retention.ms": 1,
    "log.retention.minutes": 60_000,
    "log.retention.hours": 3_600_000,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of brokers, as a run's plan has them.

    Attributes:
        of_all: Of all.
        of_single: Where a broker's is another one, by node.
    """

    of_all: Mapping[str, str]
    of_single: Mapping[str, Mapping[str, str]]


def played_settings(told: Told) -> Settings:
    """Return the settings that decide what is promised; the weakest where they are not told."""
    each = {node: _of_one(told.settings.get(node, {})) for node in told.endpoints}
    of_all = dict(next(iter(each.values())))
    of_all["min.insync.replicas"] = min(
        (own["min.insync.replicas"] for own in each.values()), key=int
    )
    single = {
        node: {key: value for key, value in own.items() if of_all.get(key) != value}
        for node, own in each.items()
    }
    return Settings(of_all=of_all, of_single={node: own for node, own in single.items() if own})


def unread(told: Told) -> tuple[str, ...]:
    """Return a sentence for each setting that could not be read, and so promises nothing."""
    nodes = [*told.endpoints]
    found = dict[str, list[str]]()
    for node in nodes:
        for setting in _UNPROMISED:
            if not _is_told(setting, told.settings.get(node, {})):
                found.setdefault(setting, []).append(node)
    return tuple(
        f"{setting} of {', '.join(where)} could not be read, so nobody promises"
        f" {_UNPROMISED[setting]}."
        for setting, where in found.items()
    )


def budgets_for(asked: Budgets, settings: Settings) -> Budgets:
    """Return the budgets of a plan, with the time that the cluster's own timeouts take.

    Those that the plan names stay as they are.
    """
    usual = Budgets()
    session_s = _longest_s(settings, SESSION) - _OURS_S[SESSION]
    lag_s = 1.5 * (_longest_s(settings, LAG) - _OURS_S[LAG])
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


def _of_one(told: Mapping[str, str]) -> dict[str, str]:
    """Return what one broker promises."""
    found = {key: told.get(key, weakest) for key, weakest in _WEAKEST.items()}
    sessions = [int(told[key]) for key in SESSIONS if told.get(key, "").isdecimal()]
    found[SESSION] = str(max(sessions, default=int(_WEAKEST[SESSION])))
    found["min.insync.replicas"] = found["min.insync.replicas"] if told else "1"
    if keeps_ms(told):
        del found["log.retention.ms"]
    elif _is_told("log.retention.ms", told):
        found["log.retention.ms"] = "1"
    for copies in ("offsets.topic.replication.factor", "transaction.state.log.replication.factor"):
        if copies in told:
            found[copies] = told[copies]
    return found


def keeps_ms(told: Mapping[str, str]) -> bool:
    """Tell whether logs keep their beginning for a day, at least, whatever their size."""
    if not _is_told("log.retention.ms", told):
        return False
    if told.get("log.retention.bytes", "-1") != "-1":
        return False
    if "delete" not in told.get("log.cleanup.policy", "delete") or "," in told.get(
        "log.cleanup.policy", ""
    ):
        return False  # Compaction takes records that others of their key follow.
    kept = [int(told[key]) * unit for key, unit in _UNIT_MS.items() if key in told]
    return kept[0] < 0 or kept[0] >= DAY_MS


def _is_told(setting: str, told: Mapping[str, str]) -> bool:
    if setting in RETENTIONS:
        return any(key in told for key in _UNIT_MS)
    return setting in told


def _longest_s(settings: Settings, name: str) -> float:
    each = [settings.of_all, *settings.of_single.values()]
    return max(int(own[name]) for own in each if name in own) / 1000
