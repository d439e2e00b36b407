"""The list of all checkers."""

from collections.abc import Mapping
from dataclasses import replace

from checkers import (
    aborted_read,
    ack_mismatch,
    acknowledged_below_min_isr,
    broker_ended,
    client_ended,
    commit_ahead,
    commit_lost,
    committed_truncation,
    corrupt_record,
    cycles,
    delivered_again,
    dependencies,
    double_vote,
    duplicate,
    epoch_mismatch,
    epoch_regression,
    faults,
    forbidden_election,
    group_stuck,
    handled,
    hanging_transaction,
    high_watermark_ahead,
    high_watermark_regression,
    incomplete_leader,
    incomplete_quorum_leader,
    inconsistent_offsets,
    isr_not_restored,
    log_divergence,
    log_end_regression,
    log_start_moved,
    lost_write,
    malformed,
    metadata_divergence,
    never_delivered,
    not_restored,
    offset_order,
    out_of_order_sequence,
    phantom,
    poll_order,
    precommitted_read,
    remade,
    repeated_input,
    send_order,
    skipped_input,
    slow_election,
    slow_failover,
    slow_quorum_election,
    torn_transaction,
    traffic,
    transactional_id_stuck,
    two_leaders,
    unavailable,
    uncommitted_read,
    under_replicated,
    unseen,
    wrong_last_value,
)
from checkers.facts import RunFacts
from checkers.jepsen import aborted_read as jepsens_aborted_read
from checkers.jepsen import lost_write as jepsens_lost_write
from checkers.jepsen import order as jepsens_order
from checkers.jepsen import places as jepsens_places
from checkers.jepsen import unseen as jepsens_unseen
from checkers.protocol import Checker, Derivation
from results.record.terms import AnomalyClass, Judge
from results.record.verdict import Words

CHECKERS: tuple[Checker, ...] = (
    malformed.OPS_CHECKER,
    malformed.VALUES_CHECKER,
    traffic.CHECKER,
    faults.CHECKER,
    not_restored.CHECKER,
    broker_ended.OUTSIDE_CHECKER,
    unseen.INCOMPLETE_CHECKER,
    lost_write.CHECKER,
    remade.CHECKER,
    unseen.UNSEEN_CHECKER,
    wrong_last_value.CHECKER,
    duplicate.CHECKER,
    inconsistent_offsets.CHECKER,
    phantom.CHECKER,
    corrupt_record.CHECKER,
    ack_mismatch.CHECKER,
    aborted_read.CHECKER,
    precommitted_read.CHECKER,
    torn_transaction.CHECKER,
    repeated_input.CHECKER,
    skipped_input.CHECKER,
    *poll_order.CHECKERS,
    commit_lost.CHECKER,
    commit_ahead.CHECKER,
    never_delivered.CHECKER,
    delivered_again.CHECKER,
    *send_order.CHECKERS,
    offset_order.CHECKER,
    log_divergence.CHECKER,
    log_start_moved.CHECKER,
    out_of_order_sequence.CHECKER,
    under_replicated.CHECKER,
    remade.COPIES_CHECKER,
    two_leaders.CHECKER,
    two_leaders.QUORUM_CHECKER,
    epoch_regression.CHECKER,
    forbidden_election.CHECKER,
    acknowledged_below_min_isr.CHECKER,
    incomplete_leader.CHECKER,
    high_watermark_regression.CHECKER,
    high_watermark_ahead.CHECKER,
    committed_truncation.CHECKER,
    log_end_regression.CHECKER,
    epoch_mismatch.CHECKER,
    uncommitted_read.CHECKER,
    *cycles.CHECKERS,
    metadata_divergence.CHECKER,
    incomplete_quorum_leader.CHECKER,
    double_vote.CHECKER,
    unavailable.CHECKER,
    slow_election.CHECKER,
    slow_failover.CHECKER,
    slow_quorum_election.CHECKER,
    isr_not_restored.CHECKER,
    isr_not_restored.REMADE_CHECKER,
    hanging_transaction.CHECKER,
    transactional_id_stuck.CHECKER,
    group_stuck.CHECKER,
    broker_ended.CHECKER,
    client_ended.CHECKER,
)
"""All checkers of Logquake, in the order in which they run. First come the checks of the run's
record and traffic, then the safety checks, and then the liveness checks."""

JEPSENS: tuple[Checker, ...] = (
    malformed.OPS_CHECKER,
    malformed.VALUES_CHECKER,
    traffic.CHECKER,
    faults.CHECKER,
    not_restored.CHECKER,
    unseen.INCOMPLETE_CHECKER,
    jepsens_lost_write.CHECKER,
    jepsens_unseen.CHECKER,
    jepsens_places.DUPLICATE_CHECKER,
    jepsens_places.INCONSISTENT_CHECKER,
    jepsens_aborted_read.CHECKER,
    precommitted_read.CHECKER,
    *jepsens_order.CHECKERS,
    *cycles.CHECKERS,
)
"""The checkers of the Jepsen judge. Some of them follow Jepsen's own checker for Kafka."""


def _symptoms(root: str) -> dict[str, str]:
    """Return the anomalies that name `root` as a possible cause, each with the reason."""
    return {each.name: each.follows[root] for each in CHECKERS if root in each.follows}


WORDS: Mapping[str, Words] = {
    each.name: replace(each.words, explains={**each.words.explains, **_symptoms(each.name)})
    for each in CHECKERS
    if each.words
}
"""The report texts of each anomaly, for all judges."""

HEADLINES = (
    "lost-write", "log-divergence", "two-leaders-in-epoch", "committed-truncation", "unseen",
    "metadata-divergence", "double-vote", "incomplete-leader", "inconsistent-offsets", "duplicate",
    "phantom", "corrupt-record", "torn-transaction", "G1a",
)  # fmt: skip
"""The order of anomalies that count equally, if none explains another. Others come later.

The headline names the first anomaly (`telling.ranked`).
"""

DERIVATIONS: tuple[Derivation, ...] = (
    dependencies.DEPENDENCIES_DERIVATION,
    dependencies.PARTICIPANTS_DERIVATION,
    torn_transaction.SHARES_DERIVATION,
    *handled.DERIVATIONS,
)
"""The tables that are derived in each partition for checks across partitions."""


def checkers_of(facts: RunFacts) -> tuple[Checker, ...]:
    """Return the checkers that the run's judge uses. Imported histories have fewer checkers."""
    if facts.judge is Judge.JEPSEN:
        kept = not facts.history
        return tuple(
            each for each in JEPSENS if kept or each.anomaly_class is not AnomalyClass.HARNESS
        )
    if facts.history:
        return tuple(each for each in CHECKERS if each.of_histories)
    return CHECKERS
