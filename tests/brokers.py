"""The brokers of a plan's system, for tests that need brokers but no run."""

from cluster.kafka.cluster import KafkaCluster
from cluster.protocol import Hosts
from cluster.systems.registry import system_of
from results.record.paths import RunPaths
from results.record.plan import Plan


def brokers_of(plan: Plan, hosts: Hosts, paths: RunPaths) -> KafkaCluster:
    """Return the brokers that a plan names, not started, on hosts that are up."""
    system = system_of(plan)
    system.prepare(print)
    cluster = system.cluster(hosts, paths)
    assert isinstance(cluster, KafkaCluster)
    return cluster
