"""What a run shows while it is under way, on a terminal and in a log."""

import io

import pytest
from rich.console import Console

from harness import progress
from harness.progress import Progress, Snapshot
from results.record.clock import wait_until

BUSY = Snapshot(
    kinds={"send": 2, "poll": 478},
    rates={"ok": 470, "info": 10},
    total=9_000,
    missed=3,
    faults=("kill of n2: held",),
)


def shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "REFRESH_INTERVAL_S", 0.01)
    monkeypatch.setattr(progress, "LINE_INTERVAL_S", 0.01)


def test_a_terminal_shows_a_bar_with_what_is_under_way() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with Progress(console, lambda: BUSY) as under_way:
        under_way.phase("main phase", lasts_s=600)
        wait_until(lambda: "min left" in shown(console), timeout_s=30, what="the bar")
    for text in (
        "━━━",
        "main phase",
        "480 ops/s (poll 478, send 2; info 10, ok 470)",
        "kill of n2: held",
    ):
        assert text in shown(console)


def test_the_rates_fit_on_a_low_terminal() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100, height=2)
    with Progress(console, lambda: BUSY) as under_way:
        under_way.phase("main phase", lasts_s=600)
        wait_until(lambda: "480 ops/s" in shown(console), timeout_s=10, what="the rates")


@pytest.mark.parametrize("terminal", [False, True], ids=["log", "dumb-terminal"])
def test_what_cannot_redraw_gets_lines_without_a_bar_or_control_characters(
    monkeypatch: pytest.MonkeyPatch, *, terminal: bool
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    console = Console(file=io.StringIO(), force_terminal=terminal, width=200, color_system=None)
    with Progress(console, lambda: BUSY) as under_way:
        under_way.phase("main phase", lasts_s=600)
        wait_until(lambda: "in force" in shown(console), timeout_s=30, what="a line")
    line = "min left, 480 ops/s (poll 478, send 2; info 10, ok 470); 9,000 ops, 3 missed; in force"
    assert line in " ".join(shown(console).split())
    assert "main phase (10 min)" in shown(console)
    assert not {"━", "\x1b"} & {*shown(console)}
