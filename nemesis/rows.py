"""The `faults` table as the nemesis writes it: a new row at each step of a fault."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from cluster.protocol import ClusterView, Link
from results.record.stream import StreamWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """The roles of the targets when the fault began, according to the cluster's own metadata.

    Attributes:
        leaders: The leader of each partition (`log-0-1`), without partitions of internal topics.
            None if the partition had no leader.
        led: Partitions that a target led.
        followed: The number of partitions in which a target was a follower.
        controller: Whether a target was the active controller.
        asked: The node that reported this metadata. None if no node answered. Then nothing is
            known.
    """

    leaders: dict[str, str | None] = field(default_factory=dict)
    led: tuple[str, ...] = ()
    followed: int = 0
    controller: bool = False
    asked: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """How a fault waited for a state of the cluster (`nemesis.triggers`).

    Attributes:
        when: The state of the cluster that the fault waits for, as written in the plan.
        came: Whether the state was reached.
        waited_s: The seconds that the fault waited.
        saw: The other states that were seen before the wanted state: only the last ones, in order.
            Empty if the first check found the wanted state.
    """

    when: str
    came: bool
    waited_s: float
    saw: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """The column `spec`, as JSON.

    Attributes:
        kind: A name in the registry, or a scenario's own kind, such as `cut`.
        family: The family in a plan's `nemesis`. Empty if `kind` is not in the registry.
        target: The role expression. Or the group of nodes that the fault hit instead: `recovered`.
        hold_s: The planned seconds between confirmation and heal. The fault may last longer.
        at_s: The scheduled start, in seconds from the start of the main phase.
        waited: How the fault waited for a state. None if the fault waits for no state.
        links: The directed links that the fault cuts or degrades.
        roles: The roles of the targets when the fault began.
        begun: Whether the fault may have changed its targets. This becomes True just before the
            injection. So even a fault whose injection failed may have destroyed records.
        incarnations: How often each target's broker had been started before the injection, if the
            cluster counts starts. This number identifies the process that the fault hit.
        place: The topic and partition that the target names, or that the fault has chosen. None if
            there is no such partition.
        without_effect: A sentence that says why no effect was confirmed.
        not_healed: A sentence that says why the heal is not confirmed.
    """

    kind: str
    target: str
    hold_s: float
    at_s: float
    family: str = ""
    waited: Waited | None = None
    links: tuple[Link, ...] = ()
    roles: Roles = field(default_factory=Roles)
    begun: bool = False
    incarnations: dict[str, int] = field(default_factory=dict)
    place: tuple[str, int] | None = None
    without_effect: str | None = None
    not_healed: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRow:
    """One row of the `faults` table, with times in nanoseconds since the run's start."""

    fault_id: int
    spec: Spec
    targets: tuple[str, ...] = ()
    requested_ns: int | None = None
    confirmed_ns: int | None = None
    healed_ns: int | None = None
    effect: str | None = None
    heal_effect: str | None = None


class FaultRows:
    """The live stream `faults` of the nemesis.

    Args:
        folder: The run's `record/live`.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._stream = StreamWriter(folder, "faults", "nemesis")

    def write(self, row: FaultRow) -> None:
        """Write a row at once, so that it survives a crash of the harness."""
        self._stream.append((
            row.fault_id, row.spec.kind, json.dumps(asdict(row.spec)), list(row.targets),
            row.requested_ns, row.confirmed_ns, row.healed_ns, row.effect, row.heal_effect,
        ))  # fmt: skip
        self._stream.flush()

    def close(self) -> None:
        """Close the live stream."""
        self._stream.close()


def roles_of(targets: tuple[str, ...], view: ClusterView | None) -> Roles:
    """Return the roles of nodes in a metadata view. Without a view, the roles are unknown."""
    if view is None:
        return Roles()
    ours = [state for (topic, _), state in sorted(view.partitions.items()) if topic[:2] != "__"]
    leaders = {f"{state.topic}-{state.partition}": state.leader for state in ours}
    followed = [state for state in ours if set(targets) & (set(state.replicas) - {state.leader})]
    return Roles(
        leaders=leaders,
        led=tuple(name for name, leader in leaders.items() if leader in targets),
        followed=len(followed),
        controller=view.controller in targets,
        asked=view.asked,
    )
