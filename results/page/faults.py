"""The faults of a run: planned for whom, who that was, and by what measurement it is known."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from results.record.clock import NS_PER_S
from results.tables import RunTables

_Json = Mapping[str, Any]
_NOT_CONFIRMED = "not confirmed"
_LED_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultLine:
    """A line of the table, and a bar of the time line; times in seconds since the run's start.

    Attributes:
        fault_id, kind: Which.
        family: What a plan's `nemesis` calls the kind and others of its sort; empty: not recorded.
        target: The role expression of the plan.
        nodes: Who that was.
        roles: What those nodes were at that moment.
        requested_s: When it was asked for.
        confirmed_s, healed_s: None: that was never measured.
        effect, heal_effect: What was measured, in a sentence.
        heal_failed: It was to be undone, and was not seen to be over.
    """

    fault_id: int
    kind: str
    family: str
    target: str
    nodes: str
    roles: str
    requested_s: float
    confirmed_s: float | None
    healed_s: float | None
    effect: str
    heal_effect: str
    heal_failed: bool


def fault_lines(tables: RunTables) -> list[FaultLine]:
    """Return the faults of a run in the order in which they were asked for."""
    rows = tables.record("faults").to_pylist()
    rows.sort(key=lambda row: (row["requested_ns"] or 0, row["fault_id"] or 0))
    return [_line(row) for row in rows]


def _line(row: _Json) -> FaultLine:
    spec = _object(row["spec"])
    return FaultLine(
        fault_id=row["fault_id"] or 0,
        kind=str(row["kind"]),
        family=str(spec.get("family") or ""),
        target=str(spec.get("target", "")),
        nodes=", ".join(row["targets"] or ()) or "nobody",
        roles=_roles(_object(spec.get("roles"))),
        requested_s=(row["requested_ns"] or 0) / NS_PER_S,
        confirmed_s=_seconds(row["confirmed_ns"]),
        healed_s=_seconds(row["healed_ns"]),
        effect=_effect(row["effect"], confirmed=row["confirmed_ns"] is not None),
        heal_effect=_heal(row["heal_effect"]),
        heal_failed=row["healed_ns"] is None and bool(spec.get("not_healed")),
    )


def _seconds(time_ns: int | None) -> float | None:
    return None if time_ns is None else time_ns / NS_PER_S


def _object(value: object) -> _Json:
    """Return a JSON object, given as text or as it is; nothing if it is something else."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return value if isinstance(value, dict) else {}


def _roles(roles: _Json) -> str:
    led = [str(each) for each in roles.get("led") or ()]
    parts = []
    if led:
        more = f" and {len(led) - _LED_NAMED} more" if len(led) > _LED_NAMED else ""
        parts.append(f"leader of {', '.join(led[:_LED_NAMED])}{more}")
    if roles.get("followed"):
        parts.append(f"follower in {roles['followed']} partitions")
    if roles.get("controller"):
        parts.append("active controller")
    return "; ".join(parts)


def _effect(text: str | None, *, confirmed: bool) -> str:
    effect = _object(text)
    if not effect:
        return text or ("confirmed" if confirmed else _NOT_CONFIRMED)
    if "without_effect" in effect:
        return f"{_NOT_CONFIRMED}: {effect['without_effect']}"
    match effect.get("kind"):
        case "cut":
            return _cut(effect)
        case "kill" | "stop" | "pause":
            return _processes(effect)
        case "power-loss":
            return "; ".join([_processes(effect), *_replicas(effect)])
        case _:
            return _flat(effect)


def _replicas(effect: _Json) -> list[str]:
    cut = [_object(each) for each in effect.get("replicas") or ()]
    return [
        f"the log of {each.get('topic')}-{each.get('partition')} was cut from"
        f" {each.get('log_end_before')} to {each.get('log_end_after')}"
        for each in cut
        if each.get("bytes_cut")
    ] or ["nothing was cut from its logs"]


def _cut(effect: _Json) -> str:
    links = [_object(link) for link in effect.get("links") or ()]
    cut = [link for link in links if link.get("cut")]
    silent = sum(bool(link.get("before")) and not link.get("during") for link in cut)
    named = ", ".join(f"{link.get('sender')}→{link.get('receiver')}" for link in cut)
    return f"probes stopped arriving on {silent} of {len(cut)} cut links ({named})"


def _processes(effect: _Json) -> str:
    states = {"T": "stopped", "Z": "gone", None: "gone"}
    parts = []
    for change in map(_object, effect.get("processes") or ()):
        after = change.get("state_after")
        state = states.get(after, f"in state {after}")
        parts.append(f"process {change.get('pid')} of {change.get('node')} is {state}")
    graceful = effect.get("graceful")
    if graceful is not None:
        parts.append(f"ended by itself: {', '.join(graceful) or 'none'}")
    return "; ".join(parts) or _flat(effect)


def _heal(text: str | None) -> str:
    effect = _object(text)
    if not effect:
        return text or ""
    if "not_healed" in effect:
        return f"not confirmed: {effect['not_healed']}"
    return _healed(effect)


def _healed(effect: _Json) -> str:
    match effect.get("kind"):
        case "join":
            return _joined(effect)
        case "back":
            nodes = ", ".join(str(_object(each).get("node")) for each in effect["processes"])
            gone = ", ".join(effect.get("was_gone") or ()) or "nobody"
            took = f"{nodes} registered again after {_number(effect.get('took_s'))} s"
            return f"{took} (the cluster had missed: {gone})"
        case "superseded":
            return f"ended by fault {effect.get('by_fault')}"
        case "left":
            return f"left as it was: {', '.join(effect.get('nodes') or ())} stays down"
        case _:
            return _flat(effect)


def _joined(effect: _Json) -> str:
    links = [_object(link) for link in effect.get("links") or ()]
    again = sum(bool(link.get("after")) for link in links)
    dropped = sum(
        int(link.get("dropped_at_first") or 0) + int(link.get("dropped_while_held") or 0)
        for link in links
    )
    return f"probes arrive on {again} of {len(links)} links; {dropped:,} packets were dropped"


def _number(value: object) -> str:
    return f"{value:.1f}" if isinstance(value, int | float) else "?"


def _flat(effect: _Json) -> str:
    return ", ".join(f"{key} {value}" for key, value in effect.items() if key != "kind")
