"""The true history of each partition of a simulated cluster, as its nodes' state machines made it.

A `Ledger` sits between the simulator and the state machines of the nodes. The ledger sees each
event and each effect with its virtual time, and keeps a `Truth` for each partition.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from cluster.files.batches import read_segment, records
from cluster.reference.broker.node import Node
from cluster.reference.controller.image import MetadataImage, PartitionImage
from cluster.reference.machine import (
    Append,
    Arrived,
    Asker,
    Effect,
    Event,
    Nanoseconds,
    Reply,
    Say,
    Truncate,
)
from cluster.reference.messages.data import ProduceRequest, ProduceResponse
from cluster.reference.partition.partition import Partition
from cluster.reference.simulator.disk import SimulatedDisk
from cluster.reference.simulator.host import Boot, Booted
from cluster.reference.simulator.simulation import Simulation
from results.record.values import decode_payload
from tests.checkers.known_truth import Begun, Cut, Truth

_Record = tuple[int, int | None]
"""Leader epoch and value of a record."""
Row = Mapping[str, object]


def _records(data: bytes) -> list[_Record]:
    batches = read_segment(data).batches
    return [(batch.leader_epoch, decode_payload(record.value))
            for batch in batches for record in records(batch)]  # fmt: skip


class _Answer(NamedTuple):
    """A broker's acknowledgement of a value.

    Attributes:
        isr: The in-sync replicas that the leader knew at that time.
    """

    at_ns: int
    broker: int
    epoch: int
    offset: int
    value: int
    isr: frozenset[int]


class Ledger:
    """The recorder of all that happens in a simulated cluster.

    Args:
        simulation: The source of the virtual time.

    Attributes:
        truths: The true history of each partition, by name: `log-0-1`.
        logs: The replicas' logs, by node and partition.
        led: Partitions and epochs whose leaders have started to lead.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.truths: defaultdict[str, Truth] = defaultdict(Truth)
        self.led: set[tuple[str, int]] = set()
        self._answers: defaultdict[str, list[_Answer]] = defaultdict(list)
        self._states: defaultdict[str, dict[int, PartitionImage]] = defaultdict(dict)
        self.logs: defaultdict[tuple[str, str], list[_Record]] = defaultdict(list)

    def over(self, boot: Boot) -> Boot:
        """Return a factory of nodes that places the ledger between the simulator and each node."""

        def seen(disk: SimulatedDisk) -> Booted:
            booted = boot(disk)
            node = booted.machine
            assert isinstance(node, Node)
            return Booted(machine=_Seen(self, node), storage=booted.storage, said=booted.said)

        return seen

    def values(self, node: str, place: str) -> frozenset[int]:
        """Return the values in a replica's log."""
        return frozenset(value for _, value in self.logs[node, place] if value is not None)

    def changed(self, place: str, state: PartitionImage) -> None:
        """Note a partition's state as the controllers decided it."""
        self._states[place][state.partition_epoch] = state

    def _isr_before(self, place: str, epoch: int) -> frozenset[int] | None:
        """Return the ISR just before an election, or None if no node's metadata had that state."""
        states = self._states[place]
        mine = [at for at, each in states.items() if each.leader_epoch == epoch]
        before = states.get(min(mine) - 1) if mine else None
        return None if before is None else frozenset(before.isr)

    def answered(self, place: str, answers: Iterable["_Answer"]) -> None:
        """Note the values that a broker acknowledged."""
        self._answers[place].extend(answers)

    def closed(self, place: str, sends: Sequence[Row]) -> Truth:
        """Return the true history of a partition, with the broker that acknowledged each send."""
        truth = self.truths[place]
        by_value: defaultdict[object, list[_Answer]] = defaultdict(list)
        for each in self._answers[place]:
            by_value[each.value].append(each)
        for row in sends:
            value, until_ns, offset = row["value"], row["complete_ns"], row["offset"]
            sent_ns = row["invoke_ns"]
            if isinstance(value, int) and isinstance(sent_ns, int):
                truth.sent_ns[value] = sent_ns
            if row["acked"] and isinstance(value, int) and isinstance(until_ns, int):
                told = [each for each in by_value[value] if each.at_ns <= until_ns
                        and offset in {None, each.offset}]  # fmt: skip
                last = max(told, key=lambda each: each.at_ns)
                truth.acknowledged[value] = (last.broker, last.epoch, last.offset)
                truth.in_sync[value] = last.isr
        truth.begun = {epoch: replace(each, isr=self._isr_before(place, epoch))
                       for epoch, each in truth.begun.items()}  # fmt: skip
        truth.final = {node: dict(enumerate(log)) for (node, where), log in self.logs.items()
                       if where == place}  # fmt: skip
        return truth


class _Seen:
    """A wrapper of a node's state machine that passes each event and effect to the ledger."""

    def __init__(self, ledger: Ledger, node: Node) -> None:
        self._ledger, self._number, self._node, self._name = ledger, node.id, node, f"n{node.id}"
        self._asked: dict[Asker, Mapping[str, list[int]]] = {}
        self._known: set[str] = set()
        self._seen: tuple[MetadataImage, int] = (node.image, -1)

    def start(self, now: Nanoseconds) -> Sequence[Effect]:
        return self._done(self._node.start(now))

    def on(self, now: Nanoseconds, event: Event) -> Sequence[Effect]:
        if isinstance(event, Arrived) and isinstance(event.message, ProduceRequest):
            self._asked[event.asker] = {
                f"{each.topic}-{each.partition}": [
                    value for _, value in _records(each.records) if value is not None
                ]
                for each in event.message.partitions
            }
        return self._done(self._node.on(now, event))

    def _done(self, effects: Sequence[Effect]) -> Sequence[Effect]:
        if (self._node.image, self._node.image.offset) != self._seen:
            self._seen = (self._node.image, self._node.image.offset)
            for chosen in self._node.image.partitions():
                self._elected(chosen)
        partitions = self._node.replicas.partitions if self._node.replicas else {}
        for partition in partitions.values():
            if partition.log.folder not in self._known:
                self._known.add(partition.log.folder)
                self._found(partition, effects)
            self._led(partition)
        said = [effect.text for effect in effects if isinstance(effect, Say)]
        for effect in effects:
            if isinstance(effect, Append) and effect.folder in self._known:
                self._append(effect.folder, effect.base_offset, effect.data)
            elif isinstance(effect, Truncate) and effect.folder in self._known:
                deed = f"partition={effect.folder}]"
                line = next((each for each in said if deed in each and "Truncating to" in each), "")
                self._cut(effect.folder, effect.offset, line=line)
            elif isinstance(effect, Reply) and effect.asker in self._asked:
                self._replied(effect)
        return effects

    @property
    def _now(self) -> int:
        return self._ledger.simulation.now_ns

    def _log(self, folder: str) -> list[_Record]:
        return self._ledger.logs[self._name, folder]

    def _found(self, partition: Partition, effects: Sequence[Effect]) -> None:
        """Compare the log that a starting node found on disk with the log that was written."""
        folder = partition.log.folder
        fresh = [each.data for each in effects if isinstance(each, Append)
                 and each.folder == folder]  # fmt: skip
        data = b"".join(batch.data for batch in partition.log.batches())
        found = _records(data.removesuffix(b"".join(fresh)) if fresh else data)
        had = self._log(folder)
        same = next((at for at, pair in enumerate(zip(found, had, strict=False))
                     if pair[0] != pair[1]), min(len(found), len(had)))  # fmt: skip
        if same < len(had):
            # Records that the start truncated at once are missing in the log found here.
            itself = any(isinstance(each, Truncate) and each.folder == folder
                         and each.offset <= same for each in effects)  # fmt: skip
            self._cut(folder, same, disk=not itself)
        self._extend(folder, found[same:])

    def _elected(self, chosen: PartitionImage) -> None:
        """Note an election when the first node learns it. The leader may be down at that time."""
        place = f"{chosen.topic}-{chosen.partition}"
        self._ledger.changed(place, chosen)
        begun = self._ledger.truths[place].begun
        if chosen.leader_epoch not in begun:
            begun[chosen.leader_epoch] = Begun(
                broker=chosen.leader, at_ns=self._now,
                unclean=bool(chosen.leader_recovery_state),
                values=self._ledger.values(f"n{chosen.leader}", place),
            )  # fmt: skip

    def _led(self, partition: Partition) -> None:
        """Note the log with which a leader begins."""
        place, epoch = partition.log.folder, partition.state.leader_epoch
        begun = self._ledger.truths[place].begun
        if partition.leading is not None and (place, epoch) not in self._ledger.led:
            self._ledger.led.add((place, epoch))
            values = self._ledger.values(self._name, place)
            begun[epoch] = replace(begun[epoch], values=values)

    def _append(self, folder: str, base_offset: int, data: bytes) -> None:
        assert base_offset == len(self._log(folder)), (self._name, folder, base_offset)
        self._extend(folder, _records(data))

    def _extend(self, folder: str, found: Sequence[_Record]) -> None:
        truth = self._ledger.truths[folder]
        self._log(folder).extend(found)
        for value in (each for _, each in found if each is not None):
            truth.held[value].add(self._name)
            truth.appended_ns.setdefault(value, self._now)
        truth.ends[self._name].append((self._now, len(self._log(folder))))

    def _cut(self, folder: str, offset: int, *, line: str = "", disk: bool = False) -> None:
        truth, log = self._ledger.truths[folder], self._log(folder)
        dropped = frozenset(value for _, value in log[offset:] if value is not None)
        if len(log) <= offset:
            return  # The call has no effect.
        del log[offset:]
        cut = Cut(
            node=self._name, at_ns=self._now, from_offset=offset, dropped=dropped, line=line
        )  # fmt: skip
        (truth.disk if disk else truth.cuts).append(cut)
        truth.ends[self._name].append((self._now, offset))

    def _replied(self, reply: Reply) -> None:
        asked = self._asked.pop(reply.asker)
        if not isinstance(reply.message, ProduceResponse) or self._node.replicas is None:
            return
        for each in reply.message.partitions:
            place = f"{each.topic}-{each.partition}"
            if each.error_code is ErrorCode.none:
                state = self._node.replicas.partitions[place].state
                self._ledger.answered(place, [
                    _Answer(at_ns=self._now, broker=self._number, epoch=state.leader_epoch,
                            offset=offset, value=value, isr=frozenset(state.isr))
                    for offset, value in enumerate(asked[place], each.base_offset)
                ])  # fmt: skip
