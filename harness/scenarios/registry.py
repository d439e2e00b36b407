"""The list of scenarios: one line each."""

from harness.scenarios import leader_epoch_1, leader_epoch_2, quorum_divergence, quorum_failover
from harness.scenarios.protocol import Scenario

SCENARIOS: tuple[Scenario, ...] = (
    leader_epoch_1.SCENARIO,
    leader_epoch_2.SCENARIO,
    quorum_failover.SCENARIO,
    quorum_divergence.SCENARIO,
)
