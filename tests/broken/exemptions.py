"""What contradicts itself in a record of the corpus because that is what its brokers did wrong."""

from collections.abc import Iterator
from itertools import islice

from tests.broken import agreement, causality
from tests.broken.corpus import Change

_SHOWN = 3
_ = agreement  # Its rules are taken among all rules when it is imported.
_FORGOTTEN = "the anomaly is that the checkpoint does not say what the log holds"
_LOST = "the anomaly is that a log loses its end at the stop, and no server log says why"
_HOLE = "the anomaly is that a leader leaves an offset empty, and puts a later message there"
_OTHER_LEADER = "the anomaly is that a broker names a leader whom the controllers did not elect"
_OTHER_POSITION = "the anomaly is that a coordinator stores another position than a member commits"
_TO_COME = "the anomaly is that a broker puts an epoch on a record that nobody has been given yet"
_UNSEEN = "the gap is that no broker was asked about the topic, and so nobody names its leaders"
_ITS_WORD = "the check goes by what the last leader says of its ISR; all else stays as it was"
_GOES_ON = "only the end of the process counts; the record goes on as if another one had begun"
_BY_NAME = "rules know what took records by the kind `power-loss`, and it is called otherwise here"
_OBSERVED = frozenset({
    "leadership", "replica_records", "replica_states", "truncations", "quorum_states",
    causality.MILESTONES,
})  # fmt: skip
"""Of a system that does not show everything, what is left of these need not agree."""
EXEMPT: dict[tuple[str, str], str] = {
    ("a_broker_names_another_leader_of_the_epoch", "answers_unlike_the_controllers"): _OTHER_LEADER,
    ("a_checkpoint_has_an_epoch_begin_too_late", "epochs_of_records"): _FORGOTTEN,
    ("a_checkpoint_has_more_than_the_leaders_log", "ends_of_logs"): _FORGOTTEN,
    ("a_follower_answers_as_leader_as_well", "answers_unlike_the_controllers"): _OTHER_LEADER,
    ("a_follower_answers_as_leader_as_well", "logged_leaders"): _OTHER_LEADER,
    ("a_follower_forgets_all_epochs", "epochs_of_records"): _FORGOTTEN,
    ("a_broker_gives_up_its_start_while_another_gets_little_of_a_core", "answers_of_the_dead"): (
        _GOES_ON
    ),
    (
        "a_follower_outside_of_the_isr_lacks_an_acknowledged_one",
        "answers_unlike_the_controllers",
    ): (_ITS_WORD),
    ("a_follower_outside_of_the_isr_lacks_an_acknowledged_one", "recoveries_unlike_answers"): (
        _ITS_WORD
    ),
    ("a_leader_of_before_whose_disk_was_spared_stops_without_its_end", "logs_that_shrink"): _LOST,
    ("a_leader_writes_a_record_in_an_epoch_to_come", "epochs_before_elections"): _TO_COME,
    ("a_leader_writes_a_record_in_an_epoch_to_come", "epochs_of_records"): _TO_COME,
    ("a_leader_writes_a_record_in_an_epoch_to_come", "epochs_without_a_leader"): _TO_COME,
    ("a_message_is_written_before_an_earlier_ones", "ends_before_sends"): _HOLE,
    ("a_message_is_written_before_one_of_a_second_ago", "ends_before_sends"): _HOLE,
    ("a_position_is_stored_one_too_high", "answers_to_groups"): _OTHER_POSITION,
    ("a_replica_whose_disk_was_spared_loses_the_end_of_its_log", "logs_that_shrink"): _LOST,
    ("a_writers_later_message_is_written_before_its_earlier_one", "ends_before_sends"): _HOLE,
    ("another_broker_ends_while_one_has_no_handles", "answers_of_the_dead"): _GOES_ON,
    ("another_broker_ends_while_one_has_no_handles", "roles_of_the_dead"): _GOES_ON,
    ("every_replica_forgets_all_epochs", "epochs_of_records"): _FORGOTTEN,
    ("every_replica_lacks_its_beginning_and_calls_it_whole", "ends_of_logs"): _FORGOTTEN,
    ("no_broker_reports_the_new_topic", "epochs_without_a_leader"): _UNSEEN,
    ("one_replica_starts_without_its_end_after_an_outage", "logs_that_shrink"): _LOST,
    ("readers_are_given_a_record_with_another_epoch", "epochs_before_elections"): _TO_COME,
    ("the_elected_drops_the_end_that_it_acknowledged", "logs_that_shrink"): _LOST,
    ("the_elected_gives_readers_records_of_an_epoch_to_come", "epochs_before_elections"): _TO_COME,
    ("the_elected_stops_without_what_it_had_announced", "logs_that_shrink"): _LOST,
    ("the_last_messages_are_gone_after_a_clean_stop", "logs_that_shrink"): _LOST,
    ("the_leader_forgets_all_epochs", "epochs_of_records"): _FORGOTTEN,
    ("the_leader_stops_without_what_it_had_announced", "logs_that_shrink"): _LOST,
    ("who_lost_power_and_was_in_sync_again_lacks_the_end", "logs_that_shrink"): _LOST,
    ("a_broker_gives_up_after_a_cut_that_was_too_short", "answers_of_the_dead"): _GOES_ON,
    ("a_broker_gives_up_its_start_after_its_disk_had_ended_it", "answers_of_the_dead"): _GOES_ON,
    ("a_broker_gives_up_its_start_as_its_links_stall", "answers_of_the_dead"): _GOES_ON,
    ("a_broker_gives_up_its_start_on_a_late_disk", "answers_of_the_dead"): _GOES_ON,
    ("a_broker_gives_up_its_start_without_zookeeper", "answers_of_the_dead"): _GOES_ON,
    ("a_broker_gives_up_though_no_disk_was_seen_to_be_late", "answers_of_the_dead"): _GOES_ON,
    (
        "a_broker_gives_up_though_only_one_that_never_votes_wants_for_handles",
        "answers_of_the_dead",
    ): _GOES_ON,
    ("a_broker_halts_while_the_disk_of_another_fails", "answers_of_the_dead"): _GOES_ON,
    ("a_broker_takes_long_to_end_after_it_has_given_up", "answers_of_the_dead"): _GOES_ON,
    ("a_broker_halts_while_the_disk_of_another_fails", "roles_of_the_dead"): _GOES_ON,
    ("a_file_system_below_the_data_ends", "answers_of_the_dead"): _GOES_ON,
    ("a_file_system_below_the_data_ends", "roles_of_the_dead"): _GOES_ON,
    ("a_replica_lacks_its_end_after_its_disk_failed", "logs_that_shrink"): _LOST,
    ("a_start_fails_for_another_reason_while_zookeeper_is_away", "answers_of_the_dead"): _GOES_ON,
    ("every_replica_loses_what_its_disk_said_was_flushed", "ends_before_sends"): _BY_NAME,
    ("every_replica_loses_what_its_disk_said_was_flushed", "logs_that_shrink"): _BY_NAME,
}
"""Why: by the name of what makes a change, and of the rule that it breaks."""


def contradictions(change: Change) -> Iterator[tuple[str, str]]:
    """Yield each rule that a change breaks, exempt or not, and how it does, a few times each."""
    record = change.record()
    changed, facts = record.changed, causality.Facts(record)
    hidden = _OBSERVED if record.declared else frozenset()
    for rule in causality.RULES:
        if rule.tables & changed and not rule.tables & hidden:
            for said in islice(rule.contradictions(facts), _SHOWN):
                yield rule.name, said
