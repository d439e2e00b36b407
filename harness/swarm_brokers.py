"""The swarm's table for broker settings.

The swarm sets nothing on topics, so the broker settings apply to all topics.

`harness/swarm_table.py` has the other settings, and the reasons why some settings are left out.
"""

from cluster.sessions import SESSION_TIMEOUT, SESSION_TIMEOUT_OF_KRAFT
from harness.swarm_rows import (
    Row,
    Value,
    briefly,
    every,
    grouped,
    kafka,
    keeper,
    leaders_stay,
    of_brokers,
    ours,
    quorum,
    real,
    simulated,
    since,
    small_segments,
    transactional,
    trickles,
    uncompacted,
)

_MIB = "1048576"
_LOGS = (
    of_brokers(
        "log.segment.bytes",
        "Kafka and the reference cluster, light load, topics without compaction",
        ours,
        {},
        Value(
            settings={"broker.log.segment.bytes": "16384", "contents.batch_bytes": 8000},
            why=(
                "segments roll several times a second, for example during truncations, recoveries"
                " and fetches"
            ),
            fits=every(small_segments, real, briefly),
        ),
        Value(
            settings={"broker.log.segment.bytes": "65536", "contents.batch_bytes": 32000},
            why="as above, with longer segments; some segments contain several epochs",
            fits=every(small_segments, real, briefly),
        ),
        Value(
            settings={"broker.log.segment.bytes": "65536"},
            why="in virtual time: segments roll during faults",
            fits=simulated,
        ),
        Value(
            settings={"broker.log.segment.bytes": _MIB},
            why="segments roll during faults; the smallest size in Kafka 4.0 and later",
            fits=real,
        ),
        fits=every(uncompacted, trickles),
    ),
    of_brokers(
        "log.roll.ms",
        "Kafka, topics without compaction",
        kafka,
        {
            "3000": "segments roll by time, also in internal topics and after a restart",
        },
        fits=uncompacted,
    ),
    of_brokers(
        "log.index.interval.bytes",
        "Kafka",
        kafka,
        {"128": "an index entry for nearly each batch, so searches take other paths"},
    ),
    of_brokers(
        "log.segment.delete.delay.ms",
        "Kafka, topics without compaction",
        kafka,
        {"200": "files of deleted topics are removed while flushes and fetches still use them"},
        fits=uncompacted,
    ),
    of_brokers(
        "log.flush.interval.messages",
        "Kafka and the reference cluster",
        ours,
        {"100": "flushes during appends, under the log's lock"},
    ),
    of_brokers(
        "log.flush.offset.checkpoint.interval.ms",
        "Kafka and the reference cluster",
        ours,
        {
            "1000": "recovery begins close to the end of the log",
            "600000": "recovery rereads whole logs",
        },
    ),
    of_brokers(
        "num.recovery.threads.per.data.dir",
        "Kafka",
        kafka,
        {"4": "partitions are recovered in parallel"},
    ),
    of_brokers(
        "compression.type",
        "Kafka",
        kafka,
        {
            "gzip": "the leader recompresses each batch before the append",
            "uncompressed": "the leader decompresses each batch before the append",
        },
    ),
    Row(
        name="log.cleaner",
        where="Kafka, groups or transactions, topics without compaction",
        takes=kafka,
        fits=every(uncompacted, lambda plan: plan.is_grouped or plan.transactional),
        values=(
            Value(
                settings={
                    "broker.log.cleaner.backoff.ms": "500",
                    "broker.log.cleaner.min.cleanable.ratio": "0.01",
                },
                why="internal topics are cleaned while coordinators append to or load them",
            ),
        ),
    ),
)
_REPLICAS = (
    of_brokers(
        "replica.fetch.wait.max.ms",
        "Kafka and the reference cluster",
        ours,
        {
            "50": "followers fetch often, so they learn high watermarks at once",
        },
        Value(
            settings={
                "broker.replica.fetch.wait.max.ms": "3000",
                "broker.replica.lag.time.max.ms": "6000",
            },
            why="followers of idle partitions wait 3 s for a response; after 6 s they would leave"
            " the ISR",
        ),
    ),
    of_brokers(
        "replica.fetch.max.bytes",
        "Kafka and the reference cluster, light load",
        ours,
        {"16384": "followers that are behind catch up in many small steps"},
        fits=trickles,
    ),
    of_brokers(
        "replica.fetch.response.max.bytes",
        "Kafka and the reference cluster, light load",
        ours,
        {"65536": "fetch responses with only some partitions; the other partitions wait"},
        fits=trickles,
    ),
    of_brokers(
        "replica.fetch.backoff.ms",
        "Kafka and the reference cluster",
        ours,
        {"100": "followers fetch again during an election"},
    ),
    of_brokers(
        "num.replica.fetchers",
        "Kafka",
        kafka,
        {
            "4": (
                "several threads fetch partitions of one leader, and partitions move between"
                " threads"
            )
        },
    ),
    of_brokers(
        "max.incremental.fetch.session.cache.slots",
        "Kafka 1.1 or later",
        every(kafka, since(1, 1)),
        {"0": "no fetch sessions: each fetch names all of its partitions (KIP-227)"},
    ),
    of_brokers(
        "replica.high.watermark.checkpoint.interval.ms",
        "Kafka and the reference cluster",
        ours,
        {
            "500": "a restarted broker begins close to its high watermark",
            "60000": "a killed broker begins far below its high watermark",
        },
    ),
    of_brokers(
        "leader.imbalance.check.interval.seconds",
        "Kafka and the reference cluster, no leadership faults",
        ours,
        {"5": "leadership returns to the preferred replica soon after it is in sync again"},
        fits=leaders_stay,
    ),
)
_SERVERS = (
    of_brokers(
        "num.io.threads",
        "Kafka",
        kafka,
        {
            "2": "requests wait behind a slow request",
            "8": "more parallel requests for one partition",
        },
    ),
    of_brokers(
        "num.network.threads",
        "Kafka",
        kafka,
        {
            "1": "one slow connection delays all others",
            "4": "connections of one client are served in parallel",
        },
    ),
    of_brokers(
        "queued.max.requests",
        "Kafka",
        kafka,
        {"4": "network threads wait for a full queue of requests"},
    ),
    of_brokers(
        "background.threads",
        "Kafka",
        kafka,
        {"1": "flushes, segment rolls and deletions wait for each other"},
    ),
)
_METADATA = (
    of_brokers(
        SESSION_TIMEOUT_OF_KRAFT,
        "Kafka and the reference cluster, with a KRaft quorum",
        every(ours, quorum),
        {
            "6000": "a broker that is away for a shorter time keeps its registration and"
            " continues to lead when it is back",
        },
    ),
    of_brokers(
        SESSION_TIMEOUT,
        "Kafka with ZooKeeper",
        every(kafka, keeper),
        {"6000": "as above, for brokers and for the controller"},
    ),
    of_brokers(
        "metadata.log.max.record.bytes.between.snapshots",
        "Kafka 3.0 or later and the reference cluster, with a KRaft quorum",
        every(ours, quorum, since(3, 0)),
        {"4096": "metadata snapshots during elections; brokers start from these snapshots"},
    ),
    of_brokers(
        "controller.quorum.append.linger.ms",
        "Kafka with a quorum",
        every(kafka, quorum),
        {
            "0": "one metadata batch for each change",
            "200": "many metadata changes in one batch, so each change is known late",
        },
    ),
)
_COORDINATORS = (
    of_brokers(
        "group.initial.rebalance.delay.ms",
        "Kafka, groups and pipeline",
        kafka,
        {"1000": "members that join during this time get their partitions in one rebalance"},
        fits=grouped,
    ),
    of_brokers(
        "group.coordinator.append.linger.ms",
        "Kafka 4.0 or later, groups and pipeline",
        every(kafka, since(4, 0)),
        {
            "0": "each commit has its own batch",
            "50": "many commits in one batch, so all get a late response",
        },
        fits=grouped,
    ),
    of_brokers(
        "offsets.load.buffer.size",
        "Kafka, groups and pipeline",
        kafka,
        {"4096": "a coordinator loads its groups in many steps"},
        fits=grouped,
    ),
    of_brokers(
        "offsets.topic.num.partitions",
        "Kafka, groups and pipeline",
        kafka,
        {"1": "one coordinator for all groups"},
        fits=grouped,
    ),
    of_brokers(
        "offsets.topic.segment.bytes",
        "Kafka, groups and pipeline",
        kafka,
        {},
        Value(
            settings={"broker.offsets.topic.segment.bytes": "65536"},
            why="commits are in several segments, which a coordinator loads one after another",
            fits=small_segments,
        ),
        Value(
            settings={"broker.offsets.topic.segment.bytes": _MIB},
            why="as above, but later; the smallest size in Kafka 4.0 and later",
        ),
        fits=grouped,
    ),
    of_brokers(
        "transaction.state.log.load.buffer.size",
        "Kafka, transactions",
        kafka,
        {"4096": "a coordinator loads its transactions in many steps"},
        fits=transactional,
    ),
    of_brokers(
        "transaction.state.log.num.partitions",
        "Kafka, transactions",
        kafka,
        {"1": "one coordinator for all transactional ids"},
        fits=transactional,
    ),
    of_brokers(
        "transaction.state.log.segment.bytes",
        "Kafka, transactions",
        kafka,
        {},
        Value(
            settings={"broker.transaction.state.log.segment.bytes": "65536"},
            why="transaction states are in several segments",
            fits=small_segments,
        ),
        Value(
            settings={"broker.transaction.state.log.segment.bytes": _MIB},
            why="as above, but later; the smallest size in Kafka 4.0 and later",
        ),
        fits=transactional,
    ),
    of_brokers(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        "Kafka, transactions",
        kafka,
        {
            "200": "a coordinator aborts a transaction right after its timeout",
            "5000": "a coordinator aborts many transactions at once",
        },
        fits=transactional,
    ),
)
OF_BROKERS: tuple[Row, ...] = (*_LOGS, *_REPLICAS, *_SERVERS, *_METADATA, *_COORDINATORS)
