"""Batches in files of a simulated disk: one segment a folder, found by their base offsets."""

from bisect import bisect_left

from cluster.reference.machine import Append, DropLog, Effect, Flush, Truncate, WriteFile
from cluster.reference.simulator.disk import SimulatedDisk

SEGMENT = "00000000000000000000.log"


class BatchStorage:
    """Carries disk effects out, without looking into the batches.

    Args:
        disk: Where to.
    """

    def __init__(self, disk: SimulatedDisk) -> None:
        self._disk = disk
        self._places: dict[str, tuple[list[int], list[int]]] = {}

    def write(self, effect: Effect) -> None:
        """Carry out an effect on the disk; others are an error of the driver."""
        disk = self._disk
        match effect:
            case Append(folder=folder, base_offset=base_offset, data=data):
                path = f"{folder}/{SEGMENT}"
                position = disk.size(path)
                disk.append(path, data)
                offsets, positions = self._places.setdefault(folder, ([], []))
                offsets.append(base_offset)
                positions.append(position)
            case Flush(folder=folder):
                disk.flush(f"{folder}/{SEGMENT}")
            case Truncate(folder=folder, offset=offset):
                self._truncate(folder, offset)
            case DropLog(folder=folder):
                self._places.pop(folder, None)
                for path in disk.paths():
                    if path.startswith(f"{folder}/"):
                        disk.remove(path)
            case WriteFile(path=path, data=data):
                disk.replace(path, data)
            case _:
                raise AssertionError(f"{effect} is nothing for a disk")

    def _truncate(self, folder: str, offset: int) -> None:
        offsets, positions = self._places.get(folder, ([], []))
        at = bisect_left(offsets, offset)
        if at < len(offsets):
            self._disk.truncate(f"{folder}/{SEGMENT}", positions[at])
            del offsets[at:], positions[at:]
