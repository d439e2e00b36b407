"""The faults of a run as lines: the planned target, the affected nodes, the measured effects."""

from dataclasses import dataclass

from results.record.clock import NS_PER_S
from results.tables import RunTables
from results.wording.effects import Json, effect_sentence, heal_sentence, json_object
from results.wording.links import parted
from results.wording.plural import many

_LED_NAMED = 3
_NO_CUTS = {"flapping", "delay", "jitter", "loss", "duplicate", "reorder", "bandwidth"}
"""Kinds of network faults that cut links only from time to time, or that only degrade links. All
other network faults stop every packet on their links."""
_MAKES_LINKS_BAD = {"network", "stall", "stall-clients"}
"""Fault families that degrade links; old records have no family."""
TAKERS = {"power-loss", "wipe", "bit-flip"}
"""Fault kinds that may delete records. If such a fault began but was not confirmed, it may have
deleted any records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultLine:
    """A fault, as a line of the page's table and a bar of its time line.

    All times are seconds since the run's start.

    Attributes:
        fault_id, kind: Id and kind of the fault.
        family: Name of the fault family in a plan's `nemesis`; empty if not recorded.
        target: The plan's role expression.
        nodes: The affected nodes.
        roles: Roles of these nodes when they were chosen.
        parted: The nodes that the fault cuts from each other (`links.parted`); empty if it cuts no
            link.
        begun: Whether the fault may have had an effect, even if the effect is not confirmed.
        requested_s: Time of the request.
        confirmed_s, healed_s: The times at which the effect and the heal were measured; None if
            they were not measured.
        healing_s: Begin of the heal; None if unknown.
        waited: A sentence about the wait for the fault's condition; empty if it had no condition.
        effect, heal_effect: The measurements, in sentences.
        heal_failed: Whether the heal was requested, but no observation showed that the fault was
            over.
    """

    fault_id: int
    kind: str
    family: str
    target: str
    nodes: str
    roles: str
    parted: str
    begun: bool
    requested_s: float
    confirmed_s: float | None
    healed_s: float | None
    healing_s: float | None
    waited: str
    effect: str
    heal_effect: str
    heal_failed: bool

    @property
    def over_s(self) -> float | None:
        """The earliest time at which the fault may have ended. The end is observed only later."""
        return self.healed_s if self.healing_s is None else self.healing_s


def fault_lines(tables: RunTables) -> list[FaultLine]:
    """Return the faults of a run in the order of their requests."""
    rows = tables.record("faults").to_pylist()
    rows.sort(key=lambda row: (row["requested_ns"] or 0, row["fault_id"] or 0))
    return [_line(row) for row in rows]


def _line(row: Json) -> FaultLine:
    spec = json_object(row["spec"])
    return FaultLine(
        fault_id=row["fault_id"] or 0,
        kind=str(row["kind"]),
        family=str(spec.get("family") or ""),
        target=str(spec.get("target", "")),
        nodes=", ".join(map(str, row["targets"] or ())) or "no node",
        roles=_roles(json_object(spec.get("roles"))),
        parted=_parted(row, spec),
        begun=row["confirmed_ns"] is not None or spec.get("begun") is True,
        requested_s=(row["requested_ns"] or 0) / NS_PER_S,
        confirmed_s=_seconds(row["confirmed_ns"]),
        healed_s=_seconds(row["healed_ns"]),
        healing_s=_healing_s(row),
        waited=_waited(json_object(spec.get("waited"))),
        effect=_effect(row, spec),
        heal_effect=heal_sentence(row["heal_effect"]),
        heal_failed=row["healed_ns"] is None and bool(spec.get("not_healed")),
    )


def _parted(row: Json, spec: Json) -> str:
    links = spec.get("links")
    cuts = row["kind"] not in _NO_CUTS and spec.get("family") not in _MAKES_LINKS_BAD
    if not cuts or not isinstance(links, list):
        return ""
    pairs = [each for each in links if isinstance(each, list) and len(each) == 2]  # noqa: PLR2004 - a link
    return parted((str(sender), str(receiver)) for sender, receiver in pairs)


def _healing_s(row: Json) -> float | None:
    took_s = json_object(row["heal_effect"]).get("took_s")
    if row["healed_ns"] is None or not isinstance(took_s, int | float):
        return None
    begun_s = _seconds(row["confirmed_ns"]) or _seconds(row["requested_ns"]) or 0.0
    return max(float(row["healed_ns"] / NS_PER_S - took_s), begun_s)


def _effect(row: Json, spec: Json) -> str:
    confirmed = row["confirmed_ns"] is not None
    told = effect_sentence(row["effect"], confirmed=confirmed)
    if confirmed or spec.get("begun") is not True or row["kind"] not in TAKERS:
        return told
    return f"{told}; the fault had begun, so it may have destroyed records"


def _waited(told: Json) -> str:
    """Return a sentence: how long a fault waited for its condition, and the states until then."""
    if not told:
        return ""
    when, seconds, saw = told.get("when"), told.get("waited_s"), told.get("saw")
    if not isinstance(saw, list) or not isinstance(seconds, int | float):
        return ""  # Damaged.
    if not saw:
        return f"{when} was reached at once"
    return f"waited {seconds:.1f} s for {when}; saw {'; then '.join(map(str, saw))}"


def _seconds(time_ns: int | None) -> float | None:
    return None if time_ns is None else time_ns / NS_PER_S


def _roles(roles: Json) -> str:
    told = roles.get("led")
    led = [str(each) for each in told] if isinstance(told, list) else []
    parts = []
    if led:
        more = f" and {len(led) - _LED_NAMED} more" if len(led) > _LED_NAMED else ""
        parts.append(f"leader of {', '.join(led[:_LED_NAMED])}{more}")
    if isinstance(followed := roles.get("followed"), int) and followed:
        parts.append(f"follower in {many(followed, 'partition')}")
    if roles.get("controller"):
        parts.append("active controller")
    return "; ".join(parts)
