"""Brokers are told to stop side by side, and nobody goes on before each of them was seen to."""

from pathlib import Path

import pytest

from cluster.hosts.process import ProcessHosts
from cluster.protocol import ClusterError
from results.record.clock import pause_until, stopwatch_s
from results.record.paths import RunPaths
from results.record.plan import Plan
from tests.brokers import brokers_of


def test_a_broker_that_cannot_be_stopped_ends_the_stop_when_the_others_have_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, stopped = RunPaths(tmp_path), list[str]()
    hosts = ProcessHosts(["n1", "n2", "n3"], paths.processes)
    cluster = brokers_of(Plan(system="reference"), hosts, paths)

    def stop_node(node: str, _timeout_s: float) -> bool:
        if node == "n1":
            raise ClusterError("the host of n1 is gone")
        pause_until(stopwatch_s() + 0.2)
        stopped.append(node)
        return True

    monkeypatch.setattr(cluster, "stop_node", stop_node)
    with pytest.raises(ClusterError, match="the host of n1 is gone"):
        cluster.stop(10)
    assert sorted(stopped) == ["n2", "n3"]
