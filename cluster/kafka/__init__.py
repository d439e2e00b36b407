"""Downloads, configures, starts and observes real Apache Kafka, and tidies its files.

Modules that prepare a node:

- `fetch` downloads a version from Maven Central.
- `java` (in `cluster`) finds a Java for this version.
- `versions` describes the differences between versions and modes.
- `configuration` and `log_files` write the settings of a node.
- `storage` formats the disk of a node.
- `zookeeper` runs the ZooKeeper server of older clusters.
- `layout` combines these modules for all nodes of a run.
- `cluster` starts the nodes and applies faults to them, behind `cluster.protocol`.

Modules that send requests:

- `dialects` talks to brokers of every version, over connections of `wire`.
- `admin` and `zookeeper_admin` query a cluster and administer it.
- `asking` queries one broker.
- `observer` queries each broker several times a second for the run's record.

After the run, `collect` tidies a node's folder.

This package may import the rest of `cluster`, and `results.record`. `harness` imports this package.

To add a version on Maven Central, no change is needed: use `--system kafka:VERSION[:MODE]`. If the
version has other jars or another logging library, edit `versions`. If it needs other settings, edit
`configuration.server_properties`. Then run `pytest tests/cluster_kafka` with
`LOGQUAKE_KAFKA=VERSION` or `LOGQUAKE_KAFKA=VERSION:MODE`.
"""
