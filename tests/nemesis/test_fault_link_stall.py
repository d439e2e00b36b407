"""The fault `link-stall`: all comes, seconds late and in order, and a cut is none."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from cluster.protocol import ClusterError, Link, Measured
from nemesis.evidence import held_flows, is_whole
from nemesis.flapping import Flapping
from nemesis.isolate import isolate
from nemesis.life import TOO_SHORT
from nemesis.link_stall import link_stall
from nemesis.protocol import Aim, Patience
from nemesis.registry import KINDS
from nemesis.runner import Nemesis
from nemesis.schedule import Schedule
from nemesis.scheduled import ScheduledFault
from nemesis.stalls import HALF, MIDWAY, OPEN_MS, STALL_MS, StalledLinks, stalling
from nemesis.sweep import sweep
from nemesis.undo import Unshape
from results.record.clock import RunClock, pause_until, stopwatch_s
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.runtime import new_event, start
from tests.nemesis.proofs import AROUND, stall_proof
from tests.nemesis.simulated_room import stalls_as_drawn
from tests.nemesis.virtual_links import (
    IN,
    OUT,
    SOON,
    BothWays,
    HalfOfThem,
    Killed,
    Lossy,
    LossyAfterwards,
    Machines,
    NeverShaped,
    NeverUnshaped,
    OneAfterTheOther,
    OneIsLeftOut,
    Reversed,
    SeenOpenOnly,
    VirtualLinks,
    aim,
    begun,
    healed,
)

PROOF_OF = [("link-stall", stall_proof(*AROUND))]
SHOWS_OF = [("link-stall", stalls_as_drawn)]
SEEDS_OF = [("link-stall", (1, 5, 7))]  # Each direction, and both.
SEEDS = range(12)
WAYS = {"in": tuple(sorted(IN)), "out": tuple(sorted(OUT)), "both": tuple(sorted(IN | OUT))}


@pytest.mark.parametrize("way", WAYS)
def test_links_that_stall_are_proven_and_proven_good_again(way: str, tmp_path: Path) -> None:
    links = VirtualLinks(tmp_path)

    def work() -> None:
        fault = stalling(aim(), links.site, WAYS[way])
        assert fault.undo() == (Unshape(shape_id="fault-1", links=fault.links),)
        fault.inject()
        effect = fault.confirm(SOON)
        assert effect is not None
        assert {(each.sender, each.receiver) for each in effect.links} == {*WAYS[way]}
        midway_s = MIDWAY * fault.quality.stall_ms / 1000
        for link in effect.links:
            assert link.midway is not None
            assert link.midway.arrived == 0
            assert link.midway_s >= midway_s
            assert link.during.arrived >= 38
            assert midway_s < link.over_s < fault.quality.stall_ms / 1000 + 1
        assert len(effect.back) == (0 if way == "both" else 2)
        for link in effect.back:
            assert link.midway is not None
            assert link.midway.arrived >= 38
            assert link.midway.fastest_ms is None
        clear = healed(fault)
        assert clear is not None
        assert links.hosts.shape_ids() == []
        assert clear.took_s > fault.quality.open_ms / 1000
        for again in clear.links:
            assert again.after is not None
            assert again.let_go is not None
            assert again.let_go.arrived >= 38
        assert (clear.killed, clear.dropped) == ((), 0)

    links.play(work)


def test_the_way_and_the_times_are_drawn(tmp_path: Path) -> None:
    site = VirtualLinks(tmp_path).site
    drawn = [link_stall(aim("n2", seed=seed), site) for seed in range(60)]
    assert {frozenset(each.links) for each in drawn} == {*map(frozenset, WAYS.values())}
    stalls = [each.quality.stall_ms for each in drawn]
    assert STALL_MS[0] <= min(stalls) < 3000
    assert 7000 < max(stalls) <= STALL_MS[1]
    assert all(OPEN_MS[0] <= each.quality.open_ms <= OPEN_MS[1] for each in drawn)
    assert link_stall(aim("n2", seed=7), site).quality == drawn[7].quality


def test_links_of_all_nodes_stall_both_ways(tmp_path: Path) -> None:
    site = VirtualLinks(tmp_path).site
    for seed in range(5):
        assert len(link_stall(aim("n1", "n2", "n3", seed=seed), site).links) == 6
    site.cluster.nodes = ["n1"]
    with pytest.raises(ClusterError, match="no link to shape around n1"):
        link_stall(aim("n1"), site)


@pytest.mark.parametrize(
    "machines", [NeverShaped, Reversed, BothWays, OneIsLeftOut, HalfOfThem, Lossy]
)
def test_what_is_no_stall_of_these_links_is_no_effect(
    machines: type[Machines], tmp_path: Path
) -> None:
    for seed in SEEDS:
        links = VirtualLinks(tmp_path / f"{seed}", machines, seed=seed)
        if machines is BothWays:
            assert not links.proven(lambda its, site: stalling(its, site, WAYS["in"]), seed)
        elif machines is Reversed:
            assert not links.proven(lambda its, site: stalling(its, site, WAYS["out"]), seed)
        else:
            assert not links.proven(link_stall, seed)


@pytest.mark.parametrize("between_s", [0.1, 0.4, 1.1])
def test_links_that_stall_one_after_the_other_are_all_proven(
    between_s: float, tmp_path: Path
) -> None:
    for seed in SEEDS:
        links = VirtualLinks(tmp_path / f"{seed}", OneAfterTheOther, seed=seed)
        links.hosts.between_s = between_s  # type: ignore[attr-defined] # Of these.
        assert links.proven(link_stall, seed), seed


def test_a_stall_that_stays_is_not_healed_however_often_it_is_open(tmp_path: Path) -> None:
    for seed in SEEDS:
        links = VirtualLinks(tmp_path / f"{seed}", NeverUnshaped, seed=seed)

        def work(links: VirtualLinks = links, seed: int = seed) -> bool:
            fault, effect = begun(link_stall, links.site, seed)
            assert effect is not None
            fault.heal()
            return fault.confirm_healed(Patience(limit_s=60)) is None

        assert links.play(work), seed


def test_looks_that_are_too_far_from_each_other_prove_no_heal(tmp_path: Path) -> None:
    links = VirtualLinks(tmp_path, SeenOpenOnly)

    def work() -> None:
        fault = stalling(aim(), links.site, WAYS["in"])
        fault.inject()
        fault.heal()
        assert fault.confirm_healed(Patience(limit_s=60)) is None

    links.play(work)


def test_links_that_lose_what_they_are_given_are_not_healed(tmp_path: Path) -> None:
    for seed in SEEDS:
        links = VirtualLinks(tmp_path / f"{seed}", LossyAfterwards, seed=seed)

        def work(links: VirtualLinks = links, seed: int = seed) -> bool:
            return healed(begun(link_stall, links.site, seed)[0]) is None

        assert links.play(work), seed


def test_what_is_lost_with_a_shaper_that_is_killed_is_recorded(tmp_path: Path) -> None:
    links = VirtualLinks(tmp_path, Killed)

    def work() -> None:
        fault = stalling(aim(), links.site, WAYS["in"])
        fault.inject()
        pause_until(stopwatch_s() + 0.1)
        clear = healed(fault)
        assert clear is not None
        assert clear.killed == ("n1", "n3")
        assert clear.dropped == 6
        assert [link.let_go.arrived for link in clear.links if link.let_go] == [0, 0]

    links.play(work)


def test_the_end_of_the_main_phase_ends_the_search_for_an_effect(tmp_path: Path) -> None:
    links = VirtualLinks(tmp_path)

    def work() -> float:
        fault, stop = link_stall(aim(), links.site), new_event()
        fault.inject()
        began_s = stopwatch_s()

        def end() -> None:
            pause_until(began_s + 0.5)
            stop.set()

        task = start(end, "the end", awaited=True)
        assert fault.confirm(Patience(limit_s=5, stop=stop)) is None
        task.result()
        return stopwatch_s() - began_s

    assert links.play(work) < 1


def test_a_fault_that_the_end_of_the_main_phase_cuts_short_says_so(tmp_path: Path) -> None:
    links = VirtualLinks(tmp_path / "machines")
    paths = RunPaths(tmp_path / "run")
    paths.live.mkdir(parents=True)
    fault = ScheduledFault(fault_id=1, at_s=0, kind="link-stall", target="n2", hold_s=1)

    def work() -> tuple[float, str | None]:
        nemesis = Nemesis(
            plan=Plan(nodes=3), schedule=Schedule(faults=(fault,), overlapping=True),
            cluster=links.site.cluster, hosts=links.hosts, clock=RunClock(start_ns=0), paths=paths,
            state_of=links.site.state_of,
        )  # fmt: skip
        stop, began_s = new_event(), stopwatch_s()
        task = start(lambda: nemesis.run(stop), "faults", awaited=True)
        pause_until(began_s + 0.5)
        stop.set()
        task.result()
        took_s = stopwatch_s() - began_s
        assert nemesis.heal_all(limit_s=30).failed == ()
        nemesis.close()
        (life,) = nemesis._lives
        return took_s, life.row.spec.without_effect

    took_s, why = links.play(work)
    assert why == TOO_SHORT
    assert took_s < 1


def test_flows_are_late_as_a_whole_or_not_at_all() -> None:
    def seen(*numbers: int) -> Measured:
        return Measured(
            sent=40, arrived=len(numbers), copies=0, overtaken=0, round_trip_ms=(), lasted_s=0,
            numbers=numbers,
        )  # fmt: skip

    whole, odd = range(40), range(1, 40, 2)
    assert held_flows(seen(*odd), seen(*whole), 20) == 10
    assert held_flows(seen(), seen(*whole), 20) == 20
    assert held_flows(seen(*whole), seen(*whole), 20) == 0
    assert held_flows(seen(*odd), seen(*whole[1:]), 20) == 10, "what is lost tells nothing"
    for straddling in range(1, 40):
        assert held_flows(seen(*range(straddling)), seen(*whole), 20) is None
    assert is_whole(40, 38)
    assert not is_whole(40, 37)
    assert not is_whole(0, 0)


def stalled(links: VirtualLinks, way: str) -> StalledLinks:
    """Return a stall that is in force, and not confirmed."""
    fault = stalling(Aim(fault_id=9, targets=("n2",), rng=Random(0)), links.site, WAYS[way])
    fault.quality = replace(fault.quality, stall_ms=8000)
    fault.inject()
    return fault


class DeafToCut(Machines):
    """Hosts on which cuts do nothing."""

    def cut(self, cut_id: str, links: object) -> None:
        del links
        super().cut(cut_id, [])


@pytest.mark.parametrize("make", [isolate, Flapping])
def test_a_stall_is_no_proof_of_a_cut(make: type[Flapping], tmp_path: Path) -> None:
    links = VirtualLinks(tmp_path, DeafToCut)

    def work() -> None:
        cut = make(Aim(fault_id=2, targets=("n2",), rng=Random(0)), links.site)
        stall = stalled(links, "both")
        cut.inject()  # Every link is silent, and none is dead.
        assert cut.confirm(Patience(limit_s=5)) is None
        cut.heal()
        stall.heal()

    links.play(work)


class DeafToFlapping(Machines):
    """Hosts on which the cuts of other faults work, and those of the fault under test do not."""

    def cut(self, cut_id: str, links: Iterable[Link]) -> None:
        super().cut(cut_id, links if cut_id == "other" else [])


@pytest.mark.parametrize("make", [isolate, Flapping])
def test_nor_is_a_cut_of_another_fault_beside_it(make: type[Flapping], tmp_path: Path) -> None:
    links = VirtualLinks(tmp_path, DeafToFlapping)

    def work() -> None:
        links.network.cut("other", OUT)
        stall = stalled(links, "in")
        cut = make(Aim(fault_id=2, targets=("n2",), rng=Random(0)), links.site)
        cut.inject()
        assert cut.confirm(Patience(limit_s=5)) is None
        cut.heal()
        stall.heal()

    links.play(work)


def test_a_cut_beside_a_stall_is_proven_by_what_it_drops(tmp_path: Path) -> None:
    links = VirtualLinks(tmp_path)

    def work() -> None:
        stall = stalled(links, "in")
        cut = isolate(Aim(fault_id=2, targets=("n2",), rng=Random(0)), links.site)
        cut.inject()
        effect = cut.confirm(Patience(limit_s=5))
        assert effect is not None
        by_link = {(each.sender, each.receiver): each for each in effect.links}
        assert {link for link, each in by_link.items() if each.stalled_by_others} == IN
        assert all(by_link[link].dropped for link in OUT)
        cut.heal()
        joined = cut.confirm_healed(Patience(limit_s=1))
        assert joined is not None
        late = {(each.sender, each.receiver) for each in joined.links if each.stalled_by_others}
        assert late == IN
        assert not any(each.cut_by_others for each in joined.links)
        stall.heal()

    links.play(work)


def test_others_know_of_a_stall_from_its_injection_to_its_heal(tmp_path: Path) -> None:
    links = VirtualLinks(tmp_path)
    network = links.network

    def work() -> None:
        fault = link_stall(aim(), links.site)
        fault.inject()
        assert network.stalled_links() == network.silent_links() == {*fault.links}
        assert network.cut_links() == frozenset()
        fault.heal()
        assert network.silent_links() == frozenset()
        assert network._stalls == {}
        assert network.ever_stalled() == {*fault.links}

    links.play(work)


@pytest.mark.parametrize("share", [1.0, HALF])
@pytest.mark.parametrize(("machines", "failed"), [(Machines, 0), (NeverUnshaped, 1)])
def test_the_heal_of_everything_removes_shapes_and_waits_for_links_to_stay_good(
    machines: type[Machines], failed: int, share: float, tmp_path: Path
) -> None:
    for seed in SEEDS:
        links = VirtualLinks(tmp_path / f"{seed}", machines, seed=seed)

        def work(links: VirtualLinks = links, seed: int = seed) -> None:
            fault = stalling(aim(seed=seed), links.site, (("clients", "n2"),), share=share)
            fault.inject()
            pause_until(stopwatch_s() + fault.quality.stall_ms / 1000)
            report = sweep([], links.site)
            assert len(report.failed) == failed, (seed, report)
            assert "shape fault-1 was removed" in report.done
            assert links.network.stalled_links() == frozenset()

        links.play(work)


def test_it_takes_what_makes_links_bad_and_nothing_of_brokers() -> None:
    assert KINDS["link-stall"].aspect is KINDS["delay"].aspect
    assert KINDS["link-stall"].is_dealt("namespace")
