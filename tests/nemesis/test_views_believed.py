"""Whom to believe of what a cluster says of its partitions, and what it means that it says nothing.

Both are learnt on one cluster of each world, for its start takes longest.
"""

import itertools
from pathlib import Path

import pytest

from cluster.protocol import CanPartition
from results.record.clock import wait_until
from tests.nemesis.both_worlds import WORLDS, Ground, fault, on, wait_s

# Brokers leave an ISR because they are fenced, not because they are late: on a busy machine the
# last of an ISR would be the one that is cut off, and it stays there for good.
FENCED = {"broker.session.timeout.ms": "1500", "replica.lag.time.max.ms": "60000"}


@pytest.mark.parametrize("where", WORLDS)
def test_partitions_are_whole_if_no_newer_word_says_otherwise(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nemesis.runner.WHOLE_LIMIT_S", 0.5)

    def work(ground: Ground) -> None:
        _what_nobody_knows_of_is_not_whole(ground)
        _nobody_believes_the_full_isr_of_a_broker_that_is_cut_off(ground)

    on(where, tmp_path / "run", work, broker=FENCED, topics=2, partitions=2)


def _what_nobody_knows_of_is_not_whole(ground: Ground) -> None:
    cluster, (_, gone) = ground.cluster, ground.plan.topic_names
    cluster.delete_topics([gone])

    def is_gone() -> bool:
        said = [cluster.topics_of(node) for node in cluster.nodes]
        return all(topics is not None and gone not in topics for topics in said)

    wait_until(is_gone, timeout_s=20, what=f"{gone} to be gone")
    row = ground.dealt(fault(1, "power-loss", "n1"))[1]
    why = row["spec"]["without_effect"]
    assert why.startswith(
        "the fault destroys a replica's records, so it waits for full ISRs and"
        " for the end of other faults, but an ISR was not full: "
    )
    assert f"{gone}-0" in why  # Behind those of the other topic, if a busy machine has some.


def _nobody_believes_the_full_isr_of_a_broker_that_is_cut_off(ground: Ground) -> None:
    cluster, hosts = ground.cluster, ground.hosts
    wait_until(lambda: _all_are_full(ground), timeout_s=20, what="every ISR to be full")
    view = cluster.view()
    assert isinstance(hosts, CanPartition)
    assert view is not None
    assert view.controller is not None
    off, left = (node for node in cluster.nodes if node != view.controller)
    links = [link for link in itertools.permutations(cluster.nodes, 2) if off in link]
    hosts.cut("off", links)
    there = {view.controller, left}
    wait_until(lambda: _in_sync(ground) == there, timeout_s=20, what=f"{off} to be out of sync")
    cluster.kill_node(view.controller)
    # Nobody leads the quorum any more: each of both says what it knew last.
    seen = []
    for _ in range(20):
        seen.append(_in_sync(ground))
        wait_s(0.05)
    assert seen == [there] * 20


def _all_are_full(ground: Ground) -> bool:
    view = ground.cluster.view()
    return view is not None and all(
        len(state.isr) == len(ground.cluster.nodes) for state in view.partitions.values()
    )


def _in_sync(ground: Ground) -> set[str]:
    """Return who is in the ISR of any partition."""
    view = ground.cluster.view()
    return {node for state in view.partitions.values() for node in state.isr} if view else set()
