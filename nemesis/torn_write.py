"""The fault `torn-write`: of each write to a broker's disk only the first half is stored.

Torn: the write fails with EIO after its first half, as if the power had gone or a sector had failed
in its middle. What is there of it is no whole batch: who starts again has to find that, and cut it
off. Short: the write says itself how much it stored (write(2) may), and who goes on behind that
loses nothing. Which of them comes is drawn. Files that Kafka maps into memory are spared, because
nobody would learn that a page of them was not stored. Healed by mending the disk and starting the
broker.
"""

from nemesis.faulty_disks import BrokenDisks
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site


class TornWrite(BrokenDisks):
    """Disks that store the first half of each write.

    Args:
        aim: Which fault this is.
        site: Its hosts break requests.

    Raises:
        ClusterError: They do not.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site) -> None:
        super().__init__(aim, site, how=aim.rng.choice(("torn", "short")), request="write")
        self.targets = aim.targets


SAYS = {
    "torn-write": InWords(
        does="a broker's disk stores the first half of each write, and fails with EIO or says so",
        injected="a file system (FUSE) below the node's data",
        proven="half of a page of our own lies below; the file system counts what it tore",
        undone="the disk is mended; a start; a page is written, flushed and read",
    ),
}
