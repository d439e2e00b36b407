"""What faults did to processes of brokers, as measured: like `effects`, of which these are."""

from dataclasses import dataclass


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
class StruckAgain:
    """A life of a broker that was ended as it started.

    Attributes:
        node: Whose.
        pid, start_ticks: Which process.
        lived_s: From its start to its end.
        back: Whether it had registered by then.
    """

    node: str
    pid: int
    start_ticks: int
    lived_s: float
    back: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KillEffect:
    """Brokers that are gone, without warning.

    Attributes:
        processes: That ran before.
        again: Lives of theirs that began and ended since.
    """

    took_s: float
    processes: tuple[ProcessChange, ...]
    again: tuple[StruckAgain, ...] = ()


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
class Restarted:
    """One broker of a rolling restart.

    Attributes:
        node: Whose.
        pid_before, start_ticks_before: The process that was told to stop.
        pid, start_ticks: The one that runs instead.
        graceful: Whether it ended by itself within the limit; otherwise it was killed.
        back_s: From the order to stop until it was registered again.
        whole_s: Until the ISR of every partition was full again.
    """

    node: str
    pid_before: int
    start_ticks_before: int
    pid: int
    start_ticks: int
    graceful: bool
    back_s: float
    whole_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingRestartEffect:
    """Brokers that were restarted one after the other."""

    took_s: float
    restarts: tuple[Restarted, ...]
