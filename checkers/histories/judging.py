"""Judge imported histories.

Both engines use the functions that also judge runs. A history is judged like a run in which only
the clients were recorded. The local engine passes the history's tables directly to the checkers.
For Spark, the tables are written to files of a temporary store (for a cluster, as records). Spark
judges all histories in one job.
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
"""The value to use for an offset that has several values. The keys are history, place, offset."""


class HistoryPlan(Plan):
    """The plan that a history is assumed to have.

    This plan makes the promises of a plan's defaults.

    Attributes:
        places: The places of the history's keys.
    """

    places: tuple[Place, ...] = ()

    @property
    def topic_names(self) -> list[str]:
        """The topics of the history's keys."""
        return list(dict.fromkeys(topic for topic, _ in self.places))

    @property
    def topic_partitions(self) -> list[Place]:
        """The partitions of the history's keys."""
        return list(self.places)

    @property
    def transactional(self) -> bool:
        """Whether ops are transactions.

        It is true, because every op that sends is a transaction.
        """
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """The settings for judging histories.

    Attributes:
        judge: The judge whose definitions apply.
        ww_deps: Whether cycles may use the order of a log as dependencies between the writers.
        subscribe: Whether consumers subscribed. If it is None, they subscribed if the history has a
            subscribe op.
    """

    judge: Judge = Judge.JEPSEN
    ww_deps: bool = True
    subscribe: bool | None = None


def judge_histories(
    histories: Iterable[History], mode: Mode, *, picks: Picks | None = None
) -> list[Verdict]:
    """Judge histories in this process.

    `judge_with` does this with an engine.

    Args:
        histories: The histories. The histories are read one after another, and no history is kept
            in memory.
        mode: The settings.
        picks: The value to use for each offset with several values, if known.

    Returns:
        A verdict for each history, in order. Its `run_id` is the history's name.

    Raises:
        HistoryError: From `histories`.
    """
    numbered = enumerate(histories)
    return [_judged(each, _facts(each, mode, number, picks)) for number, each in numbered]


def judge_files(
    paths: Sequence[Path], mode: Mode, *, engine: str = "local", spark_master: str | None = None
) -> list[Verdict]:
    """Judge the histories in files.

    The engine reads the files.

    Args:
        paths: The files, in order.
        mode: The settings.
        engine: `local` or `spark`.
        spark_master: The address of the Spark master.

    Raises:
        EngineError: The engine cannot work here.
        HistoryError: A file cannot be read. The message is one sentence.
    """
    if engine == LocalEngine.name:
        return judge_histories(chain.from_iterable(map(read_histories, paths)), mode)
    with started(engine, spark_master) as worker:
        read = (read_histories(path, worker.spread) for path in paths)
        return judge_with(worker, chain.from_iterable(read), mode)


def judge_with(
    worker: Engine, histories: Iterable[History], mode: Mode, *, picks: Picks | None = None
) -> list[Verdict]:
    """Judge histories like `judge_histories`, but with a started engine."""
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
    """Write tables in the record's format, which any cluster reads."""
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
