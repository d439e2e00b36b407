"""What a harness that was killed had taken from its brokers is given back by the next command."""

import subprocess
import sys
from pathlib import Path

import pytest

from cluster.hosts.audit import local_traces
from cluster.hosts.groups import groups_of
from cluster.logs import KafkaLogs
from nemesis.ledger import heal_dead_run, open_entries
from nemesis.registry import KINDS
from nemesis.undo import FreeResources, Restart
from results.record.paths import RunPaths
from tests.machine import needs

OURS = [
    pytest.param(name, marks=[] if "processor" in name else pytest.mark.night)  # It has all groups.
    for name, each in KINDS.items()
    if each.family == "resources"
]
pytestmark = needs("cgroup")


@pytest.mark.parametrize("kind", OURS)
def test_no_process_and_no_group_is_left_of_a_killed_harness(kind: str, tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    argv = [sys.executable, "-m", "tests.nemesis.play_resources", f"{tmp_path}", kind]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == "held\n"
        assert groups_of(paths.processes)
        harness.kill()
        harness.wait()
    (entry,) = open_entries(paths.ledger)
    assert entry.undo == (FreeResources(node="n2"), Restart(node="n2"))
    healed = heal_dead_run(paths, KafkaLogs())
    assert healed.failed == ()
    assert [each for each in healed.done if "removed the control group" in each]
    assert groups_of(paths.processes) == []
    assert local_traces(paths.processes) == {}
    assert open_entries(paths.ledger) == ()
    assert heal_dead_run(paths, KafkaLogs()).done == ()
