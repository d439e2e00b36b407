"""Effects of faults of resources: what each measured, with a sentence for people."""

from dataclasses import dataclass

from nemesis.broker_effects import BackEffect, ProcessChange
from nemesis.brokers import GONE

MB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlesEffect:
    """Brokers that cannot open another file or connection.

    Attributes:
        open_before: By node: how many descriptors its broker had open.
        limits: By node: the limit before, and now.
        spare: How many more each was left.
        crowd: By node: how many connections of our own took them.
        lasting: Whether these stay until the heal; otherwise they were closed again.
        processes: The brokers, just after none was left.
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
        """What was measured."""
        each = ", ".join(
            f"{node} had {count} descriptors open and got {self.spare} more (limit"
            f" {self.limits[node][1]}, before {self.limits[node][0]})"
            for node, count in self.open_before.items()
        )
        stays = "stay" if self.lasting else "were closed again"
        return f"{each}; connections of our own took them, and {stays}{_ended(self.processes)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorEffect:
    """Brokers that get little of one core.

    Attributes:
        share: The part of one core that each gets at most.
        used: By node: of one core, as measured.
        throttled: By node: in how many of the kernel's periods it had to wait meanwhile.
        waited_s: By node: how long its threads waited, together.
        processes: The brokers.
    """

    took_s: float
    share: float
    used: dict[str, float]
    throttled: dict[str, int]
    waited_s: dict[str, float]
    processes: tuple[ProcessChange, ...]

    @property
    def told(self) -> str:
        """What was measured."""
        each = ", ".join(
            f"{node} used {100 * used:.1f} % of a core and had to wait in {self.throttled[node]}"
            f" periods ({self.waited_s[node]:.1f} s)"
            for node, used in self.used.items()
        )
        return f"at most {100 * self.share:g} % of a core: {each}{_ended(self.processes)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEffect:
    """Brokers that get little more memory than they cannot do without.

    Attributes:
        used_before: By node: bytes that it had, files that the kernel kept for it included.
        cached: By node: bytes of these files, before and now.
        limits: By node: bytes that it gets.
        hits: By node: how often it wanted more.
        kills: By node: how often the kernel killed it for that, up to now.
        processes: The brokers.
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
        """What was measured."""
        each = ", ".join(
            f"{node} had {used / MB:.1f} MiB and got {self.limits[node] / MB:.1f}, of which"
            f" {self.cached[node][0] / MB:.1f} and then {self.cached[node][1] / MB:.1f} held files;"
            f" it wanted more {self.hits[node]} times"
            for node, used in self.used_before.items()
        )
        killed = ", ".join(node for node, kills in self.kills.items() if kills)
        return f"{each}{f'; the kernel killed {killed}' if killed else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FreedEffect:
    """Brokers that get what they got before, and are back.

    Attributes:
        took_s, processes, pid_before, was_gone, asked: As in `BackEffect`.
        kills: By node: how often the kernel had killed it for want of memory.
        said: By node: the last words of a broker that had ended when it was healed.
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
        """Return it for brokers that are back."""
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
        """What was measured."""
        started = [
            f"{each.node} had been killed by the kernel and was started again"
            if self.kills.get(each.node)
            else f"{each.node} had ended and was started again"
            for each in self.processes
            if each.pid != self.pid_before[each.node]
        ]
        return "; ".join(["its limits are as before", *started])


def _ended(processes: tuple[ProcessChange, ...]) -> str:
    ended = [each.node for each in processes if each.state_after in GONE]
    return f"; {', '.join(ended)} had ended by then" if ended else ""
