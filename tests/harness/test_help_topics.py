"""`logquake help`: every name of a fault, anomaly, key, command and exit code is explained."""

import click
import pytest

from checkers.registry import CHECKERS
from harness.cli import exit_code, logquake
from harness.cli.topics import all_topics
from harness.exit_codes import MEANINGS
from nemesis.registry import KINDS
from results.record.plan import NEMESIS_KINDS, Plan

NARROW = 60


@pytest.mark.parametrize(
    ("words", "some"),
    [
        ([], ["verdicts", "logquake help lost-write"]),
        (["verdicts"], ["invalid: a check found", "254"]),
        (["plans"], ["budgets.isr_s", "nemesis_interval_s", "contents.sizes", "[scenario]"]),
        (["budgets"], ["(table of a plan)", "Time limits", "budgets.isr_s"]),
        (["nemesis"], ['["partition", "kill", "pause"]', "logquake run --nemesis"]),
        (["axes.systems"], ["(key of a suite)", "Systems under test"]),
        (["invalid"], ["(exit code 1)"]),
        (["strict"], ["(judge)", "no system promises to prevent"]),
        (["docker"], ["(kind of hosts)", "container"]),
        (["suite", "run"], ["Usage: logquake suite run"]),
        (["help"], ["Usage: logquake help"]),
        (["high  watermark "], ["committed"]),
        (["partition"], ["family of faults", "one-way-in"]),
        (["isolate"], ["(fault)", "undone by", "The fault `isolate`:"]),
        (["lost-write"], ["(anomaly)", "What would not prove it"]),
        (["min_insync"], ["(key of a plan)", "--min-insync"]),
        (["min-insync"], ["(key of a plan)"]),
        (["budgets.isr_s"], ["default  60"]),
        (["254"], ["an error that you can fix"]),
        (["high", "watermark"], ["committed"]),
        (["serve"], ["Usage: logquake serve", "--port"]),
        (["txn"], ["(workload)"]),
        (["isr"], ["ISR (term)", "isr (key of evidence)"]),
        (["high-watermark"], ["high watermark (term)", "high_watermark (key of evidence)"]),
        (["transitions"], ["election/leader-killed", "A partition got another leader"]),
        (["acknowledged-ns"], ["(key of evidence)", "nanoseconds since the run's start"]),
    ],
    ids=" ".join,
)
def test_a_topic_is_explained(
    words: list[str], some: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(["help", *words]) == 0
    said = capsys.readouterr().out
    assert all(each in said for each in some), said
    assert max(map(len, said.splitlines())) <= 104


def test_every_name_is_a_topic_with_a_text_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    topics = all_topics()
    names = {*KINDS, *NEMESIS_KINDS, *(each.name for each in CHECKERS), *Plan.model_fields}
    commands = {*logquake.list_commands(click.Context(logquake)), "suite run", "scenario list"}
    assert names | commands | {str(each) for each in MEANINGS} <= {*topics}
    monkeypatch.setenv("COLUMNS", str(NARROW))
    wide = []
    for each in (each for found in topics.values() for each in found):
        said = " ".join(each.text().split())
        assert said, each.name
        if each.kind.startswith(("key of", "table of")):
            assert each.brief, each.name
            assert " ".join(each.brief.split()) in said, each.name
        lines = (line for line in each.text().splitlines() if len(line) > NARROW)
        wide += [line for line in lines if len(line.split()) > 2]  # A long word stays whole.
    assert not wide


def test_anomalies_are_defined() -> None:
    """Kernels may be partial functions, which have functools' module."""
    told = (each for found in all_topics().values() for each in found)
    anomalies = {each.name: each.text() for each in told if each.kind == "anomaly"}
    assert anomalies.keys() == {check.name for check in CHECKERS}
    assert not [name for name, text in anomalies.items() if "would not prove it" not in text]


def test_a_topic_that_there_is_not_is_answered_with_its_neighbours(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert exit_code(["help", "lost-wirte"]) == 254
    assert "similar topics: lost-write" in capsys.readouterr().err
    assert exit_code(["help", "qqqqqq"]) == 254
    assert "similar topics" not in capsys.readouterr().err
