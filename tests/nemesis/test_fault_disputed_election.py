"""The fault `disputed-election` on the reference cluster in virtual time."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest

from cluster.files.quorum_log import quorum_votes
from cluster.protocol import Ability, ClusterError, ProcessId
from cluster.reference.simulator.machines import SimulatedMachines
from cluster.systems.system import Deployment
from harness.simulated.world import SimulatedWorld
from nemesis.disputed_election import DisputedElection
from nemesis.ledger import open_entries
from nemesis.life import FaultPhase
from nemesis.protocol import Aim, Patience, Site
from nemesis.registry import KINDS
from nemesis.runner import Nemesis
from nemesis.schedule import Schedule, deal_schedule
from nemesis.scheduled import ScheduledFault
from nemesis.sweep import HealReport
from results.record.clock import NS_PER_S, RunClock, pause_until, stopwatch_s, wait_until
from results.record.paths import RunPaths
from results.record.plan import Plan, plan_from
from results.record.runtime import new_event, start
from results.record.stream import read_stream
from tests.nemesis.conftest import World

T = TypeVar("T")
MOMENT_S = 0.02
VOTERS = {"reference": ("n1", "n2", "n3"), "reference:controllers": ("n101", "n102", "n103")}


class Lab:
    """A cluster in virtual time, without clients.

    Args:
        plan: Of the cluster.
        paths: Where its record goes.
        cluster, hosts: Started.
    """

    def __init__(
        self, plan: Plan, paths: RunPaths, cluster: Deployment, hosts: SimulatedMachines
    ) -> None:
        self.plan, self.paths, self.cluster, self.hosts = plan, paths, cluster, hosts
        self.voters = VOTERS[plan.system]

    def nemesis(self, hold_s: float, *others: ScheduledFault) -> Nemesis:
        """Return a nemesis with a disputed election, and other faults."""
        fault = ScheduledFault(
            fault_id=1, at_s=0, kind="disputed-election", target="quorum-voters", hold_s=hold_s
        )
        return self.nemesis_of(Schedule(faults=(fault, *others), overlapping=True))

    def nemesis_of(self, schedule: Schedule) -> Nemesis:
        """Return a nemesis with a schedule."""
        return Nemesis(
            plan=self.plan,
            schedule=schedule,
            cluster=self.cluster,
            hosts=self.hosts,
            clock=RunClock.starting_now(),
            paths=self.paths,
        )

    def site(self) -> Site:
        """Return what a single fault works upon."""
        return Site(
            cluster=self.cluster,
            network=None,
            state_of=self.hosts.state_of,
            hosts=self.hosts,
            disk_of=self.hosts.disk,
            controllers=tuple(self.cluster.controllers),
        )

    def round_trips_ms(self) -> list[float]:
        """Return the fastest round trip of each link between voters."""
        links = [(one, other) for one in self.voters for other in self.voters if one != other]
        return [min(each.round_trip_ms) for each in self.hosts.measure(links).values()]

    def kills(self, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str]]]:
        """Note each kill from now on: the node, and what its log was told in the moment before."""
        kills, kill_node = list[tuple[str, list[str]]](), self.cluster.kill_node

        def noted(node: str) -> None:
            since_ns = (stopwatch_s() - MOMENT_S) * NS_PER_S
            said = self.hosts.host(node).said
            kills.append((node, [f"[-] INFO {text}" for at_ns, text in said if at_ns > since_ns]))
            kill_node(node)

        monkeypatch.setattr(self.cluster, "kill_node", noted)
        return kills

    def runs(self, node: str) -> bool:
        """Tell whether a node's process is there."""
        process = self.cluster.process(node)
        return process is not None and self.hosts.state_of(process) == "S"

    def is_whole(self) -> bool:
        """Tell whether every voter runs and is back."""
        return all(map(self.cluster.is_back, self.voters))


def in_lab(tmp_path: Path, deed: Callable[[Lab], T], *, system: str = "reference") -> T:
    """Start a cluster in virtual time, and do something to it."""
    plan = plan_from({"system": system, "hosts": "simulated", "seed": 3, "time_limit_s": 600})
    paths, done = RunPaths(tmp_path / "log" / "20261121T120000Z-0"), list[T]()
    paths.live.mkdir(parents=True)
    world = SimulatedWorld(plan)

    def life() -> None:
        hosts = world.hosts(plan, paths)
        assert isinstance(hosts, SimulatedMachines)
        hosts.up()
        cluster = world.cluster(plan, hosts, paths, say=lambda _: None)
        cluster.start()
        wait_until(cluster.view, timeout_s=30, what="a view")
        done.append(deed(Lab(plan, paths, cluster, hosts)))
        cluster.close()
        hosts.down()

    world.play(life)
    return done[0]


def is_held(nemesis: Nemesis) -> bool:
    """Tell whether the fault's effect was confirmed, and is not yet healed."""
    return [each.phase for each in nemesis.in_force()] == [FaultPhase.HELD]


def row_of(paths: RunPaths) -> dict[str, Any]:
    """Return the fault's last row."""
    batches = read_stream(paths.live / "faults.nemesis.arrows")
    found: dict[str, Any] = [row for batch in batches for row in batch.to_pylist()][-1]
    return found


@pytest.mark.parametrize("system", VOTERS)
def test_voters_die_after_their_votes_over_slow_links_and_all_is_mended(
    tmp_path: Path, system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deed(lab: Lab) -> None:
        before = {node: lab.cluster.incarnation(node) for node in lab.cluster.nodes}
        kills = lab.kills(monkeypatch)
        quick_ms, nemesis = lab.round_trips_ms(), lab.nemesis(hold_s=6)
        task = start(lambda: nemesis.run(new_event()), "nemesis", awaited=True)
        wait_until(lambda: is_held(nemesis), timeout_s=60, what="the effect")
        slow_ms = lab.round_trips_ms()
        task.result()
        nemesis.close()
        assert max(quick_ms) < 5 <= min(slow_ms)
        assert max(lab.round_trips_ms()) < 5
        assert lab.is_whole()
        apart = [node for node in lab.cluster.nodes if node not in lab.voters]
        assert all(lab.cluster.incarnation(node) == before[node] for node in apart)
        _check_struck(json.loads(row_of(lab.paths)["effect"]), kills)
        assert open_entries(lab.paths.ledger) == ()

    in_lab(tmp_path, deed, system=system)
    row = row_of(RunPaths(tmp_path / "log" / "20261121T120000Z-0"))
    assert set(row["targets"]) == set(VOTERS[system])
    assert row["healed_ns"] > row["confirmed_ns"] > row["requested_ns"]


def _check_struck(effect: dict[str, Any], kills: Sequence[tuple[str, list[str]]]) -> None:
    """See in each voter's own log that it had voted a moment before it was killed."""
    votes = [
        (node, vote.epoch, f"n{vote.voted_for}")
        for node, said in kills
        for vote in quorum_votes(said)
    ]
    assert effect["struck"]
    for each in effect["struck"]:
        assert (each["node"], each["epoch"], each["voted_for"]) in votes
    assert len(effect["slow"]["links"]) == 6


def test_it_is_healed_whenever_its_run_is_cut_short(tmp_path: Path) -> None:
    moments_s = [0.01, 0.2, 0.6, *(1.2 + 0.37 * at for at in range(10))]

    def cut_short(lab: Lab, after_s: float) -> HealReport:
        (lab.paths.live / "faults.nemesis.arrows").unlink(missing_ok=True)
        nemesis, stop = lab.nemesis(hold_s=500), new_event()
        task = start(lambda: nemesis.run(stop), "nemesis", awaited=True)
        pause_until(stopwatch_s() + after_s)
        stop.set()
        task.result()
        report = nemesis.heal_all()
        nemesis.close()
        return report

    def deed(lab: Lab) -> None:
        lives = lab.cluster.lives()
        for after_s in moments_s:
            report = cut_short(lab, after_s)
            assert report.healed, (after_s, report.failed)
            assert all(map(lab.runs, lab.voters)), after_s
            wait_until(lab.is_whole, timeout_s=15, what="a leader of all, once all are back")
            assert max(lab.round_trips_ms()) < 5, after_s
            assert open_entries(lab.paths.ledger) == (), after_s
            now = lab.cluster.lives()
            pause_until(stopwatch_s() + 10)
            assert lab.cluster.lives() == now, "somebody still strikes"
        assert lab.cluster.lives() > lives + len(moments_s)

    in_lab(tmp_path, deed)


class _Stubborn:
    """Refuses the first starts of nodes."""

    def __init__(self, cluster: Deployment, refusals: int) -> None:
        self._start, self._left = cluster.start_node, refusals

    def __call__(self, node: str) -> ProcessId:
        self._left -= 1
        if self._left >= 0:
            raise ClusterError("the machine is on fire")
        return self._start(node)


def test_a_voter_that_does_not_start_at_once_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deed(lab: Lab) -> None:
        monkeypatch.setattr(lab.cluster, "start_node", _Stubborn(lab.cluster, 7))
        with struck(lab) as fault:
            assert fault.confirm(Patience(limit_s=10))
        assert lab.is_whole()

    in_lab(tmp_path, deed)


def test_voters_that_never_start_are_said_to_and_started_by_the_heal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nemesis.disputed_election.STRUCK_LIMIT_S", 10)

    def deed(lab: Lab) -> None:
        start_node = lab.cluster.start_node
        with struck(lab) as fault:
            monkeypatch.setattr(lab.cluster, "start_node", _Stubborn(lab.cluster, 10_000))
            with pytest.raises(ClusterError, match=r"could not be restarted: .* on fire"):
                fault.confirm(Patience(limit_s=10))
            monkeypatch.setattr(lab.cluster, "start_node", start_node)
        assert lab.is_whole()

    in_lab(tmp_path, deed)


def test_nobody_else_starts_a_voter_that_is_being_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill may take long where a machine is busy: the heal is tried again behind it."""
    monkeypatch.setattr("nemesis.disputed_election.END_LIMIT_S", 0.1)

    def deed(lab: Lab) -> None:
        kill_node, killing, starts = lab.cluster.kill_node, new_event(), list[str]()

        def slowly(node: str) -> None:
            kill_node(node)
            killing.set()
            pause_until(stopwatch_s() + 5)

        def noted(node: str) -> ProcessId:
            starts.append(node)
            return start_node(node)

        start_node = lab.cluster.start_node
        monkeypatch.setattr(lab.cluster, "kill_node", slowly)
        with struck(lab) as fault:
            assert killing.wait(30)
            monkeypatch.setattr(lab.cluster, "start_node", noted)
            with pytest.raises(ClusterError, match="is still running"):
                fault.heal()
            assert starts == []
            pause_until(stopwatch_s() + 6)
        assert len(starts) == len(set(starts))
        assert lab.is_whole()

    in_lab(tmp_path, deed)


@contextmanager
def struck(lab: Lab) -> Iterator[DisputedElection]:
    """Inject a fault, and see it healed in the end."""
    aim = Aim(fault_id=1, targets=lab.voters, rng=Random(1))
    fault = DisputedElection(aim, lab.site())
    fault.inject()
    yield fault
    fault.heal()
    fault.heal()
    assert fault.confirm_healed(Patience(limit_s=60))


def test_nothing_is_done_once_the_main_phase_is_over(tmp_path: Path) -> None:
    def deed(lab: Lab) -> None:
        over = new_event()
        over.set()
        aim = Aim(fault_id=1, targets=lab.voters, rng=Random(1), stop=over)
        fault, lives = DisputedElection(aim, lab.site()), lab.cluster.lives()
        fault.inject()
        pause_until(stopwatch_s() + 20)
        assert lab.cluster.lives() == lives
        fault.heal()
        assert fault.confirm_healed(Patience(limit_s=60))

    in_lab(tmp_path, deed)


def test_nobody_else_kills_its_voters_or_shapes_their_links(tmp_path: Path) -> None:
    def deed(lab: Lab) -> dict[str, str]:
        others = [
            ScheduledFault(fault_id=at, at_s=1, kind=kind, target="n2", hold_s=1)
            for at, kind in enumerate(("kill", "delay", "isolate"), start=2)
        ]
        nemesis = lab.nemesis(8, *others)
        nemesis.run(new_event())
        nemesis.close()
        batches = read_stream(lab.paths.live / "faults.nemesis.arrows")
        last = {row["kind"]: row["effect"] for batch in batches for row in batch.to_pylist()}
        return {kind: json.loads(effect).get("without_effect", "") for kind, effect in last.items()}

    assert in_lab(tmp_path, deed) == {
        "disputed-election": "",
        "kill": "fault 1 already holds the broker of n2",
        "delay": "fault 1 already holds the network of n2",
        "isolate": "",
    }


@pytest.mark.parametrize(
    ("system", "why_not"),
    [
        ("reference", "fault 1 already holds the network of n2"),
        ("reference:controllers", ""),
    ],
)
def test_links_of_brokers_may_be_bad_while_controllers_dispute(
    tmp_path: Path, system: str, why_not: str
) -> None:
    def deed(lab: Lab) -> dict[str, str]:
        kinds = {"disputed-election": "quorum-voters", "delay": "n2"}
        faults = [
            ScheduledFault(fault_id=at, at_s=3 * at, kind=kind, target=target, hold_s=25, lane=at)
            for at, (kind, target) in enumerate(kinds.items(), start=1)
        ]
        dealt = Schedule(faults=tuple(faults), overlapping=False, spares_majority=False)
        nemesis = lab.nemesis_of(dealt)
        nemesis.run(new_event())
        nemesis.close()
        batches = read_stream(lab.paths.live / "faults.nemesis.arrows")
        last = {row["kind"]: row["effect"] for batch in batches for row in batch.to_pylist()}
        return {kind: json.loads(effect).get("without_effect", "") for kind, effect in last.items()}

    assert in_lab(tmp_path, deed, system=system) == {"disputed-election": "", "delay": why_not}


def refusal(site: Site, targets: Sequence[str]) -> str:
    with pytest.raises(ClusterError) as refused:
        DisputedElection(Aim(fault_id=1, targets=tuple(targets), rng=Random(1)), site)
    return str(refused.value)


def test_what_cannot_be_is_refused(tmp_path: Path, world: World) -> None:
    def deed(lab: Lab) -> None:
        assert "all voters as targets (n101, n102, n103); use" in refusal(
            lab.site(), lab.cluster.nodes
        )
        assert "use the target quorum-voters" in refusal(lab.site(), lab.voters[:2])

    in_lab(tmp_path / "lab", deed, system="reference:controllers")
    assert "cannot access the logs of this cluster's nodes" in refusal(
        world.site(), world.cluster.nodes
    )


@pytest.mark.parametrize("nemesis", ["all", "leadership", "leadership,network,kill"])
@pytest.mark.parametrize("system", ["kafka:4.3.1", "kafka:4.3.1:controllers"])
def test_no_schedule_of_real_hosts_has_it_or_changes_by_it(nemesis: str, system: str) -> None:
    plans = [
        plan_from({"system": system, "nemesis": nemesis, "time_limit_s": 300, "seed": seed})
        for seed in range(5)
    ]
    able = frozenset(Ability)
    with_it = [deal_schedule(plan, abilities=able) for plan in plans]
    whole = dict(KINDS)
    del KINDS["disputed-election"]
    try:
        assert [deal_schedule(plan, abilities=able) for plan in plans] == with_it
    finally:  # In their order, which the docs have too.
        KINDS.clear()
        KINDS.update(whole)
