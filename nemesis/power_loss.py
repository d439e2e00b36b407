"""The fault `power-loss`: the broker is gone without a word, and with it what no disk had yet.

SIGKILL alone loses nothing: what was written lies in the kernel's page cache. Here each replica's
log is cut behind its recovery point as well, below which Kafka had flushed it
(`recovery-point-offset-checkpoint`): a segment behind the point is removed, the one that holds it
is cut at the batch where it lies, and their indexes are removed, as are snapshots of producers
from behind the new end; Kafka makes them again. A real loss of power takes at most this, for the
kernel writes by itself, too, and mostly less.

What is not simulated: the files that Kafka flushes when it writes them stay as they are
(`leader-epoch-checkpoint`, `replication-offset-checkpoint`, `quorum-state`), and so does the
metadata log, whose every append is flushed before it counts. Nothing is torn within a batch.
Healed by a restart.
"""

from collections.abc import Collection, Iterator
from pathlib import Path

from cluster.files.batches import read_segment
from cluster.files.checkpoints import offset_checkpoint
from cluster.protocol import CanKill, ClusterError
from nemesis.brokers import GONE, HitBrokers
from nemesis.effects import BackEffect, PowerLossEffect, ReplicaCut
from nemesis.protocol import Aim, Patience, Site
from nemesis.undo import Restart
from results.record.clock import stopwatch_s

Place = tuple[str, int]
"""A topic and a partition of it."""

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
GONE_LIMIT_S = 10.0
METADATA_LOG = "__cluster_metadata"
_MADE_AGAIN = (".index", ".timeindex", ".txnindex")


class PowerLoss:
    """Brokers killed without warning, whose logs end where they were last flushed.

    Args:
        aim: Which fault this is.
        site: Its cluster's brokers are killed, their logs cut.
        places: The partitions whose logs are cut; None: all that the node has.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site, places: Collection[Place] | None = None) -> None:
        if not isinstance(site.cluster, CanKill):
            raise ClusterError("the brokers of this cluster cannot be killed")
        if site.data_of is None:
            raise ClusterError("the disks of this cluster are not at hand")
        self.targets = aim.targets
        self._cluster: CanKill = site.cluster
        self._brokers = HitBrokers(site, aim.targets)
        self._folders = {node: site.data_of(node) for node in aim.targets}
        self._places = places
        self._cuts: list[ReplicaCut] = []
        self._started_s = stopwatch_s()

    def undo(self) -> tuple[Restart, ...]:
        """Return the brokers to start again; what was cut is gone."""
        return tuple(Restart(node=node) for node in self.targets)

    def inject(self) -> None:
        """Kill the brokers; when all are gone, cut their logs."""
        self._started_s = stopwatch_s()
        for node in self.targets:
            self._cluster.kill_node(node)
        if not self._brokers.wait_states(GONE, Patience(limit_s=GONE_LIMIT_S)):
            raise ClusterError(
                f"{', '.join(self.targets)} did not end within {GONE_LIMIT_S:g} s of SIGKILL: no"
                " log was cut"
            )
        for folder in self._folders.values():
            self._cuts += cut_unflushed(folder, self._places)

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


def cut_unflushed(data: Path, places: Collection[Place] | None) -> list[ReplicaCut]:
    """Cut the logs of a broker that is gone behind their recovery points.

    Args:
        data: The broker's log folder.
        places: The partitions; None: all.

    Returns:
        What was cut of each partition, also where that is nothing.

    Raises:
        ClusterError: A partition that was named is not there.
    """
    path = data / RECOVERY_POINTS
    points = offset_checkpoint(path.read_text(encoding="utf-8")) if path.exists() else {}
    found = dict(_partitions(data))
    if absent := sorted(set(places or ()) - found.keys()):
        topic, partition = absent[0]
        raise ClusterError(f"there is no log of {topic}-{partition} in {data}")
    return [
        _cut_log(folder, place, points.get(place, 0))
        for place, folder in sorted(found.items())
        if places is None or place in places
    ]


def _partitions(data: Path) -> Iterator[tuple[Place, Path]]:
    for folder in data.iterdir():
        topic, _, partition = folder.name.rpartition("-")
        if folder.is_dir() and topic and partition.isdecimal() and topic != METADATA_LOG:
            yield (topic, int(partition)), folder


def _cut_log(folder: Path, place: Place, recovery_point: int) -> ReplicaCut:
    """Cut one partition's segments; the first stays, empty if need be."""
    segments = sorted(path for path in folder.glob("*.log") if path.stem.isdecimal())
    before = after = int(segments[0].stem) if segments else 0
    bytes_cut = 0
    for segment in segments:
        data, base = segment.read_bytes(), int(segment.stem)
        batches = read_segment(data).batches
        behind = [batch for batch in batches if batch.end_offset > recovery_point]
        kept = [batch for batch in batches if batch.end_offset <= recovery_point]
        before = batches[-1].end_offset if batches else max(before, base)
        after = kept[-1].end_offset if kept else after
        if behind:
            bytes_cut += len(data) - behind[0].position
            _shorten(segment, behind[0].position, remove=segment != segments[0] and not kept)
        elif base > max(recovery_point, after):
            _shorten(segment, 0, remove=segment != segments[0])
    _remove_snapshots(folder, after)
    return ReplicaCut(
        topic=place[0],
        partition=place[1],
        recovery_point=recovery_point,
        log_end_before=before,
        log_end_after=after,
        bytes_cut=bytes_cut,
    )


def _shorten(segment: Path, size: int, *, remove: bool) -> None:
    for suffix in _MADE_AGAIN:
        segment.with_suffix(suffix).unlink(missing_ok=True)
    if remove:
        segment.unlink()
        return
    with segment.open("r+b") as file:
        file.truncate(size)


def _remove_snapshots(folder: Path, log_end: int) -> None:
    """Remove what is known of producers from records that are gone."""
    for path in folder.glob("*.snapshot"):
        if path.stem.isdecimal() and int(path.stem) > log_end:
            path.unlink()
