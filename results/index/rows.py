"""The result types of index queries: runs, nightly runs, and failures with earlier runs."""

from dataclasses import dataclass
from enum import StrEnum

from results.repeats import Repeats


class Ending(StrEnum):
    """How a scripted run ended, compared with its expected ending."""

    AS_TOLD = "as-told"
    OTHERWISE = "otherwise"


class RunState(StrEnum):
    """The state of a run, from running to judged."""

    RUNNING = "running"
    JUDGED = "judged"
    NOT_JUDGED = "not-judged"
    """The run finished, but was not judged."""
    DIED = "died"
    """The run ended before its brokers were stopped, and was not judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run in the index.

    Attributes:
        run_id: `<name>/<UTC time>-<seed>`.
        name: Name of the plan.
        system: Name of the system under test in the plan: `kafka:4.3.1`.
        version: Version of the system: `4.3.1`.
        workload: log, txn, groups or script.
        hosts: The kind of hosts: namespace, docker, ssh or process.
        scenario: Name of the scenario; empty for an ordinary run.
        ending: An `Ending`. Empty if the run has no scenario, or if the ending was not compared.
        nemesis: The requested fault families, or the kinds of the faults written by hand, joined
            with `+`.
        setting: Twelve hex digits that identify the settings (`setting_key`); empty if the plan
            cannot be read.
        settings: The settings as text (`setting_words`).
        seed: The plan's seed; None if the plan cannot be read.
        state: A `RunState`.
        verdict: valid, unknown or invalid; empty if there is none.
        tone: Colour of the run: the colour of its page (`results.wording.headline`), or `told` for
            a scripted run that ended as expected.
        verdict_class: safety, liveness, unknown or harness; empty if valid or not judged.
        judge: Name of the judge that gave the verdict.
        sentence: The verdict in a sentence.
        cause: Cause of the anomaly in `witness`, in a sentence; empty if not known.
        witness: The best example of an anomaly, in a sentence. For an unknown verdict, the reason.
            `cause` and `witness` are cut after 600 characters.
        anomalies: (name, number of occurrences that are not allowed), the most serious one first.
        faults: (kind, number of confirmed faults).
        signature: Key of the failure; empty if the run did not fail.
        signature_sentence: The failure in a sentence.
        started: Start of the run in UTC, `20261122T010000Z`.
        duration_s: Seconds from the start to the last milestone; None if not known.
        lasts_s: Planned seconds of warm-up and main phase (`lasts_s`); None if not known, or if the
            run was cut short.
        operations: Number of operations that ended; None if not known.
        throughput: Successful operations per second while clients worked; None if not known.
        recover_s: Seconds from the end of the main phase until all faults were healed and every
            partition had a full ISR. None if this never happened.
        suite, night, entry, why, repeats: The fields of `night.json`; empty if no suite started the
            run.
        size_bytes: Size of the run's folder.
        trouble: Why a file of the run cannot be read. Empty if all files can be read.
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
        """Name of the parent folder in the store: the first half of the id."""
        return self.run_id.partition("/")[0]

    @property
    def folder(self) -> str:
        """Name of the run's own folder: the second half of the id."""
        return self.run_id.partition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One run that had a failure: its id, its nightly run (empty if none) and its start."""

    run_id: str
    night: str
    started: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A failure, with the runs of the store that had this failure.

    Attributes:
        key: Key of the failure's signature.
        sentence: The failure in a sentence.
        first, last: The earliest and the latest run with the failure.
        first_night, last_night: Ids of the first and last nightly run with the failure; empty if no
            nightly run had it.
        times: Number of runs with the failure.
        repeats: How often the failure recurred in reruns, over all nightly runs of the store.
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
    """A nightly run, i.e. one execution of a suite.

    Attributes:
        suite, night: Names of the suite and of the nightly run.
        runs: Number of runs, including reruns of failed runs.
        repeats: Number of reruns of failed runs.
        running: Number of runs that are still running.
        verdicts: Number of runs for each tone, without reruns. A tone is a verdict, or `allowed`
            (valid with allowed anomalies), `unjudged` (no verdict), or `told` (a scripted run that
            ended as expected).
        tone: The worst tone of all runs. A nightly run that contains an unjudged run does not count
            as valid.
        left_open: Number of runs that ended without a verdict: they died or were not judged.
        new: Keys of failure signatures that no earlier nightly run of the store had.
        signatures: Keys of all failure signatures, the most frequent first.
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
    """The values that filters of the run list offer."""

    systems: tuple[str, ...]
    versions: tuple[str, ...]
    workloads: tuple[str, ...]
    faults: tuple[str, ...]
    anomalies: tuple[str, ...]
    suites: tuple[str, ...]
    scenarios: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """A transition, with the runs of the store that reached it.

    Attributes:
        name: Name in the catalogue (`results.record.transitions`).
        times: Number of runs that reached the transition.
        first: The first run that reached the transition. None if no run reached it.
    """

    name: str
    times: int = 0
    first: Occurrence | None = None
