"""The list of scenarios: one line each."""

from harness.scenarios import leader_epoch_1
from harness.scenarios.protocol import Scenario

SCENARIOS: tuple[Scenario, ...] = (leader_epoch_1.SCENARIO,)
