"""The meanings of the keys of an anomaly's evidence, for pages, `logquake help` and the reference.

The text of a key is true for all checks that write it. If the meanings differ, the text has each
of them. A test compares the keys of this mapping with the keys that the checks write.
"""

from collections.abc import Mapping

_NS = "in nanoseconds since the run's start"
EVIDENCE: Mapping[str, str] = {
    "acknowledged": "How many sends were acknowledged in the period.",
    "acknowledged_ns": f"When the send, or the commit of an offset, was acknowledged, {_NS}. For a"
    " send in a transaction: when the operation ended.",
    "acknowledged_offset": "The offset in the acknowledgement of the send.",
    "acknowledged_values": "The values that were acknowledged at the offset.",
    "acquired_after_ns": f"The second member acquired the record after this time, {_NS}.",
    "across_rebalance": "Whether a rebalance assigned or revoked the partition between the two"
    " reads.",
    "act": "How the first member acknowledged the record: accept or reject.",
    "after": "The snapshot in which the records are missing. If an epoch went back: the larger"
    " epoch, which came first. For a checkpoint: null.",
    "after_offset": "The offset of the reader's previous record, or the offset before the position"
    " that the reader was assigned.",
    "also": "The other checks that report the same acknowledgement.",
    "announced_asked_ns": f"When the leader was asked for its high watermark, {_NS}.",
    "announced_by": "The broker id of the leader that announced the high watermark.",
    "announced_epoch": "The leader epoch of the announcement.",
    "announced_high_watermark": "The high watermark that the leader announced: records below this"
    " offset are committed.",
    "announced_observed_ns": f"When the answer with the high watermark arrived, {_NS}.",
    "answers": "How many answers in the later epoch are too low.",
    "asked_from_ns": f"When the first of the attempts began, {_NS}.",
    "asked_ns": f"When the client sent the request, {_NS}.",
    "asked_to_ns": f"When the last of the attempts ended, {_NS}.",
    "assigned_ns": f"When a member of the group was last assigned the partition, {_NS}.",
    "assigned_to": "The process of the member that was last assigned the partition.",
    "attempts": "How many new producers with the transactional id were refused, or not answered.",
    "attempts_s": "How many seconds these attempts took in sum.",
    "away": "The voters that faults stopped or isolated in the period.",
    "before": "The snapshot in which the replica still has the records. Null if only the replica's"
    " own announcement shows that it had them.",
    "before_offset": "The offset of the producer's previous record.",
    "began_ns": f"For each process or realtime edge: when the next operation began, {_NS}. -1 for"
    " other edges.",
    "believed": "For each broker: the last leader that its metadata named.",
    "belongs_to": "The partition for which the value was created. Null if there is none.",
    "bound": "The two logs must agree below this offset.",
    "bound_is": "The source of the bound, for example both high watermarks.",
    "budget_s": "The longest time that the plan allows, in seconds.",
    "calm_from_ns": f"When the last fault was healed, {_NS}. Without faults: the start of the main"
    " phase.",
    "candidates": "The node ids of the candidates that the voter voted for.",
    "change": "How the object differs from its state before the run.",
    "committed_by": "The operation that committed the offset in the answer, from the commit's"
    " metadata. Null if unknown.",
    "committed_up_to": "All records below this offset were committed.",
    "completed_ns": f"When the poll ended, {_NS}.",
    "confirmed": "How many of these faults were confirmed. For a single kind: 1 or 0.",
    "confirmed_ns": f"When the first member got the confirmation of its acknowledgement, {_NS}.",
    "copies_left": "How many of the copies the last leader's final log still has; all, if that"
    " log was not read. If the system shows no logs: how many the final reads returned.",
    "count": "How many there are: epochs that are too small, reports that are too high, records"
    " of a checkpoint's epoch, or counted operations or messages.",
    "count_of_readers": "How many operations read the value.",
    "count_of_shown": "How many records of the transaction the final reads returned.",
    "delivered_ns": f"When the second member got the record, {_NS}.",
    "differing": "How many offsets hold different records in the two logs.",
    "differs": "The parts of the record that differ from the sent message: payload, key, headers,"
    " time stamp.",
    "directories": "The log directory id of each candidate. Empty if unknown.",
    "distance": "How many places the value is after the previous value, in the order of the log.",
    "down": "The brokers that the fault ended.",
    "drained_ns": f"When the share group had finished all records, {_NS}.",
    "dropped": "How many committed records the replica dropped.",
    "earlier_acknowledged_ns": f"When the earlier send was acknowledged, {_NS}.",
    "earlier_asked_ns": f"When the leader was asked for the earlier high watermark, {_NS}.",
    "earlier_by": "The broker id of the leader that announced the earlier high watermark.",
    "earlier_epoch": "The leader epoch of the earlier high watermark, or of the record that was"
    " read.",
    "earlier_high_watermark": "The earlier high watermark. For a read: the offset after the"
    " record.",
    "earlier_observed_ns": "When the answer with the earlier high watermark arrived, or when the"
    f" poll ended, {_NS}.",
    "earlier_offset": "The offset of the earlier send.",
    "earlier_op_id": "The operation of the earlier send.",
    "earlier_read_by": "The operation that had read the record at the highest offset before the"
    " final reads.",
    "earlier_value": "The value of the earlier send.",
    "early": "Proofs that an operation of the cycle read a value before the value was committed.",
    "edges": "The kind of each edge of the cycle: write-write, write-read, process or realtime.",
    "ended_ns": f"When the operation that sent the value ended, {_NS}. In a cycle: a time for each"
    " process or realtime edge, and -1 for other edges.",
    "epoch": "The leader epoch, or the epoch of the controllers' quorum. If an epoch went back: the"
    " smaller one. For a checkpoint: the epoch of the record.",
    "errors": "The most frequent errors of the sends or attempts, each with its number.",
    "fault": "The kind of the fault that ended the brokers.",
    "final_leader": "The last leader of the partition, as a broker id or a node.",
    "final_leader_epoch": "The leader epoch of the last leader.",
    "first_offset": "The first offset that was dropped, or at which the two logs differ.",
    "first_seen_in": "The snapshot that first showed a log start above 0. Null if a broker's answer"
    " showed it first.",
    "first_seen_ns": f"When a broker first reported a log start above 0, {_NS}. Null if only files"
    " show it.",
    "found_on": "The nodes whose final log has the record.",
    "from_ns": f"When the period began, {_NS}.",
    "full_ns": f"When the ISR was full again, {_NS}. Null if it never was.",
    "furthest_reader_op_id": "The operation that read the record furthest in the log.",
    "group": "The id of the consumer group.",
    "hidden_offsets": "The offsets of the transaction's records that the final reads did not"
    " return.",
    "hidden_places": "The partitions of the transaction's records that the final reads did not"
    " return.",
    "hidden_values": "The values of the transaction's records that the final reads did not return.",
    "high_watermark": "The high watermark of the replica.",
    "holds_instead": "The value at the acknowledged offset. Null if there is no value.",
    "how": "How the process ended, or how the replica lost the records.",
    "input_offset": "The offset of the input record.",
    "isolation": "The isolation level of the incomplete final read. Null if there was no final"
    " read.",
    "isr": "The in-sync replicas, as broker ids: in the last report of the period, or within the"
    " budget, or in the entry about the election.",
    "isr_before": "The in-sync replicas before an unclean election, as broker ids. Null for another"
    " election.",
    "isr_from_ns": f"When a broker first reported that the ISR was too small, {_NS}.",
    "isr_to_ns": f"When the last request was sent whose answer had too small an ISR, {_NS}.",
    "key": "The number of the record's key.",
    "kind": "The kind or family of faults. The kind faults means all faults together.",
    "lacking": "The nodes that were in sync, but whose logs lack the record.",
    "last_offset": "The last offset that was dropped, or at which the two logs differ.",
    "last_op_id": "The operation whose commit of an offset was acknowledged, and then forgotten.",
    "last_stable_offset": "The leader's last stable offset, where the open transaction begins.",
    "later_asked_ns": f"When the leader was asked for the later high watermark, {_NS}.",
    "later_by": "The broker id of the leader that announced the later high watermark.",
    "later_epoch": "The leader epoch of the later high watermark.",
    "later_high_watermark": "The later high watermark, which is lower. For the final reads: the end"
    " of the partition.",
    "later_log_end": "The end of the last leader's final log.",
    "later_log_of": "The last leader of the partition, whose final log was compared.",
    "later_observed_ns": f"When the answer with the later high watermark arrived, {_NS}.",
    "later_told_to": "The receiver of the lower end: the final reads.",
    "leader": "The broker id of the leader of the epoch. Null if unknown.",
    "leader_epoch": "The leader epoch of the record.",
    "leader_epoch_then": "The leader epoch in which the record was acknowledged. Null if it is not"
    " certain.",
    "leader_then": "The broker id of the leader that acknowledged the record. Null if it is not"
    " certain.",
    "leaders": "The nodes that led in the same epoch, or whose records of one epoch differ.",
    "leaders_around_then": "The leaders that were observed within a second of the"
    " acknowledgement, each with the source.",
    "least": "The lowest offset that a correct answer could have.",
    "left": "The nodes without a fault: other members of the ISR, or other voters of the quorum.",
    "log_end": "The log end offset of the replica.",
    "log_epoch": "The record's leader epoch in the last leader's final log.",
    "log_of": "The last leader, from whose final log the epoch comes.",
    "log_offset": "The offset of the election in the metadata log. Null for ZooKeeper.",
    "log_start": "The highest log start offset that was observed.",
    "logs_of": "The nodes whose final log has the changed record.",
    "looked_on": "The nodes whose log of __consumer_offsets was searched.",
    "marked_ns": f"When the broker reported the high watermark, {_NS}.",
    "may_be_open_s": "How long a transaction may stay open, in seconds.",
    "may_have_acknowledged": "The leaders that may have acknowledged the record, each with its"
    " leader epoch.",
    "members": "The number of replicas in a full ISR.",
    "messages": "How many accepted messages of the partition were unread in the period.",
    "min_insync_replicas": "The value of min.insync.replicas.",
    "minimum": "The smallest number that the plan requires.",
    "missing_from_final_read": "Whether a complete final read lacks the record.",
    "missing_from_leaders_log": "Whether the last leader's final log lacks the record.",
    "mop": "The index of the send in its operation, from 0.",
    "most": "The highest offset that a member had tried to commit. Null if there was none.",
    "most_op_id": "The operation that had tried to commit the highest offset.",
    "needs_write_write": "Whether only a search with write-write edges found the cycle. Under the"
    " judge jepsen: whether the search used such edges.",
    "node": "The node of the replica, the voter, the answer or the process. For a client: its"
    " worker.",
    "nodes": "The nodes whose logs show the anomaly.",
    "not_on": "The nodes whose final log lacks the record.",
    "offset": "The offset of the record, or the committed offset of the group.",
    "offsets": "The offsets of the value. In a cycle: an offset for each edge, and -1 for a process"
    " or realtime edge.",
    "on": "The nodes whose final log has the record.",
    "op_id": "The operation of the anomaly, for example the send or the poll of the record.",
    "op_ids": "The operations that handled, acknowledged or received the record, at most 5.",
    "ops": "The operations of the cycle. Each precedes the next one, and the last precedes the"
    " first.",
    "ops_of_component": "How many operations are linked by this cycle and other cycles: the size of"
    " their strongly connected component.",
    "other_ids": "With how many other transactional ids a new producer ended a transaction"
    " meanwhile.",
    "place": "The partition of the input record.",
    "places": "The partition of each edge of the cycle. Empty for a process or realtime edge.",
    "poll_op_ids": "The first 10 operations that read the value, or that read at the offset.",
    "polled_values": "The values that polls returned for the offset.",
    "polls": "How many times polls returned the wrong or uncommitted record.",
    "previous_offset": "The offset of the previous send of the process.",
    "previous_op_id": "The operation that sent or read the previous value.",
    "previous_value": "The value that the process sent or read just before.",
    "process": "The process (logical client) of the operation.",
    "processes": "The processes of the two members. If sends failed: how many processes sent.",
    "producer_epoch": "The producer epoch of both records.",
    "producer_id": "The producer id of both records.",
    "producers": "The brokers' description of the producer whose transaction is open. Null if they"
    " gave none.",
    "reached": "The offset that the final read reached, or that committed transactions reached in"
    " the input.",
    "read": "Whether the final read lacks the last value of the key.",
    "read_epoch": "The leader epoch that the reader got with the record.",
    "read_ns": f"The time of the poll, {_NS}: its start if the reader skipped records or went back,"
    " otherwise its end.",
    "reader_marker": "The offset of the marker that ends the transaction of the reader.",
    "readers": "The first 10 operations that read the value.",
    "records": "The record of each node at the first offset: its epoch, its hash, and 1 for a"
    " control record.",
    "refusals": "The errors with which brokers refused the producers, each with its number.",
    "replicas": "For each replica: the record that its final log has at the offset.",
    "said": "The last lines that the process wrote. For the quorum: the leader that each voter"
    " named last.",
    "seen_ns": f"When the end of the process was detected, or when the last report came, {_NS}."
    " For an ISR: the last report within the budget.",
    "send_op_ids": "The first 10 operations that sent the value, or whose send got the offset.",
    "sends": "How many sends the clients tried in the period.",
    "sent_ns": f"When the operation that sent the value began, {_NS}.",
    "sequence": "The sequence number of the record.",
    "sequence_before": "The sequence number of the producer's previous record.",
    "served": "For each read in the cycle: the broker that returned the record.",
    "shown": "The first 3 records of the transaction that the final reads returned.",
    "shown_offset": "The offset of the older record that is last there. Null if the key has none.",
    "shown_value": "The value of the older record that is last there. Null if the key has none.",
    "since_ns": f"From this time to seen_ns, all reports had the same value, {_NS}. For a"
    " transaction, only reports of the last leader after the last heal count.",
    "skipped": "How many committed records the reader skipped.",
    "skipped_by": "How many reads skipped the offset.",
    "skipped_offsets": "The offsets of the first 10 records that the reader skipped.",
    "skipped_values": "The values of the first 10 records that the reader skipped.",
    "skipping_op_ids": "The first 10 operations that skipped the offset.",
    "snapshot": "The copy of the logs that shows it: final (after the stop), crash, or a step of a"
    " scenario.",
    "snapshots": "All copies of the logs that show the difference, in order of time.",
    "source": "The source of the leaders or epochs, such as metadata, the metadata log or a log.",
    "stacks": "Deadlocks in the thread dumps of the servers.",
    "start_is": "The kind of the proof for the start of the epoch: record or checkpoint.",
    "start_of": "The node whose log or checkpoint shows the start of the epoch.",
    "start_offset": "The offset at which the epoch starts.",
    "started": "How many of these faults began.",
    "target_end": "The offset that the final read had to reach. -1 if unknown.",
    "time_ns": f"When the broker reported the log end, or when the poll ended, {_NS}. -1 if the log"
    " end comes from files.",
    "times": "How many answers and copies of files show a log start above 0.",
    "times_ns": "When the larger epoch was observed, and when the answer with the smaller epoch was"
    f" requested, {_NS}.",
    "to_ns": f"When the period ended, {_NS}.",
    "told_epoch": "The earlier epoch whose leader reported the highest high watermark.",
    "told_high_watermark": "The high watermark of that earlier epoch: records below it are"
    " committed.",
    "told_ns": f"When the answer or the report arrived, {_NS}.",
    "tombstone": "Whether the last committed record of the key is a tombstone.",
    "topic_id": "The id of the topic, which a fault recreated.",
    "transactional": "Whether the value was sent in a transaction.",
    "transactional_id": "The transactional id of the producers.",
    "tried_s": "How many seconds of the period had sends in progress.",
    "truncations": "The recorded truncations that may have removed the record.",
    "value": "The value of the record.",
    "values": "The values at the offset. In a cycle: a value for each edge, and -1 for a process or"
    " realtime edge.",
    "vanished": "For each replica that lost the record between two steps of a scenario: these"
    " steps.",
    "what": "The object that differs, or a description of what was counted.",
    "where": "The place of the smaller epoch. For answers: both times. For a log: the snapshot."
    " For a checkpoint: the offsets of the epoch.",
    "witnesses": "For each leader: how often, when and in which source it was named; or its"
    " record or its own file.",
    "writer": "The operation that sent the value.",
    "writer_marker": "The offset of the marker that ends the transaction of the value.",
    "writer_op_id": "The operation that sent the value.",
    "writers": "The producer id, producer epoch and sequence number of each copy.",
}
"""The meaning of each key of the evidence, in order of the keys."""
