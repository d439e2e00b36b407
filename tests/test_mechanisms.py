"""What shows the bug of a ticket: recorded lines with it, and recorded lines that look like it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.mechanisms import MECHANISMS, shows
from results.record.paths import RunPaths
from results.record.terms import AnomalyClass, Validity
from results.record.verdict import AnomalySummary, Example, Verdict
from results.verdict_json import write_verdict

OUT: Mapping[str, object] = {"members": 3, "isr": [1, 2], "budget_s": 45.0}
"""Broker 3 is out of sync."""


def broken_by(anomaly: str, folder: Path, **values: object) -> RunPaths:
    """Return a run with a verdict of one anomaly, which is trusted and not allowed."""
    base: dict[str, object] = {
        "sentence": "it broke", "evidence": {}, "topic": "log-0", "topic_id": "", "partition": 0,
        "offset": -1, "allowed": False, "trusted": True, "why": "", "cause": "",
    }  # fmt: skip
    return judged(anomaly, folder, Example(**{**base, **values}))  # type: ignore[arg-type]  # As above.


def judged(anomaly: str, folder: Path, *examples: Example, count: int = 0) -> RunPaths:
    run, many = RunPaths(folder), count or len(examples)
    folder.mkdir(parents=True)
    summary = AnomalySummary(
        anomaly_class=AnomalyClass.SAFETY, count=many, examples=examples,
        allowed=sum(each.allowed for each in examples),
        trusted=sum(each.trusted for each in examples),
    )  # fmt: skip
    verdict = Verdict(
        run_id="log/1", valid=Validity.INVALID, judge="contract", engine="local",
        anomalies={anomaly: summary}, unknown_because=(),
    )  # fmt: skip
    write_verdict(run, verdict)
    return run


@dataclass(frozen=True, kw_only=True)
class Case:
    """An anomaly, and what the brokers logged."""

    anomaly: str
    example: Mapping[str, object] = field(default_factory=dict)
    logs: Mapping[str, str] = field(default_factory=dict)
    sends: tuple[Mapping[str, object], ...] = ()

    def write(self, run: RunPaths) -> None:
        began_s = datetime.fromisoformat("2026-11-29 11:35:46").timestamp()
        run.environment.write_text(json.dumps({"started_unix_s": began_s}))
        run.table("polls").parent.mkdir(exist_ok=True)
        read = {"op_id": 3713, "value": 7, "complete_ns": 62_756_000_000}
        pq.write_table(pa.Table.from_pylist([read]), run.table("polls"))
        if self.sends:
            pq.write_table(pa.Table.from_pylist([*self.sends]), run.table("sends"))
        for name, text in self.logs.items():
            node, _, file = name.partition("/")
            path = run.root / "nodes" / node / "logs" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def shown(self, ticket: str, folder: Path) -> tuple[str, ...]:
        run = broken_by(self.anomaly, folder / "run", **self.example)
        self.write(run)
        return shows(MECHANISMS[ticket], run)

    def without(self, text: str, other: str = "") -> "Case":
        """Return the case with another text in each log."""
        assert any(text in each for each in self.logs.values())
        return replace(self, logs={name: each.replace(text, other)
                                   for name, each in self.logs.items()})  # fmt: skip

    def told(self, **example: object) -> "Case":
        return replace(self, example={**self.example, **example})


RENOUNCED = Case(
    anomaly="isr-not-restored", example={"evidence": OUT},
    logs={"n3/server.log": """\
[2023-01-04 06:23:20,276] ERROR Encountered fatal fault: exception while renouncing leadership \
(org.apache.kafka.server.fault.ProcessExitingFaultHandler)
java.lang.NullPointerException
\tat org.apache.kafka.timeline.SnapshottableHashTable$HashTier.mergeFrom(SnapshottableHashTable.j\
ava:125)
\tat org.apache.kafka.timeline.Snapshot.mergeFrom(Snapshot.java:68)
"""},
)  # fmt: skip
TRUNCATED = Case(
    anomaly="log-end-regression",
    example={"evidence": {"node": "n2", "high_watermark": 336, "log_end": 334}},
    logs={"n2/server.log": """\
[2026-11-28 20:47:09,266] INFO [ReplicaFetcher replicaId=2, leaderId=3, fetcherId=0] Truncating \
partition log-0-0 with TruncationState(offset=333, completed=true) due to leader epoch and offset \
EpochEndOffset(errorCode=0, partition=0, leaderEpoch=1, endOffset=333) \
(kafka.server.ReplicaFetcherThread)
[2026-11-28 20:47:09,267] INFO [UnifiedLog partition=log-0-0, dir=/data] Truncating to offset 333 \
(kafka.log.UnifiedLog)
[2026-11-28 20:47:09,269] WARN [UnifiedLog partition=log-0-0, dir=/data] Non-monotonic update of \
high watermark from (offset=337 segment=[301:7031]) to (offset=333 segment=[301:6998]) \
(kafka.log.UnifiedLog)
"""},
)  # fmt: skip
SKIPPED = Case(
    anomaly="log-divergence",
    example={
        "partition": 1, "offset": 439, "evidence": {"first_offset": 439, "nodes": ["n1", "n2"]},
        "cause": "n2 and n3 hold the record that n2, leader of epoch 1, wrote there; n1 kept the"
                 " older record of epoch 0, recorded no truncation, and holds records of epoch 1"
                 " after it",
    },
    logs={
        "n1/server.log": """\
[2026-11-29 09:55:04,221] INFO [ReplicaFetcherManager on broker 1] Added fetcher for partitions \
List([log-0-2, initOffset 0 to broker BrokerEndPoint(2,10.81.0.2,9092)] , [log-0-1, initOffset 0 \
to broker BrokerEndPoint(3,10.81.0.3,9092)] ) (kafka.server.ReplicaFetcherManager)
[2026-11-29 09:56:34,984] INFO [ReplicaFetcherManager on broker 1] Added fetcher for partitions \
List([log-0-1, initOffset 2323 to broker BrokerEndPoint(2,10.81.0.2,9092)] ) \
(kafka.server.ReplicaFetcherManager)
""",
        "n1/state-change.log": """\
[2026-11-29 09:55:30,616] INFO [Broker id=1] Skipped the become-follower state change after \
marking its partition as follower with correlation id 3 from controller 1 epoch 3 for partition \
log-0-1 (last update controller epoch 3) since the new leader 3 is the same as the old leader \
(state.change.logger)
""",
    },
)  # fmt: skip
LATE = Case(
    anomaly="G1a",
    example={
        "cause": "n1, leader of epoch 0, appended it behind the end of its own transaction"
                 " (KAFKA-14402): that transaction's marker stands at 1, behind its record at 0"
    },
)  # fmt: skip
LOADED = Case(
    anomaly="commit-lost",
    example={
        "cause": "n1, leader of __consumer_offsets-0 in epoch 0, acknowledged op p1#9 and was hit"
                 " by kill at 40.100 s, and n2, elected later (epoch 1), answered with the older"
                 " position of op p1#2: it lacked what had been acknowledged, or had not loaded it"
    },
    logs={"n2/server.log": """\
[2026-11-28 09:30:41,275] INFO [Group Metadata Manager on Broker 2]: Finished loading offsets and \
group metadata from __consumer_offsets-0 in 12 milliseconds. \
(kafka.coordinator.group.GroupMetadataManager)
"""},
)  # fmt: skip
STRAY = Case(
    anomaly="isr-not-restored",
    example={"evidence": OUT, "topic": "__logquake-remade-2", "partition": 0},
    logs={
        "n3/state-change.log": """\
[2026-11-28 20:51:03,731] ERROR [Broker id=3] Unable to start fetching __logquake-remade-2-0 with \
topic ID VGXW2FYmTpCf9WqqaQtvEg due to InconsistentTopicIdException (state.change.logger)
""",
        "n3/server.log": """\
[2026-11-28 20:51:06,365] INFO Found stray log dir Log(dir=/data/__logquake-remade-2-0, \
topicId=t8Kg_I8WSESu7z5lyW-wfw, topic=__logquake-remade-2, partition=0, highWatermark=0, \
lastStableOffset=0, logStartOffset=0, logEndOffset=3): the topicId t8Kg_I8WSESu7z5lyW-wfw does not \
exist in the metadata image (kafka.server.metadata.BrokerMetadataPublisher$)
[2026-11-28 20:51:06,519] INFO Log for partition __logquake-remade-2-0 is renamed to \
/data/__logquake-remade-2-0.135053a77e35416bb742035393b62a4e-delete and is scheduled for deletion \
(kafka.log.LogManager)
""",
    },
)  # fmt: skip
MADE_AGAIN = """\
[2026-11-28 20:51:20,661] INFO Created log for partition __logquake-remade-2-0 in \
/data/__logquake-remade-2-0 with properties {cleanup.policy=delete} (kafka.log.LogManager)
"""
ELECTED = Case(
    anomaly="slow-election", example={"evidence": {"believed": ["broker 2"]}},
    logs={"n2/server.log": """\
[2026-11-28 21:02:28,135] ERROR Encountered metadata publishing fault: Error applying topics delta \
in MetadataDelta up to 269 (org.apache.kafka.server.fault.LoggingFaultHandler)
java.lang.IllegalStateException: TransactionalId keyed-4 failed transition to state \
TxnTransitMetadata(producerId=1009, lastProducerId=1009)
\tat kafka.coordinator.transaction.TransactionMetadata.throwStateTransitionFailure(TransactionMet\
adata.scala:512)
\tat kafka.coordinator.transaction.TransactionMetadata.completeTransitionTo(TransactionMetadata.s\
cala:425)
\tat kafka.cluster.Partition.makeLeader(Partition.scala:665)
"""},
)  # fmt: skip
DEADLOCK = """\
Found one Java-level deadlock:
=============================
"kafka-request-handler-2":
  waiting to lock monitor 0x00007f19a0018750 (object 0x00000000e26611c0, a kafka.coordinator.\
transaction.TxnTransitMetadata),
  which is held by "kafka-request-handler-1"

Java stack information for the threads listed above:
===================================================
"kafka-request-handler-2":
\tat kafka.server.DelayedProduce.safeTryComplete(DelayedProduce.scala:75)
\t- waiting to lock <0x00000000e26611c0> (a kafka.coordinator.transaction.TxnTransitMetadata)

Found 1 deadlock.
"""
LOCKED = Case(
    anomaly="unavailable",
    example={"evidence": {"stacks": ["n1: deadlock: kafka-request-handler-2 waits for others"]}},
    logs={"n1/stdout.log": DEADLOCK},
)  # fmt: skip
TOMBSTONE = Case(
    anomaly="group-stuck", example={"cause": "n1, leader of __consumer_offsets-1, refuses it"},
    logs={"n1/server.log": """\
[2026-11-28 21:42:59,532] ERROR [GroupCoordinator id=1] Failed to load metadata from \
__consumer_offsets-1 with epoch 2 due to java.lang.IllegalStateException: Received a tombstone \
record to delete member a-1 but did not receive ConsumerGroupCurrentMemberAssignmentValue \
tombstone.. (org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime)
"""},
)  # fmt: skip
SESSION = Case(
    anomaly="isr-not-restored", example={"evidence": OUT},
    logs={"n1/stdout.log": """\
Full thread dump OpenJDK 64-Bit Server VM (17.0.15+6-Debian-1deb12u1 mixed mode):
"controller-event-thread" #44 prio=5 waiting on condition
\tat java.util.concurrent.locks.ReentrantReadWriteLock$ReadLock.lock(ReentrantReadWriteLock.java)
\tat kafka.zookeeper.ZooKeeperClient.handleRequests(ZooKeeperClient.scala:145)

"zk-session-expiry-handler0" #46 daemon prio=5 waiting on condition
\tat java.util.concurrent.CountDownLatch.await(CountDownLatch.java:230)
\tat kafka.controller.KafkaController$Expire.waitUntilProcessed(KafkaController.scala:1504)
"""},
)  # fmt: skip
EXITED = Case(
    anomaly="broker-ended", example={"topic": "", "partition": -1, "sentence": (
        "n3 ended with exit code 1, and no fault had caused this (detected at 61.639 s); its last"
        " output: ERROR [ReplicaFetcher replicaId=3, leaderId=1, fetcherId=3] Exiting because log"
        " truncation is not allowed for partition log-0-0, current leader's latest offset 34 is"
        " less than replica's latest offset 35 (kafka.server.ReplicaFetcherThread)."
    )},
)  # fmt: skip
PARTLY = Case(
    anomaly="G1a", example={"offset": 340, "evidence": {"value": 7, "readers": [3713]}},
    logs={"n1/server.log": """\
[2026-11-29 11:36:05,000] INFO [Log partition=log-0-0, dir=/data] Rolled new log segment at offset \
312 in 4 ms. (kafka.log.Log)
[2026-11-29 11:36:10,000] INFO Cleaner 0: Building offset map for log log-0-0 for 2 segments in \
offset range [300, 350). (kafka.log.LogCleaner)
[2026-11-29 11:36:10,100] INFO [kafka-log-cleaner-thread-0]:
\tLog cleaner thread 0 cleaned log log-0-0 (dirty section = [300, 330])
"""},
)  # fmt: skip
MARKER = Case(
    anomaly="lost-write",
    example={"cause": (
        "the logs of n1, n2 and n3 hold it at offset 381, but no marker ends its transaction: the"
        " next marker of its producer, at offset 472, follows op 11488's record and ends both"
        " transactions; its marker was written by 133.094 s, when op 11238 read the record as"
        " committed, before op 11488 began: a cleaner removed the marker and kept the record;"
        " the record at offset 420 has the key of a commit marker"
    )},
)  # fmt: skip
EARLY: Mapping[str, object] = {
    "announced_by": 1, "announced_epoch": 0, "announced_high_watermark": 135, "offset": 136,
    "completed_ns": 95_018_929_289,
}  # fmt: skip
ABOVE = Case(
    anomaly="uncommitted-read",
    example={
        "topic": "log-1", "partition": 1, "offset": 136, "evidence": EARLY, "cause": (
            "n1, leader of epoch 0, served the record above the high watermark: the record was"
            " never acknowledged, and no log holds it there at the end"
        ),
    },
    logs={"n1/server.log": """\
[2026-11-29 11:37:19,035] INFO Cleaner 0: Swapping in cleaned segment LogSegment(baseOffset=0, \
size=1942) for segment(s) List(LogSegment(baseOffset=0, size=1942), LogSegment(baseOffset=135, \
size=375)) in log Log(dir=/data/log-1-1, topic=log-1, partition=1, highWatermark=135, \
lastStableOffset=135, logStartOffset=0, logEndOffset=139) (kafka.log.LogCleaner)
[2026-11-29 11:37:19,036] INFO [kafka-log-cleaner-thread-0]:
\tLog cleaner thread 0 cleaned log log-1-1 (dirty section = [135, 138])
"""},
)  # fmt: skip
TORN = Case(
    anomaly="torn-transaction",
    example={
        "evidence": {"op_id": 75},
        "cause": "in log-0-3, where the record was read, no marker ends its transaction: the next"
                 " marker of its producer, at offset 45, follows op 824's record and ends both"
                 " transactions; n2, leader of __transaction_state-1 in epoch 0, sent no marker,"
                 " although in log-1-2 its marker is at offset 18",
    },
    logs={"n2/server.log": """\
[2026-11-29 11:36:38,150] INFO [Transaction Marker Channel Manager 2]: Couldn't find leader \
endpoint for partitions Set(log-1-2, log-0-3) while trying to send transaction markers for txn-8, \
these partitions are likely deleted already and hence can be skipped \
(kafka.coordinator.transaction.TransactionMarkerChannelManager)
"""},
    sends=tuple(
        {"op_id": op, "transactional_id": client, "topic": "log-0", "partition": 3,
         "invoke_ns": at * 1_000_000_000, "acked": acked}
        for op, client, at, acked in ((75, "txn-8", 10, True), (76, "txn-9", 10, True),
                                      (77, "txn-8", 20, False), (78, "txn-8", 60, True))
    ),
)  # fmt: skip
GUILTY = {
    "KAFKA-14946": RENOUNCED, "KAFKA-14704": TRUNCATED, "KAFKA-14402": LATE, "KAFKA-5600": LOADED,
    "KAFKA-14616": STRAY, "KAFKA-15468": ELECTED, "KAFKA-5970": LOCKED, "KAFKA-20734": TORN,
    "KAFKA-19862": TOMBSTONE, "KAFKA-6879": SESSION, "KAFKA-7164": SKIPPED,
    "KAFKA-7414": EXITED, "KAFKA-13727": PARTLY, "KAFKA-14055": MARKER, "KAFKA-13194": ABOVE,
}  # fmt: skip
INNOCENT = [
    # Its own marker; another partition, transactional id or line.
    ("KAFKA-20734", TORN.told(cause=str(TORN.example["cause"]).replace(
        "no marker ends its", "its marker ends the"))),
    ("KAFKA-20734", TORN.told(cause=str(TORN.example["cause"]).replace("log-0-3", "log-0-2"))),
    ("KAFKA-20734", TORN.told(evidence={"op_id": 76})),
    ("KAFKA-20734", TORN.without("for txn-8,", "for txn-88,")),
    ("KAFKA-20734", TORN.without("11:36:38", "11:35:50")),  # Before the send; after the next one.
    ("KAFKA-20734", TORN.without("11:36:38", "11:36:50")),
    ("KAFKA-20734", replace(TORN, logs={"n3/server.log": TORN.logs["n2/server.log"]})),
    ("KAFKA-20734", TORN.without("log-0-3", "log-0-33")),
    ("KAFKA-20734", TORN.without("log-0-3", "other-log-0-3")),
    ("KAFKA-20734", TORN.without("Couldn't find leader endpoint", "Found the leader endpoint")),
    # The map had room; the record is below its end; another partition; a later segment; no read of
    # this value; after the read.
    ("KAFKA-13727", PARTLY.without("[300, 330]", "[300, 350]")),
    ("KAFKA-13727", PARTLY.told(offset=320)),
    ("KAFKA-13727", PARTLY.told(partition=1)),
    ("KAFKA-13727", PARTLY.without("segment at offset 312", "segment at offset 335")),
    ("KAFKA-13727", PARTLY.told(evidence={"value": 8, "readers": [3713]})),
    ("KAFKA-13727", PARTLY.without("11:36:10", "11:38:10")),
    ("KAFKA-13727", PARTLY.told(cause="it was appended behind its marker (KAFKA-14402)")),
    # Another reason.
    ("KAFKA-7414", EXITED.told(sentence=str(EXITED.example["sentence"]).replace(
        "log truncation is not allowed", "the disk is full"))),
    # Nobody read the record; no record has the marker's key.
    ("KAFKA-14055", MARKER.told(cause=str(MARKER.example["cause"]).replace(
        "its marker was written by 133.094 s, when op 11238 read the record as committed, before op"
        " 11488 began: a cleaner removed the marker and kept the record",
        "its coordinator sent no marker, or n1, leader of log-1-1 in epoch 0, appended none"))),
    ("KAFKA-14055", MARKER.told(cause=str(MARKER.example["cause"]).partition("; the record")[0])),
    # Cleaned below the record; another high watermark, partition or leader; the next cleaning.
    ("KAFKA-13194", ABOVE.without("[135, 138]", "[132, 136]")),
    ("KAFKA-13194", ABOVE.without("highWatermark=135", "highWatermark=138")),
    ("KAFKA-13194", ABOVE.told(partition=0)),
    ("KAFKA-13194", ABOVE.told(evidence={**EARLY, "announced_by": 2})),
    ("KAFKA-13194", ABOVE.told(cause="n1 or n2 served the record above the high watermark")),
    ("KAFKA-13194", ABOVE.told(evidence={**EARLY, "completed_ns": 1_000_000_000})),  # Too early.
    ("KAFKA-13194", ABOVE.without("cleaned log log-1-1 (dirty section = [135, 138])",
                                  "cleaned log log-1-1 (dirty section = [132, 135])")),
    # A new leader; a fetcher from the leader in between; another partition; a recorded truncation;
    # the skipped leader is the one in between; a follower that led before it.
    ("KAFKA-7164", SKIPPED.without("Skipped the become-follower", "Completed the become-follower")),
    ("KAFKA-7164", SKIPPED.without("initOffset 2323", "initOffset 439")),
    ("KAFKA-7164", SKIPPED.told(partition=3)),
    ("KAFKA-7164", SKIPPED.told(cause=str(SKIPPED.example["cause"]).replace("no truncation", ""))),
    ("KAFKA-7164", SKIPPED.told(cause=str(SKIPPED.example["cause"]).replace("that n2", "that n3"))),
    ("KAFKA-7164", SKIPPED.without("[log-0-1, initOffset 0", "[log-0-1, initOffset 500")),
    # Another exception; a broker that is in sync.
    ("KAFKA-14946", RENOUNCED.without("NullPointerException", "IllegalStateException")),
    ("KAFKA-14946", RENOUNCED.told(evidence={**OUT, "isr": [2, 3]})),
    ("KAFKA-14946", replace(RENOUNCED, logs={"n101/server.log": RENOUNCED.logs["n3/server.log"]})),
    # A leader's lower high watermark (recorded on 3.5.1); by the own high watermark; another
    # partition, other offsets, another node.
    ("KAFKA-14704", replace(TRUNCATED, logs={"n2/server.log": """\
[2026-11-28 20:50:19,565] WARN [UnifiedLog partition=log-0-0, dir=/data] Non-monotonic update of \
high watermark from (offset=337segment=[0:28801]) to (offset=333segment=[-1:-1]) \
(kafka.log.UnifiedLog)
"""})),
    ("KAFKA-14704", TRUNCATED.without("due to leader epoch and offset", "due to local high")),
    ("KAFKA-14704", TRUNCATED.told(partition=1)),
    ("KAFKA-14704", TRUNCATED.without("offset=337 ", "offset=335 ")),
    ("KAFKA-14704", TRUNCATED.told(evidence={"node": "n2", "high_watermark": 336, "log_end": 330})),
    ("KAFKA-14704", TRUNCATED.told(evidence={"node": "n1", "high_watermark": 336, "log_end": 334})),
    # The marker may have ended an empty transaction.
    ("KAFKA-14402", LATE.told(cause="its own may be that at 774, which ends no other record: then"
                              " it was appended behind the end of its transaction (KAFKA-14402)")),
    # No failover; an unknown broker; a cut log; nothing was loaded.
    ("KAFKA-5600", LOADED.told(cause="n1, leader of __consumer_offsets-0 in epoch 0, coordinated"
                               " the group all along: it acknowledged op 9, and 2.0 s later it"
                               " answered with the older position of op 2, without an election"
                               " in between")),
    ("KAFKA-5600", LOADED.told(cause="the coordinator had acknowledged op 9, and answered with the"
                               " older position of op 2; the record does not have who led"
                               " __consumer_offsets, so it does not show which broker that was")),
    ("KAFKA-5600", LOADED.told(cause=f"{LOADED.example['cause']}; n1 cut its copy from offset 3")),
    ("KAFKA-5600", LOADED.without("__consumer_offsets-0 in 12", "__consumer_offsets-1 in 12")),
    # The old replica only; the topic was made again there; another partition; another broker.
    ("KAFKA-14616", STRAY.without("InconsistentTopicIdException", "KafkaStorageException")),
    ("KAFKA-14616", replace(STRAY, logs={**STRAY.logs, "n3/server.log":
                            STRAY.logs["n3/server.log"] + MADE_AGAIN})),
    ("KAFKA-14616", STRAY.told(topic="log-0")),
    ("KAFKA-14616", STRAY.told(evidence={**OUT, "isr": [2, 3]})),
    ("KAFKA-14616", STRAY.told(evidence={**OUT, "budget_s": None})),
    # Another broker; another failure of the same code.
    ("KAFKA-15468", ELECTED.told(evidence={"believed": ["broker 1"]})),
    ("KAFKA-15468", ELECTED.without("java.lang.IllegalStateException", "java.lang.Error")),
    # Another deadlock, before a dump with a produce; a deadlock that the anomaly does not report.
    ("KAFKA-5970", LOCKED.without("Found 1 deadlock.\n").without(
        "\tat kafka.server.DelayedProduce.safeTryComplete(DelayedProduce.scala:75)\n",
        "\nFound 1 deadlock.\nFull thread dump\n\tat kafka.server.DelayedProduce.safeTryComplete")),
    ("KAFKA-5970", LOCKED.told(evidence={"stacks": []})),
    # Recorded on 4.4.0: the broker no longer led.
    ("KAFKA-19862", replace(TOMBSTONE, logs={"n1/server.log": """\
[2026-11-28 21:42:59,532] ERROR [GroupCoordinator id=1] Failed to load metadata from \
__consumer_offsets-1 with epoch 2 due to Stopped loading records from __consumer_offsets-1 because \
the partition is not online or is no longer the leader.. \
(org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime)
"""})),
    ("KAFKA-19862", TOMBSTONE.told(cause="n2, leader of __consumer_offsets-1, refuses it")),
    # The controller works; two dumps.
    ("KAFKA-6879", SESSION.without("kafka.zookeeper.ZooKeeperClient.handleRequests", "a.b")),
    ("KAFKA-6879", SESSION.without('\n"zk-session', '\nFull thread dump\n"zk-session')),
]  # fmt: skip


def test_every_mechanism_has_a_guilty_and_an_innocent_run() -> None:
    assert GUILTY.keys() == MECHANISMS.keys()
    assert {ticket for ticket, _ in INNOCENT} == MECHANISMS.keys()


@pytest.mark.parametrize("ticket", MECHANISMS)
def test_what_was_logged_with_the_bug_shows_it(ticket: str, tmp_path: Path) -> None:
    case = GUILTY[ticket]
    assert case.shown(ticket, tmp_path) == (case.anomaly,)
    others = {other: case.shown(other, tmp_path / other) for other in MECHANISMS if other != ticket}
    assert not any(others.values())


@pytest.mark.parametrize(("ticket", "case"), INNOCENT)
def test_what_only_looks_like_it_does_not_show_it(ticket: str, case: Case, tmp_path: Path) -> None:
    assert case.shown(ticket, tmp_path) == ()


def test_a_replica_that_is_made_after_the_budget_is_not_an_objection(tmp_path: Path) -> None:
    late = MADE_AGAIN.replace("20:51:20,661", "20:51:52,000")
    case = replace(STRAY, logs={**STRAY.logs, "n3/server.log": STRAY.logs["n3/server.log"] + late})
    assert case.shown("KAFKA-14616", tmp_path) == ("isr-not-restored",)


FORGOTTEN = Case(
    anomaly="commit-lost",
    example={"evidence": {"last_op_id": 9, "committed_by": 2},
             "cause": "it had acknowledged op 9, and answered with the older position"},
    logs={f"n{node}/server.log": """\
[2026-11-29 06:13:01,479] INFO [Group Metadata Manager on Broker 1]: Finished loading offsets and \
group metadata from __consumer_offsets-3 in 20 milliseconds. (kafka.coordinator.group.GroupMetadata\
Manager)
""" if node < 3 else "" for node in (1, 2, 3)},
)  # fmt: skip


def kept(*, newer: int = 59, nodes: tuple[int, ...] = (1, 2, 3), whole: bool = True) -> pa.Table:
    """Return the commits in the brokers' logs: op 2 at offset 15, op 9 at another offset."""
    return pa.Table.from_pylist([
        {"node": f"n{node}", "log_partition": 3, "log_offset": at, "whole": whole,
         "committed_by": op}
        for node in (1, 2, 3)
        for op, at in ((2, 15), (9, newer))
        if op == 2 or node in nodes
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("case", "table", "shown"),
    [
        (FORGOTTEN, kept(), True),
        (FORGOTTEN.told(evidence={"last_op_id": 9, "committed_by": None}), kept(), True),
        (FORGOTTEN, kept(newer=7), False),
        (FORGOTTEN, kept(nodes=(1, 2)), False),
        (FORGOTTEN, kept(whole=False), False),
        (replace(FORGOTTEN, logs=dict.fromkeys(FORGOTTEN.logs, "")), kept(), False),
        (replace(FORGOTTEN, logs={**FORGOTTEN.logs, "n2/server.log": ""}), kept(), False),
        (FORGOTTEN.told(evidence={"last_op_id": 8, "committed_by": 2}), kept(), False),
    ],
    ids=("older", "none", "before", "lost", "compacted", "not-loaded", "loaded-once", "unknown"),
)
def test_without_known_leaders_the_logs_show_what_a_coordinator_forgot(
    case: Case, table: pa.Table, tmp_path: Path, *, shown: bool
) -> None:
    run = broken_by(case.anomaly, tmp_path / "run", **case.example)
    path = run.table("kept_commits")
    path.parent.mkdir(parents=True)
    pq.write_table(table, path)
    case.write(run)
    assert bool(shows(MECHANISMS["KAFKA-5600"], run)) is shown


def test_only_examples_that_decide_the_verdict_count(tmp_path: Path) -> None:
    mechanism = MECHANISMS["KAFKA-14402"]
    late = Example(
        sentence="it broke", evidence={}, topic="log-0", topic_id="", partition=0, offset=1,
        allowed=False, trusted=True, why="", cause=str(LATE.example["cause"]),
    )  # fmt: skip
    allowed, doubted = replace(late, allowed=True), replace(late, trusted=False)
    other = replace(late, cause="")
    assert shows(mechanism, judged("G1a", tmp_path / "late", other, late)) == ("G1a",)
    for name, examples in {
        "both": (allowed, doubted),
        "another": (other, allowed, doubted),
    }.items():
        assert shows(mechanism, judged("G1a", tmp_path / name, *examples)) == ()
    assert shows(mechanism, judged("lost-write", tmp_path / "lost", late)) == ()
    assert shows(mechanism, RunPaths(tmp_path / "unjudged")) == ()
