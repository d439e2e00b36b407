"""pytest's plugin, as far as every session has it: `pytest --logquake nightly.toml`.

Tests of one's own may play plans, too, by the fixture `logquake_run`. pytest imports this module in
all sessions of an environment that has Logquake, also those of projects that have a package
`harness` or `results` of their own. So it has a name that is nobody else's, and nothing of ours is
imported by sessions that ask for no suite (`harness.suites.plugin` is for those that do) and have
no test that plays a plan.
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
"""Where our packages lie, installed or not."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add our options."""
    group = parser.getgroup("logquake", "Logquake: suites of fault-injection runs")
    group.addoption(
        "--logquake",
        action="append",
        default=[],
        metavar="SUITE.toml",
        help="play the entries of a suite as items; may be given more than once",
    )
    group.addoption(
        "--logquake-store", default="runs", metavar="DIR", help="the folder of runs (default: runs)"
    )
    group.addoption(
        "--logquake-new",
        action="store_true",
        help="begin a new night even if one was left unfinished",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Let the rest of us in, if a suite was asked for."""
    if config.getoption("--logquake"):
        _import_ours()
        config.pluginmanager.register(importlib.import_module(PLUGIN), "logquake-suites")


@pytest.fixture
def logquake_run(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> Callable[..., Verdict]:
    """Play plans as `logquake.run` does, into the folder of `--logquake-store`.

    Each run and its seed are properties of the test, for reports.

    Raises:
        UsageError: The session has imported a package of another that is called as one of ours.
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
    """Import our packages, whatever lies in the folder that pytest was started in.

    Raises:
        UsageError: Others of the same name were imported before.
    """
    sys.path.insert(0, str(_ROOT))
    try:
        for name in PACKAGES:
            found = importlib.import_module(name).__file__
            if found is None or Path(found).resolve().parent != _ROOT / name:
                raise pytest.UsageError(
                    f"--logquake: this session has imported a package {name} that is not"
                    f" Logquake's ({found}): play the suite in a session of its own, with"
                    " --noconftest"
                )
    finally:
        sys.path.remove(str(_ROOT))
