"""The list of all truncations of a run."""

from dataclasses import replace

import pytest

from results.page.truncations import Logged, Truncation, with_nodes, with_times

CUT = Truncation(node="n1", place="log-0-1", offset=90, when="", reason="")


@pytest.mark.parametrize(
    ("logged", "when"),
    [
        ({"n1": [(22.0, 90)]}, "22.000 s"),
        ({"n1": [(21.0, 120), (22.0, 90), (22.5, 90)]}, "22.000 s"),  # Logged twice.
        ({"n1": [(22.0, 90), (44.0, 90)]}, ""),
        ({"n1": [(22.0, 91)]}, ""),
        ({"n2": [(22.0, 90)]}, ""),
        ({}, ""),
    ],
)
def test_a_truncation_has_the_time_from_its_brokers_own_log(logged: Logged, when: str) -> None:
    others = {"log-0-1": logged, "log-0-2": {"n1": [(9.0, 90)]}}
    assert [each.when for each in with_times([CUT], others)] == [when]
    twice = [CUT, replace(CUT, reason="again"), replace(CUT, when="7.000 s", offset=7)]
    assert [each.when for each in with_times(twice, others)] == ["", "", "7.000 s"]


def test_a_reason_names_nodes() -> None:
    told = with_nodes("follower of broker 12: epoch 0 ends at offset 346 there")
    assert told == "follower of n12: epoch 0 ends at offset 346 there"
