"""The fault `little-memory`, on real processes."""

from pathlib import Path

import pytest

from cluster.protocol import ClusterError
from nemesis.little_memory import LittleMemory
from nemesis.protocol import Patience
from nemesis.resource_effects import FreedEffect, MemoryEffect
from nemesis.undo import FreeResources, Restart
from results.record.clock import wait_until
from tests.machine import needs
from tests.nemesis.proofs import Proof
from tests.nemesis.servers import aimed, is_gone, serving

SOON, LATER = Patience(limit_s=0.3), Patience(limit_s=10)
MOST_ROOM = 0
"""The seed of the most room."""
PLENTY = 64 << 20

PROOF_OF = [
    (
        "little-memory",
        Proof(
            witness="resources",
            shows=lambda before, looks: (
                before["most"] is None
                and (looks[-1]["most"] is not None or looks[-1]["handles"] is None)
            ),
            gone=lambda _, after: after["most"] is None and after["handles"] is not None,
        ),
    )
]
pytestmark = needs("cgroup")


def test_a_server_that_wants_more_is_killed_by_the_kernel_and_started_again(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, "grow") as (cluster, hosts):
        fault, first = aimed(LittleMemory, cluster, hosts), cluster.process("n2")
        assert first is not None
        assert fault.undo() == (FreeResources(node="n2"), Restart(node="n2"))
        fault.inject()
        effect = fault.confirm(LATER)
        assert isinstance(effect, MemoryEffect)
        assert effect.hits["n2"] > 0
        assert "the broker reached the limit" in effect.told
        assert is_gone(cluster, hosts)
        assert hosts.exit_of("n2", first) == -9
        cluster.does = "wait"
        fault.heal()
        fault.heal()
        healed = fault.confirm_healed(LATER)
        assert isinstance(healed, FreedEffect)
        assert healed.kills == {"n2": 1}
        assert healed.told.endswith("n2 had been killed by the kernel and was started again")
        assert cluster.process("n2") != first
        assert hosts.memory("n2").limit_bytes is None


def test_one_that_has_all_it_wants_does_not_feel_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path, "wait") as (cluster, hosts):
        fault, limit_memory = aimed(LittleMemory, cluster, hosts), hosts.limit_memory
        with monkeypatch.context() as patched:
            # Even a server that waits may want one more page, and feel the fault's own limit.
            patched.setattr(
                hosts, "limit_memory", lambda node, limit: limit_memory(node, limit + PLENTY)
            )
            fault.inject()
        limit = hosts.memory("n2").limit_bytes
        assert limit is not None
        assert fault.confirm(SOON) is None
        with pytest.raises(ClusterError, match="n2 already has a memory limit"):
            aimed(LittleMemory, cluster, hosts).inject()
        fault.heal()
        assert fault.confirm_healed(LATER) is not None
        assert hosts.memory("n2").limit_bytes is None


def test_one_for_whom_little_is_kept_feels_it_too(tmp_path: Path) -> None:
    with serving(tmp_path, "keep") as (cluster, hosts):
        wait_until(
            lambda: hosts.memory("n2").cached_bytes > 5 << 20, timeout_s=30, what="it to be kept"
        )
        fault = aimed(LittleMemory, cluster, hosts, seed=MOST_ROOM)
        fault.inject()
        assert fault.confirm(LATER) is not None
        fault.heal()
        assert fault.confirm_healed(LATER) is not None


def test_a_limit_that_stays_is_not_healed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tmp_path, "wait") as (cluster, hosts):
        fault = aimed(LittleMemory, cluster, hosts)
        fault.inject()
        with monkeypatch.context() as patched:
            patched.setattr(hosts, "limit_memory", lambda *_: None)
            fault.heal()
            assert fault.confirm_healed(SOON) is None
        fault.heal()
        assert fault.confirm_healed(LATER) is not None


def test_what_the_kernel_cannot_take_back_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path, "wait") as (cluster, hosts):
        fault, asked = aimed(LittleMemory, cluster, hosts), list[int]()
        limit = hosts.limit_memory

        def refuses_twice(node: str, limit_bytes: int | None) -> None:
            if limit_bytes is not None:
                asked.append(limit_bytes)
            if len(asked) < 3:
                raise ClusterError("the kernel cannot reclaim enough")
            limit(node, limit_bytes)

        monkeypatch.setattr(hosts, "limit_memory", refuses_twice)
        fault.inject()
        assert [each - asked[0] for each in asked] == [0, 1 << 20, 2 << 20]
        assert hosts.memory("n2").limit_bytes is not None
        fault.heal()


def test_a_limit_that_is_far_too_small_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path, "wait") as (_, hosts):
        with pytest.raises(ClusterError, match="the kernel cannot reclaim enough"):
            hosts.limit_memory("n2", 1 << 16)
        told = hosts.memory("n2")
        assert (told.limit_bytes, told.kills) == (None, 0)
