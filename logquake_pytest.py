"""The part of the pytest plugin that every session loads: `pytest --logquake nightly.toml`.

Your own tests can run plans through the fixture `logquake_run`. pytest imports this module in every
session of an environment that has Logquake installed. Some of these sessions belong to projects
that have another package named `harness` or `results`. So this module needs a unique name. This
module imports other Logquake packages only if the session asks for a suite
(`harness.suites.plugin`) or has a test that runs a plan.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from logquake import Verdict

PLUGIN = "harness.suites.plugin"
PACKAGES = ("logquake", "harness", "workloads", "nemesis", "checkers", "cluster", "results")
_ROOT = Path(__file__).resolve().parent
"""The folder that contains the Logquake packages: of an installation or of a checkout."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of Logquake."""
    group = parser.getgroup("logquake", "Logquake: suites of fault-injection runs")
    group.addoption(
        "--logquake",
        action="append",
        default=[],
        metavar="SUITE.toml",
        help="run the entries of a suite as test items; repeatable",
    )
    group.addoption(
        "--logquake-store", default="runs", metavar="DIR", help="the folder of runs (default: runs)"
    )
    group.addoption(
        "--logquake-new",
        action="store_true",
        help="start a new night even if an unfinished night exists",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the rest of the plugin if the session asks for a suite."""
    if config.getoption("--logquake"):
        _import_ours()
        config.pluginmanager.register(importlib.import_module(PLUGIN), "logquake-suites")


@pytest.fixture
def logquake_run(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> Callable[..., Verdict]:
    """Return a function that runs plans like `logquake.run`, in the store `--logquake-store`.

    For reports, the id and the seed of each run become properties of the test.

    Raises:
        UsageError: The session has imported a foreign package with the name of a Logquake package.
    """
    _import_ours()
    ours = importlib.import_module("logquake")
    store = Path(request.config.getoption("--logquake-store"))

    def played(plan: object, **options: object) -> Verdict:
        verdict: Verdict = ours.run(plan, **{"store": store, **options})
        record_property("logquake_run", verdict.run_id)
        record_property("logquake_seed", verdict.run_id.rpartition("-")[2])
        return verdict

    return played


def _import_ours() -> None:
    """Import the Logquake packages, even if pytest was started in another folder.

    Raises:
        UsageError: Foreign packages with the same names were imported before.
    """
    sys.path.insert(0, str(_ROOT))
    try:
        for name in PACKAGES:
            found = importlib.import_module(name).__file__
            if found is None or Path(found).resolve().parent != _ROOT / name:
                raise pytest.UsageError(
                    f"--logquake: this pytest session has already imported a package {name} that"
                    f" is not Logquake's ({found}): run the suite in a separate pytest session,"
                    " with --noconftest"
                )
    finally:
        sys.path.remove(str(_ROOT))
