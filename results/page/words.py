"""What anomalies and terms mean, in the words of somebody who meets them for the first time."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Words:
    """An anomaly in a sentence: `37 acknowledged writes were lost`.

    Attributes:
        one, many: What happened once, and several times, without the number.
        means: What it means, as a whole sentence.
    """

    one: str
    many: str
    means: str

    def counted(self, count: int) -> str:
        """Return the sentence with its number."""
        return f"{count:,} {self.one if count == 1 else self.many}"


LOST = "lost-write"
JUMPED_OVER = Words(
    "acknowledged write was left out by a final read",
    "acknowledged writes were left out by final reads",
    "The logs hold the message, and a final read that went on behind it did not return it.",
)
"""A lost write of which only a read says so."""
ANOMALIES = {
    LOST: Words(
        "acknowledged write was lost",
        "acknowledged writes were lost",
        "A broker confirmed that the message was stored, and afterwards it is not in the log.",
    ),
    "unseen": Words(
        "acknowledged write was never read",
        "acknowledged writes were never read",
        "A broker confirmed the message, the log holds it, and no reader ever got it.",
    ),
    "log-divergence": Words(
        "difference between replicas was found",
        "differences between replicas were found",
        "Two replicas hold different records at one offset that both regard as committed.",
    ),
    "two-leaders-in-epoch": Words(
        "leader epoch had two leaders",
        "leader epochs had two leaders",
        "Two brokers acted as the leader of one partition in the same leader epoch.",
    ),
    "inconsistent-offsets": Words(
        "offset held two values",
        "offsets held two values",
        "Clients were told of two different values at one offset of a partition.",
    ),
    "duplicate": Words(
        "value is in the log twice",
        "values are in the log twice",
        "One value that was sent once lies at two or more offsets.",
    ),
    "phantom": Words(
        "value was read that nobody sent",
        "values were read that nobody sent",
        "A reader got a value that no client had sent to this partition.",
    ),
    "ack-mismatch": Words(
        "write lies at another offset than acknowledged",
        "writes lie at other offsets than acknowledged",
        "The acknowledged offset does not hold the value, and another offset does.",
    ),
    "offset-order": Words(
        "write got an offset above a later one's",
        "writes got offsets above later ones'",
        "A send that had ended before another one began has the higher offset.",
    ),
    "poll-skip": Words(
        "read jumped over a committed record",
        "reads jumped over committed records",
        "A reader went on behind a committed record without having got it.",
    ),
    "nonmonotonic-poll": Words(
        "read went backwards", "reads went backwards", "A reader got an earlier offset again."
    ),
    "uncommitted-read": Words(
        "record was read before it was committed",
        "records were read before they were committed",
        "A reader got an offset that lay at or above the high watermark.",
    ),
    "nonmonotonic-send": Words(
        "send went backwards",
        "sends went backwards",
        "A writer's later message was acknowledged at an earlier offset.",
    ),
    "int-poll-skip": Words(
        "read jumped over a committed record in itself",
        "reads jumped over committed records in themselves",
        "One poll returned records on both sides of a committed one, and not that one.",
    ),
    "int-nonmonotonic-poll": Words(
        "read went backwards in itself",
        "reads went backwards in themselves",
        "One poll returned a record behind one of a higher offset.",
    ),
    "int-nonmonotonic-send": Words(
        "operation's sends went backwards",
        "operations' sends went backwards",
        "A later message of one operation was acknowledged at an earlier offset.",
    ),
    "int-send-skip": Words(
        "operation's messages lie apart",
        "operations' messages lie apart",
        "Messages of others lie between those that one operation sent, as they always may.",
    ),
    "log-start-moved": Words(
        "replica dropped the beginning of its log",
        "replicas dropped the beginning of their logs",
        "A log starts above offset 0, though nobody asked for retention.",
    ),
    "under-replicated": Words(
        "acknowledged record is on too few replicas",
        "acknowledged records are on too few replicas",
        "What was acknowledged with acks=all is on fewer brokers than were promised.",
    ),
    "acknowledged-below-min-isr": Words(
        "time in which acks=all was acknowledged with too few replicas in sync",
        "times in which acks=all was acknowledged with too few replicas in sync",
        "A leader took messages though fewer replicas than min.insync.replicas were in sync.",
    ),
    "forbidden-election": Words(
        "leader was elected that may have lacked committed records",
        "leaders were elected that may have lacked committed records",
        "A leader came from outside of the in-sync replicas, and nobody had allowed that.",
    ),
    "epoch-regression": Words(
        "leader epoch went down", "leader epochs went down", "Leader epochs only ever grow."
    ),
    "corrupt-record": Words(
        "record is not what was sent",
        "records are not what was sent",
        "Payload, key, headers or time stamp of a message changed on their way, or in a log.",
    ),
    "high-watermark-ahead": Words(
        "replica called more committed than its leader had",
        "replicas called more committed than their leaders had",
        "A replica's high watermark lay above what a leader announced later.",
    ),
    "high-watermark-regression": Words(
        "high watermark went down",
        "high watermarks went down",
        "A leader announced a lower end of what is committed than was announced before.",
    ),
    "log-end-regression": Words(
        "replica's log went back behind its own high watermark",
        "replicas' logs went back behind their own high watermarks",
        "A broker told that its log ended below what it had called committed before.",
    ),
    "commit-lost": Words(
        "position of a group was forgotten",
        "positions of groups were forgotten",
        "A member was given an older position than the group had committed: it reads again.",
    ),
    "commit-ahead": Words(
        "position of a group is one that nobody had reached",
        "positions of groups are ones that nobody had reached",
        "A member was given a position beyond what was ever committed: it leaves records out.",
    ),
    "epoch-mismatch": Words(
        "record was read with another leader epoch than the log has",
        "records were read with other leader epochs than the log has",
        "At that offset another record stood when it was read: it was cut off and replaced.",
    ),
    "committed-truncation": Words(
        "committed record was cut off a replica",
        "committed records were cut off replicas",
        "A replica dropped a record from its log that a leader had announced as committed.",
    ),
    "incomplete-leader": Words(
        "leader was elected without all committed records",
        "leaders were elected without all committed records",
        "A new leader's log ended below what its predecessors had announced as committed.",
    ),
    "double-vote": Words(
        "controller voted twice in an epoch",
        "controllers voted twice in an epoch",
        "One voter gave two different votes in one epoch of the quorum.",
    ),
    "metadata-divergence": Words(
        "difference between controllers' logs was found",
        "differences between controllers' logs were found",
        "Two nodes hold different records of the controllers' log, where it is committed.",
    ),
    "G1a": Words(
        "failed or aborted write was read",
        "failed or aborted writes were read",
        "A reader got a value whose send failed, or whose transaction was aborted.",
    ),
    "precommitted-read": Words(
        "transaction read its own uncommitted write",
        "transactions read their own uncommitted writes",
        "A read_committed transaction got a value that it had sent and not committed yet.",
    ),
    "torn-transaction": Words(
        "committed transaction was read in part",
        "committed transactions were read in part",
        "Final reads returned some records of a committed transaction, and lacked others.",
    ),
    **{
        f"{kind}{order}": Words(
            f"cycle of transactions by {what}{by}", f"cycles of transactions by {what}{by}", means
        )
        for kind, what, means in (
            ("G0", "writes", "Each wrote before the next, and the last before the first."),
            (
                "G1c",
                "reads and writes",
                "Each came before the next, and the last before the first.",
            ),
        )
        for order, by in (
            ("", ""),
            ("-process", " and the order of a process"),
            ("-realtime", " and the clock"),
        )
    },
    "unavailable": Words(
        "time a partition took nothing for too long",
        "times a partition took nothing for too long",
        "After all faults were healed, no send to it succeeded for longer than the plan's budget.",
    ),
    "slow-election": Words(
        "time a partition was without a leader for too long",
        "times a partition was without a leader for too long",
        "After all faults were healed, nobody led it for longer than the plan's budget.",
    ),
    "isr-not-restored": Words(
        "partition's replicas were not in sync again in time",
        "partitions' replicas were not in sync again in time",
        "After all faults were healed, its ISR was not full within the plan's budget.",
    ),
    "group-stuck": Words(
        "group was given nothing of a partition",
        "groups were given nothing of partitions",
        "Messages arrived there, and for longer than the budget no member got any of them.",
    ),
    "hanging-transaction": Words(
        "transaction was never ended",
        "transactions were never ended",
        "It stayed open longer than its coordinator may leave it, and readers wait behind it.",
    ),
    "broker-ended": Words(
        "broker ended by itself",
        "brokers ended by themselves",
        "It exited or crashed, though nothing had told it to stop and no fault had hit its disk.",
    ),
    "broker-hit-from-outside": Words(
        "broker was hit by somebody else",
        "brokers were hit by somebody else",
        "Something beside the run ended or stopped it, or nobody saw how it ended.",
    ),
    "malformed-history": Words(
        "entry of the record contradicts another",
        "entries of the record contradict others",
        "The record itself is wrong, which is a bug of Logquake; nothing is proved by it.",
    ),
    "not-enough-traffic": Words(
        "part of the run had too little traffic",
        "parts of the run had too little traffic",
        "Too few operations succeeded for a verdict to mean something.",
    ),
    "fault-without-effect": Words(
        "kind of fault had no confirmed effect",
        "kinds of faults had no confirmed effect",
        "A run whose faults did nothing proves nothing.",
    ),
    "host-not-restored": Words(
        "trace of the run was left on its hosts",
        "traces of the run were left on its hosts",
        "The hosts are not as they were before the run, which is a bug of Logquake.",
    ),
    "final-read-incomplete": Words(
        "partition was not read to its end",
        "partitions were not read to their ends",
        "What was not read at the end may be there or not; nobody knows.",
    ),
}

FIRST = (
    "lost-write", "log-divergence", "two-leaders-in-epoch", "committed-truncation", "unseen",
    "metadata-divergence", "double-vote", "incomplete-leader", "inconsistent-offsets", "duplicate",
    "phantom", "corrupt-record", "torn-transaction", "G1a",
)  # fmt: skip
"""Where several promises were broken, the earliest of these makes the headline."""

GLOSSARY = {
    "acknowledged": "The broker told the sender that its message is stored. With acks=all that is "
    "said once all in-sync replicas have it, with acks=1 once the leader alone has it.",
    "offset": "A record's place in the log of a partition, counted from 0.",
    "value": "What a client of Logquake sends: a number that is sent once in a run, so that each "
    "message can be told from every other.",
    "replica": "A partition's log is kept on several brokers; each copy is a replica.",
    "leader": "The one replica of a partition that takes writes; the others, its followers, copy "
    "its log.",
    "leader epoch": "A number that grows with each new leader of a partition. Every record "
    "carries the epoch of the leader that took it, so one can tell who wrote it.",
    "high watermark": "The offset up to which a partition's records are committed: all in-sync "
    "replicas have them, and readers may see them.",
    "ISR": "In-sync replicas: those that have all that the leader has, but for the last moment. "
    "The next leader is chosen among them.",
    "unclean election": "A leader chosen from outside of the ISR, when none of it is left. "
    "Whatever it had not copied yet is lost.",
    "truncation": "A replica that follows a new leader cuts off the end of its own log where it "
    "differs from the new leader's.",
    "quorum": "The controllers, which keep the cluster's metadata in a log of their own and elect "
    "their leader by votes. What a majority of them has is committed.",
    "fault": "What Logquake did to the cluster. It is confirmed when a measurement showed it, not "
    "when the command was given.",
}


def words_of(name: str) -> Words:
    """Return the words of an anomaly; of one that has none here, its name."""
    return ANOMALIES.get(name) or Words(f"{name} anomaly", f"{name} anomalies", "")


PROMISES = {
    "lost-write": "What was acknowledged stays in the log.",
    "unseen": "What was acknowledged is given to every reader who reads to the end.",
    "log-divergence": "All replicas hold the same records where they are committed.",
    "metadata-divergence": "All controllers hold the same metadata where it is committed.",
    "two-leaders-in-epoch": "A leader epoch has one leader.",
    "inconsistent-offsets": "An offset of a partition holds one record, for ever.",
    "duplicate": "What an idempotent producer sends once is stored once.",
    "phantom": "Readers get only what somebody sent.",
    "corrupt-record": "A record is read, and kept, as it was sent, byte by byte.",
    "ack-mismatch": "A record lies at the offset that its sender was told.",
    "offset-order": "A send that begins after another one was acknowledged gets a higher offset.",
    "poll-skip": "A reader gets every committed record between two that it gets.",
    "int-poll-skip": "A reader gets every committed record between two that it gets.",
    "nonmonotonic-poll": "A reader goes forward only.",
    "int-nonmonotonic-poll": "A reader goes forward only.",
    "commit-lost": "What a group committed it is told when it asks.",
    "commit-ahead": "A group is told no position that none of its members committed.",
    "nonmonotonic-send": "A writer's later messages get higher offsets.",
    "int-nonmonotonic-send": "A writer's later messages get higher offsets.",
    "uncommitted-read": "Readers get only what is committed.",
    "under-replicated": "What was acknowledged with acks=all is on min.insync.replicas brokers.",
    "log-start-moved": "A log keeps its beginning where nobody asked for retention.",
    "acknowledged-below-min-isr": "acks=all is refused while too few replicas are in sync.",
    "forbidden-election": "Only an in-sync replica becomes the leader.",
    "epoch-regression": "Leader epochs only ever grow.",
    "log-end-regression": "No replica drops what its broker called committed.",
    "epoch-mismatch": "What was read stays where it stood.",
    "high-watermark-ahead": "No replica calls committed what its leader does not.",
    "high-watermark-regression": "What was announced as committed stays committed.",
    "committed-truncation": "What was announced as committed is never truncated.",
    "incomplete-leader": "A leader begins with everything that was committed before it.",
    "double-vote": "A controller votes once in an epoch of the quorum.",
    "G1a": "What failed or was aborted is never read.",
    "precommitted-read": "A read_committed transaction does not read what it has not committed.",
    "torn-transaction": "A committed transaction is read as a whole, or not at all.",
    "unavailable": "After the last heal every partition takes messages within the budget.",
    "slow-election": "After the last heal every partition has a leader within the budget.",
    "isr-not-restored": "After the last heal every replica is in sync again within the budget.",
    "group-stuck": "After the last heal every group reads what arrives, within the budget.",
    "hanging-transaction": "A transaction ends: by its client, or aborted after its timeout.",
    "broker-ended": "A broker runs until it is told to stop.",
    "broker-hit-from-outside": "Nobody but the run ends or stops its brokers.",
    "host-not-restored": "A run leaves its hosts as they were.",
}
"""What the system, or Logquake itself, has to keep, by the anomaly that shows it broken."""
_CYCLE = "Transactions can be put in an order that agrees with what everybody saw."


def promise_of(name: str) -> str:
    """Return the promise that an anomaly breaks, as a sentence; empty where none is known."""
    return PROMISES.get(name, _CYCLE if name.startswith(("G0", "G1c")) else "")
