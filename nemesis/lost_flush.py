"""The fault `lost-flush`: a disk confirms flushes without doing them, and then loses power.

A disk with a volatile cache that ignores flushes acts like this. At its start, the fault really
flushes all segments of the broker. From then on, each flush of a segment is confirmed and dropped.
Then the broker is stopped in order. Kafka flushes all logs and notes a clean shutdown, so it does
no recovery at its next start. A broker that does not end within 20 s is killed. Then the fault
truncates each log that existed at the start. Only the data that was flushed at the start remains,
without the data that the broker truncated later.

The new end of a log may be below the recovery point. The broker is started on these logs. Other
in-sync replicas, if any, have the lost records. Kafka does not promise to keep records that every
replica lost in this way (`power-loss`).

Four things are not simulated. Flushes of the metadata log and of checkpoints are real, because a
voter that loses its votes breaks an assumption of Raft. Flushes of segments that a log cleaner has
rewritten are real. No batch is torn. The fault deletes the indexes of truncated data, and Kafka
rebuilds them.
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
"""The name of the hosts' counter of segment flushes that were confirmed but not done."""
WRITES_S = (1.0, 4.0)
"""For how many seconds the brokers write data that will be lost: minimum and maximum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostFlushEffect:
    """Brokers whose disk lost data that it had confirmed as flushed.

    Attributes:
        graceful: Nodes whose broker ended by itself within the limit. The other targets were killed
            later.
        processes: The broker processes that were stopped.
        flushes: For each node, the number of segment flushes that were confirmed but not done.
        replicas: The loss of each log. `recovery_point` is the offset that was really flushed.
    """

    took_s: float
    graceful: tuple[str, ...]
    processes: tuple[ProcessChange, ...]
    flushes: dict[str, int]
    replicas: tuple[ReplicaCut, ...]

    @property
    def told(self) -> str:
        """Return the measurement as a sentence."""
        lost = sum(each.log_end_before - each.log_end_after for each in self.replicas)
        logs = sum(each.bytes_cut > 0 for each in self.replicas)
        size = sum(each.bytes_cut for each in self.replicas)
        flushes = ", ".join(f"{count} flushes on {node}" for node, count in self.flushes.items())
        records = f"{lost} records of {logs} logs ({size} bytes)"
        return f"{flushes} were confirmed but not done; this lost {records}"


class LostFlush:
    """A fault that stops brokers in order, and truncates their logs to the really flushed data.

    Args:
        aim: The fault's id and targets.
        site: The run's cluster and hosts. The hosts can drop flushes, and the brokers' files can be
            accessed.

    Raises:
        ClusterError: The hosts or the cluster cannot do what the fault needs.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site) -> None:
        if not isinstance(site.cluster, CanKill):
            raise ClusterError("the brokers of this cluster cannot be killed")
        if site.hosts is None or not isinstance(site.hosts, CanFaultDisk):
            raise ClusterError("these hosts cannot make disks drop flushes")
        if site.disk_of is None or site.logs is None:
            raise ClusterError("the harness cannot access the disks of this cluster")
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
        """Return the undo steps: repair the disks and start the brokers. Lost data stays lost."""
        disks = tuple(MendDisk(node=node) for node in self.targets)
        return (*disks, *(Restart(node=node) for node in self.targets))

    def inject(self) -> None:
        """Drop flushes for a while, stop the brokers, and truncate logs to the flushed data.

        Raises:
            ClusterError: A broker does not end. In this case no disk loses data.
        """
        self._started_s = stopwatch_s()
        for node in self.targets:
            # Leave out the metadata log, because Raft assumes that voters do not forget.
            found = self._logs.replica_folders(self._disks[node])
            folders = [folder.name for _, folder in found]
            self._faulty.fault_disk(node, "lost", ("fsync",), folders=folders)
        pause_until(stopwatch_s() + self._writes_s, self._stop)
        for node in self.targets:
            if self._site.cluster.stop_node(node, STOP_LIMIT_S):
                self._graceful.append(node)
        if not self._brokers.wait_states(GONE, Patience(limit_s=GONE_LIMIT_S)):
            raise ClusterError(f"{', '.join(self.targets)} did not exit, so no log was truncated")
        for node, disk in self._disks.items():
            self._flushes[node] = self._faulty.disk_counts(node).get(LOST, 0)
            self._cuts += cut_to(disk, self._logs, self._faulty.flushed(node))

    def confirm(self, patience: Patience) -> LostFlushEffect | None:
        """Confirm that logs are shorter. The effect also has the number of dropped flushes.

        Return None if no log is shorter. The number of flushes does not count as proof, because a
        broker that had to be killed may not have flushed any data.
        """
        del patience  # No wait is needed: the brokers ended before the logs were truncated.
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
        """Make flushes real again, and start the brokers that are down."""
        self._brokers.note_heal()
        on_each(self.targets, self._mend)

    def confirm_healed(self, patience: Patience) -> BackEffect | None:
        """Confirm that flushes are real, and that the brokers are registered again."""
        return self._brokers.wait_back(patience) if all(map(self._is_true, self.targets)) else None

    def _mend(self, node: str) -> None:
        self._faulty.mend_disk(node)
        self._brokers.start_missing([node])

    def _is_true(self, node: str) -> bool:
        """Repair a node's disk, flush its files, and return whether all flushes were done."""
        before = self._faulty.disk_counts(node).get(LOST, 0)
        self._faulty.mend_disk(node)
        return self._faulty.disk_counts(node).get(LOST, 0) == before


SAYS = {
    "lost-flush": InWords(
        does="a broker is stopped cleanly and loses data whose flush the disk had confirmed",
        injected="a file system (FUSE) below the node's data; SIGTERM; each log is truncated",
        proven=(
            "each log's end offset before and after; the file system also counts the dropped"
            " flushes"
        ),
        undone="flushes take effect again; as `kill`",
        costs="records that every replica lost by dropped flushes: lost writes (`power-loss`)",
    ),
}
