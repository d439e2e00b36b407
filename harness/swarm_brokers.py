"""The swarm's table for broker settings. Topics have no own settings, so they get the brokers'.

`harness/swarm_table.py` has the other settings, and the reasons why some are left out.
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
        "brokers of ours, little load, topics that are not compacted",
        ours,
        {},
        Value(
            settings={"broker.log.segment.bytes": "16384", "contents.batch_bytes": 8000},
            why="segments roll several times a second: at truncations, recoveries and fetches",
            fits=every(small_segments, real, briefly),
        ),
        Value(
            settings={"broker.log.segment.bytes": "65536", "contents.batch_bytes": 32000},
            why="the same, with longer segments: some hold several epochs",
            fits=every(small_segments, real, briefly),
        ),
        Value(
            settings={"broker.log.segment.bytes": "65536"},
            why="in virtual time: segments roll while faults are in force",
            fits=simulated,
        ),
        Value(
            settings={"broker.log.segment.bytes": _MIB},
            why="segments roll while faults are in force; the least from Kafka 4.0 on",
            fits=real,
        ),
        fits=every(uncompacted, trickles),
    ),
    of_brokers(
        "log.roll.ms",
        "Kafka, topics that are not compacted",
        kafka,
        {
            "3000": "segments roll by time, also of internal topics and after a restart",
        },
        fits=uncompacted,
    ),
    of_brokers(
        "log.index.interval.bytes",
        "Kafka",
        kafka,
        {"128": "an entry of the index for nearly each batch: each search takes another way"},
    ),
    of_brokers(
        "log.segment.delete.delay.ms",
        "Kafka, topics that are not compacted",
        kafka,
        {"200": "files of deleted topics go while flushes and fetches still have them"},
        fits=uncompacted,
    ),
    of_brokers(
        "log.flush.interval.messages",
        "brokers of ours",
        ours,
        {"100": "flushes in the middle of appends, below the log's lock"},
    ),
    of_brokers(
        "log.flush.offset.checkpoint.interval.ms",
        "brokers of ours",
        ours,
        {
            "1000": "recoveries begin close to the end",
            "600000": "recoveries read whole logs again",
        },
    ),
    of_brokers(
        "num.recovery.threads.per.data.dir",
        "Kafka",
        kafka,
        {"4": "partitions are recovered side by side"},
    ),
    of_brokers(
        "compression.type",
        "Kafka",
        kafka,
        {
            "gzip": "the leader packs each batch anew before it appends it",
            "uncompressed": "the leader unpacks each batch before it appends it",
        },
    ),
    Row(
        name="log.cleaner",
        where="Kafka, groups or transactions, topics that are not compacted",
        takes=kafka,
        fits=every(uncompacted, lambda plan: plan.is_grouped or plan.transactional),
        values=(
            Value(
                settings={
                    "broker.log.cleaner.backoff.ms": "500",
                    "broker.log.cleaner.min.cleanable.ratio": "0.01",
                },
                why="internal topics are cleaned while coordinators append to them, or load them",
            ),
        ),
    ),
)
_REPLICAS = (
    of_brokers(
        "replica.fetch.wait.max.ms",
        "brokers of ours",
        ours,
        {
            "50": "followers ask often: high watermarks are told at once",
        },
        Value(
            settings={
                "broker.replica.fetch.wait.max.ms": "3000",
                "broker.replica.lag.time.max.ms": "6000",
            },
            why="followers of idle partitions hear of nothing for seconds, half of the time after"
            " which they leave the ISR",
        ),
    ),
    of_brokers(
        "replica.fetch.max.bytes",
        "brokers of ours, little load",
        ours,
        {"16384": "followers that are behind come back in many small steps"},
        fits=trickles,
    ),
    of_brokers(
        "replica.fetch.response.max.bytes",
        "brokers of ours, little load",
        ours,
        {"65536": "answers that hold some partitions only: the others wait for their turn"},
        fits=trickles,
    ),
    of_brokers(
        "replica.fetch.backoff.ms",
        "brokers of ours",
        ours,
        {"100": "followers ask again while an election is under way"},
    ),
    of_brokers(
        "num.replica.fetchers",
        "Kafka",
        kafka,
        {"4": "partitions of one leader are fetched by several threads, which move them"},
    ),
    of_brokers(
        "max.incremental.fetch.session.cache.slots",
        "Kafka from 1.1 on",
        every(kafka, since(1, 1)),
        {"0": "no fetch sessions: each fetch names all of its partitions (KIP-227)"},
    ),
    of_brokers(
        "replica.high.watermark.checkpoint.interval.ms",
        "brokers of ours",
        ours,
        {
            "500": "a broker that comes back begins close to its high watermark",
            "60000": "a broker that was killed begins far below its high watermark",
        },
    ),
    of_brokers(
        "leader.imbalance.check.interval.seconds",
        "brokers of ours, no faults of leadership",
        ours,
        {"5": "leaders go back to the preferred replica soon after it is in sync again"},
        fits=leaders_stay,
    ),
)
_SERVERS = (
    of_brokers(
        "num.io.threads",
        "Kafka",
        kafka,
        {
            "2": "requests wait behind a slow one",
            "8": "more requests of one partition side by side",
        },
    ),
    of_brokers(
        "num.network.threads",
        "Kafka",
        kafka,
        {
            "1": "one slow connection delays all others",
            "4": "connections of one client are served side by side",
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
        {"1": "flushes, rolls and deletions wait for each other"},
    ),
)
_METADATA = (
    of_brokers(
        SESSION_TIMEOUT_OF_KRAFT,
        "brokers of ours that have a quorum",
        every(ours, quorum),
        {
            "6000": "brokers that are gone for less are never missed: they lead on as they come"
            " back",
        },
    ),
    of_brokers(
        SESSION_TIMEOUT,
        "Kafka with ZooKeeper",
        every(kafka, keeper),
        {"6000": "the same, of brokers and of the controller"},
    ),
    of_brokers(
        "metadata.log.max.record.bytes.between.snapshots",
        "brokers of ours that have a quorum, Kafka from 3.0 on",
        every(ours, quorum, since(3, 0)),
        {"4096": "snapshots of the metadata while elections go on, and starts from them"},
    ),
    of_brokers(
        "controller.quorum.append.linger.ms",
        "Kafka with a quorum",
        every(kafka, quorum),
        {
            "0": "a batch of metadata for each change",
            "200": "many changes of metadata in one batch, each known late",
        },
    ),
)
_COORDINATORS = (
    of_brokers(
        "group.initial.rebalance.delay.ms",
        "Kafka, groups and pipeline",
        kafka,
        {"1000": "members that come meanwhile are dealt partitions together"},
        fits=grouped,
    ),
    of_brokers(
        "group.coordinator.append.linger.ms",
        "Kafka from 4.0 on, groups and pipeline",
        every(kafka, since(4, 0)),
        {
            "0": "each commit is a batch of its own",
            "50": "many commits in one batch, all of them answered late",
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
            why="commits lie in several segments, which a coordinator loads one after the other",
            fits=small_segments,
        ),
        Value(
            settings={"broker.offsets.topic.segment.bytes": _MIB},
            why="the same, later; the least from Kafka 4.0 on",
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
            why="states of transactions lie in several segments",
            fits=small_segments,
        ),
        Value(
            settings={"broker.transaction.state.log.segment.bytes": _MIB},
            why="the same, later; the least from Kafka 4.0 on",
        ),
        fits=transactional,
    ),
    of_brokers(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        "Kafka, transactions",
        kafka,
        {
            "200": "a coordinator aborts as soon as a timeout is over",
            "5000": "many transactions are aborted at once",
        },
        fits=transactional,
    ),
)
OF_BROKERS: tuple[Row, ...] = (*_LOGS, *_REPLICAS, *_SERVERS, *_METADATA, *_COORDINATORS)
