"""The measured effects of faults on broker processes. `effects` lists these classes, too."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessChange:
    """The state of a broker process before and after a fault.

    Attributes:
        node: The broker's node.
        pid, start_ticks: The process: its pid, and its start time (field 22 of `/proc/PID/stat`).
        state_before, state_after: The state letter in `/proc/PID/stat`. None if the process does
            not exist.
    """

    node: str
    pid: int
    start_ticks: int
    state_before: str | None
    state_after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StruckAgain:
    """A process of a restarting broker that was killed again.

    Attributes:
        node: The broker's node.
        pid, start_ticks: The process.
        lived_s: Seconds from the start of this process to its end.
        back: Whether the broker had registered, or may have registered, before the kill.
    """

    node: str
    pid: int
    start_ticks: int
    lived_s: float
    back: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KillEffect:
    """Brokers that were killed with SIGKILL.

    Attributes:
        processes: The processes that ran before the fault.
        again: Later processes of the same brokers. The fault killed these, too.
    """

    took_s: float
    processes: tuple[ProcessChange, ...]
    again: tuple[StruckAgain, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StopEffect:
    """Brokers that were stopped with SIGTERM.

    Attributes:
        graceful: Nodes whose broker ended by itself within the limit. The other targets were killed
            later.
    """

    took_s: float
    graceful: tuple[str, ...]
    processes: tuple[ProcessChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseEffect:
    """Brokers whose processes are paused."""

    took_s: float
    processes: tuple[ProcessChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackEffect:
    """Brokers that are running and registered again.

    Attributes:
        took_s: Seconds from the first heal until the registration was confirmed.
        processes: The current processes. `state_before` is the state of the process that the fault
            hit, just before the heal.
        pid_before: For each node, the pid of the process that the fault hit.
        was_gone: Nodes that were unregistered for a time, so the cluster noticed the fault.
        asked: The node that reported the registration.
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
        node: The broker's node.
        pid_before, start_ticks_before: The process that was stopped.
        pid, start_ticks: The new process.
        graceful: Whether the old process ended by itself within the limit. Otherwise it was killed.
        back_s: Seconds from the stop request until the broker was registered again.
        whole_s: Seconds from the stop request until the ISR of every partition was full again.
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
