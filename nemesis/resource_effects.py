"""The measured effects of the resource faults. Each effect describes itself in a sentence."""

from dataclasses import dataclass

from nemesis.broker_effects import BackEffect, ProcessChange
from nemesis.brokers import GONE

MB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlesEffect:
    """Brokers that cannot open another file or connection.

    Attributes:
        open_before: For each node, the number of open descriptors of the broker.
        limits: For each node, the limit before the fault and now.
        spare: The number of descriptors that were left to each broker.
        crowd: For each node, the number of Logquake's connections that used up these descriptors.
        lasting: Whether these connections stay until the heal. Otherwise they were closed again.
        processes: The broker processes just after all descriptors were in use.
    """

    took_s: float
    open_before: dict[str, int]
    limits: dict[str, tuple[int, int]]
    spare: int
    crowd: dict[str, int]
    lasting: bool
    processes: tuple[ProcessChange, ...]

    @property
    def told(self) -> str:
        """Return the measurement as a sentence."""
        each = ", ".join(
            f"{node} had {count} open descriptors and could open {self.spare} more (limit"
            f" {self.limits[node][1]}, previously {self.limits[node][0]})"
            for node, count in self.open_before.items()
        )
        stays = "stay open" if self.lasting else "were closed again"
        return (
            f"{each}; Logquake's own connections used these up, and {stays}{_ended(self.processes)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorEffect:
    """Brokers that get a small share of one core.

    Attributes:
        share: The share of one core that each broker may use at most.
        used: For each node, the measured share of one core.
        throttled: For each node, the number of kernel periods in which the broker had to wait.
        waited_s: For each node, the total seconds that the broker's threads waited.
        processes: The broker processes.
    """

    took_s: float
    share: float
    used: dict[str, float]
    throttled: dict[str, int]
    waited_s: dict[str, float]
    processes: tuple[ProcessChange, ...]

    @property
    def told(self) -> str:
        """Return the measurement as a sentence."""
        each = ", ".join(
            f"{node} used {100 * used:.1f} % of a core and was throttled in"
            f" {self.throttled[node]} periods ({self.waited_s[node]:.1f} s)"
            for node, used in self.used.items()
        )
        return f"at most {100 * self.share:g} % of a core: {each}{_ended(self.processes)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEffect:
    """Brokers that get little more memory than they need.

    Attributes:
        used_before: For each node, the bytes of memory before the fault, including cached files.
        cached: For each node, the bytes of cached files before the fault and now.
        limits: For each node, the limit in bytes.
        hits: For each node, how often the broker reached the limit.
        kills: For each node, how often the kernel has killed the broker for this reason so far.
        processes: The broker processes.
    """

    took_s: float
    used_before: dict[str, int]
    cached: dict[str, tuple[int, int]]
    limits: dict[str, int]
    hits: dict[str, int]
    kills: dict[str, int]
    processes: tuple[ProcessChange, ...]

    @property
    def told(self) -> str:
        """Return the measurement as a sentence."""
        each = ", ".join(
            f"{node} used {used / MB:.1f} MiB before and has a limit of"
            f" {self.limits[node] / MB:.1f} MiB; cached files took"
            f" {self.cached[node][0] / MB:.1f} MiB before and take"
            f" {self.cached[node][1] / MB:.1f} MiB now; the broker reached the limit"
            f" {self.hits[node]} times"
            for node, used in self.used_before.items()
        )
        killed = ", ".join(node for node, kills in self.kills.items() if kills)
        return f"{each}{f'; the kernel killed {killed}' if killed else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FreedEffect:
    """Brokers that have their old resources, and are back.

    Attributes:
        took_s, processes, pid_before, was_gone, asked: As in `BackEffect`.
        kills: For each node, how often the kernel killed the broker for lack of memory.
        said: The last output of each broker that had ended before the heal was confirmed, by node.
    """

    took_s: float
    processes: tuple[ProcessChange, ...]
    pid_before: dict[str, int]
    was_gone: tuple[str, ...]
    asked: str
    kills: dict[str, int]
    said: dict[str, tuple[str, ...]]

    @classmethod
    def of(
        cls, back: BackEffect, *, kills: dict[str, int], said: dict[str, tuple[str, ...]]
    ) -> "FreedEffect":
        """Return the effect for brokers that are back."""
        return cls(
            took_s=back.took_s,
            processes=back.processes,
            pid_before=back.pid_before,
            was_gone=back.was_gone,
            asked=back.asked,
            kills=kills,
            said=said,
        )

    @property
    def told(self) -> str:
        """Return the measurement as a sentence."""
        started = [
            f"{each.node} had been killed by the kernel and was started again"
            if self.kills.get(each.node)
            else f"{each.node} had ended and was started again"
            for each in self.processes
            if each.pid != self.pid_before[each.node]
        ]
        return "; ".join(["the old limits are restored", *started])


def _ended(processes: tuple[ProcessChange, ...]) -> str:
    ended = [each.node for each in processes if each.state_after in GONE]
    return f"; {', '.join(ended)} had exited by then" if ended else ""
