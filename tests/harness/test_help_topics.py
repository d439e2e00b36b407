"""`logquake help`: every name of a fault, anomaly, key, command and exit code is explained."""

import click
import pytest

from checkers.registry import CHECKERS
from harness.cli import exit_code, logquake
from harness.cli.topics import all_topics, plan_keys
from harness.exit_codes import MEANINGS
from nemesis.registry import KINDS
from results.record.plan import NEMESIS_KINDS, Plan


@pytest.mark.parametrize(
    ("words", "some"),
    [
        ([], ["verdicts", "logquake help lost-write"]),
        (["verdicts"], ["invalid: a check found", "254"]),
        (["plans"], ["budgets.isr_s", "nemesis_interval_s"]),
        (["partition"], ["family of faults", "one-way-in"]),
        (["isolate"], ["(fault)", "undone by", "The fault `isolate`:"]),
        (["lost-write"], ["(anomaly)", "What would not prove it"]),
        (["min_insync"], ["(key of a plan)", "--min-insync"]),
        (["min-insync"], ["(key of a plan)"]),
        (["budgets.isr_s"], ["default: 60"]),
        (["254"], ["an error that you can fix"]),
        (["high", "watermark"], ["committed"]),
        (["serve"], ["Usage: logquake serve", "--port"]),
        (["txn"], ["(workload)"]),
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


def test_every_name_is_a_topic_with_a_text() -> None:
    topics = all_topics(logquake)
    names = {*KINDS, *NEMESIS_KINDS, *(each.name for each in CHECKERS), *Plan.model_fields}
    commands = {*logquake.list_commands(click.Context(logquake))} - {"help"}
    assert names | commands | {str(each) for each in MEANINGS} <= {*topics}
    assert not [name for name, found in topics.items() for each in found if not each.text().strip()]
    assert plan_keys(logquake)["nemesis_interval_s"][1] == 6


def test_anomalies_are_defined() -> None:
    """Kernels may be partial functions, which have functools' module."""
    told = (each for found in all_topics(logquake).values() for each in found)
    anomalies = {each.name: each.text() for each in told if each.kind == "anomaly"}
    assert anomalies.keys() == {check.name for check in CHECKERS}
    assert not [name for name, text in anomalies.items() if "would not prove it" not in text]


def test_a_topic_that_there_is_not_is_answered_with_its_neighbours(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert exit_code(["help", "lost-wirte"]) == 254
    assert "near it: lost-write" in capsys.readouterr().err
    assert exit_code(["help", "qqqqqq"]) == 254
    assert "near it" not in capsys.readouterr().err
