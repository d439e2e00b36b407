"""Hosts in memory whose disks break requests, and proofs of faults that have real ones do so."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePosixPath
from random import Random

from cluster.protocol import DISK_REQUESTS, ClusterError, DiskAnswers
from nemesis.protocol import Aim
from tests.nemesis.conftest import FakeNetwork
from tests.nemesis.proofs import Proof, Seen

PAGE = 4096


class FakeFaultyDisks(FakeNetwork):
    """Disks that obey at once, as `CanFaultDisk` has it.

    Attributes:
        broken: What is in force, by node.
        deaf: Whether orders come to nothing.
        stuck: Whether what is broken stays so.
        refusing: Nodes whose disk cannot be mended for an error.
        bad: Nodes whose disk took nothing already.
        counts: By node: what was broken, 7 times of each sort as soon as it is in force.
    """

    def __init__(self) -> None:
        super().__init__()
        self.broken: dict[str, tuple[str, Collection[str]]] = {}
        self.deaf = self.stuck = False
        self.bad: set[str] = set()
        self.refusing: set[str] = set()
        self.lost: Mapping[PurePosixPath, int] = {}
        self.counts: dict[str, dict[str, int]] = {}

    def fault_disk(
        self, node: str, kind: str, requests: Collection[str], *, folders: Collection[str] = ()
    ) -> None:
        assert list(folders) == (["codecs-0"] if kind == "lost" else [])
        if not self.deaf:
            self.broken[node] = (kind, requests)
            self.counts[node] = {f"{kind} {request}": 7 for request in requests}

    def mend_disk(self, node: str) -> int:
        if node in self.refusing:
            raise ClusterError(f"the disk of {node} does not answer")
        if not self.stuck:
            self.broken.pop(node, None)
        elif node in self.broken:  # What is flushed for the heal meets it, too.
            self.counts[node] = {what: each + 3 for what, each in self.counts[node].items()}
        return 3

    def disk_counts(self, node: str) -> Mapping[str, int]:
        return self.counts.get(node, {})

    def flushed(self, node: str) -> Mapping[PurePosixPath, int]:
        assert node in self.broken or self.deaf
        return self.lost

    def try_requests(self, node: str) -> DiskAnswers:
        kind, requests = self.broken.get(node, ("", ()))
        kind, requests = ("refused", ["write"]) if node in self.bad else (kind, requests)
        fails = {"refused", "torn"}
        errors = {
            request: "EIO" if kind in fails and request in requests else ""
            for request in DISK_REQUESTS
        }
        stored = {"torn": PAGE // 2, "short": PAGE // 2}.get(kind, PAGE)
        return DiskAnswers(
            errors=errors,
            written=PAGE,
            stored=0 if errors["write"] and kind == "refused" else stored,
            asked=2 if errors["write"] and kind == "refused" else 3,
            took_s=0.0,
        )

    def disk_trouble(self, node: str) -> str:
        return "has ended" if node not in self.broken and self.deaf else ""


def aimed(seed: int, *nodes: str) -> Aim:
    """Return an aim whose draws a seed decides."""
    return Aim(fault_id=1, targets=nodes, rng=Random(seed))


def broken_proof(*, half: bool) -> Proof:
    """Return how a disk that breaks requests is proven: by a page that a witness writes to it.

    Args:
        half: Whether half of the page is stored; otherwise a request gets EIO.
    """

    def shows(before: Seen, looks: Sequence[Seen]) -> bool:
        now = looks[-1]
        torn = 0 < now["stored"] < PAGE
        return not before["errors"] and (torn if half else "EIO" in now["errors"])

    def gone(before: Seen, after: Seen) -> bool:
        sound = not after["errors"] and after["stored"] == PAGE
        return sound and after["brokers"].keys() != before["brokers"].keys() and after["brokers"]

    return Proof(witness="requests", shows=shows, gone=gone)
