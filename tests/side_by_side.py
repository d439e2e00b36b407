"""Run tests in parallel: the number of workers, and the order of the tests.

A file is one unit of work, so that fixtures of a module are created once. In some slow files
without such fixtures, each test is a unit. The slowest units start first, and short files fill the
end. A session in which the user names tests runs them one after the other. `-n0` does this for
whole sessions.
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
"""Slow files whose tests share no fixture. In these files each test is a unit of work."""
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
"""The slowest files, in the order in which they start (`tests/README.md` explains
the measurement)."""


class ByFile(LoadScopeScheduling):  # type: ignore[misc]  # As above.
    """Distributes whole files to workers; for the files in `APART`, single tests."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)


def unit_of(test: str) -> str:
    """Return the unit of work of a test: its file, or the test itself."""
    file = test.partition("::")[0]
    return test if file in APART else file


def workers() -> int:
    """Return a good number of workers for this machine: one more than it has cores.

    Clusters often wait, so the cores are not all busy.
    """
    return (os.cpu_count() or 1) + 1


def spread(option: argparse.Namespace) -> None:
    """Run a session with several workers.

    Each worker gets one unit of work at a time, in our order.
    """
    if option.collectonly or option.usepdb:
        return
    option.numprocesses, option.dist, option.loadscopereorder = workers(), "loadfile", False


def long_first(tests: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return tests in the order in which workers get them: the slowest files first."""
    ranks = {file: rank for rank, file in enumerate(LONG)}
    return sorted(tests, key=lambda each: ranks.get(each.nodeid.partition("::")[0], len(ranks)))
