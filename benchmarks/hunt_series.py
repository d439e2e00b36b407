"""The hunts on released Kafka versions: their steps, and the lines of their results."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, TypeAdapter

from benchmarks.night import HOUR_S, ROOT

FOLDER = ROOT / "docs" / "hunt"
FILE, PAGE, RESULTS, JOURNALS = (
    FOLDER / name for name in ("hunt.toml", "finds.md", "finds.jsonl", "journals")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One hunt.

    Attributes:
        name: The name of the hunt.
        system: A release with a bug, or several releases, separated by spaces.
        control: The nearest release without the bug. Empty if there is none.
        workload, nemesis: The workload, and the families of faults to choose from. Empty for all.
        ticket: The known bug that is the reason for this hunt. Empty if no bug is known.
        least_s: The hunt needs no further part after this total time, in seconds.
    """

    name: str
    system: str
    control: str = ""
    workload: str = ""
    nemesis: str = ""
    ticket: str = ""
    least_s: float = 0

    @property
    def options(self) -> list[str]:
        """Return the options of `logquake hunt` that the suite file does not set."""
        options = ["--name", self.name]
        options += [word for each in self.system.split() for word in ("--system", each)]
        options += ["--control", self.control] if self.control else []
        options += ["--workload", self.workload] if self.workload else []
        return options + (["--nemesis", self.nemesis] if self.nemesis else [])

    @property
    def command(self) -> str:
        """Return the command as a user types it."""
        return " ".join(["logquake hunt", str(FILE.relative_to(ROOT)), *self.options])


STEPS = (
    Step(
        name="kafka-3.4.0", system="kafka:3.4.0", control="kafka:3.4.1",
        workload="log", nemesis="partition,pause",
        ticket="KAFKA-14946",
    ),
    Step(
        name="kafka-3.5.1", system="kafka:3.5.1", control="kafka:3.6.1",
        workload="txn", nemesis="pause,stall-clients",
        ticket="KAFKA-14402",
    ),
    Step(
        name="kafka-0.11.0.0", system="kafka:0.11.0.0", control="kafka:0.11.0.1",
        workload="groups", nemesis="kill",
        ticket="KAFKA-5600",
    ),
    Step(
        name="kafka-3.6.1", system="kafka:3.6.1", control="kafka:3.7.1",
        workload="log", nemesis="remade",
        ticket="KAFKA-14616",
    ),
    Step(
        name="kafka-2.8.1", system="kafka:2.8.1", control="kafka:3.2.1",
        workload="keyed", nemesis="kill,partition",
        ticket="KAFKA-14055",
    ),
    Step(
        name="kafka-3.2.1", system="kafka:3.2.1", control="kafka:3.4.1:zookeeper",
        workload="keyed", nemesis="kill,partition",
        ticket="KAFKA-14704",
    ),
    Step(
        name="kafka-3.4.1", system="kafka:3.4.1", control="kafka:3.8.0",
        workload="keyed", nemesis="kill,partition",
        ticket="KAFKA-15468",
    ),
    Step(
        name="kafka-0.11.0.1", system="kafka:0.11.0.1", control="kafka:0.11.0.2",
        workload="txn", nemesis="pause,stall-clients",
        ticket="KAFKA-5970",
    ),
    Step(
        name="kafka-4.1.1", system="kafka:4.1.1", control="kafka:4.2.2",
        workload="groups", nemesis="kill",
        ticket="KAFKA-19862",
    ),
    Step(
        name="kafka-1.1.0", system="kafka:1.1.0", control="kafka:1.1.1",
        workload="log", nemesis="keeper,keeper-links,pause",
        ticket="KAFKA-6879",
    ),
    Step(
        name="kafka-1.1.1", system="kafka:1.1.1", control="kafka:2.0.1",
        workload="log", nemesis="keeper,keeper-links,pause",
        ticket="KAFKA-7164",
    ),
    Step(
        name="kafka-4.4.0", system="kafka:4.4.0", control="kafka:4.2.2",
        workload="txn", nemesis="kill,pause,aftermath",
        ticket="KAFKA-20734",
    ),
    Step(
        name="newest", system="kafka:4.4.0 kafka:4.3.1 kafka:4.2.2 kafka:4.1.2",
        least_s=5 * HOUR_S,
    ),
)  # fmt: skip


class Line(BaseModel):
    """The result of a finished part.

    Attributes:
        name: The name of the hunt.
        journal: The file name of the part's journal in `docs/hunt/journals/`.
        commit: The commit of the code when the part began. A + follows if there were local changes.
        took_s: The seconds that the part took, in wall-clock time.
        load: The machine's one-minute load average before and after the part.
        shown: For each ticket, the failed runs that show its mechanism, with the anomalies that the
            mechanism caused.
        rules: The version of the rules that found `shown` (`benchmarks.mechanisms.RULES`).
        withdrawn: For each ticket of `shown` that the table leaves out, the reason.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    journal: str
    commit: str
    took_s: float
    load: tuple[float, float]
    shown: Mapping[str, Mapping[str, tuple[str, ...]]]
    rules: int = 1
    withdrawn: Mapping[str, str] = {}


LINE = TypeAdapter(Line)
