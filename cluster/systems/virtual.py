"""The reference cluster in virtual time: its brokers."""

from collections.abc import Sequence
from random import Random

from cluster.kafka.cluster import KafkaCluster
from cluster.kafka.programs import SETTINGS, ReferencePrograms, Seat
from cluster.nodes import node_id
from cluster.protocol import Hosts
from cluster.reference.process.formatting import write_meta
from results.record.paths import RunPaths
from results.record.plan import Plan


def virtual_cluster(plan: Plan, hosts: Hosts, paths: RunPaths, random: Random) -> KafkaCluster:
    """Return the brokers of a simulated run, not started.

    Args:
        plan: Of the run.
        hosts: Simulated machines, up.
        paths: Its folder.
        random: Draws what is random on real hosts, so that the same seed gives the same.
    """
    return KafkaCluster(plan, hosts, programs=_VirtualPrograms(random), paths=paths)


class _VirtualPrograms(ReferencePrograms):
    """The reference cluster's machines; what is random on real hosts is drawn from the seed.

    Args:
        random: Draws ids.
    """

    def __init__(self, random: Random) -> None:
        self._random = random

    def configure(self, seat: Seat) -> None:
        """Have the settings name no folder of this machine: the same seed gives the same."""
        super().configure(seat)
        settings = seat.folder / SETTINGS
        text = settings.read_text(encoding="utf-8").replace(str(seat.data), "data")
        settings.write_text(text, encoding="utf-8")

    def format(self, seats: Sequence[Seat]) -> None:
        """Write `meta.properties` into each data folder."""
        write_meta({node_id(seat.node): seat.data for seat in seats}, self._random.randbytes)
