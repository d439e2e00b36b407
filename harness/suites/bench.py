"""Judges runs as they come, with one engine for all: `python -m harness.suites.bench`.

A JSON line names a run's folder; a line with its verdict answers. Runs that came while others were
judged are judged together. Verdict and page are in the run's folder before it is told of; a run
that has its verdict already, from before a crash, is not judged again. One that somebody else holds
(`logquake check`) keeps no other waiting, and is judged when it is free. A line may also ask for a
run's page to be written anew: what it tells of repeats has changed.
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
"""A run that somebody else holds for so long has no verdict tonight."""

Orders = queue.SimpleQueue[Words | None]
"""None: there are no more."""


@dataclass(slots=True)
class Bench:
    """Judges runs of a store with one engine.

    Args:
        worker: The engine, entered.
    """

    worker: Worker
    held: dict[Path, float] = field(default_factory=dict)
    """Runs that somebody else holds, and since when, in seconds of the stopwatch."""

    def serve(self, orders: Orders) -> None:
        """Do what is ordered, until there is no more to come and nothing is left."""
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
        """Judge runs, and tell of each; one that somebody else holds has its turn later."""
        with ExitStack() as locks:
            ours = [root for root in roots if self._locked(root, locks)]
            left = [root for root in ours if read_verdict(RunPaths(root).verdict) is None]
            verdicts = dict(zip(left, judge_with(self.worker, left), strict=True))
            for root in ours:
                _conclude(RunPaths(root), verdicts.get(root))
                pack_streams(RunPaths(root))

    def _locked(self, root: Path, locks: ExitStack) -> bool:
        """Lock a run, unless somebody else holds it; who holds it for too long is told."""
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
    """Judge what standard input names, until it ends."""
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
    # Whoever led the night is dead, and the next one must not meet us at our work.
    os.kill(os.getpid(), signal.SIGKILL)


def _taken(orders: Orders, *, wait_s: float | None) -> list[Words | None]:
    """Take the orders that came since the last ones; after a crash, each alone.

    Args:
        orders: None is the end.
        wait_s: How long to wait for the first; None: as long as it takes.
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
    """Write the page of a run anew; the old one is no reason to end the night."""
    if not paths.plan.is_file():  # Somebody removed it: a folder with a page is no run.
        return
    try:
        write_report(paths)
    except StoreError as failed:
        print(f"the page of {paths.run_id} is as it was: {failed}", file=sys.stderr)  # noqa: T201 - the judge's log


def _conclude(paths: RunPaths, verdict: Verdict | None) -> None:
    """Write the verdict and the page of a run, and tell of it; or why it cannot be written."""
    try:
        if verdict is not None:
            write_verdict(paths, verdict)
        _tell(root=str(paths.root), **concluded(paths))
    except StoreError as refused:
        _tell(root=str(paths.root), given_up=str(refused))


def concluded(paths: RunPaths) -> Words:
    """Write the page of a run that has its verdict; return what the journal says of it.

    Raises:
        StoreError: The verdict cannot be read, or the page not be written.
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
        # What a story set out to show is no failure.
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
