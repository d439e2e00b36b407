"""The fault `few-handles`, on real processes."""

import resource
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from cluster.protocol import ClusterError, Handles, ProcessId
from nemesis.few_handles import MOST_MORE, FewHandles
from nemesis.protocol import Aim, Patience
from nemesis.resource_effects import FreedEffect, HandlesEffect
from nemesis.undo import FreeResources, Restart
from tests.machine import needs
from tests.nemesis.conftest import World
from tests.nemesis.proofs import Proof
from tests.nemesis.servers import Servers, aimed, is_gone, serving

SOON, LATER = Patience(limit_s=0.3), Patience(limit_s=10)
LEAVING, STAYING = 1, 0
"""Seeds: the crowd goes when nothing is left, or stays until the heal."""

PROOF_OF = [
    (
        "few-handles",
        Proof(
            witness="resources",
            shows=lambda before, looks: (
                looks[-1]["handles"] is None or looks[-1]["handles"] < before["handles"]
            ),
            gone=lambda before, after: after["handles"] == before["handles"],
        ),
    )
]
pytestmark = needs("/proc")


def _limits(cluster: Servers) -> tuple[int, int]:
    process = cluster.process("n2")
    assert process is not None
    return resource.prlimit(process.pid, resource.RLIMIT_NOFILE)


def _open(cluster: Servers) -> int:
    process = cluster.process("n2")
    assert process is not None
    return len([*Path(f"/proc/{process.pid}/fd").iterdir()])


def test_nothing_is_left_until_the_crowd_goes_and_the_limit_is_given_back(tmp_path: Path) -> None:
    with serving(tmp_path, "wait", limited=False) as (cluster, hosts):
        fault = aimed(FewHandles, cluster, hosts, seed=LEAVING)
        assert fault.undo() == (FreeResources(node="n2"), Restart(node="n2"))
        limits, before = _limits(cluster), _open(cluster)
        fault.inject()
        effect = fault.confirm(LATER)
        assert isinstance(effect, HandlesEffect)
        assert effect.open_before == {"n2": before}
        assert _limits(cluster) == (effect.limits["n2"][1], limits[1])
        assert effect.limits["n2"][0] == limits[0]
        assert not effect.lasting
        # A busy server may take a second to accept one, and gets another then.
        assert effect.spare <= effect.crowd["n2"] <= effect.spare + MOST_MORE
        assert f"n2 had {before} open descriptors and could open {effect.spare} more" in effect.told
        assert effect.told.endswith("and were closed again")
        assert _limits(cluster) != limits
        fault.heal()
        fault.heal()
        healed = fault.confirm_healed(LATER)
        assert isinstance(healed, FreedEffect)
        assert _limits(cluster) == limits
        assert (healed.kills, healed.said) == ({}, {})
        assert healed.told == "the old limits are restored"


def test_one_that_halts_for_want_of_handles_is_started_again_and_its_words_are_kept(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, "halt", limited=False) as (cluster, hosts):
        first = cluster.process("n2")
        assert first is not None
        fault = aimed(FewHandles, cluster, hosts, seed=STAYING)
        fault.inject()
        effect = fault.confirm(LATER)
        assert isinstance(effect, HandlesEffect)
        assert effect.lasting
        assert cluster.is_listening("n2")  # By the kernel's word; it cannot accept.
        assert is_gone(cluster, hosts)
        fault.heal()
        healed = fault.confirm_healed(LATER)
        assert isinstance(healed, FreedEffect)
        (words,) = healed.said.values()
        assert "Too many open files" in words[-1]
        assert healed.pid_before == {"n2": first.pid}
        assert healed.told == "the old limits are restored; n2 had ended and was started again"
        assert cluster.process("n2") != first
        assert {*cluster.asked_of} == {("n2", 1)}, "never those of the next start"


def test_one_that_halts_before_anybody_looks_says_itself_what_it_lacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path, "halt", limited=False) as (cluster, hosts):
        fault, read = aimed(FewHandles, cluster, hosts, seed=STAYING), hosts.handles
        first = iter((True,))

        def look(process: ProcessId) -> Handles:
            """See one descriptor less than there are, as if it was closed this moment."""
            seen = read(process)
            last = max(each for each in seen.numbers if each < seen.soft)
            return seen if next(first, False) else replace(seen, numbers=seen.numbers - {last})

        with monkeypatch.context() as patched:
            patched.setattr(hosts, "handles", look)
            fault.inject()
            assert is_gone(cluster, hosts)
            assert fault.confirm(LATER) is not None
        fault.heal()
        assert fault.confirm_healed(LATER) is not None


@pytest.mark.night
def test_what_a_log_says_after_another_start_is_not_taken_for_its_last_words(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, "halt", limited=False) as (cluster, hosts):
        fault = aimed(FewHandles, cluster, hosts, seed=STAYING)
        fault.inject()
        assert is_gone(cluster, hosts)
        cluster.start_node("n2")
        fault.heal()
        healed = fault.confirm_healed(LATER)
        assert isinstance(healed, FreedEffect)
        assert healed.said == {}


def test_one_that_ends_and_says_nothing_of_handles_did_not_feel_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path, "wait", limited=False) as (cluster, hosts):
        fault = aimed(FewHandles, cluster, hosts)
        monkeypatch.setattr(hosts, "limit_handles", lambda *_: None)
        fault.inject()
        cluster.kill_node("n2")
        assert is_gone(cluster, hosts)
        assert fault.confirm(SOON) is None
        fault.heal()


def test_one_that_has_no_handle_left_already_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path, "wait", limited=False) as (cluster, hosts):
        process = cluster.process("n2")
        assert process is not None
        before = hosts.handles(process)
        hosts.limit_handles(process, min(before.free(1)))
        fault = aimed(FewHandles, cluster, hosts)
        with pytest.raises(ClusterError, match="the broker of n2 had no free file handle before"):
            fault.inject()
        fault.heal()
        assert hosts.handles(process).soft == min(before.free(1))


@pytest.mark.night
def test_one_that_halts_just_after_its_heal_is_started_again(tmp_path: Path) -> None:
    with serving(tmp_path, "wait", limited=False) as (cluster, hosts):
        first, fault = cluster.process("n2"), aimed(FewHandles, cluster, hosts)
        fault.inject()
        assert fault.confirm(LATER) is not None
        fault.heal()
        cluster.kill_node("n2")
        assert is_gone(cluster, hosts)
        assert fault.confirm_healed(LATER) is not None
        assert cluster.process("n2") != first


def test_a_limit_that_leaves_enough_is_no_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path, "wait", limited=False) as (cluster, hosts):
        fault, limits = aimed(FewHandles, cluster, hosts), _limits(cluster)
        monkeypatch.setattr(hosts, "limit_handles", lambda *_: None)
        fault.inject()
        assert fault.confirm(SOON) is None
        assert _limits(cluster) == limits
        fault.heal()


def test_a_limit_that_stays_is_not_healed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tmp_path, "wait", limited=False) as (cluster, hosts):
        fault, limits = aimed(FewHandles, cluster, hosts), _limits(cluster)
        fault.inject()
        with monkeypatch.context() as patched:
            patched.setattr(hosts, "limit_handles", lambda *_: None)
            fault.heal()
            assert fault.confirm_healed(SOON) is None
        fault.heal()
        assert fault.confirm_healed(LATER) is not None
        assert _limits(cluster) == limits


def test_one_that_nobody_can_connect_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path, "wait", limited=False) as (cluster, hosts):
        fault, limits = aimed(FewHandles, cluster, hosts), _limits(cluster)
        monkeypatch.setattr(cluster, "bootstrap", lambda: "")
        with pytest.raises(ClusterError, match="n2 has no address for connections"):
            fault.inject()
        fault.heal()
        assert _limits(cluster) == limits


def test_hosts_that_cannot_limit_anything_are_refused(world: World) -> None:
    aim = Aim(fault_id=1, targets=("n2",), rng=Random(0))
    with pytest.raises(ClusterError, match="these hosts cannot limit the resources of a broker"):
        FewHandles(aim, world.site())
