"""Judge each run of a suite after its end, in one process: `python -m harness.suites.bench`.

Each input line is JSON and names a run's folder. The response is a line with the run's verdict.
Runs that arrive during a judgement are judged together in the next judgement. When the response
comes, the verdict and the page are already in the run's folder. A run that already has a verdict,
from before a crash, is not judged again. If another process holds a run's lock (`logquake check`),
the run is judged later, and other runs do not wait for it. An input line may also ask for a new
page of a run, because the run's count of reruns has changed.
"""

import json
import os
import queue
import signal
import sys
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from checkers.engine import Engine as Worker
from checkers.errors import EngineError
from checkers.packing import pack_streams
from checkers.run import judge_with, started
from cluster.protocol import UserError
from harness.judgement import choose_engine
from harness.scenarios.telling import compare_with_story
from harness.suites.lines import ALONE, END, ENGINE, PAGE, Words
from results.index.reading import read_run
from results.record.atomic import StoreError
from results.record.clock import stopwatch_s
from results.record.paths import RunPaths
from results.record.plan import Plan, PlanError, load_plan, plan_from
from results.record.story import load_story
from results.record.verdict import Verdict
from results.report import write_report
from results.store import RunInUseError, lock_run
from results.verdict_json import read_verdict, write_verdict
from results.wording.headline import ALLOWED

AUTO = "auto"
RETRY_S = 2.0
HELD_LIMIT_S = 900.0
"""How long another process may lock a run. After this time, the run gets no verdict tonight."""

Orders = queue.SimpleQueue[Words | None]
"""The input lines; None marks their end."""


@dataclass(slots=True)
class Bench:
    """A bench that judges runs of a store with one engine.

    Args:
        worker: The started engine.
    """

    worker: Worker
    held: dict[Path, float] = field(default_factory=dict)
    """The runs that another process has locked. The value is the stopwatch time of the first
    attempt."""

    def serve(self, orders: Orders) -> None:
        """Handle all orders and all locked runs, until the orders end and no locked run is left."""
        ended = False
        while not ended or self.held:
            taken = _taken(orders, wait_s=RETRY_S if self.held else None)
            ended = ended or None in taken
            words = [each for each in taken if each is not None]
            roots = [_root(each) for each in words if PAGE not in each]
            self.judge(list(dict.fromkeys([*self.held, *roots])))
            for each in words:
                if PAGE in each:
                    _write_anew(RunPaths(_root(each)))

    def judge(self, roots: list[Path]) -> None:
        """Judge runs, and report each verdict. Runs that another process has locked come later."""
        with ExitStack() as locks:
            ours = [root for root in roots if self._locked(root, locks)]
            left = [root for root in ours if read_verdict(RunPaths(root).verdict) is None]
            verdicts = dict(zip(left, judge_with(self.worker, left), strict=True))
            for root in ours:
                _conclude(RunPaths(root), verdicts.get(root))
                pack_streams(RunPaths(root))

    def _locked(self, root: Path, locks: ExitStack) -> bool:
        """Lock a run; return False if another process holds the lock.

        If another process holds the lock for too long, report that and give up the run.
        """
        try:
            locks.enter_context(lock_run(RunPaths(root)))
        except RunInUseError as held:
            if stopwatch_s() - self.held.setdefault(root, stopwatch_s()) > HELD_LIMIT_S:
                del self.held[root]
                _tell(root=str(root), given_up=str(held))
            return False
        self.held.pop(root, None)
        return True


def main() -> None:
    """Judge the runs that standard input names, until the input ends."""
    orders: Orders = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(orders,), name="orders", daemon=True).start()
    name = os.environ.get(ENGINE, AUTO)
    try:
        chosen = choose_engine(None if name == AUTO else name, None)
        with started(chosen.name, chosen.spark_master) as worker:
            _tell(ready=chosen.name, why=chosen.why)
            Bench(worker).serve(orders)
    except (EngineError, StoreError, UserError) as failed:
        _tell(failed=str(failed))
        sys.exit(1)


def _listen(orders: Orders) -> None:
    for line in sys.stdin:
        words: Words = json.loads(line)
        if END in words:
            orders.put(None)
            return
        orders.put(words)
    # The night's leader is dead, and the next leader starts its own judge.
    os.kill(os.getpid(), signal.SIGKILL)


def _taken(orders: Orders, *, wait_s: float | None) -> list[Words | None]:
    """Return all waiting orders, but after a crash only one order at a time.

    Args:
        orders: The queue of orders. None marks its end.
        wait_s: How long to wait for the first order; None means no limit.
    """
    try:
        first = orders.get(timeout=wait_s)
    except queue.Empty:
        return []
    taken = [first]
    while taken[-1] is not None and not taken[-1].get(ALONE) and not orders.empty():
        taken.append(orders.get())
    return taken


def _root(words: Words) -> Path:
    return Path(str(words["root"]))


def _write_anew(paths: RunPaths) -> None:
    """Write a run's page again. If this fails, print the error, but do not end the night."""
    if not paths.plan.is_file():  # The run was deleted.
        return
    try:
        write_report(paths)
    except StoreError as failed:
        print(f"the page of {paths.run_id} was not updated: {failed}", file=sys.stderr)  # noqa: T201 - the judge's log


def _conclude(paths: RunPaths, verdict: Verdict | None) -> None:
    """Write a run's verdict and page, and report the verdict. If this fails, report the reason."""
    try:
        if verdict is not None:
            write_verdict(paths, verdict)
        _tell(root=str(paths.root), **concluded(paths))
    except StoreError as refused:
        _tell(root=str(paths.root), given_up=str(refused))


def concluded(paths: RunPaths) -> Words:
    """Write the page of a judged run, and return what the journal records about the run.

    Raises:
        StoreError: The verdict cannot be read, or the page cannot be written.
    """
    verdict = read_verdict(paths.verdict)
    if verdict is None:
        raise StoreError(f"{paths.verdict} is missing")
    plan = _plan(paths)
    if plan is not None and plan.scenario is not None:
        compare_with_story(plan, paths, verdict)
    story = load_story(paths.story)
    told = story.as_expected if story else None
    write_report(paths)
    row = read_run(paths)
    return {
        "valid": verdict.valid.value,
        "allowed": row.tone == ALLOWED,
        "as_expected": told,
        # An anomaly that a story expects is not a failure.
        "signature": "" if told else row.signature,
        "sentence": "" if told else row.signature_sentence,
        "reason": "" if row.tone == "valid" else f"{row.sentence} {row.cause}".rstrip(),
    }


def _plan(paths: RunPaths) -> Plan | None:
    try:
        return plan_from(load_plan(paths.plan))
    except PlanError:
        return None


def _tell(**words: object) -> None:
    print(json.dumps(words), flush=True)  # noqa: T201 - a line of the protocol


if __name__ == "__main__":
    main()
