from hypothesis import given
from hypothesis import strategies as st

from results.record.clock import NS_PER_S
from results.record.terms import Phase
from workloads.pacing import PATIENCE_NS, WINDOW_NS, Arrivals


@given(
    rate=st.floats(1, 5000),
    steps=st.lists(st.tuples(st.integers(0, 200_000_000), st.integers(0, 40)), max_size=60),
)
def test_every_arrival_is_taken_or_missed_and_shows_in_one_window(
    rate: float, steps: list[tuple[int, int]]
) -> None:
    arrivals = Arrivals(rate, start_ns=5)
    now_ns, taken, rows = 5, 0, []
    for step_ns, free in steps:
        now_ns += step_ns
        arrivals.offer(now_ns, Phase.MAIN)
        taken += sum(arrivals.take(now_ns, Phase.MAIN) for _ in range(free))
        rows += arrivals.closed(now_ns)
    arrivals.give_up()
    rows += arrivals.closed()
    assert arrivals.offered == taken + arrivals.missed
    assert sum(row.offered for row in rows) == arrivals.offered
    assert sum(row.missed for row in rows) == arrivals.missed
    assert all(0 <= row.missed <= row.offered and row.window_ns % WINDOW_NS == 0 for row in rows)
    assert len({row.window_ns for row in rows}) == len(rows)


def test_the_schedule_is_kept_whatever_the_processes_do() -> None:
    arrivals = Arrivals(250, start_ns=0)
    arrivals.offer(10 * NS_PER_S - 1, Phase.MAIN)
    assert arrivals.offered == 2500


def test_an_arrival_waits_for_a_free_process_but_not_for_long() -> None:
    arrivals = Arrivals(10, start_ns=0)
    arrivals.offer(0, Phase.MAIN)
    arrivals.offer(PATIENCE_NS - 1, Phase.MAIN)
    assert arrivals.take(PATIENCE_NS - 1, Phase.MAIN)
    arrivals.offer(PATIENCE_NS, Phase.MAIN)
    arrivals.offer(2 * PATIENCE_NS + 1, Phase.RECOVERY)
    assert arrivals.missed == 1
    assert [(row.phase, row.offered, row.missed) for row in arrivals.closed()] == [
        (Phase.MAIN, 1, 0), (Phase.MAIN, 1, 1), (Phase.RECOVERY, 1, 0),
    ]  # fmt: skip


def test_without_a_rate_there_is_always_an_arrival_and_none_is_missed() -> None:
    arrivals = Arrivals(0, start_ns=0)
    arrivals.offer(NS_PER_S, Phase.MAIN)
    assert all(arrivals.take(NS_PER_S, Phase.MAIN) for _ in range(7))
    assert (arrivals.offered, arrivals.missed) == (7, 0)
