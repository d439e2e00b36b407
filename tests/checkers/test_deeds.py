"""What faults did to a simulated cluster is told as the simulator did it."""

from benchmarks.deeds import Deeds
from checkers.columns import NEVER
from cluster.reference.simulator.host import Booted
from cluster.reference.simulator.simulation import Simulation

S = 1_000_000_000


def never(_: object) -> Booted:
    raise AssertionError("nothing is started")


def test_what_hit_whom_and_until_when() -> None:
    simulation = Simulation(1)
    hosts = [simulation.add(number, never) for number in (1, 2, 3, -1)]
    deeds = Deeds(simulation)
    around_1 = [(1, 2), (1, 3), (2, 1), (3, 1)]
    with deeds.watching():
        simulation.network.cut(around_1)
        simulation.network.cut([(2, 1)])
        simulation.run(1)
        simulation.network.join([*around_1, (2, 1)])
        hosts[1].lose_power()
        hosts[3].lose_power()  # A client's machine.
        simulation.run(1)
        simulation.network.cut([(1, 3), (2, 3)])
    hosts[0].lose_power()
    assert [(each.kind, *each.nodes, each.begun_ns, each.ended_ns) for each in deeds.done] == [
        ("isolate", "n1", 0, S),
        ("power-loss", "n2", S, NEVER),
        ("one-way-in", "n3", 2 * S, NEVER),
    ]


def test_only_when_it_was_asked_for_is_the_harness_word() -> None:
    simulation = Simulation(1)
    host, deeds = simulation.add(1, never), Deeds(simulation)
    simulation.run(5)
    with deeds.watching():
        host.lose_power()
    rows = [
        {"kind": kind, "targets": [target], "requested_ns": at * S}
        for kind, target, at in (
            ("power-loss", "n1", 3), ("kill", "n1", 4), ("power-loss", "n2", 4),
            ("power-loss", "n1", 6),
        )
    ]  # fmt: skip
    (asked,) = deeds.asked(rows)
    assert (asked.asked_ns, asked.begun_ns) == (3 * S, 5 * S)
    assert deeds.asked([]) == deeds.done, "nobody asked for it"
