"""What `all` and a default leave out is no promise; what was named is."""

import pytest

from cluster.protocol import OF_SYSTEMS, Ability
from nemesis.schedule import deal_schedule, names_families, played_families
from results.record.plan import Plan

EVERYTHING = frozenset(Ability)
ABLE = OF_SYSTEMS | {Ability.CUT, Ability.CLOCK}


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({}, False),
        ({"nemesis": ["all"]}, False),
        ({"nemesis": ["all", "kill"]}, False),
        ({"nemesis": ["kill"]}, True),
        ({"nemesis": ["kill"], "drawn": True}, False),
    ],
)
def test_who_names_families(values: dict[str, object], named: object) -> None:
    assert names_families(Plan.model_validate(values)) is named


def test_all_draws_from_what_fits_and_says_what_does_not() -> None:
    for limit_s in (20, 100, 3000):
        plan = Plan(nemesis=("all",), time_limit_s=limit_s)
        schedule = deal_schedule(plan, abilities=EVERYTHING)
        played = played_families(plan, abilities=EVERYTHING).keys()
        assert not [each for each in schedule.dropped if "better than unknown" in each]
        left_out = [
            each for each in schedule.dropped if "they do not fit into a main phase" in each
        ]
        assert bool(left_out) is (limit_s < 3000), schedule.dropped
        assert played


def test_of_all_without_room_for_all_the_rest_is_left_out_and_spoils_no_verdict() -> None:
    """A real run of this plan was valid, with `splits` and `topics` alone."""
    plan = Plan(nemesis=("all",), time_limit_s=12, nemesis_interval_s=4, seed=1)
    dropped = deal_schedule(plan, abilities=ABLE).dropped
    (sentence,) = (each for each in dropped if "fits into a main phase of 12 s" in each)
    assert "better than unknown" not in sentence
    named = plan.model_copy(update={"nemesis": ("kill",), "time_limit_s": 3})
    assert "better than unknown" in deal_schedule(named, abilities=ABLE).dropped[0]


def test_what_was_named_is_dealt_or_spoils_the_verdict() -> None:
    plan = Plan(nemesis=("kill", "rolling"), time_limit_s=20)
    (sentence,) = deal_schedule(plan, abilities=EVERYTHING).dropped
    assert "so the verdict cannot be better than unknown" in sentence
