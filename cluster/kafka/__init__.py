"""Real Apache Kafka: fetched, configured, started, observed, and its files put in order.

`fetch` brings a version from Maven Central, `java` finds what runs it, `configuration` writes the
settings of a node (pure), `storage` formats its disk, `cluster` starts and hits brokers behind
`cluster.protocol`, `admin` asks them things over `wire` connections, `observer` asks each broker by
itself several times a second for the record, `collect` tidies a node's folder after the run.

May import `cluster.protocol`, `cluster.hosts` and `results.record`; is imported by `harness`.

To add a version: nothing, if it is 4.0 or later and on Maven Central (`--system kafka:VERSION`). If
its settings differ, `configuration.server_properties` is the place; if its logging does,
`fetch.LOGGING` and `configuration.logging_properties`; if it drops a version of a request, the
imports in `questions` and wherever its answers are read. Then run `pytest tests/cluster_kafka` with
it: `LOGQUAKE_KAFKA=VERSION`.
"""
