"""The fault `disk-error`: reads, writes or flushes of a broker's disk fail with EIO.

A disk with bad sectors, or an unplugged disk, behaves like this. At the first error of a file,
Kafka takes the file's log folder out of service. Kafka ends if it has no other log folder. A broker
may not notice read errors while its data is still in the kernel's page cache. Data that could not
be written was not acknowledged, so no acknowledged message is lost. The heal repairs the disk and
restarts the broker, even if it still runs.
"""

from cluster.protocol import DISK_REQUESTS
from nemesis.faulty_disks import BrokenDisks
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site


class DiskError(BrokenDisks):
    """A fault that makes disks reject one sort of request with EIO.

    Args:
        aim: The fault's id and targets.
        site: The run's cluster and hosts. The hosts can make disk requests fail.

    Raises:
        ClusterError: The hosts cannot make disk requests fail, or the brokers cannot be killed.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site) -> None:
        super().__init__(aim, site, how="refused", request=aim.rng.choice(DISK_REQUESTS))
        self.targets = aim.targets


SAYS = {
    "disk-error": InWords(
        does="reads, writes or flushes on a broker's disk fail with EIO; most brokers exit",
        injected="a file system (FUSE) below the node's data",
        proven="a test page gets EIO; the file system counts the failed requests",
        undone="the disk works again; a restart; a test page is written, flushed and read",
    ),
}
