"""From histories of others to verdicts: the same functions as for runs, with either engine.

A history is judged as a run of which only the clients' side was recorded. In this process its
tables go straight to the checkers; for Spark they are handed over in files of a temporary store
(for a cluster, as records), and all histories are judged in one job.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from checkers.columns import equal
from checkers.engine import Engine
from checkers.examine import Piece, conclude, examine, gathered
from checkers.facts import RunFacts
from checkers.figures import figures
from checkers.handed import hand_over
from checkers.histories.reading import read_histories
from checkers.histories.tables import History, Place
from checkers.ingest import Tables
from checkers.judge import weigh
from checkers.layout import RUN, split, write_table
from checkers.layout import Place as GroupPlace
from checkers.run import judge_batch, started
from checkers.spark.local import LocalEngine
from checkers.transactions import unknown_sends, witnessed
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.tables import TABLES
from results.record.terms import F, Judge
from results.record.verdict import Verdict

Picks = Mapping[str, Mapping[Place, Mapping[int, int]]]
"""By history, place and offset: which value stands there, of several."""


class HistoryPlan(Plan):
    """What is assumed of whoever recorded a history: all that a plan's defaults promise.

    Attributes:
        places: Of the history's keys.
    """

    places: tuple[Place, ...] = ()

    @property
    def topic_names(self) -> list[str]:
        """The topics of the history's keys."""
        return list(dict.fromkeys(topic for topic, _ in self.places))

    @property
    def topic_partitions(self) -> list[Place]:
        """The history's keys."""
        return list(self.places)

    @property
    def transactional(self) -> bool:
        """Whether ops are transactions: all that send are."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """How histories are judged.

    Attributes:
        judge: By whose definitions.
        ww_deps: Whether the order of a log counts as dependencies between writers (for cycles).
        subscribe: Whether consumers subscribed; None: where an op of the history says so.
    """

    judge: Judge = Judge.JEPSEN
    ww_deps: bool = True
    subscribe: bool | None = None


def judge_histories(
    histories: Iterable[History], mode: Mode, *, picks: Picks | None = None
) -> list[Verdict]:
    """Judge histories here; `judge_with` does it with an engine.

    Args:
        histories: Read one by one; none is kept.
        mode: How.
        picks: Which of several values stands at an offset, where somebody knows.

    Returns:
        A verdict for each, in their order; its `run_id` is the history's name.

    Raises:
        HistoryError: From `histories`.
    """
    numbered = enumerate(histories)
    return [_judged(each, _facts(each, mode, number, picks)) for number, each in numbered]


def judge_files(
    paths: Sequence[Path], mode: Mode, *, engine: str = "local", spark_master: str | None = None
) -> list[Verdict]:
    """Judge the histories of files, which the engine reads.

    Args:
        paths: In order.
        mode: How.
        engine: `local` or `spark`.
        spark_master: Where Spark runs.

    Raises:
        EngineError: The engine cannot work here.
        HistoryError: A file cannot be read, in one sentence.
    """
    if engine == LocalEngine.name:
        return judge_histories(chain.from_iterable(map(read_histories, paths)), mode)
    with started(engine, spark_master) as worker:
        read = (read_histories(path, worker.spread) for path in paths)
        return judge_with(worker, chain.from_iterable(read), mode)


def judge_with(
    worker: Engine, histories: Iterable[History], mode: Mode, *, picks: Picks | None = None
) -> list[Verdict]:
    """Judge histories as `judge_histories` does, with an engine that was entered."""
    with TemporaryDirectory(prefix="logquake-") as folder:
        runs: dict[Path, RunFacts] = {}
        for number, each in enumerate(histories):
            root = Path(folder) / str(number) / "history"
            root.mkdir(parents=True)
            (hand_over if worker.here else _write)(root, each.tables)
            runs[root] = _facts(each, mode, number, picks)
        verdicts = judge_batch(runs, worker)
        return [verdicts[root] for root in runs]


def _judged(history: History, facts: RunFacts) -> Verdict:
    pieces: list[Piece] = []
    for place, tables in _by_place(history.tables).items():
        pieces += examine(facts, tables, place)
    if not any(piece.partition < 0 for piece in pieces):
        pieces += examine(facts, {}, RUN)
    found = gathered([*pieces, *conclude(facts, pieces)])
    stats = figures(facts, found.statistics)
    return weigh(facts, found.checks, judge=facts.judge, engine=LocalEngine.name, stats=stats)


def _by_place(tables: Tables) -> dict[GroupPlace, Tables]:
    places: dict[GroupPlace, Tables] = {}
    for name, table in tables.items():
        for place, rows in split(table):
            if rows.num_rows:
                places.setdefault(place, {})[name] = rows
    return places


def _write(root: Path, tables: Tables) -> None:
    """Write tables as a record has them, which any cluster reads."""
    paths = RunPaths(root)
    paths.record.mkdir()
    for name, table in tables.items():
        write_table(paths.table(name), name, [table])


def _facts(history: History, mode: Mode, number: int, picks: Picks | None) -> RunFacts:
    tables = history.tables
    subscribe = mode.subscribe
    if subscribe is None:
        subscribe = bool(equal(tables["ops"], "f", F.SUBSCRIBE.value).any())
    return RunFacts(
        run_id=history.name,
        recorded_id=f"history/{number}",
        plan=HistoryPlan(
            name="history",
            workload="groups" if subscribe else "txn",
            judge=mode.judge,
            places=history.places,
        ),
        unread=frozenset(TABLES) - frozenset(tables),
        judge=mode.judge,
        ww_deps=mode.ww_deps,
        witnessed=witnessed(unknown_sends(tables["sends"]), [tables["polls"]]),
        history=True,
        picked=(picks or {}).get(history.name, {}),
        names=history.names,
    )
