"""Real Apache Kafka: fetched, configured, started, observed, and its files put in order.

`fetch` brings a version from Maven Central, `java` finds what runs it, `versions` says how versions
and modes differ (pure), `configuration` and `log_files` write the settings of a node (pure),
`storage` formats its disk, `zookeeper` has the server that keeps the metadata of older clusters,
`layout` puts these together for the nodes of a run, `cluster` starts and hits them behind
`cluster.protocol`. `dialects` speaks with brokers of every version over connections of `wire`:
`admin` and `zookeeper_admin` ask a cluster and give it orders, `asking` asks one broker, `observer`
asks each by itself several times a second for the record. `collect` tidies a node's folder.

May import the rest of `cluster`, and `results.record`; is imported by `harness`.

To add a version: nothing, if it is on Maven Central (`--system kafka:VERSION[:MODE]`). If it needs
other jars or another logging, `versions` is the place; if its settings differ,
`configuration.server_properties`. Then run `pytest tests/cluster_kafka` with it:
`LOGQUAKE_KAFKA=VERSION`, or `LOGQUAKE_KAFKA=VERSION:MODE`.
"""
