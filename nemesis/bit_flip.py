"""The fault `bit-flip`: one bit of one batch in a segment of a replica is turned over.

The broker is taken down, the bit flipped, the broker started again; so the damage is there while it
runs. What follows depends on how it went down, which the fault's own chance decides:

- killed: the broker recovers its logs when it starts. It reads the segment that holds the recovery
  point and those behind it, finds that the batch does not match its CRC, cuts the log there, and
  fetches the rest from the leader again. A batch in an older segment it does not look at.
- stopped in order (`latent`): it looks at nothing. The bit lies there until somebody reads the
  batch. Consumers check the sum, Kafka's and ours (`check.crcs`), and so do followers; if the
  replica led meanwhile, they would be stuck at that batch, and not be told a lie. Brokers that read
  all of their logs as they start, and would refuse to, are always killed.

Chosen is a partition that the broker follows, if there is one, and any batch of it that a broker
would look at; one of an older segment only if it has no other. Healed by flipping the bit back
where the batch is still there.
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
    """Brokers that run with a flipped bit in a log.

    Args:
        aim: Which fault this is; each of its targets gets a flipped bit.
        site: Its cluster's brokers are restarted.

    Raises:
        ClusterError: The disks are not at hand, or hold no batch that could be damaged.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site) -> None:
        if site.disk_of is None or site.logs is None:
            raise ClusterError("the disks of this cluster are not at hand")
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
        """Return the bits to flip back, and the brokers to start if they are down."""
        restarts = tuple(Restart(node=node) for node in self.targets)
        return (*(flip_back(flip) for flip in self._flips), *restarts)

    def inject(self) -> None:
        """Take the brokers down, flip the bits, start the brokers.

        Raises:
            ClusterError: A batch is gone meanwhile, or a broker does not end, or come back.
        """
        self._started_s = stopwatch_s()
        for node in self.targets:
            if self._latent:
                self._site.cluster.stop_node(node, STOP_LIMIT_S)
            else:
                self._killer.kill_node(node)
        if not self._brokers.wait_states(GONE, Patience(limit_s=GONE_LIMIT_S)):
            raise ClusterError(f"{', '.join(self.targets)} did not end: no bit was flipped")
        # Only now nobody writes any more: what came since the bit was drawn lies behind it, too.
        self._flips = [self._measured_again(flip) for flip in self._flips]
        for flip in self._flips:
            self._found.append(turn_over(self._disks[flip.node], flip_back(flip), self._logs))
        self._restarted_s = stopwatch_s()
        for node in self.targets:
            self._site.cluster.start_node(node)
        # Not before it is back has it read what it reads when it starts; healed sooner, the bit
        # would have been flipped for nobody.
        for node in self.targets:
            try:
                wait_again(self._site, node, Patience(limit_s=BACK_LIMIT_S, stop=self._stop))
            except WaitTimeoutError as late:
                raise ClusterError(str(late)) from late

    def confirm(self, patience: Patience) -> BitFlipEffect | None:
        """Tell what the reader found: the sum of each batch was wrong when its broker started."""
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
        """Flip back what is still flipped; start the brokers, but those that run."""
        self._brokers.note_heal()
        for flip in self._flips:
            if put_right(self._disks[flip.node], flip_back(flip), self._logs):
                self._flipped_back.append(f"{flip.topic}-{flip.partition}")
        self._brokers.start_missing()

    def confirm_healed(self, patience: Patience) -> BitsRightEffect | None:
        """See that the brokers are back, and that every sum of the damaged logs is right."""
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
            sound=sound,
        )

    def _sound_batches(self) -> int:
        """Return how many batches of the damaged logs match their sums; 0 if one does not."""
        count = 1  # An emptied log is sound, too.
        for flip in self._flips:
            disk = self._disks[flip.node]
            for path in self._logs.segments(disk, PurePosixPath(flip.segment).parent):
                segment = self._logs.read(disk.read(path))
                # A broker that runs is writing: its last batch may be half there.
                if len(segment.damage) > segment.torn:
                    return 0
                count += len(segment.batches)
        return count

    def _measured_again(self, flip: FlippedBit) -> FlippedBit:
        disk = self._disks[flip.node]
        segments = self._logs.segments(disk, PurePosixPath(flip.segment).parent)
        return replace(flip, log_end=log_bounds(disk, segments, self._logs)[1])


def flip_back(flip: FlippedBit) -> FlipBack:
    """Return what undoes a flipped bit, or does it."""
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
    """Draw a bit of a node's logs.

    Args:
        node: Whose disk it is.
        disk: Its files; the broker may run.
        led: Partitions that it leads: others are taken, if there are any.
        rng: Draws.
        logs: Knows the files.

    Raises:
        ClusterError: There is no batch.
    """
    points = logs.recovery_points(disk)
    segments = {
        place: logs.segments(disk, folder)
        for place, folder in logs.replica_folders(disk)
        if not place[0].startswith("__")  # Kafka's own topics carry none of our values.
    }
    found = {place: each for place, each in segments.items() if any(_batches(disk, each, logs))}
    if not found:
        raise ClusterError(f"no log of {node} has a batch that could be damaged")
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
    """Yield the batches of clients' records; those of old formats have another header."""
    for path in segments:
        for batch in logs.read(disk.read(path)).batches:
            if batch.magic == _MAGIC and not batch.control and len(batch.body):
                yield path, batch


def _end_of(segment: PurePosixPath, segments: list[PurePosixPath]) -> float:
    """Return where the next segment begins; behind the last one is no end."""
    later = [int(path.stem) for path in segments if int(path.stem) > int(segment.stem)]
    return min(later, default=float("inf"))


def _led(site: Site, node: str) -> set[Place]:
    view = site.cluster.view()
    places = view.partitions.items() if view else ()
    return {place for place, state in places if state.leader == node}


SAYS = {
    "bit-flip": InWords(
        does="one bit of a batch of a replica that follows is turned over while its broker is down",
        injected="SIGTERM or SIGKILL, a byte of the file is written, a start",
        proven="an independent reader finds the batch's checksum wrong",
        undone="the bit is put right where the batch is still there; a start; every checksum right",
        costs="lost writes behind the bit that no other replica had (`bit-flip`)",
    ),
}
