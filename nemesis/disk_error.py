"""The fault `disk-error`: reads, writes or flushes of a broker's disk fail with EIO.

As of a disk with bad sectors, or one that was unplugged. Kafka takes a log folder out of service at
the first error of its files, and ends if it has no other; one whose pages the kernel still has in
its cache may not notice that it can read no more. What could not be written was not acknowledged,
so nothing that was is lost. Healed by mending the disk and starting the broker.
"""

from cluster.protocol import DISK_REQUESTS
from nemesis.faulty_disks import BrokenDisks
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site


class DiskError(BrokenDisks):
    """Disks that refuse one sort of request with EIO.

    Args:
        aim: Which fault this is.
        site: Its hosts break requests.

    Raises:
        ClusterError: They do not.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site) -> None:
        super().__init__(aim, site, how="refused", request=aim.rng.choice(DISK_REQUESTS))
        self.targets = aim.targets


SAYS = {
    "disk-error": InWords(
        does="reads, writes or flushes on a broker's disk fail with EIO; most brokers end",
        injected="a file system (FUSE) below the node's data",
        proven="a page of our own gets EIO; the file system counts what it refused",
        undone="the disk is mended; a start; a page is written, flushed and read",
    ),
}
