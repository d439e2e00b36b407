"""What the index tells: runs, nights, failures that were seen before."""

from dataclasses import dataclass
from enum import StrEnum

from results.repeats import Repeats


class Ending(StrEnum):
    """How a story ended, where that was compared."""

    AS_TOLD = "as-told"
    OTHERWISE = "otherwise"


class RunState(StrEnum):
    """How far a run is."""

    RUNNING = "running"
    JUDGED = "judged"
    NOT_JUDGED = "not-judged"
    """It was played to its end, and nobody judged it."""
    DIED = "died"
    """It ended before its brokers were stopped, and nobody judged it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run in the index.

    Attributes:
        run_id: `<name>/<UTC time>-<seed>`.
        name: Of the plan.
        system: As the plan names it: `kafka:4.3.1`.
        version: `4.3.1`.
        workload: log, txn, groups, script.
        hosts: The kind: namespace, docker, ssh, process.
        scenario: The name of the story; empty: an ordinary run.
        ending: As in `Ending`; empty: no story, or nobody compared.
        nemesis: What the plan asked for: families, or kinds written by hand, joined with `+`.
        setting: Twelve hex digits of the settings (`setting_key`); empty where the plan cannot be
            read.
        settings: The settings in words (`setting_words`).
        seed: None where the plan cannot be read.
        state: How far it is.
        verdict: valid, unknown, invalid; empty where there is none.
        tone: How it is coloured: as its page (`results.wording.headline`), or `told`.
        verdict_class: safety, liveness, unknown, harness; empty where it is valid, or not judged.
        judge: Who judged.
        sentence: The verdict in a sentence.
        cause: Why what the witness shows came to be, in a sentence; empty: not known, or unknown.
        witness: What shows it best, in a sentence, or why it is unknown; both cut after 600
            characters.
        anomalies: (name, how many are not allowed), those that weigh most first.
        faults: (kind, how many were confirmed).
        signature: The key of the failure; empty where there is none.
        signature_sentence: The failure in a sentence.
        started: `20261122T010000Z`.
        duration_s: From the start to the last milestone; None: not known.
        lasts_s: Warm-up and main phase, as the plan has them (`lasts_s`); None: not known, or cut
            short.
        operations: How many ended; None: not known.
        throughput: Operations that succeeded, a second of the time in which clients were at work;
            None: not known.
        recover_s: From the end of the main phase until all faults were healed and every partition
            had a full ISR again; None: that was not reached.
        suite, night, entry, why, repeats: As in `night.json`; empty: no suite played it.
        size_bytes: Of the folder.
        trouble: Why a part of it cannot be read; empty otherwise.
    """

    run_id: str
    name: str
    system: str = ""
    version: str = ""
    workload: str = ""
    hosts: str = ""
    scenario: str = ""
    ending: str = ""
    nemesis: str = ""
    setting: str = ""
    settings: str = ""
    seed: int | None = None
    state: RunState = RunState.NOT_JUDGED
    verdict: str = ""
    tone: str = "unjudged"
    verdict_class: str = ""
    judge: str = ""
    sentence: str = ""
    cause: str = ""
    witness: str = ""
    anomalies: tuple[tuple[str, int], ...] = ()
    faults: tuple[tuple[str, int], ...] = ()
    signature: str = ""
    signature_sentence: str = ""
    started: str = ""
    duration_s: float | None = None
    lasts_s: float | None = None
    operations: int | None = None
    throughput: float | None = None
    recover_s: float | None = None
    suite: str = ""
    night: str = ""
    entry: str = ""
    why: str = ""
    repeats: str = ""
    size_bytes: int = 0
    trouble: str = ""

    @property
    def parent(self) -> str:
        """The folder's folder in the store: the first half of the id."""
        return self.run_id.partition("/")[0]

    @property
    def folder(self) -> str:
        """The folder's own name: the second half of the id."""
        return self.run_id.partition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One run with a signature: which, in which night (empty: none), started when."""

    run_id: str
    night: str
    started: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A failure over all runs of the store.

    Attributes:
        key: Of its signature.
        sentence: What it is.
        first, last: The earliest and the latest run that had it.
        first_night, last_night: Ids of nights; empty if none of them was a night's.
        times: How many runs had it.
        repeats: How often it recurred, over all nights of the store.
    """

    key: str
    sentence: str
    first: Occurrence
    last: Occurrence
    first_night: str
    last_night: str
    times: int
    repeats: Repeats


@dataclass(frozen=True, slots=True, kw_only=True)
class NightRow:
    """A night of a suite.

    Attributes:
        suite, night: Which.
        runs: How many there are, repeats among them.
        repeats: How many of them repeat a failed run.
        running: How many of them are under way.
        verdicts: How many runs that are no repeats there are by tone: by verdict, but that
            `allowed` counts valid runs with anomalies that are allowed, `unjudged` what has no
            verdict, `told` stories that ended as they are told.
        tone: How it is coloured: by the worst of all its runs; one without a verdict is not valid.
        left_open: How many ended without a verdict: they died, or were not judged.
        new: Keys of signatures that no earlier night of the store had.
        signatures: Keys of all signatures, those of most runs first.
    """

    suite: str
    night: str
    runs: int
    repeats: int
    running: int
    verdicts: dict[str, int]
    tone: str
    left_open: int
    new: tuple[str, ...]
    signatures: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facets:
    """The values that runs of the store have, to choose from."""

    systems: tuple[str, ...]
    versions: tuple[str, ...]
    workloads: tuple[str, ...]
    faults: tuple[str, ...]
    anomalies: tuple[str, ...]
    suites: tuple[str, ...]
    scenarios: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """A transition over all runs of the store.

    Attributes:
        name: As in the catalogue (`results.record.transitions`).
        times: How many runs reached it.
        first: The one that started first; None: no run reached it.
    """

    name: str
    times: int = 0
    first: Occurrence | None = None
