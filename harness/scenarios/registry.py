"""The list of scenarios: one line each."""

from harness.scenarios import (
    forgotten_vote,
    hanging_transaction,
    last_replica_standing,
    late_leader_and_isr,
    leader_epoch_1,
    leader_epoch_2,
    leader_epoch_handson,
    n_minus_one,
    quorum_divergence,
    quorum_failover,
    replication_steps,
)
from harness.scenarios.protocol import Scenario

SCENARIOS: tuple[Scenario, ...] = (
    leader_epoch_1.SCENARIO,
    leader_epoch_2.SCENARIO,
    leader_epoch_handson.SCENARIO,
    replication_steps.SCENARIO,
    n_minus_one.SCENARIO,
    late_leader_and_isr.SCENARIO,
    last_replica_standing.SCENARIO,
    quorum_failover.SCENARIO,
    quorum_divergence.SCENARIO,
    forgotten_vote.SCENARIO,
    hanging_transaction.SCENARIO,
)
