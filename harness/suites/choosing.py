"""What is played next: a pure choice."""

from collections.abc import Collection, Mapping
from statistics import fmean

from harness.suites.night import Item, NightState, Phase

JUDGING_S = 5.0
"""From the end of a run's play to its verdict. Measured 2026-11 on 2 cores: 8 runs, 2 s to 20 s,
median 5 s."""
OVERHEAD_S = 38.0
"""What a run takes beside warm-up and main phase, where neither tonight nor the plan says more."""
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
    """Return the item whose turn it is; None: nothing fits now.

    Repeats go first, as long as they have not had their share of the budget: a rate is worth most
    while the failure is new. Then entries in the night's order; then the other repeats.

    Args:
        state: The night.
        share: Of the budget for repeats, while there are entries left.
        left_s: Of the budget, in seconds.
        places: What each item has for itself, by number (see `place_of`).
        taken: The places of runs that are under way.
        more: Whether there are other runs than repeats that are not planned yet.
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
    """Return how long a run will take, from its start to its verdict, in seconds.

    By what runs of its entry took tonight, or in the store; else by what other runs took tonight
    beside what their plans say.
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
    """Return what repeats took so far, those under way as far as they will take."""
    repeats = [each for each in state.items.values() if each.repeated]
    return sum(
        each.took_s or (estimate_s(state, each) if each.phase is Phase.UNDER_WAY else 0.0)
        for each in repeats
    )
