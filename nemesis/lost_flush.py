"""The fault `lost-flush`: a disk says that it has flushed and has not, and then loses its power.

As of a disk with a volatile cache that ignores its flushes. From the beginning on each flush of a
partition's segment is answered and dropped. The broker is then stopped in order: Kafka flushes
every log, and notes that it ended cleanly, so that it recovers nothing when it starts. Then what
was not on disk when the fault began, or was truncated and written again since, is cut off, also
below the recovery point, and the broker is started on that. Others of the ISR have what it lost;
what every replica lost in the same way was never promised (`power-loss`).

What is not simulated: flushes of the metadata log and of checkpoints are true, because a voter that
forgets breaks what Raft presumes; nothing is torn within a batch; and indexes behind the cut go,
which Kafka makes again.
"""

from dataclasses import dataclass

from cluster.protocol import CanFaultDisk, CanKill, ClusterError, Disk
from nemesis.broker_effects import BackEffect, ProcessChange
from nemesis.brokers import GONE, HitBrokers, on_each
from nemesis.disk_effects import ReplicaCut
from nemesis.in_words import InWords
from nemesis.power_loss import cut_to
from nemesis.protocol import Aim, Patience, Site
from nemesis.stop import STOP_LIMIT_S
from nemesis.undo import MendDisk, Restart
from results.record.clock import pause_until, stopwatch_s

GONE_LIMIT_S = 10.0
LOST = "lost fsync"
"""How hosts count flushes of segments that were answered and not done."""
WRITES_S = (1.0, 4.0)
"""So long brokers write what will be lost, before they are stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostFlushEffect:
    """Brokers whose disk lost what it had said was flushed.

    Attributes:
        graceful: Nodes that ended by themselves within the limit; others were killed after it.
        processes: The brokers that were stopped.
        flushes: By node: how many flushes of segments were answered and not done.
        replicas: What that took of each log; `recovery_point` is what was flushed in truth.
    """

    took_s: float
    graceful: tuple[str, ...]
    processes: tuple[ProcessChange, ...]
    flushes: dict[str, int]
    replicas: tuple[ReplicaCut, ...]

    @property
    def told(self) -> str:
        """What was measured."""
        lost = sum(each.log_end_before - each.log_end_after for each in self.replicas)
        logs = sum(each.bytes_cut > 0 for each in self.replicas)
        size = sum(each.bytes_cut for each in self.replicas)
        flushes = ", ".join(f"{count} flushes of {node}" for node, count in self.flushes.items())
        records = f"{lost} records of {logs} logs ({size} bytes)"
        return f"{flushes} were answered and lost, and with them {records}"


class LostFlush:
    """Brokers that were stopped in order, and whose logs end where they were flushed in truth.

    Args:
        aim: Which fault this is.
        site: Its hosts lose flushes, and its brokers' files are at hand.

    Raises:
        ClusterError: They do not, or are not.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site) -> None:
        if not isinstance(site.cluster, CanKill):
            raise ClusterError("the brokers of this cluster cannot be killed")
        if site.hosts is None or not isinstance(site.hosts, CanFaultDisk):
            raise ClusterError("these hosts have no disks that lose flushes")
        if site.disk_of is None or site.logs is None:
            raise ClusterError("the disks of this cluster are not at hand")
        self.targets = aim.targets
        self._site, self._stop, self._logs = site, aim.stop, site.logs
        self._faulty: CanFaultDisk = site.hosts
        self._brokers = HitBrokers(site, aim.targets)
        self._disks: dict[str, Disk] = {node: site.disk_of(node) for node in aim.targets}
        self._writes_s = aim.rng.uniform(*WRITES_S)
        self._graceful: list[str] = []
        self._flushes: dict[str, int] = {}
        self._cuts: list[ReplicaCut] = []
        self._started_s = stopwatch_s()

    def undo(self) -> tuple[MendDisk | Restart, ...]:
        """Return the disks to mend, and the brokers to start again; what was cut is gone."""
        disks = tuple(MendDisk(node=node) for node in self.targets)
        return (*disks, *(Restart(node=node) for node in self.targets))

    def inject(self) -> None:
        """Lose flushes for a while, stop the brokers, and cut what was not flushed.

        Raises:
            ClusterError: A broker does not end, and its disk then loses nothing.
        """
        self._started_s = stopwatch_s()
        for node in self.targets:
            # The metadata log is none of these: a voter that forgets breaks what Raft presumes.
            found = self._logs.replica_folders(self._disks[node])
            folders = [folder.name for _, folder in found]
            self._faulty.fault_disk(node, "lost", ("fsync",), folders=folders)
        pause_until(stopwatch_s() + self._writes_s, self._stop)
        for node in self.targets:
            if self._site.cluster.stop_node(node, STOP_LIMIT_S):
                self._graceful.append(node)
        if not self._brokers.wait_states(GONE, Patience(limit_s=GONE_LIMIT_S)):
            raise ClusterError(f"{', '.join(self.targets)} did not end: no log was cut")
        for node, disk in self._disks.items():
            self._flushes[node] = self._faulty.disk_counts(node).get(LOST, 0)
            self._cuts += cut_to(disk, self._logs, self._faulty.flushed(node))

    def confirm(self, patience: Patience) -> LostFlushEffect | None:
        """See that logs are shorter; how many flushes were lost is in the effect.

        None means that no log is, wherever that was: by that it is judged. A broker that was killed
        at last may have asked for no flush.
        """
        del patience  # Nothing is waited for: the brokers ended before anything was cut.
        if not any(each.bytes_cut for each in self._cuts):
            return None
        return LostFlushEffect(
            took_s=stopwatch_s() - self._started_s,
            graceful=tuple(self._graceful),
            processes=self._brokers.changes(),
            flushes=dict(self._flushes),
            replicas=tuple(self._cuts),
        )

    def heal(self) -> None:
        """Have flushes be true again, and start the brokers, but those that run."""
        self._brokers.note_heal()
        on_each(self.targets, self._mend)

    def confirm_healed(self, patience: Patience) -> BackEffect | None:
        """See that no flush is lost any more, and that the brokers are registered again."""
        return self._brokers.wait_back(patience) if all(map(self._is_true, self.targets)) else None

    def _mend(self, node: str) -> None:
        self._faulty.mend_disk(node)
        self._brokers.start_missing([node])

    def _is_true(self, node: str) -> bool:
        """Flush each file of a node; tell whether none of that was lost."""
        before = self._faulty.disk_counts(node).get(LOST, 0)
        self._faulty.mend_disk(node)
        return self._faulty.disk_counts(node).get(LOST, 0) == before


SAYS = {
    "lost-flush": InWords(
        does="a broker is stopped in order, and what its disk said was flushed is gone",
        injected="a file system (FUSE) below the node's data; SIGTERM; each log is cut",
        proven="the file system counts the flushes; each log's end before and after",
        undone="flushes are true; as `kill`",
        costs="lost writes that every replica lost so (`power-loss`)",
    ),
}
