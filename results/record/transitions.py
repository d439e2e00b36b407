"""The catalogue of transitions: all protocol events that a run's record can show.

A name consists of an area and a word: `election/leader-killed`. Names contain nothing random, such
as a node's number or an offset, so the transitions of two runs can be compared. Sizes and lengths
are grouped into buckets, so the number of names is finite. `docs/reached.md` lists the transitions.
`checkers/transitions` finds them in a record.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

CAUSES: Mapping[str, str] = MappingProxyType({
    "leader-killed": "a fault had killed the previous leader",
    "leader-stopped": "a fault had stopped the previous leader cleanly",
    "leader-disk-fault": "a fault had hit the disk of the previous leader",
    "leader-paused": "a fault had paused the previous leader",
    "leader-cut-off": "a fault had cut links of the previous leader",
    "leader-starved": (
        "a fault had limited the processor, memory or file handles of the previous"
        " leader"
    ),
    "leader-disk-late": "a fault had made the disk of the previous leader slow",
    "leader-links-bad": "a fault had delayed, lost or stalled packets of the previous leader",
    "leader-clock-wrong": "a fault had changed the clock of the previous leader",
    "leader-ended": "the broker of the previous leader had exited by itself",
    "ordered": "a fault had requested an election or a reassignment of the partition",
    "handed-over": "the previous leader stayed in the ISR, and no fault had requested the change",
    "controller-hit": (
        "a fault had hit the active controller or ZooKeeper, but not the previous"
        " leader"
    ),
    "unexplained": "no fault in the record explains the change",
})  # fmt: skip
"""Reasons for a change of leader, by name. If several apply, the first one counts."""
_OF_PARTITIONS = ("ordered", "handed-over", "controller-hit")
"""Causes of elections of a partition, but not of the quorum."""

SIZES = ("0", "1", "2", "3", "4+")
"""Buckets for the number of replicas in an ISR."""
_TOOK: Mapping[str, str] = MappingProxyType({
    "1": "1 record", "2-9": "2 to 9 records", "10-99": "10 to 99 records",
    "100+": "100 records or more", "unseen": "no observed record",
})  # fmt: skip
LENGTHS = tuple(_TOOK)
"""Buckets for the number of records that a truncation removed; `unseen` if none was observed."""
TRUNCATIONS: Mapping[str, str] = MappingProxyType({
    "leader-epoch": "where a leader epoch ends in the leader's log",
    "high-watermark": "at its own high watermark",
    "leader-log-end": "at the end of the leader's log",
    "below-high-watermark": "below its own high watermark",
    "recovery": "at a damaged batch, during log recovery",
    "other": "for another reason, or for a reason that its log does not show",
})  # fmt: skip
"""The places at which a replica may truncate its log. They show which rule the replica used."""
STREAKS = ("1", "2", "3+")
"""Buckets for the number of consecutive epochs."""
DELIVERIES = ("2", "3-4", "5+")
"""Buckets for a delivery count above one."""

ROLES = ("unattached", "voted", "follower", "prospective", "candidate", "leader", "resigned")
"""The states of a voter in the quorum, with KRaft's names (KIP-595, KIP-996)."""
_ONLY_FROM: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "voted": ("unattached", "follower", "prospective", "candidate"),
    "prospective": ("unattached", "voted", "follower", "candidate", "resigned"),
    "candidate": ("unattached", "voted", "follower", "prospective", "candidate", "resigned"),
    "leader": ("candidate",), "resigned": ("leader",),
})  # fmt: skip
"""For some states of a voter: the possible states before it, in any Kafka version."""

ASKED: Mapping[str, str] = MappingProxyType({
    "send": "a producer's send",
    "poll": "a consumer's poll",
    "transaction": "a call of a transactional producer",
    "commit": "a commit or a fetch of a group's offset",
    "share": "an acknowledgement by a share group's member",
})  # fmt: skip
"""The requests of clients, by name."""
_OF_ALL = (
    "UNKNOWN_TOPIC_OR_PARTITION", "REQUEST_TIMED_OUT", "UNKNOWN_SERVER_ERROR", "client-timed-out",
    "client-transport", "client-state", "other",
)  # fmt: skip
_OF_LOGS = ("NOT_LEADER_OR_FOLLOWER", "KAFKA_STORAGE_ERROR", "CORRUPT_MESSAGE")
_OF_READS = ("FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "LEADER_NOT_AVAILABLE")
_OF_SEQUENCES = (
    "OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID", "INVALID_PRODUCER_EPOCH",
    "client-fenced", "client-purged",
)  # fmt: skip
_OF_COORDINATORS = (
    "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR",
)  # fmt: skip
_OF_MEMBERS = (
    "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS", "FENCED_INSTANCE_ID",
    "FENCED_MEMBER_EPOCH", "STALE_MEMBER_EPOCH", "UNSTABLE_OFFSET_COMMIT",
)  # fmt: skip
ERRORS: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "send": (
        "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "MESSAGE_TOO_LARGE",
        "INVALID_RECORD", "PRODUCER_FENCED", "INVALID_TXN_STATE", "TRANSACTION_ABORTABLE",
        "client-queue-full", *_OF_SEQUENCES, *_OF_LOGS, *_OF_ALL,
    ),
    "poll": (
        "OFFSET_OUT_OF_RANGE", "OFFSET_NOT_AVAILABLE", *_OF_MEMBERS, *_OF_COORDINATORS,
        *_OF_READS, *_OF_LOGS, *_OF_ALL,
    ),
    "transaction": (
        "CONCURRENT_TRANSACTIONS", "INVALID_TXN_STATE", "PRODUCER_FENCED",
        "INVALID_PRODUCER_ID_MAPPING", "TRANSACTION_COORDINATOR_FENCED", "TRANSACTION_ABORTABLE",
        "NOT_ENOUGH_REPLICAS", *_OF_SEQUENCES, *_OF_COORDINATORS, *_OF_MEMBERS, *_OF_LOGS,
        *_OF_ALL,
    ),
    "commit": (*_OF_MEMBERS, *_OF_COORDINATORS, *_OF_ALL),
    "share": (
        "INVALID_RECORD_STATE", "SHARE_SESSION_NOT_FOUND", "INVALID_SHARE_SESSION_EPOCH",
        "SHARE_SESSION_LIMIT_REACHED", "FENCED_STATE_EPOCH", "NOT_LEADER_OR_FOLLOWER",
        "KAFKA_STORAGE_ERROR", *_OF_ALL,
    ),
})  # fmt: skip
"""The possible errors of each request: errors with Kafka's names, and errors that clients raise."""

_OTHERWISE: Mapping[str, str] = MappingProxyType({
    "client-timed-out": "its client timed out",
    "client-transport": "the connection of its client failed",
    "client-state": "its client was in a state that forbids it",
    "client-fenced": "its client reported that it was fenced",
    "client-purged": "its client purged waiting requests",
    "client-queue-full": "its client's queue was full",
    "other": "an error that is not in this list",
})  # fmt: skip
"""Errors that clients raise themselves."""

_LEADERS: Mapping[str, str] = MappingProxyType({
    "election/unclean": "A partition got a leader from outside of the ISR.",
    "election/renewed": "The leader of a partition continued in a higher leader epoch.",
    "election/returned": "A partition got its previous leader back after a time without a leader.",
    "leader/none": "The controllers removed a partition's leader and elected no other leader.",
    "leader/deposed-answers": (
        "A broker answered as leader, although another broker had already answered as leader in a"
        " later epoch."
    ),
})  # fmt: skip
_ISRS: Mapping[str, str] = MappingProxyType({
    "isr/replaced": "An ISR kept its size but got other members.",
    "isr/below-min": "An ISR fell below min.insync.replicas.",
    "isr/back-to-min": "An ISR that was below min.insync.replicas reached it again.",
})  # fmt: skip
_RECOVERIES: Mapping[str, str] = MappingProxyType({
    "recovery/log-kept": "A broker started again, and a replica's log had the same end.",
    "recovery/log-shorter": "A broker started again, and a replica's log was shorter.",
    "recovery/log-longer": (
        "A broker started again, and at the first observation a replica's log"
        " was longer."
    ),
    "recovery/log-empty": "A broker started again, and a replica's log was empty.",
    "recovery/high-watermark-lower": (
        "A broker started again, and a replica's high watermark was lower."
    ),
    "recovery/life-unseen": "A broker started more than once before it reported a replica.",
    "log-start/moved": "The first offset of a replica's log moved up.",
    "log-start/stepped-back": "The first offset of a replica's log moved down.",
    "topic/made-again": "A topic was deleted and recreated with the same name.",
})  # fmt: skip
_TRANSACTIONS: Mapping[str, str] = MappingProxyType({
    "transaction/committed": "A coordinator confirmed a commit.",
    "transaction/committed-late": (
        "A coordinator confirmed the commit of a transaction that lasted longer than its timeout."
    ),
    "transaction/aborted": "A client aborted its transaction on purpose.",
    "transaction/aborted-after-error": "A client aborted its transaction after an error.",
    "transaction/commit-failed": "A client requested a commit, but its transaction was aborted.",
    "transaction/timed-out": (
        "A transaction that lasted longer than its timeout is not known to have committed."
    ),
    "transaction/commit-unknown": "A client requested a commit but got no outcome.",
    "transaction/abort-unknown": "A client requested an abort but got no outcome.",
    "transaction/left-to-timeout": (
        "A producer left its transaction open, and no producer with its transactional id followed"
        " within the timeout."
    ),
    "transaction/left-to-successor": (
        "A producer left its transaction open, and another producer with its transactional id"
        " followed within the timeout."
    ),
})  # fmt: skip
_PRODUCERS: Mapping[str, str] = MappingProxyType({
    "producer/epoch-raised": (
        "A partition has records of one producer id with two producer"
        " epochs."
    ),
})  # fmt: skip
_COORDINATED: Mapping[str, str] = MappingProxyType({
    "group": "a group", "transaction": "transactional producers",
    "share": "a share group's positions",
})  # fmt: skip
_MOVES: Mapping[str, str] = MappingProxyType({
    "moved-in-flight": (
        "The coordinator of {} moved to another broker; an operation began before the move and"
        " ended after the move."
    ),
    "moved": (
        "The coordinator of {} moved to another broker; no operation is known to have"
        " spanned the move."
    ),
    "renewed": "The coordinator of {} continued in a higher leader epoch.",
    "returned": "The coordinator of {} returned after a time without a coordinator.",
    "none": "The partition that coordinates {} had no leader.",
    "log-cut": "A replica truncated the log of a coordinator of {}.",
})  # fmt: skip
_GROUPS: Mapping[str, str] = MappingProxyType({
    "group/first-assigned": "A group gave a partition to a member for the first time.",
    "group/kept": "A rebalance left a partition with its member.",
    "group/moved": "A rebalance gave a partition to another member.",
    "group/moved-unrevoked": (
        "A rebalance gave a partition to another member, but no revocation from the previous"
        " member was observed."
    ),
    "group/revoked": "A rebalance revoked a partition from its member.",
    "group/no-position": (
        "A member fetched no committed offset, and no commit had been"
        " acknowledged."
    ),
    "group/at-last-commit": "A member fetched the last acknowledged committed offset.",
    "group/ahead-of-last-commit": (
        "A member fetched a higher committed offset than the last acknowledged one."
    ),
    "group/behind-last-commit": (
        "A member fetched a lower committed offset than the last acknowledged one."
    ),
})  # fmt: skip
_QUORUM: Mapping[str, str] = MappingProxyType({
    "quorum/elected-next-epoch": "The quorum elected a leader in the very next epoch.",
    "quorum/elected-after-1-round": (
        "Before the quorum's next leader there was one epoch without a known leader."
    ),
    "quorum/elected-after-2+-rounds": (
        "Before the quorum's next leader there were two or more epochs without a known leader."
    ),
    "quorum/same-leader": "The quorum re-elected its previous leader in a higher epoch.",
    "quorum/split-vote": "Voters voted for different candidates in one epoch of the quorum.",
    "quorum/voted-twice-running": "A voter voted in an epoch of the quorum and in the next one.",
    "quorum/changed-vote": "A voter voted for another candidate than in the previous epoch.",
    "quorum/log-parted": (
        "A voter truncated its log where it differed from the log of the"
        " quorum's leader."
    ),
    "quorum/two-say-they-lead": (
        "A controller reported that it leads the quorum, two seconds or more after another"
        " controller had reported this in a later epoch."
    ),
})  # fmt: skip
_SHARES: Mapping[str, str] = MappingProxyType({
    "share/released": "A member of a share group released a record.",
    "share/rejected": "A member of a share group rejected a record.",
    "share/again-after-release": "A share group redelivered a record after its release.",
    "share/again-unacknowledged": (
        "A share group redelivered a record that no member had acknowledged: its lock expired, or"
        " its member left."
    ),
    "share/again-after-refusal": (
        "A share group redelivered a record whose acknowledgement had not been confirmed."
    ),
})  # fmt: skip
_SERVERS: Mapping[str, str] = MappingProxyType({
    "broker/exited": "A broker exited although no fault had stopped it.",
    "broker/crashed": "A signal ended a broker although no fault had sent the signal.",
    "broker/exited-after-disk-fault": "A broker exited during a fault of its disk, or soon after.",
})  # fmt: skip


def _pairs() -> Iterator[tuple[str, str]]:
    for before, first in enumerate(SIZES):
        for after, second in enumerate(SIZES):
            if before != after:
                way = "shrank" if after < before else "grew"
                yield f"isr/{way}-{first}-to-{second}", f"An ISR {way} from {first} to {second}."


def _truncations() -> Iterator[tuple[str, str]]:
    for reason, where in TRUNCATIONS.items():
        for length in LENGTHS:
            said = f"A replica truncated its log {where}; the truncation removed {_TOOK[length]}."
            yield f"truncation/{reason}-{length}", said
    yield (
        "truncation/started-over",
        "A replica dropped its whole log and restarted at the first offset of its leader's log.",
    )


def _roles() -> Iterator[tuple[str, str]]:
    for after in ROLES:
        for before in _ONLY_FROM.get(after, ROLES):
            said = f"A voter of the quorum that was {before} became {after}."
            if before == after:
                said = f"A voter of the quorum stayed {before} in a higher epoch."
            yield f"quorum/{before}-to-{after}", said
    yield (
        "quorum/other-step",
        ("A voter of the quorum changed its state in a way that is not in this list."),
    )


def _errors() -> Iterator[tuple[str, str]]:
    for asked, errors in ERRORS.items():
        for error in errors:
            why = _OTHERWISE.get(error, f"the error {error}")
            yield f"refused/{asked}-{error}", f"{ASKED[asked].capitalize()} failed: {why}."


def _all() -> Iterator[tuple[str, str]]:
    for cause, why in CAUSES.items():
        yield f"election/{cause}", f"A partition got another leader; {why}."
    yield from _LEADERS.items()
    yield from _pairs()
    yield from _ISRS.items()
    yield from _truncations()
    for streak, few in zip(STREAKS, ("One leader epoch", "Two", "Three or more"), strict=True):
        epochs = f"{few} has" if streak == "1" else f"{few} leader epochs in a row have"
        yield f"epoch/without-record-{streak}", f"{epochs} no record in any replica."
    yield from _RECOVERIES.items()
    yield from _errors()
    yield from _TRANSACTIONS.items()
    yield from _PRODUCERS.items()
    for of, whose in _COORDINATED.items():
        for word, said in _MOVES.items():
            yield f"coordinator/{of}-{word}", said.format(whose)
    yield from _GROUPS.items()
    for cause, why in CAUSES.items():
        if cause not in _OF_PARTITIONS:
            yield f"quorum/{cause}", f"The quorum elected another leader; {why}."
    yield from _QUORUM.items()
    yield from _roles()
    for count in DELIVERIES:
        yield f"share/delivery-{count}", f"A share group delivered a record with the count {count}."
    yield from _SHARES.items()
    yield from _SERVERS.items()


TRANSITIONS: Mapping[str, str] = MappingProxyType(dict(_all()))
"""The name of each transition and a sentence about it, in the order of the areas."""


def area_of(name: str) -> str:
    """Return the area of a transition: `election` for `election/leader-killed`."""
    return name.partition("/")[0]
