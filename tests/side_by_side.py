"""Several tests at a time: how many workers play a session, and in which order.

A file is one unit of work, so that fixtures of a module are made once; of some files that take long
and have no such fixture each test is one. What takes longest starts first; the short files fill the
end. Sessions that name tests run them one after the other; `-n0` does the same for whole sessions.
"""

import argparse
import os
from collections.abc import Sequence

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # It has no types.

APART = frozenset({
    "tests/harness/test_leader_epochs_on_kafka.py",
    "tests/harness/test_reference_runs.py",
    "tests/harness/test_runs_cut_short.py",
    "tests/harness/test_whole_runs.py",
    "tests/suites/test_nights_simulated.py",
})  # fmt: skip
"""Files whose tests share no fixture and take long: each of these tests is a unit of its own."""
LONG = (
    "tests/nemesis/test_every_fault_everywhere.py",
    "tests/checkers/test_spark_cluster.py",
    "tests/harness/test_whole_runs.py",
    "tests/harness/test_runs_cut_short.py",
    "tests/test_quality.py",
    "tests/suites/test_nights_simulated.py",
    "tests/harness/test_leader_epochs_on_kafka.py",
    "tests/harness/test_reference_runs.py",
    "tests/cluster_hosts/test_docker_hosts.py",
    "tests/test_false_alarms.py",
)
"""The files that take longest come first (`tests/README.md` says how to measure)."""


class ByFile(LoadScopeScheduling):  # type: ignore[misc]  # As above.
    """Hands out files, and of some files tests."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)


def unit_of(test: str) -> str:
    """Return the unit of work that a test belongs to: its file, or itself."""
    file = test.partition("::")[0]
    return test if file in APART else file


def workers() -> int:
    """Return how many workers use this machine well: clusters wait, and also work."""
    return (os.cpu_count() or 1) + 1


def spread(option: argparse.Namespace) -> None:
    """Have several workers play a session, each a unit of work at a time, in our order."""
    if option.collectonly or option.usepdb:
        return
    option.numprocesses, option.dist, option.loadscopereorder = workers(), "loadfile", False


def long_first(tests: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return tests in the order in which they are handed out."""
    ranks = {file: rank for rank, file in enumerate(LONG)}
    return sorted(tests, key=lambda each: ranks.get(each.nodeid.partition("::")[0], len(ranks)))
