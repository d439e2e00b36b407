"""A new check, fault or workload needs three files: its module, its test, and one registry.

The test counts the files that contain its name. The pages of `docs/` may contain any name, because
the reference is generated.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from checkers.registry import CHECKERS
from nemesis.registry import KINDS
from workloads.registry import WORKLOADS

ROOT = Path(__file__).parents[1]
FOLDERS = ("benchmarks", "checkers", "cluster", "harness", "nemesis", "results", "tests",
           "workloads")  # fmt: skip
KINDS_OF_FILES = frozenset({".py", ".md", ".toml", ".html"})

OLD_CHECKS = frozenset({
    "G0", "G0-process", "G0-realtime", "G1a", "G1c", "G1c-process", "G1c-realtime", "ack-mismatch",
    "acknowledged-below-min-isr", "broker-ended", "broker-hit-from-outside", "commit-ahead",
    "commit-lost", "committed-truncation", "corrupt-record", "double-vote", "duplicate",
    "epoch-mismatch", "epoch-regression", "fault-without-effect", "final-read-incomplete",
    "forbidden-election", "group-stuck", "hanging-transaction", "high-watermark-ahead",
    "high-watermark-regression", "host-not-restored", "incomplete-leader", "inconsistent-offsets",
    "int-nonmonotonic-poll", "int-nonmonotonic-send", "int-poll-skip", "int-send-skip",
    "isr-not-restored", "log-divergence", "log-end-regression", "log-start-moved", "lost-write",
    "malformed-history", "metadata-divergence", "nonmonotonic-poll", "nonmonotonic-send",
    "not-enough-traffic", "offset-order", "phantom", "poll-skip", "precommitted-read",
    "slow-election", "torn-transaction", "two-leaders-in-epoch", "unavailable",
    "uncommitted-read", "under-replicated", "unseen",
})  # fmt: skip
"""Checks that are older than this rule. Other checks and tables of tests may name them."""

OLD_FAULTS = frozenset({
    "bandwidth", "bit-flip", "bridge", "client-cut", "clock-drift", "clock-offset", "clock-strobe",
    "controller-failover", "delay", "disk-full", "disputed-election", "duplicate", "flapping",
    "halves", "isolate", "jitter", "kill", "loss", "one-way-in", "one-way-out", "pause",
    "power-loss", "preferred-election", "read-only", "reassignment", "reorder", "ring",
    "rolling-restart", "slow-disk", "stop", "topic-churn", "unclean-election", "wipe",
})  # fmt: skip

OLD_WORKLOADS = frozenset({"log", "txn", "groups"})
WITH_ORACLES = frozenset({"keyed", "pipeline", "shares"})
"""Workloads with a table and checks of their own. More files may name them."""


@cache
def texts() -> dict[str, str]:
    """Return the text of each file of code and docs, by its path."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in KINDS_OF_FILES and path.name != Path(__file__).name:
                found[path.relative_to(ROOT).as_posix()] = path.read_text(encoding="utf-8")
    return found


def naming(*names: str) -> Iterator[str]:
    """Yield the files that contain any of the names as separate words."""
    words = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, names))})(?![\w-])")
    return (path for path, text in texts().items() if words.search(text))


def test_a_check_needs_three_files() -> None:
    for name in sorted({each.name for each in CHECKERS} - OLD_CHECKS):
        module = name.replace("-", "_").lower()
        assert set(naming(name, module)) == {
            f"checkers/{module}.py",
            f"tests/checkers/test_{module}.py",
            "checkers/registry.py",
        }, name


def test_a_fault_needs_three_files() -> None:
    for name in sorted(set(KINDS) - OLD_FAULTS):
        module = name.replace("-", "_")
        assert set(naming(name, module)) == {
            f"nemesis/{module}.py",
            f"tests/nemesis/test_fault_{module}.py",
            "nemesis/registry.py",
        }, name


def test_a_workload_needs_three_files() -> None:
    for name in sorted(set(WORKLOADS) - OLD_WORKLOADS - WITH_ORACLES):
        module = name.replace("-", "_")
        assert set(naming(name, module)) == {
            f"workloads/{module}.py",
            f"tests/workloads/test_{module}_workload.py",
            "workloads/registry.py",
        }, name


def test_old_ones_are_registered() -> None:
    assert set(WORKLOADS) >= OLD_WORKLOADS
    assert {each.name for each in CHECKERS} >= OLD_CHECKS
    assert OLD_FAULTS - set(KINDS) <= {"disputed-election", "slow-disk"}  # In virtual time only.
