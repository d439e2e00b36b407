"""The objects that a scenario uses: the cluster, its clients, its faults, and its observers."""

from dataclasses import dataclass

from cluster.kafka.asking import Asker
from cluster.systems.system import Deployment, Observer
from harness.scenarios.protocol import Scenario
from harness.scenarios.sight import ClusterSight, Place
from nemesis.scripted import ScriptedFaults
from results.record.clock import RunClock
from results.record.paths import RunPaths
from workloads.scripted import Script


@dataclass(frozen=True, slots=True, kw_only=True)
class Props:
    """The objects that a scenario uses.

    Attributes:
        scenario: The scenario.
        cluster: The started brokers.
        place: The scenario's partition.
        script: The scenario's clients.
        faults: The scenario's faults.
        asker: The object that sends a request to one broker.
        observer: The object that queries all brokers several times a second, for the run's record.
        sight: The state that conditions check.
        clock: The run's clock.
        paths: The run's folder.
    """

    scenario: Scenario
    cluster: Deployment
    place: Place
    script: Script
    faults: ScriptedFaults
    asker: Asker
    observer: Observer
    sight: ClusterSight
    clock: RunClock
    paths: RunPaths
