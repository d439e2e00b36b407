"""Each end of a broker is one milestone, whenever its exit code became known."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from rich.console import Console

from checkers.broker_ended import CHECKER
from cluster.hosts.process import ProcessHosts
from cluster.kafka.cluster import KafkaCluster
from cluster.kafka.layout import Layout
from cluster.kafka.programs import ReferencePrograms
from cluster.protocol import Ended
from harness import arena as arenas
from harness.arena import Arena
from harness.interrupt import Interrupts
from harness.progress import Progress, Snapshot
from harness.world import RealWorld
from results.record.clock import RunClock
from results.record.milestones import ENDED, load_milestones
from results.record.paths import RunPaths
from results.record.plan import Plan
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import S, facts, group
from tests.nemesis.broken_disks import FakeFaultyDisks
from tests.nemesis.conftest import FakeHostsWithoutCuts
from workloads.crashes import Crash


class Told:
    """What a cluster would tell, look by look: no real broker is reaped late when asked to be."""

    def __init__(self, *looks: list[Ended]) -> None:
        self._looks = list(looks)

    def ended(self) -> list[Ended]:
        return self._looks.pop(0)

    def complaints(self, node: str, *, life: int) -> list[str]:
        return [f"FATAL on {node}, start {life}"]


def arena_in(folder: Path) -> Arena:
    paths = RunPaths(folder / "log" / "run")
    paths.root.mkdir(parents=True)
    arena = Arena(
        plan=Plan(), paths=paths, clock=RunClock.starting_now(),
        progress=Progress(Console(quiet=True), Snapshot), interrupts=Interrupts(), undo=ExitStack(),
        world=RealWorld(),
    )  # fmt: skip
    arena.hosts = FakeHostsWithoutCuts()
    return arena


def noted(folder: Path, *looks: list[Ended]) -> list[dict[str, str]]:
    """Return what is noted after so many looks, one after the other."""
    arena = arena_in(folder)
    cluster = cast("KafkaCluster", Told(*looks))
    for _ in looks:
        arena.look_for_ends(cluster)
    return [each.detail for each in load_milestones(arena.paths.milestones)]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arenas, "LOOK_FOR_ENDS_S", 0.0)


EXIT, UNSEEN = Ended(node="n2", incarnation=1, code=1), Ended(node="n2", incarnation=1)
STOPPED = Ended(node="n2", incarnation=1, stopped=True)


def test_two_looks_must_agree(tmp_path: Path) -> None:
    assert noted(tmp_path, [EXIT], [], [EXIT]) == []


def test_an_end_is_noted_once_with_its_code_and_last_words(tmp_path: Path) -> None:
    (end,) = noted(tmp_path, [EXIT], [EXIT], [EXIT], [EXIT])
    assert (end["node"], end["code"], end["said"]) == ("n2", "1", "FATAL on n2, start 1")


def test_a_code_that_is_known_later_is_no_second_end(tmp_path: Path) -> None:
    (end,) = noted(tmp_path, [UNSEEN], [UNSEEN], [EXIT], [EXIT])
    assert end["code"] == ""


def test_who_stood_still_and_then_ended_did_both(tmp_path: Path) -> None:
    codes = [each["code"] for each in noted(tmp_path, [STOPPED], [STOPPED], [EXIT], [EXIT])]
    assert codes == ["stopped", "1"]


class Stopping(Told):
    """A cluster whose only broker has been stopped, and that tells who ended meanwhile."""

    nodes, controllers = ("n1",), ("n2",)

    def view(self) -> None:
        return None

    def stop(self, _limit_s: float) -> dict[str, bool]:
        return {"n1": True, "n2": False}

    def collect(self, _folder: Path) -> None: ...


def test_a_server_that_ends_while_others_stop_is_noted(tmp_path: Path) -> None:
    """Brokers stop before their controller: its turn never came."""
    arena = arena_in(tmp_path)
    arena.stop(cast("KafkaCluster", Stopping([EXIT])))
    (end,) = [each for each in load_milestones(arena.paths.milestones) if each.name == ENDED]
    assert (end.detail["node"], end.detail["code"], "told" in end.detail) == ("n2", "1", False)
    assert len(CHECKER.check(group(facts(milestones=(end,)))).anomalies) == 1


def test_a_failed_stop_says_so(tmp_path: Path) -> None:
    failed = Ended(node="n2", incarnation=1, code=1, told=True)
    (end,) = noted(tmp_path, [failed], [failed])
    assert (end["code"], end["told"]) == ("1", "stop")


def test_an_end_above_a_file_system_that_had_ended_says_so_and_so_does_the_run(
    tmp_path: Path,
) -> None:
    arena, hosts = arena_in(tmp_path), FakeFaultyDisks()
    arena.hosts, hosts.deaf = hosts, True  # No disk of theirs is served any more.
    cluster = cast("KafkaCluster", Told([EXIT], [EXIT], [EXIT]))
    for _ in range(3):
        arena.look_for_ends(cluster)
    (end,) = load_milestones(arena.paths.milestones)
    assert end.detail["disk"] == "gone"
    (trouble,) = arena.troubles
    assert trouble.startswith("Logquake's file system below the data of n2 has ended, so the")


CRASH = "ERROR Halting: java.lang.NullPointerException"
GAVE_UP = "ERROR Shutting down because we were unable to register with the controller quorum."


@pytest.mark.parametrize(("own", "next_", "anomalies"), [(CRASH, GAVE_UP, 1), (GAVE_UP, CRASH, 0)])
def test_a_start_that_was_replaced_at_once_is_judged_by_its_own_words(
    tmp_path: Path, own: str, next_: str, anomalies: int
) -> None:
    """Faults kept it from its controllers for a minute, and a heal started it again."""
    paths = RunPaths(tmp_path / "kept")
    hosts = ProcessHosts(("n1",), paths.processes)
    plan = Plan(system="reference", nodes=1, replication=1, min_insync=1)
    layout = Layout(plan, hosts, programs=ReferencePrograms(), paths=paths)
    log = paths.node("n1") / "logs/server.log"
    log.parent.mkdir(parents=True)
    for life, said in enumerate(("INFO first", own, next_), start=1):
        layout.command("n1", life)
        with log.open("a") as more:
            more.write(f"{said}\n")
    cluster = Told(*[[Ended(node="n1", incarnation=2, code=1)]] * 2)
    cluster.complaints = layout.complaints  # type: ignore[method-assign]
    arena = arena_in(tmp_path)
    for _ in range(2):
        arena.look_for_ends(cast("KafkaCluster", cluster))
    (stone,) = load_milestones(arena.paths.milestones)
    assert stone.detail["said"] == own
    faults: list[Row] = [
        {"kind": "kill", "targets": ["n1"], "requested_ns": 10 * S},
        {"kind": "halves", "targets": ["n2"], "requested_ns": 15 * S, "healed_ns": 85 * S},
    ]
    about = facts(milestones=(replace(stone, at_ns=90 * S),))
    assert len(CHECKER.check(group(about, faults=faults)).anomalies) == anomalies


def test_a_worker_that_crashes_is_noted_once(tmp_path: Path) -> None:
    arena = arena_in(tmp_path)
    first, second = (Crash(worker=worker, signal="SIGSEGV", said="it") for worker in (0, 1))
    for crashes in ([], [first], [first, second]):
        arena.note_crashes(crashes)
    stones = load_milestones(arena.paths.milestones)
    assert [each.name for each in stones] == ["worker-ended"] * 2
    assert stones[1].detail == {"worker": "1", "signal": "SIGSEGV", "said": "it"}
