"""The fault `wipe`: a broker is stopped, its replicas are deleted, and it starts without them.

The effect on the replicas is the same as after a replacement of the disk. The fault deletes all
partition folders and the checkpoints of the log folder (recovery points, high watermarks, log start
offsets, cleaner offsets). It also deletes the marker of a clean shutdown. Because this marker is
missing, KRaft's controllers know that the broker may lack records (KIP-966). `meta.properties`
stays, so that the broker keeps its identity. The metadata log stays too, because a voter without it
would have forgotten its votes. The loss of votes would be another fault, and Kafka does not promise
to survive it. The heal starts the broker, which fetches everything from the leaders again. The
records that no other replica has are lost permanently. The contract judge allows this loss
(`wipe`).
"""

from pathlib import PurePosixPath

from cluster.protocol import ClusterError, Disk, Logs
from nemesis.brokers import GONE, HitBrokers
from nemesis.disk_effects import RefetchedEffect, ReplicaWiped, WipeEffect
from nemesis.in_words import InWords
from nemesis.log_bounds import log_bounds
from nemesis.protocol import Aim, Patience, Site
from nemesis.replicas import unwhole, wait_whole
from nemesis.stop import STOP_LIMIT_S
from nemesis.undo import Restart
from results.record.clock import stopwatch_s

GONE_LIMIT_S = 10.0


class Wipe:
    """A fault that makes brokers start without their logs.

    Args:
        aim: The fault's id and targets.
        site: The run's cluster and hosts. They must be able to stop brokers and delete replicas.

    Raises:
        ClusterError: The disks cannot be accessed.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site) -> None:
        if site.disk_of is None or site.logs is None:
            raise ClusterError("the harness cannot access the disks of this cluster")
        self.targets = aim.targets
        self._site, self._logs = site, site.logs
        self._brokers = HitBrokers(site, aim.targets)
        self._disks = {node: site.disk_of(node) for node in aim.targets}
        self._graceful: list[str] = []
        self._replicas: list[ReplicaWiped] = []
        self._removed: dict[str, tuple[str, ...]] = {}
        self._started_s, self._healed_s = stopwatch_s(), 0.0

    def undo(self) -> tuple[Restart, ...]:
        """Return the undo steps that start the brokers. The brokers fetch the records again."""
        return tuple(Restart(node=node) for node in self.targets)

    def inject(self) -> None:
        """Stop the brokers. When all have ended, delete their replicas."""
        self._started_s = stopwatch_s()
        for node in self.targets:
            if self._site.cluster.stop_node(node, STOP_LIMIT_S):
                self._graceful.append(node)
        if not self._brokers.wait_states(GONE, Patience(limit_s=GONE_LIMIT_S)):
            raise ClusterError(
                f"{', '.join(self.targets)} did not end within {GONE_LIMIT_S:g} s, so nothing was"
                " removed"
            )
        for node, disk in self._disks.items():
            self._replicas += wiped(disk, self._logs)
            self._removed[node] = _without_checkpoints(disk, self._logs)

    def confirm(self, patience: Patience) -> WipeEffect | None:
        """Confirm that the processes have ended, and that no replica is left on the disks."""
        if not self._brokers.wait_states(GONE, patience) or not self._replicas:
            return None
        if any(self._logs.replica_files(disk) for disk in self._disks.values()):
            return None
        return WipeEffect(
            took_s=stopwatch_s() - self._started_s,
            graceful=tuple(self._graceful),
            processes=self._brokers.changes(),
            replicas=tuple(self._replicas),
            removed=self._removed,
        )

    def heal(self) -> None:
        """Start the brokers that are down."""
        self._healed_s = self._healed_s or stopwatch_s()
        self._brokers.note_heal()
        self._brokers.start_missing()

    def confirm_healed(self, patience: Patience) -> RefetchedEffect | None:
        """Confirm that the brokers are registered, and wait until their replicas are in sync.

        If a replica never catches up, this is a bug of the brokers, and `isr-not-restored` reports
        it. So when the brokers are back, the heal counts as confirmed at the time limit.
        """
        deadline_s = stopwatch_s() + patience.limit_s
        back = self._brokers.wait_back(patience)
        if back is None:
            return None
        left_s = max(0.0, deadline_s - stopwatch_s())
        wait_whole(self._site, Patience(limit_s=left_s, stop=patience.stop), self.targets)
        missing = set(unwhole(self._site, self.targets))
        ends = {
            f"{topic}-{partition}": self._log_end(disk, folder)
            for disk in self._disks.values()
            for (topic, partition), folder in self._logs.replica_folders(disk)
        }
        return RefetchedEffect(
            took_s=stopwatch_s() - self._healed_s,
            processes=back.processes,
            refetched=tuple(place for place in ends if place not in missing),
            missing=tuple(sorted(missing)),
            log_ends=ends,
        )

    def _log_end(self, disk: Disk, folder: PurePosixPath) -> int:
        return log_bounds(disk, self._logs.segments(disk, folder), self._logs)[1]


def wiped(disk: Disk, logs: Logs) -> list[ReplicaWiped]:
    """Delete all replicas from the disk of an ended broker. Return a summary of each replica."""
    found = [_measured(disk, place, folder, logs) for place, folder in logs.replica_folders(disk)]
    for folder in sorted({path.parent for path in logs.replica_files(disk)}):
        disk.remove(folder)
    return found


def _measured(
    disk: Disk, place: tuple[str, int], folder: PurePosixPath, logs: Logs
) -> ReplicaWiped:
    files = disk.files(f"{folder}/*")
    start, end = log_bounds(disk, logs.segments(disk, folder), logs)
    return ReplicaWiped(
        topic=place[0],
        partition=place[1],
        log_start=start,
        log_end=end,
        files=len(files),
        bytes_wiped=sum(disk.size(path) for path in files),
    )


def _without_checkpoints(disk: Disk, logs: Logs) -> tuple[str, ...]:
    """Delete the checkpoints of a log folder, and return the names of these files."""
    there = {path.name for path in disk.files(f"{logs.data}/*")}
    removed = tuple(name for name in logs.checkpoints if name in there)
    for name in removed:
        disk.remove(f"{logs.data}/{name}")
    return removed


SAYS = {
    "wipe": InWords(
        does="a broker comes back without its replicas",
        injected="SIGTERM; deletion of all replicas and checkpoints except the metadata log",
        proven="no file of these replicas exists",
        undone="a start; the replicas that are in the ISR again",
        costs="records that no other replica had: lost writes (`wipe`)",
    ),
}
