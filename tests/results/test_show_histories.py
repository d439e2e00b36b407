"""Verdicts on histories in a terminal: what counts is told, with a few examples."""

import io

from rich.console import Console

from results.record.terms import AnomalyClass, Validity
from results.record.verdict import AnomalySummary, Example, Verdict
from results.show_histories import print_histories
from tests.results.told import told


def example(number: int, *, allowed: bool) -> Example:
    return Example(sentence=f"circle {number}", evidence={}, topic="", topic_id="", partition=-1,
                   offset=-1, allowed=allowed, trusted=True, why="")  # fmt: skip


def verdict(valid: Validity, **counts: tuple[int, int]) -> Verdict:
    """A history's verdict: of each name so many, and so many of them allowed (and shown last)."""
    anomalies = {
        name: AnomalySummary(
            anomaly_class=AnomalyClass.SAFETY, count=count, allowed=allowed, trusted=count,
            examples=tuple(example(at, allowed=at >= count - allowed) for at in range(count)),
        )
        for name, (count, allowed) in counts.items()
    }  # fmt: skip
    return told(
        Verdict(run_id="h", valid=valid, judge="contract", engine="local", anomalies=anomalies)
    )


def printed(*verdicts: Verdict) -> list[str]:
    console = Console(file=io.StringIO(), soft_wrap=True)
    print_histories(verdicts, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_what_counts_is_told_with_three_examples_and_what_is_allowed_by_its_number() -> None:
    assert printed(verdict(Validity.INVALID, G1c=(6, 2), G1a=(1, 0), G0=(5, 5))) == [
        "h: invalid",
        "  G1a: 1 (not allowed)",
        "    circle 0",
        "  G1c: 6 (4 of 6 not allowed)",
        "    circle 0",
        "    circle 1",
        "    circle 2",
        "    and 1 more",
        "  G0: 5 (allowed)",
        "1 history: 1 invalid; judge contract, engine local",
    ]


def test_a_valid_history_with_what_is_allowed_is_not_green() -> None:
    def colour(told: Verdict) -> str:
        console = Console(file=io.StringIO(), force_terminal=True, color_system="standard")
        print_histories([told], console)
        assert isinstance(console.file, io.StringIO)
        return console.file.getvalue().partition("h: valid")[0]

    green, cyan = colour(verdict(Validity.VALID)), colour(verdict(Validity.VALID, G0=(5, 5)))
    assert (green, cyan) == ("\x1b[1;32m", "\x1b[1;36m")


def test_histories_are_counted_by_their_verdicts() -> None:
    valid, unknown = verdict(Validity.VALID), verdict(Validity.UNKNOWN)
    assert printed(valid, unknown, valid)[-1] == (
        "3 histories: 2 valid, 1 unknown; judge contract, engine local"
    )
    assert printed() == []
