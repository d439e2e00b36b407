"""The fault `bit-flip`: one bit of a record batch on a broker's disk is flipped.

The fault stops the broker, flips the bit, and starts the broker again. So the broker then runs with
a damaged log. The effect depends on how the broker was stopped. The fault chooses this at random:

- After a kill, the broker recovers its logs at its start. It reads all segments from the recovery
  point on. It finds that the batch does not match its CRC, truncates the log at this batch, and
  fetches the rest from the leader again. It does not read older segments.
- After a clean stop (`latent`), the broker checks nothing at its start. The damage stays unnoticed
  until a reader reads the batch. The consumers of Kafka and of Logquake check the CRC
  (`check.crcs`), and so do the followers. If the damaged replica is the leader, its followers stop
  before that batch, so the damage does not spread. Some brokers read all of their logs at each
  start, and would refuse to start. The fault always kills such brokers.

The fault prefers a partition that the broker follows. In this partition, it prefers a batch that
the broker checks after a kill. It chooses a batch of an older segment only if the partition has no
other batch. The heal flips the bit back where the batch still exists.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import PurePosixPath
from random import Random

from cluster.protocol import Batch, CanKill, ClusterError, Disk, Logs, ReadsAllAtStart
from nemesis.bits import HEADER_BYTES, put_right, turn_over
from nemesis.broker_effects import BackEffect
from nemesis.brokers import GONE, HitBrokers, wait_again
from nemesis.cluster_effects import Place
from nemesis.disk_effects import BitFlipEffect, BitsRightEffect, FlippedBit
from nemesis.in_words import InWords
from nemesis.log_bounds import log_bounds
from nemesis.protocol import Aim, Patience, Site
from nemesis.stop import STOP_LIMIT_S
from nemesis.undo import FlipBack, Restart
from results.record.clock import WaitTimeoutError, stopwatch_s, wait_until

GONE_LIMIT_S = 10.0
BACK_LIMIT_S = 60.0
_MAGIC = 2


class BitFlip:
    """A fault that makes brokers run with a flipped bit in a log.

    Args:
        aim: The fault's id and targets. Each target gets a flipped bit.
        site: The run's cluster and hosts. The brokers are restarted.

    Raises:
        ClusterError: The disks cannot be accessed, or have no suitable batch. Or the brokers cannot
            be killed, or a target has no broker process.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site) -> None:
        if site.disk_of is None or site.logs is None:
            raise ClusterError("the harness cannot access the disks of this cluster")
        if not isinstance(site.cluster, CanKill):
            raise ClusterError("the brokers of this cluster cannot be killed")
        self.targets = aim.targets
        self._site, self._stop, self._logs = site, aim.stop, site.logs
        self._killer: CanKill = site.cluster
        looks = isinstance(site.cluster, ReadsAllAtStart) and site.cluster.reads_all_at_start
        self._latent = aim.rng.random() < 0.5 and not looks  # noqa: PLR2004 - a coin
        self._brokers = HitBrokers(site, aim.targets)
        self._disks = {node: site.disk_of(node) for node in aim.targets}
        self._flips = [
            chosen_bit(node, disk, led=_led(site, node), rng=aim.rng, logs=site.logs)
            for node, disk in self._disks.items()
        ]
        self._found: list[str] = []
        self._flipped_back: list[str] = []
        self._started_s = self._restarted_s = stopwatch_s()

    def undo(self) -> tuple[Restart | FlipBack, ...]:
        """Return the undo steps: flip the bits back, and start the brokers that are down."""
        restarts = tuple(Restart(node=node) for node in self.targets)
        return (*(flip_back(flip) for flip in self._flips), *restarts)

    def inject(self) -> None:
        """Stop the brokers, flip the bits, and start the brokers.

        Raises:
            ClusterError: A batch no longer exists, or a broker does not end or does not come back.
        """
        self._started_s = stopwatch_s()
        for node in self.targets:
            if self._latent:
                self._site.cluster.stop_node(node, STOP_LIMIT_S)
            else:
                self._killer.kill_node(node)
        if not self._brokers.wait_states(GONE, Patience(limit_s=GONE_LIMIT_S)):
            raise ClusterError(f"{', '.join(self.targets)} did not exit, so no bit was flipped")
        # The brokers have stopped writing. They may have appended records since the bit was chosen,
        # so measure the end of the log again.
        self._flips = [self._measured_again(flip) for flip in self._flips]
        for flip in self._flips:
            self._found.append(turn_over(self._disks[flip.node], flip_back(flip), self._logs))
        self._restarted_s = stopwatch_s()
        for node in self.targets:
            self._site.cluster.start_node(node)
        # A broker has done its start-up reads only when it is back. An earlier heal would flip
        # the bit back before the broker could read it.
        for node in self.targets:
            try:
                wait_again(self._site, node, Patience(limit_s=BACK_LIMIT_S, stop=self._stop))
            except WaitTimeoutError as late:
                raise ClusterError(str(late)) from late

    def confirm(self, patience: Patience) -> BitFlipEffect | None:
        """Confirm that each damaged batch had a wrong CRC before its broker was started again."""
        if not self._brokers.wait_states(GONE, patience) or not self._found:
            return None
        return BitFlipEffect(
            took_s=stopwatch_s() - self._started_s,
            latent=self._latent,
            processes=self._brokers.changes(),
            flips=tuple(self._flips),
            found=tuple(self._found),
            ran_s=stopwatch_s() - self._restarted_s,
        )

    def heal(self) -> None:
        """Flip back each bit that is still flipped, and start the brokers that are down."""
        self._brokers.note_heal()
        for flip in self._flips:
            if put_right(self._disks[flip.node], flip_back(flip), self._logs):
                self._flipped_back.append(f"{flip.topic}-{flip.partition}")
        self._brokers.start_missing()

    def confirm_healed(self, patience: Patience) -> BitsRightEffect | None:
        """Confirm that the brokers are back, and that the damaged logs match all their CRCs."""
        deadline_s = stopwatch_s() + patience.limit_s
        back = self._brokers.wait_back(patience)
        if back is None:
            return None
        left = Patience(limit_s=max(0.1, deadline_s - stopwatch_s()), stop=patience.stop)
        try:
            sound = wait_until(
                self._sound_batches,
                timeout_s=left.limit_s,
                what="every batch to match its CRC",
                stop=left.stop,
            )
        except WaitTimeoutError:
            return None
        return self._right(back, sound)

    def _right(self, back: BackEffect, sound: int) -> BitsRightEffect:
        places = [f"{flip.topic}-{flip.partition}" for flip in self._flips]
        return BitsRightEffect(
            took_s=back.took_s,
            processes=back.processes,
            flipped_back=tuple(self._flipped_back),
            gone=tuple(place for place in places if place not in self._flipped_back),
            sound=sound - 1,
        )

    def _sound_batches(self) -> int:
        """Return one plus the number of batches in the damaged logs; 0 if a batch has a wrong CRC.

        So the result is not 0 for an empty log, which is intact, too.
        """
        count = 1
        for flip in self._flips:
            disk = self._disks[flip.node]
            for path in self._logs.segments(disk, PurePosixPath(flip.segment).parent):
                segment = self._logs.read(disk.read(path))
                # A running broker is writing, so its last batch may be incomplete.
                if len(segment.damage) > segment.torn:
                    return 0
                count += len(segment.batches)
        return count

    def _measured_again(self, flip: FlippedBit) -> FlippedBit:
        disk = self._disks[flip.node]
        segments = self._logs.segments(disk, PurePosixPath(flip.segment).parent)
        return replace(flip, log_end=log_bounds(disk, segments, self._logs)[1])


def flip_back(flip: FlippedBit) -> FlipBack:
    """Return the undo step of a flipped bit."""
    return FlipBack(
        node=flip.node,
        segment=flip.segment,
        position=flip.position,
        byte=flip.byte,
        bit=flip.bit,
        base_offset=flip.base_offset,
    )


def chosen_bit(
    node: str, disk: Disk, *, led: Collection[Place], rng: Random, logs: Logs
) -> FlippedBit:
    """Choose a bit in a node's logs at random.

    Args:
        node: The node.
        disk: The node's files. The broker may be running.
        led: Partitions that the node leads. Other partitions are preferred.
        rng: The source of random choices.
        logs: The reader of the log files.

    Raises:
        ClusterError: There is no suitable batch.
    """
    points = logs.recovery_points(disk)
    segments = {
        place: logs.segments(disk, folder)
        for place, folder in logs.replica_folders(disk)
        if not place[0].startswith("__")  # Internal topics of Kafka have no values of the run.
    }
    found = {place: each for place, each in segments.items() if any(_batches(disk, each, logs))}
    if not found:
        raise ClusterError(f"no log of {node} has a batch whose bit can be flipped")
    place = rng.choice(sorted(set(found) - set(led)) or sorted(found))
    chosen, point = found[place], points.get(place, 0)
    candidates = list(_batches(disk, chosen, logs))
    looked_at = [each for each in candidates if _end_of(each[0], chosen) > point]
    segment, batch = rng.choice(looked_at or candidates)
    byte = batch.position + HEADER_BYTES + rng.randrange(len(batch.body))
    return FlippedBit(
        node=node,
        topic=place[0],
        partition=place[1],
        segment=str(segment),
        position=batch.position,
        byte=byte,
        bit=rng.randrange(8),
        base_offset=batch.base_offset,
        end_offset=batch.end_offset,
        log_end=log_bounds(disk, chosen, logs)[1],
        recovery_point=point,
    )


def _batches(
    disk: Disk, segments: Collection[PurePosixPath], logs: Logs
) -> Iterator[tuple[PurePosixPath, Batch]]:
    """Yield the batches of clients' records in the current message format."""
    for path in segments:
        for batch in logs.read(disk.read(path)).batches:
            if batch.magic == _MAGIC and not batch.control and len(batch.body):
                yield path, batch


def _end_of(segment: PurePosixPath, segments: list[PurePosixPath]) -> float:
    """Return the offset at which the next segment begins, or infinity for the last segment."""
    later = [int(path.stem) for path in segments if int(path.stem) > int(segment.stem)]
    return min(later, default=float("inf"))


def _led(site: Site, node: str) -> set[Place]:
    view = site.cluster.view()
    places = view.partitions.items() if view else ()
    return {place for place, state in places if state.leader == node}


SAYS = {
    "bit-flip": InWords(
        does="one bit in a batch of a follower's replica is flipped while its broker is down",
        injected="SIGTERM or SIGKILL; a change of one byte in the file; a start",
        proven="an independent reader reports that the batch does not match its checksum",
        undone="the bit is flipped back if the batch still exists; a start; all checksums match",
        costs=(
            "the flipped batch and later records, if no other replica has them: lost writes "
            "(`bit-flip`)"
        ),
    ),
}
