"""What faults did, as measured: one dataclass a kind, JSON in the `faults` table.

`effect` and `heal_effect` of a row are one of these, with `kind` added: `{"kind": "cut", ...}`.
"""

import json
import re
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkEffect:
    """One directed link under a partition, probed with datagrams of our own.

    Attributes:
        sender, receiver: The link.
        cut: Whether the fault cuts it; otherwise it is the opposite of a one-way cut, which must go
            on working.
        before, during: Whether a probe arrived before the cut, and while it was in force.
    """

    sender: str
    receiver: str
    cut: bool
    before: bool
    during: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CutEffect:
    """A partition that is in force."""

    cut_id: str
    took_s: float
    links: tuple[LinkEffect, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkHealed:
    """One directed link after a partition.

    Attributes:
        sender, receiver: The link.
        after: Whether a probe arrived after the cut was removed.
        cut_by_others: Another fault still cuts it, so that nothing can arrive.
        dropped_at_first: Packets dropped until the cut was confirmed, our own probes among them, as
            the receiver's firewall counted.
        dropped_while_held: Packets dropped from then on until the heal: the brokers' own, for
            nobody probes meanwhile (but for other faults whose cuts overlap).
    """

    sender: str
    receiver: str
    after: bool
    cut_by_others: bool
    dropped_at_first: int
    dropped_while_held: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinEffect:
    """A partition that is over."""

    cut_id: str
    took_s: float
    links: tuple[LinkHealed, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessChange:
    """A broker process before and after what was done to it.

    Attributes:
        node: Whose.
        pid, start_ticks: Which process (field 22 of `/proc/PID/stat`).
        state_before, state_after: The letter in `/proc/PID/stat`; None: no such process.
    """

    node: str
    pid: int
    start_ticks: int
    state_before: str | None
    state_after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KillEffect:
    """Brokers that are gone, without warning."""

    took_s: float
    processes: tuple[ProcessChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StopEffect:
    """Brokers that are gone, by SIGTERM.

    Attributes:
        graceful: Nodes that ended by themselves within the limit; others were killed after it.
    """

    took_s: float
    graceful: tuple[str, ...]
    processes: tuple[ProcessChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseEffect:
    """Brokers that stand still."""

    took_s: float
    processes: tuple[ProcessChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackEffect:
    """Brokers that are back: running, and registered again.

    Attributes:
        took_s: From the heal to the registration.
        processes: As they run now; `state_before` is that of the moment before the heal.
        pid_before: By node: the process that the fault hit.
        was_gone: Nodes that were seen unregistered in between: the cluster noticed the fault.
        asked: The node whose word the registration is.
    """

    took_s: float
    processes: tuple[ProcessChange, ...]
    pid_before: dict[str, int]
    was_gone: tuple[str, ...]
    asked: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaCut:
    """What a power loss took from one replica.

    Attributes:
        topic, partition: Whose.
        recovery_point: Below it everything was on disk (`recovery-point-offset-checkpoint`).
        log_end_before, log_end_after: Offset behind the last record.
        bytes_cut: How many bytes of its segments are gone.
    """

    topic: str
    partition: int
    recovery_point: int
    log_end_before: int
    log_end_after: int
    bytes_cut: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLossEffect:
    """Brokers that are gone without warning, and with them what was in memory only."""

    took_s: float
    processes: tuple[ProcessChange, ...]
    replicas: tuple[ReplicaCut, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SupersededEffect:
    """A fault that another one ended: a paused broker that was killed is paused no more.

    Attributes:
        by_fault: The other one; what it did to the broker is in its own row.
    """

    by_fault: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftEffect:
    """A fault that was left in force to the end, because the run's script wanted it so.

    Attributes:
        nodes: Which stay as they are.
    """

    nodes: tuple[str, ...]


Effect = CutEffect | KillEffect | StopEffect | PauseEffect | PowerLossEffect
HealEffect = JoinEffect | BackEffect | SupersededEffect | LeftEffect


def effect_to_json(effect: Effect | HealEffect) -> str:
    """Return an effect as the JSON of the `faults` table."""
    words = re.findall(r"[A-Z][a-z]+", type(effect).__name__)
    kind = "-".join(word.lower() for word in words if word != "Effect")
    return json.dumps({"kind": kind, **asdict(effect)})
