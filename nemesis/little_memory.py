"""The fault `little-memory`: a broker gets hardly more memory than it needs.

This happens in a container with a tight limit. The fault limits the memory of the broker's control
group (cgroup `memory`). The limit is 0 to 16 MiB above the memory that the kernel cannot reclaim.
If the kernel rejects this limit, the fault raises it by up to 31 MiB. The kernel drops the broker's
cached files, so reads come from the disk. If the broker needs more than the limit, the kernel kills
it with SIGKILL. No written data is lost, because the kernel still writes changed pages to the disk.
The heal removes the limit, and starts a broker that was killed.

The fault does not imitate a machine that swaps.
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
"""The number of attempts to set a limit. Each further attempt raises the limit by one MiB, because
the kernel cannot free dirty pages and used pages at once."""


class LittleMemory:
    """A fault that limits the memory of brokers. The kernel may kill these brokers.

    Args:
        aim: The fault's id and targets.
        site: The run's cluster and hosts. The hosts must be able to limit resources.

    Raises:
        ClusterError: The hosts do not limit resources.
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
        """Return the undo steps: remove the limits, and start the brokers that are down."""
        return self._hit.undo()

    def inject(self) -> None:
        """Set the memory limits.

        Raises:
            ClusterError: A broker already has a limit, or cannot have one.
        """
        self._started_s = stopwatch_s()
        for node in self._hit.each():
            before = self._hit.hosts.memory(node)
            if before.limit_bytes is not None:
                raise ClusterError(f"the broker of {node} already has a memory limit")
            self._before[node] = before
            # A broker that has just started has few cached files, so give it at most half of these.
            room = min(self._room, before.cached_bytes // 2)
            self._limit(node, before.used_bytes - before.cached_bytes + room)

    def confirm(self, patience: Patience) -> MemoryEffect | None:
        """Confirm that each broker lost cached memory, reached its limit, or was killed."""
        now: dict[str, Memory] = {}

        def all_felt_it() -> bool:
            now.update({node: self._hit.hosts.memory(node) for node in self._limits})
            return all(self._feels(node, now[node]) for node in self._limits)

        try:
            wait_until(
                all_felt_it,
                timeout_s=patience.limit_s,
                what="brokers to reach their memory limit",
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
        """Remove the limits, and start the brokers that the kernel killed. Idempotent."""
        self._hit.free(self._before, self._free)

    def confirm_healed(self, patience: Patience) -> FreedEffect | None:
        """Confirm that no limit is left, and that the brokers are registered."""
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
        """Return whether a broker lost cached memory, or did not get memory that it needed."""
        lost = now.used_bytes <= self._limits[node] < self._before[node].used_bytes
        return lost or self._hits(node, now) > 0

    def _hits(self, node: str, now: Memory) -> int:
        return now.hits + now.kills - self._before[node].hits - self._before[node].kills


SAYS = {
    "little-memory": InWords(
        does="a broker gets only 0 to 16 MiB more memory than it needs; the kernel may kill it",
        injected="a limit on its control group (cgroup `memory`)",
        proven=(
            "the kernel evicted cached files, or counted that the broker reached the limit, or"
            " killed the broker"
        ),
        undone="removal of the limit; a start if the broker was killed",
    ),
}
