"""The fault `power-loss`: the broker is killed, and all data that was not yet on disk is lost.

If the hosts can cut a machine's power (`CanLosePower`), the fault uses that. No connection is
closed. Data that was not flushed is lost, unless the kernel had written it already. The loss can
begin within a batch. The rest of this text is about hosts that cannot cut the power.

SIGKILL alone loses nothing, because the written data is in the kernel's page cache. So the fault
also truncates each replica's log to its recovery point. Kafka had flushed the log up to this point.
The recovery point comes from `recovery-point-offset-checkpoint`, or from
`log.flush.interval.messages`. With this setting, Kafka flushes data long before the checkpoint
shows it. Segments after the recovery point are deleted. The segment that contains the recovery
point is truncated before the batch with this offset. The indexes of these segments, and the
producer snapshots after the new log end, are deleted, too. Kafka rebuilds them. A real power loss
loses at most this data, and usually less, because the kernel also writes data by itself.

Some effects are not simulated. Files that Kafka flushes at each write stay as they are
(`leader-epoch-checkpoint`, `replication-offset-checkpoint`, `quorum-state`). The metadata log
stays, too, because each append is flushed before it counts. Data that is flushed by time
(`log.flush.interval.ms`) counts as flushed only after the next checkpoint. No batch is torn. The
heal restarts the broker.
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
    """A fault that kills brokers, and truncates their logs to the last flush.

    Args:
        aim: The fault's id and targets.
        site: The run's cluster and hosts. The fault kills brokers and truncates their logs.
        places: If given, the fault truncates only the logs of these partitions, and never cuts the
            power. None means all partitions of the node.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site, places: Collection[Place] | None = None) -> None:
        if not isinstance(site.cluster, CanKill):
            raise ClusterError("the brokers of this cluster cannot be killed")
        if site.disk_of is None or site.logs is None:
            raise ClusterError("the harness cannot access the disks of this cluster")
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
        """Return undo steps that start the brokers. Truncated data stays lost."""
        return tuple(Restart(node=node) for node in self.targets)

    def inject(self) -> None:
        """Turn the machines off. If that is impossible, kill brokers and truncate their logs."""
        self._started_s = stopwatch_s()
        if self._power is not None:
            self._turn_off(self._power)
            return
        for node in self.targets:
            self._cluster.kill_node(node)
        if not self._brokers.wait_states(GONE, Patience(limit_s=GONE_LIMIT_S)):
            raise ClusterError(
                f"{', '.join(self.targets)} did not end within {GONE_LIMIT_S:g} s of SIGKILL, so"
                " no log was truncated"
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
            self._cluster.kill_node(node)  # Tell the cluster that the broker has ended.
            self._cuts += [self._cut_by_power(place, log, left) for place, log in logs.items()]

    def confirm(self, patience: Patience) -> PowerLossEffect | None:
        """Confirm that the processes have ended. The loss of each log is already known."""
        if not self._brokers.wait_states(GONE, patience):
            return None
        return PowerLossEffect(
            took_s=stopwatch_s() - self._started_s,
            processes=self._brokers.changes(),
            replicas=tuple(self._cuts),
        )

    def heal(self) -> None:
        """Start the brokers that are down."""
        self._brokers.note_heal()
        self._brokers.start_missing()

    def confirm_healed(self, patience: Patience) -> BackEffect | None:
        """Confirm that the brokers are registered again."""
        return self._brokers.wait_back(patience)

    def _cut_by_power(
        self,
        place: Place,
        log: Mapping[PurePosixPath, bytes],
        left: Mapping[PurePosixPath, PowerCut],
    ) -> ReplicaCut:
        """Return the loss of one partition: compare its old segments with the remaining files."""
        return ReplicaCut(
            topic=place[0],
            partition=place[1],
            recovery_point=_end(self._logs, log, {path: left[path].flushed for path in log}),
            log_end_before=_end(self._logs, log, {path: len(data) for path, data in log.items()}),
            log_end_after=_end(self._logs, log, {path: left[path].kept for path in log}),
            bytes_cut=sum(left[path].lost for path in log),
        )


def _end(logs: Logs, log: Mapping[PurePosixPath, bytes], sizes: Mapping[PurePosixPath, int]) -> int:
    """Return the offset after the last complete batch, given each file's size in bytes."""
    end = 0
    for path, data in sorted(log.items()):
        batches = logs.read(data[: sizes[path]]).batches
        end = batches[-1].end_offset if batches else max(end, int(path.stem))
        if sizes[path] < len(data):
            break  # A reader of this segment stops here, before later segments.
    return end


def cut_unflushed(disk: Disk, places: Collection[Place] | None, logs: Logs) -> list[ReplicaCut]:
    """Truncate the logs of an ended broker to their recovery points.

    Args:
        disk: The broker's files. Its logs are in `data`.
        places: The partitions. None for all.
        logs: The reader of the log files.

    Returns:
        The loss of each partition, including partitions without a loss.

    Raises:
        ClusterError: A named partition does not exist, or the checkpoint cannot be read.
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
    """Truncate the logs of an ended broker to the part that was on disk.

    An incomplete batch is removed as a whole. Otherwise a broker that was stopped cleanly would
    append after the incomplete batch, because it does no recovery.

    Args:
        disk: The broker's files. Its logs are in `data`.
        logs: The reader of the log files.
        flushed: For each segment, the number of flushed bytes. A segment that is missing here did
            not exist at the flush. A partition of which no segment is listed here is not changed.

    Returns:
        The loss of each partition, including partitions without a loss.
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
    """Return the end of the last complete batch in the first `size` bytes of a segment.

    If the whole file is within these bytes, return the file's size.
    """
    if size >= len(data):
        return len(data)
    kept, batches = logs.read(data[:size]).batches, logs.read(data).batches
    return batches[len(kept)].position if len(kept) < len(batches) else size


class _Cutter:
    """Truncates logs on one disk, and deletes later files that Kafka rebuilds.

    Args:
        disk: The broker's files.
        logs: The reader of the log files.
        interval: The flush interval in messages. None means that no such interval is set.
    """

    def __init__(self, disk: Disk, logs: Logs, interval: int | None) -> None:
        self._disk, self._logs, self._interval = disk, logs, interval

    def cut(self, folder: PurePosixPath, place: Place, point: int) -> ReplicaCut:
        """Truncate one partition's segments. The first segment stays, even if it becomes empty."""
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
        """Return the offset up to which a log was flushed.

        The offset comes from the checkpoint, or from the flush interval if that gives a higher
        offset.
        """
        if self._interval is None:
            return point
        _, end = log_bounds(self._disk, segments, self._logs)
        return max(point, end - self._interval + 1)


def _shorten(disk: Disk, segment: PurePosixPath, size: int | None) -> None:
    """Truncate a segment, or delete it if `size` is None. Delete its index files."""
    for suffix in _MADE_AGAIN:
        disk.remove(segment.with_suffix(suffix))
    if size is None:
        disk.remove(segment)
    else:
        disk.truncate(segment, size)


def _remove_snapshots(disk: Disk, folder: PurePosixPath, log_end: int) -> None:
    """Delete snapshots of producer state that cover lost records."""
    for path in disk.files(f"{folder}/*.snapshot"):
        if path.stem.isdecimal() and int(path.stem) > log_end:
            disk.remove(path)


SAYS = {
    "power-loss": InWords(
        does="brokers are killed and lose all unflushed data",
        injected=(
            "SIGKILL; then each log is truncated to its recovery point (in virtual time: the"
            " machine loses power)"
        ),
        proven="the process has ended; each log's end offset before and after",
        undone="like `kill`",
        costs="records that no replica had flushed: lost writes (`power-loss`)",
    ),
}
