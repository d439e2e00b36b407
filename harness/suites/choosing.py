"""Choose the next run of a suite's night. The choice is a pure function of the night's state."""

from collections.abc import Collection, Mapping
from statistics import fmean

from harness.suites.night import Item, NightState, Phase

JUDGING_S = 5.0
"""The time from the end of a run to its verdict. Measured 2026-11 on 2 cores: 8 runs, 2 s to 20 s,
median 5 s."""
OVERHEAD_S = 38.0
"""The time that a run takes in addition to its warm-up and main phase. This is the default if no
time was measured in the night or for the plan."""
RECENT = 8


def next_item(
    state: NightState,
    *,
    share: float,
    left_s: float,
    places: Mapping[int, str],
    taken: Collection[str],
    more: bool = False,
) -> Item | None:
    """Return the run to start next; None if no run fits now.

    The order is: first reruns, until they have used their share of the budget, then the entries in
    the night's order, then the other reruns. Reruns come first because a recurrence rate is most
    useful while the failure is new.

    Args:
        state: The night's state.
        share: The share of the budget that reruns may use while entries are still waiting.
        left_s: The rest of the budget, in seconds.
        places: The machines that each run uses alone, by the number of the run (see `place_of`).
        taken: The machines of the runs in progress.
        more: Whether the night may still plan new runs, in addition to reruns.
    """
    fitting = [
        each
        for each in state.having(Phase.WAITING)
        if not (places.get(each.number) and places[each.number] in taken)
        and estimate_s(state, each) <= left_s
    ]
    repeats = [each for each in fitting if each.repeated]
    planned = [each for each in fitting if not each.repeated]
    if repeats and (not (planned or more) or repeated_s(state) < share * state.budget_s):
        return repeats[0]
    return planned[0] if planned else None


def estimate_s(state: NightState, item: Item) -> float:
    """Return a run's estimated duration in seconds, from its start to its verdict.

    The estimate comes from tonight's runs of the entry, or from the entry's runs in the store.
    Otherwise the estimate is the plan's length plus the overhead of tonight's other runs.
    """
    took = sorted((each for each in state.items.values() if each.took_s),
                  key=lambda each: each.played_at)  # fmt: skip
    same = [each.took_s for each in took if each.entry == item.entry]
    if same:
        return fmean(same[-RECENT:]) + JUDGING_S
    if item.planned.measured or not took:
        return item.planned.takes_s or item.planned.lasts_s + OVERHEAD_S
    beside = fmean(each.took_s - each.planned.lasts_s for each in took[-RECENT:])
    return item.planned.lasts_s + beside + JUDGING_S


def repeated_s(state: NightState) -> float:
    """Return the total duration of reruns, with an estimate for reruns in progress."""
    repeats = [each for each in state.items.values() if each.repeated]
    return sum(
        each.took_s or (estimate_s(state, each) if each.phase is Phase.UNDER_WAY else 0.0)
        for each in repeats
    )
