"""The fault `little-processor`, on real processes."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.protocol import ClusterError
from nemesis.little_processor import LEAST_SHARE, LEAST_THROTTLED, MOST_SHARE, LittleProcessor
from nemesis.protocol import Patience
from nemesis.resource_effects import FreedEffect, ProcessorEffect
from nemesis.undo import FreeResources, Restart
from results.record.clock import wait_until
from tests.machine import needs
from tests.nemesis.proofs import Proof
from tests.nemesis.servers import Servers, aimed, is_gone, serving

SOON, LATER = Patience(limit_s=2), Patience(limit_s=10)
SMALL = 1
"""The seed of a small share, of which a busy machine leaves a process more, too."""

PROOF_OF = [
    (
        "little-processor",
        Proof(
            witness="resources",
            shows=lambda before, looks: (
                before["quota"] is None
                and looks[-1]["quota"] is not None
                and looks[-1]["waits"] > looks[0]["waits"]
            ),
            gone=lambda before, after: after["quota"] is None and after["cpu"] == before["cpu"],
        ),
    )
]
pytestmark = needs("cgroup")


def _used(cluster: Servers, for_s: float = 0.5) -> float:
    """Return how much of one core n2 uses."""
    process = cluster.process("n2")
    assert process is not None

    def used_s() -> float:
        told = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")

    begun_s, before_s = time.monotonic(), used_s()  # noqa: TID251 - a witness's own
    time.sleep(for_s)  # noqa: TID251 - as above
    return (used_s() - before_s) / (time.monotonic() - begun_s)  # noqa: TID251 - as above


def _group(cluster: Servers) -> str:
    process = cluster.process("n2")
    assert process is not None
    lines = Path(f"/proc/{process.pid}/cgroup").read_text().splitlines()
    return next(line for line in lines if ":cpu" in line or line.startswith("0::"))


def test_a_busy_server_gets_its_share_and_no_more_until_the_heal(tmp_path: Path) -> None:
    with serving(tmp_path, "spin") as (cluster, hosts):
        fault = aimed(LittleProcessor, cluster, hosts, seed=SMALL)
        assert fault.undo() == (FreeResources(node="n2"), Restart(node="n2"))
        group = _group(cluster)
        fault.inject()
        effect = fault.confirm(SOON)
        assert isinstance(effect, ProcessorEffect)
        assert LEAST_SHARE <= effect.share <= MOST_SHARE
        assert effect.used["n2"] <= 1.25 * effect.share + 0.01
        assert effect.throttled["n2"] > 5
        assert "% of a core and was throttled in" in effect.told
        assert _used(cluster) < 2 * MOST_SHARE
        fault.heal()
        fault.heal()
        healed = fault.confirm_healed(LATER)
        assert isinstance(healed, FreedEffect)
        assert _group(cluster) == group
        assert hosts.processor("n2").share is None
        wait_until(lambda: _used(cluster) > 2 * effect.share, timeout_s=30, what="it to go on")


def test_an_idle_server_does_not_feel_it(tmp_path: Path) -> None:
    with serving(tmp_path, "wait") as (cluster, hosts):
        fault = aimed(LittleProcessor, cluster, hosts)
        fault.inject()
        assert fault.confirm(Patience(limit_s=0.3)) is None
        fault.heal()
        assert fault.confirm_healed(LATER) is not None


def test_a_quota_that_stays_is_not_healed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tmp_path, "wait") as (cluster, hosts):
        fault = aimed(LittleProcessor, cluster, hosts)
        fault.inject()
        with pytest.raises(ClusterError, match="n2 already has a processor quota"):
            aimed(LittleProcessor, cluster, hosts).inject()
        with monkeypatch.context() as patched:
            patched.setattr(hosts, "limit_processor", lambda *_: None)
            fault.heal()
            assert fault.confirm_healed(SOON) is None
        fault.heal()
        assert fault.confirm_healed(LATER) is not None


def test_a_quota_is_taken_away_though_its_injection_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path, "wait") as (cluster, hosts):
        fault, limit = aimed(LittleProcessor, cluster, hosts), hosts.limit_processor

        def limit_and_fail(node: str, share: float | None) -> None:
            limit(node, share)
            raise ClusterError("it does not answer")

        with monkeypatch.context() as patched:
            patched.setattr(hosts, "limit_processor", limit_and_fail)
            with pytest.raises(ClusterError, match="it does not answer"):
                fault.inject()
        assert hosts.processor("n2").share is not None
        fault.heal()
        assert fault.confirm_healed(LATER) is not None
        assert hosts.processor("n2").share is None


def test_a_server_that_died_meanwhile_is_started_again_without_a_quota(tmp_path: Path) -> None:
    with serving(tmp_path, "wait") as (cluster, hosts):
        fault, first = aimed(LittleProcessor, cluster, hosts), cluster.process("n2")
        fault.inject()
        cluster.kill_node("n2")
        assert is_gone(cluster, hosts)
        fault.heal()
        assert fault.confirm_healed(LATER) is not None
        assert cluster.process("n2") != first
        assert hosts.processor("n2").share is None


def test_a_quota_that_stays_though_its_server_died_is_not_healed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path, "wait") as (cluster, hosts):
        fault = aimed(LittleProcessor, cluster, hosts)
        fault.inject()
        cluster.kill_node("n2")
        assert is_gone(cluster, hosts)
        with monkeypatch.context() as patched:
            patched.setattr(hosts, "limit_processor", lambda *_: None)
            fault.heal()
            assert fault.confirm_healed(LATER) is None
        fault.heal()
        assert fault.confirm_healed(LATER) is not None
        assert hosts.processor("n2").share is None


@pytest.mark.night
def test_another_process_in_its_place_is_not_measured(tmp_path: Path) -> None:
    with serving(tmp_path, "spin") as (cluster, hosts):
        fault = aimed(LittleProcessor, cluster, hosts)
        fault.inject()
        cluster.kill_node("n2")
        assert is_gone(cluster, hosts)
        cluster.start_node("n2")
        hosts.limit_processor("n2", 0.1)
        assert fault.confirm(SOON) is None
        fault.heal()
        assert fault.confirm_healed(LATER) is not None


def test_one_that_waits_seldom_does_not_feel_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path, "wait") as (cluster, hosts):
        fault, read = aimed(LittleProcessor, cluster, hosts), hosts.processor
        fault.inject()
        before = read("n2").throttled
        for count in (LEAST_THROTTLED - 1, LEAST_THROTTLED):
            now = replace(read("n2"), throttled=before + count)
            monkeypatch.setattr(hosts, "processor", {"n2": now}.get)
            felt = fault.confirm(Patience(limit_s=0.2)) is not None
            assert felt is (count >= LEAST_THROTTLED)
        monkeypatch.undo()
        fault.heal()


def test_a_server_that_was_not_started_so_is_refused(tmp_path: Path) -> None:
    with (
        serving(tmp_path, "wait", limited=False) as (cluster, hosts),
        pytest.raises(ClusterError, match="n2 was started without control groups"),
    ):
        aimed(LittleProcessor, cluster, hosts).inject()
