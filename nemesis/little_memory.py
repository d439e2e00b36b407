"""The fault `little-memory`: a broker gets hardly more memory than it cannot do without.

This happens in a container whose limit is too tight. The fault sets the limit of the broker's
control group (cgroup `memory`) 0 to 16 MiB above what the kernel cannot take back from it. The
kernel drops the files that it kept in memory for the broker, so that reads come from the disk. If
the broker wants more than is left, the kernel kills it (SIGKILL), which takes no page cache. The
heal removes the limit, and starts a broker that was killed.

What it does not imitate: a machine that swaps.
"""

from cluster.protocol import ClusterError, Memory
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Patience, Site
from nemesis.resource_effects import MB, FreedEffect, MemoryEffect
from nemesis.resources import StarvedBrokers
from nemesis.undo import FreeResources, Restart
from results.record.clock import WaitTimeoutError, stopwatch_s, wait_until

ROOMS_MB = (0, 1, 4, 16)
MOST_TRIES = 32
"""Each with another MiB: what is dirty, or in use, is not taken back at once."""


class LittleMemory:
    """Brokers that come up against their limit of memory, and are killed by the kernel maybe.

    Args:
        aim: Which fault this is.
        site: Its hosts limit resources.

    Raises:
        ClusterError: They do not.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site) -> None:
        self.targets = aim.targets
        self._hit = StarvedBrokers(aim, site)
        self._room = aim.rng.choice(ROOMS_MB) * MB
        self._before: dict[str, Memory] = {}
        self._limits: dict[str, int] = {}
        self._kills: dict[str, int] = {}
        self._started_s = stopwatch_s()

    def undo(self) -> tuple[FreeResources | Restart, ...]:
        """Return the limits to take away, and the brokers to start again."""
        return self._hit.undo()

    def inject(self) -> None:
        """Set the limits.

        Raises:
            ClusterError: A broker has one already, or cannot have one.
        """
        self._started_s = stopwatch_s()
        for node in self._hit.each():
            before = self._hit.hosts.memory(node)
            if before.limit_bytes is not None:
                raise ClusterError(f"the broker of {node} has a limit of memory already")
            self._before[node] = before
            # Of one that has just started little is kept, and it would not feel more than that.
            room = min(self._room, before.cached_bytes // 2)
            self._limit(node, before.used_bytes - before.cached_bytes + room)

    def confirm(self, patience: Patience) -> MemoryEffect | None:
        """See that the kernel took something back from each, or that it wanted more, or died."""
        now: dict[str, Memory] = {}

        def all_felt_it() -> bool:
            now.update({node: self._hit.hosts.memory(node) for node in self._limits})
            return all(self._feels(node, now[node]) for node in self._limits)

        try:
            wait_until(
                all_felt_it,
                timeout_s=patience.limit_s,
                what="brokers to have less memory than they want",
                stop=patience.stop,
            )
        except WaitTimeoutError:
            return None
        return MemoryEffect(
            took_s=stopwatch_s() - self._started_s,
            used_before={node: each.used_bytes for node, each in self._before.items()},
            cached={
                node: (before.cached_bytes, now[node].cached_bytes)
                for node, before in self._before.items()
            },
            limits=self._limits,
            hits={node: self._hits(node, each) for node, each in now.items()},
            kills={node: each.kills - self._before[node].kills for node, each in now.items()},
            processes=self._hit.brokers.changes(),
        )

    def heal(self) -> None:
        """Take the limits away, and start the brokers that the kernel killed. Idempotent."""
        self._hit.free(self._before, self._free)

    def confirm_healed(self, patience: Patience) -> FreedEffect | None:
        """See that there is no limit, and that the brokers are registered."""
        if any(self._hit.hosts.memory(node).limit_bytes is not None for node in self._before):
            return None
        return self._hit.wait_back(patience, kills=self._kills)

    def _free(self, node: str) -> None:
        self._hit.hosts.limit_memory(node, None)
        self._kills[node] = self._hit.hosts.memory(node).kills - self._before[node].kills

    def _limit(self, node: str, limit_bytes: int) -> None:
        for more in range(MOST_TRIES):
            try:
                self._hit.hosts.limit_memory(node, limit_bytes + more * MB)
            except ClusterError:
                if more == MOST_TRIES - 1:
                    raise
            else:
                self._limits[node] = limit_bytes + more * MB
                return

    def _feels(self, node: str, now: Memory) -> bool:
        """Tell whether a broker lost what it had, or did not get what it wanted."""
        lost = now.used_bytes <= self._limits[node] < self._before[node].used_bytes
        return lost or self._hits(node, now) > 0

    def _hits(self, node: str, now: Memory) -> int:
        return now.hits + now.kills - self._before[node].hits - self._before[node].kills


SAYS = {
    "little-memory": InWords(
        does="a broker gets 0 to 16 MiB more than it cannot do without; the kernel may kill it",
        injected="a limit of its control group (cgroup `memory`)",
        proven="the kernel took files back, or counts how often it wanted more, or killed it",
        undone="the limit goes; a start if it was killed",
    ),
}
