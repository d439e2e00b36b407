"""Beside a run lives what is called like its own: it is found unchanged after run, kill and heal.

The machine's own network namespace of these tests is one of their own, so that no run beside them
takes the foreign objects for something that it left.
"""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from cluster.hosts.ledger import RUN_MARK
from cluster.hosts.signals import process_id, state_of
from cluster.protocol import ProcessId
from harness.audit import audit
from results.record.clock import wait_until
from results.record.paths import RunPaths
from results.record.plan import Plan
from tests.cluster_hosts.crashes import crash

if TYPE_CHECKING:
    from tests.cluster_hosts.conftest import Room

pytestmark = pytest.mark.everything

NAMESAKES = """
ip link add lqhub type bridge
ip link add lq1 type veth peer name lq2
ip link set lq1 master lqhub up
nft -f - <<END
table ip logquake {
chain drop_marked { type filter hook input priority 0; policy accept; meta mark 0x4c51 drop; }
chain cut_1 { ip saddr 10.81.0.1 counter; }
}
END
"""
LOOK = "ip -j link; nft list ruleset"


def told(script: str, *, inside: int | None = None) -> str:
    """Return what a script says here, or in the network namespace of a process."""
    enter = [] if inside is None else ["nsenter", f"--net=/proc/{inside}/ns/net"]
    done = subprocess.run([*enter, "sh", "-ec", script], capture_output=True, text=True, check=True)
    return done.stdout


@contextmanager
def running(*argv: str, **environment: str) -> Iterator[ProcessId]:
    """A foreign process; ended afterwards."""
    with subprocess.Popen(
        argv, env={**os.environ, **environment}, start_new_session=True
    ) as process:
        try:
            yield process_id(process.pid)
        finally:
            os.killpg(process.pid, signal.SIGKILL)


class Foreign:
    """What others have on this machine, all of it called as a run calls its own."""

    def __init__(self, folder: Path, undo: ExitStack) -> None:
        java = folder / "java"
        shutil.copy2(shutil.which("sleep") or "/bin/sleep", java)
        ready = folder / "ready"
        other_run = str(folder / "runs" / "log" / "another" / "processes.jsonl")
        self.processes = [
            undo.enter_context(running(str(java), "1000")),
            undo.enter_context(running("sleep", "1000", **{RUN_MARK: other_run})),
            undo.enter_context(
                running("unshare", "--net", "sh", "-ec", f"{NAMESAKES}\n> {ready}\nsleep 1000")
            ),
        ]
        told(NAMESAKES)
        wait_until(ready.exists, timeout_s=20, what="the foreign namespace")
        self._inside = self.processes[-1].pid

    def looks(self) -> object:
        """Return how all of it looks now; packets are not counted, nobody sends any."""
        here, there = (told(LOOK, inside=at) for at in (None, self._inside))
        return [_still(here), _still(there), [state_of(each) for each in self.processes]]


def _still(looks: str) -> object:
    links, _, rules = looks.partition("\n")
    return [[each["ifname"], each["operstate"], each.get("master")] for each in json.loads(links)
            if each["ifname"].startswith("lq")], rules  # fmt: skip


def test_processes_called_as_a_run_s_own_are_found_unchanged(tmp_path: Path) -> None:
    """Where nodes are plain processes, beside those of others."""
    other_run = str(tmp_path / "victim" / "runs" / "crash" / "another" / "processes.jsonl")
    with ExitStack() as undo:
        others = [
            undo.enter_context(running("sleep", "1000")),
            undo.enter_context(running("sleep", "1000", **{RUN_MARK: other_run})),
        ]
        os.kill(others[1].pid, signal.SIGSTOP)
        wait_until(
            lambda: list(map(state_of, others)) == ["S", "T"], timeout_s=20, what="them to be so"
        )
        rng = Random("foreign/process")
        killed = crash(Plan(hosts="process"), tmp_path / "victim", rng, part="frozen")
        assert killed.left == (), killed
        assert killed.healed.done, "what stands still cannot end by itself"
        assert list(map(state_of, others)) == ["S", "T"]


def test_namesakes_are_found_unchanged(namespace_room: "Room", tmp_path: Path) -> None:
    rng = Random(f"foreign/{namespace_room.root}")
    with ExitStack() as undo:
        foreign = Foreign(tmp_path, undo)
        before = foreign.looks()
        assert "lqhub" in str(before)
        assert "cut_1" in str(before)
        run = RunPaths(tmp_path / "audited")
        run.root.mkdir()
        plan = Plan(hosts="namespace")
        audited = audit(plan, run)
        killed = crash(plan, tmp_path / "victim", rng, part="frozen")
        assert killed.left == (), killed
        assert foreign.looks() == before
        assert audited.changes() == {}, "an audit takes nothing of it for the run's"
