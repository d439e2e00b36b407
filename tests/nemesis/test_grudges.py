"""Shapes of partitions, by their properties."""

import itertools
from random import Random

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from nemesis.grudges import (
    deafness,
    isolation,
    kept_reverses,
    links_of,
    muteness,
    smaller_half,
    split,
)

NODE_LISTS = st.integers(2, 9).map(lambda count: [f"n{i}" for i in range(1, count + 1)])


@st.composite
def nodes_and_some(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    nodes = draw(NODE_LISTS)
    some = draw(st.lists(st.sampled_from(nodes), min_size=1, max_size=len(nodes) - 1, unique=True))
    return nodes, some


def _open_links(nodes: list[str], grudge: "nx.DiGraph[str]") -> "nx.DiGraph[str]":
    left: nx.DiGraph[str] = nx.DiGraph()
    left.add_nodes_from(nodes)
    left.add_edges_from(set(itertools.permutations(nodes, 2)) - set(grudge.edges))
    return left


@given(NODE_LISTS, st.data())
def test_isolation_of_one_cuts_exactly_its_links(nodes: list[str], data: st.DataObject) -> None:
    target = data.draw(st.sampled_from(nodes))
    links = links_of(isolation(nodes, [target]))
    assert len(links) == 2 * (len(nodes) - 1)
    assert all(target in link for link in links)


@given(nodes_and_some())
def test_isolated_nodes_reach_nobody_and_the_others_everybody(
    case: tuple[list[str], list[str]],
) -> None:
    nodes, targets = case
    still = _open_links(nodes, isolation(nodes, targets))
    assert all(still.degree(target) == 0 for target in targets)
    others = still.subgraph(set(nodes) - set(targets))
    assert others.number_of_edges() == len(others) * (len(others) - 1)


@given(nodes_and_some())
def test_a_split_leaves_two_whole_halves(case: tuple[list[str], list[str]]) -> None:
    nodes, half = case
    still = _open_links(nodes, split(nodes, half))
    parts = {frozenset(part) for part in nx.strongly_connected_components(still)}
    assert parts == {frozenset(half), frozenset(nodes) - frozenset(half)}
    assert all(nx.density(still.subgraph(part)) == 1 for part in parts if len(part) > 1)


@given(nodes_and_some())
def test_one_way_cuts_have_no_reverse_link(case: tuple[list[str], list[str]]) -> None:
    nodes, targets = case
    for grudge in (deafness(nodes, targets), muteness(nodes, targets)):
        links = set(links_of(grudge))
        assert len(links) == len(targets) * (len(nodes) - len(targets))
        assert not {(b, a) for a, b in links} & links
        assert set(kept_reverses(grudge)) == {(b, a) for a, b in links}


@given(nodes_and_some())
def test_the_deaf_hear_nobody_and_the_mute_are_heard_by_nobody(
    case: tuple[list[str], list[str]],
) -> None:
    nodes, targets = case
    others = set(nodes) - set(targets)
    assert {receiver for _, receiver in links_of(deafness(nodes, targets))} == set(targets)
    assert {sender for sender, _ in links_of(deafness(nodes, targets))} == others
    assert {sender for sender, _ in links_of(muteness(nodes, targets))} == set(targets)


@given(nodes_and_some())
def test_cuts_both_ways_keep_no_reverse(case: tuple[list[str], list[str]]) -> None:
    nodes, targets = case
    assert kept_reverses(isolation(nodes, targets)) == ()
    assert kept_reverses(split(nodes, targets)) == ()


@given(nodes_and_some(), st.integers())
def test_the_smaller_half_holds_the_targets_that_fit(
    case: tuple[list[str], list[str]], seed: int
) -> None:
    nodes, targets = case
    half = smaller_half(nodes, targets, Random(seed))
    assert len(half) == len(set(half)) == len(nodes) // 2
    assert len(set(half) & set(targets)) == min(len(half), len(targets))
    assert half == smaller_half(nodes, targets, Random(seed))
