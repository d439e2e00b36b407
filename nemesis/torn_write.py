"""The fault `torn-write`: only the first half of each write to a broker's disk is stored.

The fault has two variants, and chooses one at random. Torn: the first half is stored and then the
write fails with EIO, as if the power or a sector had failed in between. The stored half usually
ends within a batch. A restarting broker must find and remove this incomplete batch. Short: the
write returns the number of stored bytes (write(2) allows this). A program that continues after
these bytes loses nothing. The fault leaves out files that Kafka maps into memory, because no error
would show that a page was not stored. The heal repairs the disk and restarts the broker.
"""

from nemesis.faulty_disks import BrokenDisks
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site


class TornWrite(BrokenDisks):
    """A fault that makes disks store only the first half of each write.

    Args:
        aim: The fault's id and targets.
        site: The run's cluster and hosts. The hosts can make disk requests fail.

    Raises:
        ClusterError: The hosts cannot make disk requests fail.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site) -> None:
        super().__init__(aim, site, how=aim.rng.choice(("torn", "short")), request="write")
        self.targets = aim.targets


SAYS = {
    "torn-write": InWords(
        does=(
            "a broker's disk stores only the first half of each write; the write fails with EIO,"
            " or reports half of its size"
        ),
        injected="a file system (FUSE) below the node's data",
        proven="the disk has half of a test page; the file system counts the torn writes",
        undone="the disk works again; a start; a test page is written, flushed and read",
    ),
}
