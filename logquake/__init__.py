"""Logquake for programs: you pass a plan, and get a verdict.

    from logquake import judge, run

    verdict = run({"system": "reference", "hosts": "simulated", "seed": 7}, store="runs")
    print(verdict.valid, verdict.run_id)

`docs/api.md` describes this package, with an example. In this project, only `logquake_pytest`
imports this package. The package itself imports `harness`.
"""

from checkers.errors import EngineError
from cluster.protocol import ClusterError, UserError
from harness.errors import InternalError
from logquake.programs import REFUSED, judge, run
from results.record.atomic import StoreError
from results.record.plan import Plan, PlanError
from results.record.terms import Judge, Validity
from results.record.verdict import AnomalySummary, Verdict
from results.wording.headline import headline

__all__ = [
    "REFUSED",
    "AnomalySummary",
    "ClusterError",
    "EngineError",
    "InternalError",
    "Judge",
    "Plan",
    "PlanError",
    "StoreError",
    "UserError",
    "Validity",
    "Verdict",
    "headline",
    "judge",
    "run",
]
