"""The clients of a run in virtual time: the crews of its workers, without their processes."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from cluster.kafka.configuration import node_id
from cluster.reference.simulator.simulation import Simulation
from harness.simulated.worker import ClientHosts, SimulatedWorker
from results.record.clock import WaitTimeoutError, wait_until
from results.record.identities import groups
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.terms import F, Outcome, Phase
from results.record.topics import CreatedTopic
from workloads.fleet import Counts, FleetCounts, Touched


class SimulatedFleet:
    """The workers of a run; see `workloads.fleet.Fleet`.

    Args:
        plan: The run's.
        topics: As created.
        bootstrap: `n1:9092,...`.
        simulation: Where they are.
        paths: Streams go to `live`.
    """

    def __init__(
        self,
        plan: Plan,
        topics: Sequence[CreatedTopic],
        bootstrap: str,
        *,
        simulation: Simulation,
        paths: RunPaths,
    ) -> None:
        self._plan, self._topics = plan, topics
        self._brokers = numbers_of(bootstrap)
        self._simulation, self._paths = simulation, paths
        self._workers: list[SimulatedWorker] = []

    def start(self) -> None:
        """Start them; each begins at once."""
        self._paths.live.mkdir(parents=True, exist_ok=True)
        self._workers = [
            SimulatedWorker(
                self._plan,
                number,
                topics=self._topics,
                hosts=ClientHosts(self._simulation, self._plan, self._brokers, first=number),
                simulation=self._simulation,
                live=self._paths.live,
            )
            for number in range(self._plan.crews)
        ]

    def phase(self, phase: Phase) -> None:
        """Tell the workers in which phase the ops are that they invoke from now on."""
        for worker in self._workers:
            worker.phase = phase
            worker.crew.taken.clear()
            worker.crew.read.clear()

    def untouched(self) -> frozenset[Touched]:
        """Return what nothing came of since the recovery was entered last."""
        places = self._plan.topic_partitions
        wanted: set[Touched] = {*places}
        wanted |= {(group, *place) for group in groups(self._plan) for place in places}
        for worker in self._workers:
            wanted -= worker.crew.taken
            wanted -= {(group, *place) for group, place in worker.crew.read}
        return frozenset(wanted)

    def counts(self) -> FleetCounts:
        """Return what they did so far."""
        ops: Counter[tuple[F, Outcome]] = Counter()
        for worker in self._workers:
            ops.update(worker.crew.ops)
        return FleetCounts(
            total=Counts(ops=ops),
            recent=Counts(),
            recent_s=0,
            in_flight=sum(worker.crew.in_flight for worker in self._workers),
            latency_ms=None,
            age_s=0,
        )

    def died(self) -> list[str]:
        """Return nothing: what one of them raises ends the simulation."""
        return []

    def stop(self, timeout_s: float) -> list[str]:
        """Start no new ops, wait for those in flight, and end the workers. Idempotent."""
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.stop()
        with suppress(WaitTimeoutError):  # What is open stays open in the record.
            wait_until(
                lambda: all(worker.crew.in_flight == 0 for worker in workers),
                timeout_s=timeout_s,
                what="the sends in flight",
            )
        for worker in workers:
            worker.close()
        return []


def numbers_of(bootstrap: str) -> list[int]:
    """Return the ids of the brokers of `n1:9092,n2:9092`."""
    return [node_id(each.partition(":")[0]) for each in bootstrap.split(",")]
