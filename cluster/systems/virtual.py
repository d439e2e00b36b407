"""The brokers of the reference cluster in virtual time."""

from collections.abc import Sequence
from random import Random

from cluster.kafka.cluster import KafkaCluster
from cluster.kafka.programs import SETTINGS, ReferencePrograms, Seat
from cluster.protocol import Hosts
from cluster.reference.process.formatting import write_meta
from results.record.nodes import node_id
from results.record.paths import RunPaths
from results.record.plan import Plan


def virtual_cluster(plan: Plan, hosts: Hosts, paths: RunPaths, random: Random) -> KafkaCluster:
    """Return the brokers of a simulated run, not started.

    Args:
        plan: The run's plan.
        hosts: Simulated machines, ready for use.
        paths: The run's paths.
        random: Replaces the random choices of real hosts, so that a seed determines everything.
    """
    return KafkaCluster(plan, hosts, programs=_VirtualPrograms(random), paths=paths)


class _VirtualPrograms(ReferencePrograms):
    """The reference cluster's programs. Their ids are not random, but come from a seed.

    Args:
        random: Gives the bytes of ids.
    """

    def __init__(self, random: Random) -> None:
        self._random = random

    def configure(self, seat: Seat) -> None:
        """Write settings that do not name this machine's folders, so a seed determines them."""
        super().configure(seat)
        settings = seat.folder / SETTINGS
        text = settings.read_text(encoding="utf-8").replace(str(seat.data), "data")
        settings.write_text(text, encoding="utf-8")

    def format(self, seats: Sequence[Seat]) -> None:
        """Write `meta.properties` into each data folder."""
        write_meta({node_id(seat.node): seat.data for seat in seats}, self._random.randbytes)
