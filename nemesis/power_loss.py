"""The fault `power-loss`: the broker is gone without a word, and with it what no disk had yet.

Where machines can lose their power (`CanLosePower`), they do: no connection is closed, and what was
not flushed is gone as far as it does not happen to have been written, also within a batch. What
follows is for all others.

SIGKILL alone loses nothing: what was written lies in the kernel's page cache. Here each replica's
log is cut behind its recovery point as well, below which Kafka had flushed it
(`recovery-point-offset-checkpoint`, or as `log.flush.interval.messages` has it, which is on disk
long before the checkpoint says so): a segment behind the point is removed, the one that holds it
is cut at the batch where it lies, and their indexes are removed, as are snapshots of producers
from behind the new end; Kafka makes them again. A real loss of power takes at most this, for the
kernel writes by itself, too, and mostly less.

What is not simulated: the files that Kafka flushes when it writes them stay as they are
(`leader-epoch-checkpoint`, `replication-offset-checkpoint`, `quorum-state`), and so does the
metadata log, whose every append is flushed before it counts. What a flush by time had saved
(`log.flush.interval.ms`) counts from the next checkpoint on. Nothing is torn within a batch.
Healed by a restart.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePosixPath

from cluster.protocol import CanExcuse, CanKill, CanLosePower, ClusterError, Disk, Logs, PowerCut
from nemesis.broker_effects import BackEffect
from nemesis.brokers import GONE, HitBrokers
from nemesis.cluster_effects import Place
from nemesis.disk_effects import PowerLossEffect, ReplicaCut
from nemesis.in_words import InWords
from nemesis.log_bounds import log_bounds
from nemesis.protocol import Aim, Patience, Site
from nemesis.undo import Restart
from results.record.clock import stopwatch_s

GONE_LIMIT_S = 10.0
_MADE_AGAIN = (".index", ".timeindex", ".txnindex")


class PowerLoss:
    """Brokers killed without warning, whose logs end where they were last flushed.

    Args:
        aim: Which fault this is.
        site: Its cluster's brokers are killed, their logs cut.
        places: The partitions whose logs are cut, and no other, on any hosts; None: all that the
            node has.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site, places: Collection[Place] | None = None) -> None:
        if not isinstance(site.cluster, CanKill):
            raise ClusterError("the brokers of this cluster cannot be killed")
        if site.disk_of is None or site.logs is None:
            raise ClusterError("the disks of this cluster are not at hand")
        self.targets = aim.targets
        self._cluster: CanKill = site.cluster
        self._brokers = HitBrokers(site, aim.targets)
        hosts = site.hosts if places is None else None
        self._power = hosts if hosts is not None and isinstance(hosts, CanLosePower) else None
        self._disks = {node: site.disk_of(node) for node in aim.targets}
        self._places, self._logs = places, site.logs
        self._cuts: list[ReplicaCut] = []
        self._started_s = stopwatch_s()

    def undo(self) -> tuple[Restart, ...]:
        """Return the brokers to start again; what was cut is gone."""
        return tuple(Restart(node=node) for node in self.targets)

    def inject(self) -> None:
        """Turn the machines off; or kill the brokers, and when all are gone, cut their logs."""
        self._started_s = stopwatch_s()
        if self._power is not None:
            self._turn_off(self._power)
            return
        for node in self.targets:
            self._cluster.kill_node(node)
        if not self._brokers.wait_states(GONE, Patience(limit_s=GONE_LIMIT_S)):
            raise ClusterError(
                f"{', '.join(self.targets)} did not end within {GONE_LIMIT_S:g} s of SIGKILL: no"
                " log was cut"
            )
        for disk in self._disks.values():
            self._cuts += cut_unflushed(disk, self._places, self._logs)

    def _turn_off(self, hosts: CanLosePower) -> None:
        for node, disk in self._disks.items():
            logs = {
                place: {each: disk.read(each) for each in self._logs.segments(disk, folder)}
                for place, folder in sorted(self._logs.replica_folders(disk))
            }
            if isinstance(self._cluster, CanExcuse):
                self._cluster.excuse_end(node)
            left = hosts.lose_power(node)
            self._cluster.kill_node(node)  # Of whom it shall be known that it is gone.
            self._cuts += [self._cut_by_power(place, log, left) for place, log in logs.items()]

    def confirm(self, patience: Patience) -> PowerLossEffect | None:
        """See that the processes are gone; what was cut from the files is known already."""
        if not self._brokers.wait_states(GONE, patience):
            return None
        return PowerLossEffect(
            took_s=stopwatch_s() - self._started_s,
            processes=self._brokers.changes(),
            replicas=tuple(self._cuts),
        )

    def heal(self) -> None:
        """Start the brokers again, but those that run."""
        self._brokers.note_heal()
        self._brokers.start_missing()

    def confirm_healed(self, patience: Patience) -> BackEffect | None:
        """See that the brokers are registered again."""
        return self._brokers.wait_back(patience)

    def _cut_by_power(
        self,
        place: Place,
        log: Mapping[PurePosixPath, bytes],
        left: Mapping[PurePosixPath, PowerCut],
    ) -> ReplicaCut:
        """Return what a loss of power took from one partition's segments, as they were before."""
        return ReplicaCut(
            topic=place[0],
            partition=place[1],
            recovery_point=_end(self._logs, log, {path: left[path].flushed for path in log}),
            log_end_before=_end(self._logs, log, {path: len(data) for path, data in log.items()}),
            log_end_after=_end(self._logs, log, {path: left[path].kept for path in log}),
            bytes_cut=sum(left[path].lost for path in log),
        )


def _end(logs: Logs, log: Mapping[PurePosixPath, bytes], sizes: Mapping[PurePosixPath, int]) -> int:
    """Return the offset behind the last whole batch, if files have so many bytes."""
    end = 0
    for path, data in sorted(log.items()):
        batches = logs.read(data[: sizes[path]]).batches
        end = batches[-1].end_offset if batches else max(end, int(path.stem))
        if sizes[path] < len(data):
            break  # Nobody who reads this segment gets to those behind it.
    return end


def cut_unflushed(disk: Disk, places: Collection[Place] | None, logs: Logs) -> list[ReplicaCut]:
    """Cut the logs of a broker that is gone behind their recovery points.

    Args:
        disk: The broker's files; its logs are in `data`.
        places: The partitions; None: all.
        logs: Knows the files.

    Returns:
        What was cut of each partition, also where that is nothing.

    Raises:
        ClusterError: A partition that was named is not there.
    """
    points, interval = logs.recovery_points(disk), logs.flush_interval(disk)
    found = dict(logs.replica_folders(disk))
    if absent := sorted(set(places or ()) - found.keys()):
        topic, partition = absent[0]
        raise ClusterError(f"there is no log of {topic}-{partition}")
    cut = _Cutter(disk, logs, interval)
    return [
        cut.cut(folder, place, points.get(place, 0))
        for place, folder in sorted(found.items())
        if places is None or place in places
    ]


def cut_to(disk: Disk, logs: Logs, flushed: Mapping[PurePosixPath, int]) -> list[ReplicaCut]:
    """Cut the logs of a broker that is gone to what of their segments was on disk.

    Nothing is left of a batch that was not there as a whole. A broker that has ended in order does
    not recover: it would append behind what is left.

    Args:
        disk: The broker's files; its logs are in `data`.
        logs: Knows the files.
        flushed: How many bytes of each segment; none: it was not there yet. Partitions of which
            there is none are left alone.

    Returns:
        What was cut of each partition, also where that is nothing.
    """
    cuts = []
    known = {path.parent for path in flushed}
    for place, folder in sorted(logs.replica_folders(disk)):
        segments = logs.segments(disk, folder) if folder in known else []
        if not segments:
            continue
        before = {each: disk.read(each) for each in segments}
        sizes = {each: _whole(logs, before[each], flushed.get(each, 0)) for each in segments}
        ends = [_end(logs, before, {each: len(data) for each, data in before.items()}),
                _end(logs, before, sizes)]  # fmt: skip
        for each in segments:
            if sizes[each] < len(before[each]):
                gone = not sizes[each] and each != segments[0]
                _shorten(disk, each, None if gone else sizes[each])
        _remove_snapshots(disk, folder, ends[1])
        cuts.append(
            ReplicaCut(
                topic=place[0],
                partition=place[1],
                recovery_point=ends[1],
                log_end_before=ends[0],
                log_end_after=ends[1],
                bytes_cut=sum(len(data) - sizes[each] for each, data in before.items()),
            )
        )
    return cuts


def _whole(logs: Logs, data: bytes, size: int) -> int:
    """Return where the last batch ends that a segment's first bytes hold; its size if all do."""
    if size >= len(data):
        return len(data)
    kept, batches = logs.read(data[:size]).batches, logs.read(data).batches
    return batches[len(kept)].position if len(kept) < len(batches) else size


class _Cutter:
    """Cuts logs of one disk; files behind the cut that Kafka makes again go, too.

    Args:
        disk: The broker's files.
        logs: Knows them.
        interval: Of its flushes, in messages; None: it has none.
    """

    def __init__(self, disk: Disk, logs: Logs, interval: int | None) -> None:
        self._disk, self._logs, self._interval = disk, logs, interval

    def cut(self, folder: PurePosixPath, place: Place, point: int) -> ReplicaCut:
        """Cut one partition's segments; the first stays, empty if need be."""
        disk, segments = self._disk, self._logs.segments(self._disk, folder)
        recovery_point = self._flushed_to(segments, point)
        before = after = int(segments[0].stem) if segments else 0
        bytes_cut = 0
        for segment in segments:
            data, base = disk.read(segment), int(segment.stem)
            batches = self._logs.read(data).batches
            behind = [batch for batch in batches if batch.end_offset > recovery_point]
            kept = [batch for batch in batches if batch.end_offset <= recovery_point]
            before = batches[-1].end_offset if batches else max(before, base)
            after = kept[-1].end_offset if kept else after
            if behind:
                bytes_cut += len(data) - behind[0].position
                size = None if segment != segments[0] and not kept else behind[0].position
                _shorten(disk, segment, size)
            elif base > max(recovery_point, after):
                _shorten(disk, segment, None if segment != segments[0] else 0)
        _remove_snapshots(disk, folder, after)
        return ReplicaCut(
            topic=place[0],
            partition=place[1],
            recovery_point=recovery_point,
            log_end_before=before,
            log_end_after=after,
            bytes_cut=bytes_cut,
        )

    def _flushed_to(self, segments: Sequence[PurePosixPath], point: int) -> int:
        """Return below which offset a log is on disk: fewer than an interval's messages are not."""
        if self._interval is None:
            return point
        _, end = log_bounds(self._disk, segments, self._logs)
        return max(point, end - self._interval + 1)


def _shorten(disk: Disk, segment: PurePosixPath, size: int | None) -> None:
    """Cut a segment to its first bytes, None: remove it; what Kafka makes again goes, too."""
    for suffix in _MADE_AGAIN:
        disk.remove(segment.with_suffix(suffix))
    if size is None:
        disk.remove(segment)
    else:
        disk.truncate(segment, size)


def _remove_snapshots(disk: Disk, folder: PurePosixPath, log_end: int) -> None:
    """Remove what is known of producers from records that are gone."""
    for path in disk.files(f"{folder}/*.snapshot"):
        if path.stem.isdecimal() and int(path.stem) > log_end:
            disk.remove(path)


SAYS = {
    "power-loss": InWords(
        does="brokers are gone, and with them what was never flushed",
        injected="SIGKILL, then each log is cut at its recovery point",
        proven="the process is gone; each log's end before and after",
        undone="as `kill`",
        costs="lost writes that every replica held in memory only (`power-loss`)",
    ),
}
