"""Work that waits is done aside, and its results are taken where they are asked for."""

import threading

import pytest

from workloads.aside import Aside

LIMIT_S = 30.0


def test_results_are_handed_on_by_serve_in_its_own_thread_exactly_once() -> None:
    aside = Aside(2)
    seen: list[tuple[int, int]] = []
    gate = threading.Event()

    def work(number: int) -> int:
        assert gate.wait(LIMIT_S)
        assert threading.get_ident() != home
        return number

    home = threading.get_ident()
    for number in range(5):
        aside.do(
            lambda number=number: work(number),  # type: ignore[misc] # a default binds the number
            lambda result: seen.append((result, threading.get_ident())),
        )
    aside.serve(0)
    assert seen == []  # Whoever serves without a limit does not wait.
    gate.set()
    while len(seen) < 5:
        aside.serve(LIMIT_S)
    aside.serve(0)
    assert sorted(seen) == [(number, home) for number in range(5)]


def test_what_the_work_raises_is_raised_where_its_result_is_taken() -> None:
    aside = Aside(1)

    def work() -> int:
        raise ValueError("a bug")

    aside.do(work, lambda _result: None)
    with pytest.raises(ValueError, match="a bug"):
        aside.serve(LIMIT_S)
