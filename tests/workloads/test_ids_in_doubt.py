"""Which transactional ids are still in use for a transaction of unknown end, as workers report."""

from dataclasses import replace
from pathlib import Path

import pytest

from results.record.clock import RunClock
from results.record.paths import RunPaths
from results.record.plan import plan_from
from results.record.terms import Outcome, Phase, TransactionOutcome
from tests.workloads.test_crew_and_transactions import Stage, result
from workloads.fleet import Fleet, Told
from workloads.protocol import End, Txn, TxnResult
from workloads.worker import WorkerConfig

COMMITTED, ABORTED, LOST = (result(each) for each in (Outcome.OK, Outcome.FAIL, Outcome.INFO))
REFUSED = replace(ABORTED, ended=TransactionOutcome.UNKNOWN)


@pytest.mark.parametrize(
    ("ends", "results", "unended"),
    [
        ([End.COMMIT], [COMMITTED], set()),
        ([End.COMMIT], [LOST], {"txn-0"}),
        ([End.COMMIT], [REFUSED], {"txn-0"}),
        ([End.ABORT], [REFUSED], {"txn-0"}),
        ([End.COMMIT, End.COMMIT], [REFUSED, COMMITTED], set()),
        ([End.COMMIT, End.ABORT], [REFUSED, ABORTED], set()),
        # On purpose: the next producer has no trouble.
        ([End.CRASH], [REFUSED], set()),
        # It may not even have begun, so it says nothing.
        ([End.COMMIT, End.CRASH], [LOST, REFUSED], {"txn-0"}),
    ],
)
def test_an_id_is_in_doubt_until_a_transaction_with_it_ends(
    run_paths: RunPaths, ends: list[End], results: list[TxnResult], unended: set[str]
) -> None:
    ops = [Txn(mops=(), end=end, commits_positions=False) for end in ends]
    assert Stage(run_paths, *ops, results=results).crew.unended == unended


LINE = {"ops": [], "offered": 0, "missed": 0, "in_flight": 0, "latency_ms": None, "phases": 0,
        "taken": [], "read": []}  # fmt: skip


class _Worker:
    """A worker that has started, and says nothing by itself."""

    def __init__(self, config: WorkerConfig, folder: Path) -> None:
        self.number, self.log, self.stopping, self.told = config.worker, folder, False, Told()

    def is_ready(self) -> bool:
        return True

    def ended(self) -> bool:
        return False

    def obituary(self) -> str:
        return ""

    def exit_code(self) -> int | None:
        return None

    def tell(self, command: dict[str, object]) -> None: ...

    def end(self, deadline_s: float) -> bool:
        return deadline_s > 0


def test_a_fleet_tells_the_ids_of_its_workers_last_reports(run_paths: RunPaths) -> None:
    made: list[_Worker] = []

    def worker(config: WorkerConfig, folder: Path) -> _Worker:
        made.append(_Worker(config, folder))
        return made[-1]

    plan = plan_from({"workload": "txn", "workers": 2, "concurrency": 4})
    fleet = Fleet(plan, [], "", clock=RunClock.starting_now(), paths=run_paths, worker=worker)
    fleet.start()
    assert fleet.unended() == set()
    made[0].told.note({**LINE, "unended": ["txn-0", "txn-2"]})
    made[1].told.note({**LINE, "unended": ["txn-1"]})
    fleet.phase(Phase.RECOVERY)
    assert fleet.unended() == {"txn-0", "txn-1", "txn-2"}
    made[0].told.note({**LINE, "unended": []})
    assert fleet.unended() == {"txn-1"}
