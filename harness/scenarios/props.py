"""What a story is played with: the cluster, its clients, its faults, and those who look and ask."""

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
    """All that a director needs.

    Attributes:
        scenario: The story.
        cluster: Its brokers, started.
        place: Its partition.
        script: Its clients.
        faults: Its faults.
        asker: Asks brokers.
        observer: Asks them several times a second, for the record.
        sight: What conditions look at.
        clock: The run's.
        paths: The run's.
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
