"""The `faults` table as the nemesis writes it: a row at each step of a fault's life."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from cluster.protocol import ClusterView, Link
from results.record.stream import StreamWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """What the targets were when the fault began, as the cluster's own view told.

    Attributes:
        leaders: By partition (`log-0-1`): its leader, None if it had none.
        led: Partitions that a target led.
        followed: How many partitions had a target among their followers, by replicas.
        controller: Whether a target led the controllers.
        asked: The node whose view this is; None: nobody answered, and nothing is known.
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
        when: The state, as in the plan.
        came: Whether it came.
        waited_s: How long the fault waited.
        saw: What was there instead meanwhile, the last of it, in its order; empty: the state was
            there at the first look.
    """

    when: str
    came: bool
    waited_s: float
    saw: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """The column `spec`, as JSON.

    Attributes:
        kind: A name in the registry.
        family: What a plan's `nemesis` calls it, and others of its sort; empty: a script's own.
        target: The role expression.
        hold_s: Seconds between confirmation and heal.
        at_s: When the schedule wanted it, in seconds from the start of the main phase.
        waited: How it waited for a state; None: it waited for none.
        links: Directed pairs that are cut, of partitions.
        roles: What the targets were at the time.
        begun: Whether anything may have been done to the targets: from just before the injection
            on, however that went. A fault that takes records and was never confirmed may still have
            taken them.
        incarnations: By target: which of its broker's lives ran just before the injection, where
            the cluster counts them. What the fault does to a broker it does to that life.
        place: The topic and partition that the fault is about, be it named or drawn.
        without_effect: Why nothing was confirmed, in a sentence.
        not_healed: Why the heal is not confirmed, in a sentence.
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
    """One row; times are nanoseconds since the run's start, effects JSON, as in the table."""

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
        """Write a row, at once: what a fault did must outlive the harness."""
        self._stream.append((
            row.fault_id, row.spec.kind, json.dumps(asdict(row.spec)), list(row.targets),
            row.requested_ns, row.confirmed_ns, row.healed_ns, row.effect, row.heal_effect,
        ))  # fmt: skip
        self._stream.flush()

    def close(self) -> None:
        """End the stream."""
        self._stream.close()


def roles_of(targets: tuple[str, ...], view: ClusterView | None) -> Roles:
    """Return what nodes are in a view; nothing of it if there is no view."""
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
