"""What a cluster says of itself while a broker that is cut off says something else."""

import itertools
from pathlib import Path

import pytest

from cluster.protocol import CanPartition
from results.record.clock import wait_until
from tests.nemesis.both_worlds import WORLDS, Ground, on, wait_s
from tests.nemesis.test_turns import QUICK


@pytest.mark.parametrize("where", WORLDS)
def test_nobody_believes_the_full_isr_of_a_broker_that_is_cut_off(
    where: str, tmp_path: Path
) -> None:
    def work(ground: Ground) -> None:
        cluster, hosts = ground.cluster, ground.hosts
        view = cluster.view()
        assert isinstance(hosts, CanPartition)
        assert view is not None
        assert view.controller is not None
        off, left = [node for node in cluster.nodes if node != view.controller]
        hosts.cut("off", [*itertools.permutations((off, left), 2),
                          *itertools.permutations((off, view.controller), 2)])  # fmt: skip
        wait_until(lambda: _in_sync(ground) == {view.controller, left}, timeout_s=20, what="it")
        cluster.kill_node(view.controller)
        # Nobody leads the quorum any more: each of both says what it knew last.
        seen = []
        for _ in range(20):
            seen.append(_in_sync(ground))
            wait_s(0.05)
        assert seen == [{view.controller, left}] * 20

    on(where, tmp_path / "run", work, broker=QUICK)


def _in_sync(ground: Ground) -> set[str]:
    """Return who is in the ISR of any partition."""
    view = ground.cluster.view()
    return {node for state in view.partitions.values() for node in state.isr} if view else set()
