"""Pairs in succession, by their definition in plain Python; and what stored runs reached."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.layout import RUN
from checkers.run import judge_runs
from checkers.transitions.events import UNTIMED, Events, bucket
from checkers.transitions.tables import APART_NS, _paired
from results.reached import reached, transitions_of
from results.record.clock import NS_PER_S
from results.record.paths import RunPaths
from results.samples import copy_sample, find_sample
from results.tables import RunTables

PLACE = ("log-0", "id-0", 0)
TIMES = st.one_of(
    st.just(UNTIMED), st.integers(0, 60).map(lambda at: at * NS_PER_S), st.integers(0, 2**63 - 1)
)


def events(told: list[tuple[str, int]], place: tuple[str, str, int] = PLACE) -> Events:
    found = Events(place)
    for name, time_ns in told:
        found.add(name, time_ns)
    return found


def by_definition(told: list[tuple[str, int]]) -> dict[tuple[str, str], int]:
    """Go from one transition to the next, in the order of time and then of name."""
    timed = sorted((time_ns, name) for name, time_ns in told if time_ns >= 0)
    return Counter(
        (before, after)
        for (then, before), (now, after) in pairwise(timed)
        if before != after and now - then <= APART_NS
    )


def found(told: list[tuple[str, int]]) -> dict[tuple[str, str], int]:
    return {(str(row["before"]), str(row["after"])): row["count"]  # type: ignore[misc]  # Numbers.
            for row in _paired(events(told))}  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from(["a/1", "a/2", "b/1", "b/2"]), TIMES), max_size=30))
def test_successions_are_those_of_the_definition(told: list[tuple[str, int]]) -> None:
    assert found(told) == by_definition(told)


def test_what_follows_itself_is_one_and_the_last_of_it_counts() -> None:
    far = 9 * NS_PER_S
    assert found([("a", 0), ("a", far), ("b", 2 * far)]) == {("a", "b"): 1}
    assert found([("a", 0), ("b", APART_NS)]) == {("a", "b"): 1}
    assert found([("a", 0), ("b", APART_NS + 1)]) == {}


def test_what_clients_were_refused_does_not_part_an_election_from_what_followed_it() -> None:
    told = [
        ("election/leader-killed", 1), ("refused/send-client-timed-out", 2), ("group/moved", 3),
        ("isr/shrank-3-to-2", 4), ("share/released", 5), ("refused/send-other", 6),
        ("group/kept", 7), ("truncation/started-over", 8),
    ]  # fmt: skip
    assert found(told) == {
        ("election/leader-killed", "isr/shrank-3-to-2"): 1,
        ("isr/shrank-3-to-2", "truncation/started-over"): 1,
        ("refused/send-client-timed-out", "refused/send-other"): 1,
        ("group/moved", "group/kept"): 1,
    }  # fmt: skip


def test_transitions_of_no_place_are_in_no_succession() -> None:
    assert list(_paired(events([("a", 1), ("b", 2)], RUN))) == []


@pytest.mark.parametrize(
    ("count", "name"), [(1, "1"), (2, "2-9"), (9, "2-9"), (10, "10-99"), (10**30, "100+")]
)
def test_buckets(count: int, name: str) -> None:
    assert bucket(count, "1", "2-9", "10-99", "100+") == name


def test_many_transitions_of_one_place_are_counted_without_a_loop() -> None:
    many = Events(PLACE)
    for name in ("a/1", "a/2"):
        many.add_all(name, np.arange(200_000, dtype=np.int64) * 2 + int(name[-1]))
    (there, back) = _paired(many)
    assert (there["count"], back["count"]) == (200_000, 199_999)


@pytest.mark.parametrize(
    ("sample", "there", "never"),
    [
        (
            "loss-unclean",
            {"election/unclean": 2, "truncation/below-high-watermark-100+": 2,
             "refused/poll-OFFSET_OUT_OF_RANGE": 9},
            {"leader/none", "quorum/split-vote"},
        ),
        (
            "valid",
            {"election/leader-paused": 5, "election/leader-cut-off": 4, "recovery/log-longer": 8,
             "quorum/log-parted": 2, "leader/deposed-answers": 7},
            {"election/unclean", "truncation/below-high-watermark-100+"},
        ),
        (
            "leader-epoch-1-high-watermark",
            {"truncation/high-watermark-unseen": 1},
            {"truncation/leader-epoch-1", "quorum/elected-next-epoch"},
        ),
    ],
)  # fmt: skip
def test_stored_runs_of_real_kafka_reached_what_their_stories_say(
    sample: str, there: dict[str, int], never: set[str], tmp_path: Path
) -> None:
    paths = copy_sample(RunPaths(find_sample(sample)), tmp_path / sample)
    judge_runs([paths.root], engine="local")
    told = {each.name: each.count for each in transitions_of(RunTables(paths))}
    assert {name: told.get(name) for name in there} == there
    assert not never & told.keys()
    assert reached(paths).transitions == told.keys()
    assert reached(paths).successions
    assert reached(RunPaths(find_sample(sample))) == reached(paths), "the sample has it as well"
