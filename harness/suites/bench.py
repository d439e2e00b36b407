"""Judges runs as they come, with one engine for all: `python -m harness.suites.bench`.

A JSON line names a run's folder; a line with its verdict answers. Runs that came while others were
judged are judged together. Verdict and page are in the run's folder before it is told of; a run
that has its verdict already, from before a crash, is not judged again.
"""

import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from checkers.engine import Engine as Worker
from checkers.errors import EngineError
from checkers.run import judge_with, started
from cluster.protocol import UserError
from harness.judgement import choose_engine
from harness.scenarios.telling import compare_with_story
from harness.suites.lines import ALONE, END, ENGINE, Words
from results.atomic import StoreError
from results.index.reading import read_run
from results.record.paths import RunPaths
from results.record.plan import Plan, PlanError, load_plan, plan_from
from results.record.story import load_story
from results.record.terms import Validity
from results.report import write_report
from results.store import lock_run
from results.verdict_json import read_verdict, write_verdict

AUTO = "auto"


def main() -> None:
    """Judge what standard input names, until it ends."""
    orders: queue.SimpleQueue[Words | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(orders,), name="orders", daemon=True).start()
    name = os.environ.get(ENGINE, AUTO)
    try:
        chosen = choose_engine(None if name == AUTO else name, None)
        with started(chosen.name, chosen.spark_master) as worker:
            _tell(ready=chosen.name, why=chosen.why)
            for roots in _batches(orders):
                _judge(worker, roots)
    except (EngineError, StoreError, UserError) as failed:
        _tell(failed=str(failed))
        sys.exit(1)


def _listen(orders: "queue.SimpleQueue[Words | None]") -> None:
    for line in sys.stdin:
        words: Words = json.loads(line)
        if END in words:
            orders.put(None)
            return
        orders.put(words)
    # Whoever led the night is dead, and the next one must not meet us at our work.
    os.kill(os.getpid(), signal.SIGKILL)


def _batches(orders: "queue.SimpleQueue[Words | None]") -> Iterator[list[Path]]:
    """Yield the folders that came since the last ones; after a crash, each alone."""
    ended = False
    while not ended and (words := orders.get()) is not None:
        roots = [_root(words)]
        while not words.get(ALONE) and not orders.empty():
            more = orders.get()
            ended = more is None
            if more is None:
                break
            roots.append(_root(more))
        yield roots


def _root(words: Words) -> Path:
    return Path(str(words["root"]))


def _judge(worker: Worker, roots: list[Path]) -> None:
    with ExitStack() as locks:
        for root in roots:
            locks.enter_context(lock_run(RunPaths(root)))
        left = [root for root in roots if read_verdict(RunPaths(root).verdict) is None]
        for root, verdict in zip(left, judge_with(worker, left), strict=True):
            write_verdict(RunPaths(root), verdict)
        for root in roots:
            _tell(root=str(root), **concluded(RunPaths(root)))


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
        "as_expected": told,
        # What a story set out to show is no failure.
        "signature": "" if told else row.signature,
        "sentence": "" if told else row.signature_sentence,
        "reason": "" if verdict.valid is Validity.VALID else row.sentence,
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
