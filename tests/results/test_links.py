"""Cuts in short: the sides that cannot reach each other, or the links where there are no sides."""

from itertools import permutations

import pytest

from results.wording.links import Link, parted


def both(*pairs: Link) -> list[Link]:
    return [*pairs, *((receiver, sender) for sender, receiver in pairs)]


@pytest.mark.parametrize(
    ("links", "told"),
    [
        ([], ""),
        (both(("n1", "n2"), ("n3", "n2")), "n2 | n1 n3"),
        (both(("n1", "n10"), ("n1", "n2")), "n1 | n2 n10"),
        (list(permutations(("n1", "n2", "n3"), 2)), "n1 | n2 | n3"),
        ([("n1", "n2"), ("n3", "n2")], "n1 n3 → n2"),
        ([("n2", "n1"), ("n2", "n3")], "n2 → n1 n3"),
        # A ring of five has no sides; nor has a cut that is one way on one of its links only.
        (both(("n1", "n3"), ("n3", "n5")), "n3 | n1 n5"),
        (both(("n1", "n2"), ("n2", "n3"), ("n3", "n4")),
         "n1→n2, n2→n1, n2→n3, n3→n2, n3→n4, n4→n3"),
        ([("n1", "n2"), ("n2", "n1"), ("n3", "n1")], "n1→n2, n2→n1, n3→n1"),
        ([("n1", "n2"), ("n3", "n4")], "n1→n2, n3→n4"),
    ],
)  # fmt: skip
def test_a_cut_is_told_by_its_sides(links: list[Link], told: str) -> None:
    assert parted(links) == told
