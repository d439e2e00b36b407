"""Where things lie in the folder of a run."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RunPaths:
    """The files of one run, `STORE/<name>/<UTC time>-<seed>/`."""

    root: Path

    @property
    def run_id(self) -> str:
        """`<name>/<UTC time>-<seed>`: how a run is called in tables and on the command line."""
        return f"{self.root.parent.name}/{self.root.name}"

    @property
    def plan(self) -> Path:
        """Everything that decided the run."""
        return self.root / "plan.toml"

    @property
    def environment(self) -> Path:
        """Versions, host, kernel, Java."""
        return self.root / "environment.json"

    @property
    def system(self) -> Path:
        """What can be seen of the system, and done to it; absent where that is all."""
        return self.root / "system.json"

    @property
    def ledger(self) -> Path:
        """The undo of each fault, written before the fault."""
        return self.root / "ledger.jsonl"

    @property
    def processes(self) -> Path:
        """Every process that the run started on its hosts, a JSON line each."""
        return self.root / "processes.jsonl"

    @property
    def attached(self) -> Path:
        """Of a run on an attached cluster: what it has there; gone when that is taken away."""
        return self.root / "attached.json"

    @property
    def lock(self) -> Path:
        """Locked (flock) as long as the run is alive; holds the pid of its controller."""
        return self.root / "lock"

    @property
    def topics(self) -> Path:
        """The topics as they were created, with their ids."""
        return self.root / "topics.json"

    @property
    def milestones(self) -> Path:
        """How far the run came, and when."""
        return self.root / "milestones.jsonl"

    @property
    def live(self) -> Path:
        """The streams that are written while the run is under way."""
        return self.root / "record" / "live"

    @property
    def record(self) -> Path:
        """The tables: `<table>.parquet`."""
        return self.root / "record"

    @property
    def statistics(self) -> Path:
        """What pages and trends show: `<name>.parquet`."""
        return self.root / "statistics"

    @property
    def nodes(self) -> Path:
        """One folder a node: configuration, logs, data."""
        return self.root / "nodes"

    @property
    def steps(self) -> Path:
        """The steps of a scripted run; an ordinary run has none."""
        return self.root / "steps.jsonl"

    @property
    def story(self) -> Path:
        """What a scripted run set out to show, and whether it did; an ordinary run has none."""
        return self.root / "scenario.json"

    @property
    def night(self) -> Path:
        """Which entry of which night it was played for; an ordinary run has none."""
        return self.root / "night.json"

    @property
    def snapshots(self) -> Path:
        """Copies of the replicas' files at each step: `<step>/<node>/data`."""
        return self.root / "snapshots"

    @property
    def kept(self) -> Path:
        """Of a run that was kept: the files of the cluster that goes on, copies to begin with."""
        return self.root / "kept"

    @property
    def keeper(self) -> Path:
        """Of a run that was kept: how its cluster is reached."""
        return self.root / "kept.json"

    @property
    def verdict(self) -> Path:
        """The verdict, for machines."""
        return self.root / "verdict.json"

    @property
    def timings(self) -> Path:
        """When its command began, judged it and drew its page; absent where no command did."""
        return self.root / "timings.json"

    @property
    def report(self) -> Path:
        """The verdict, for people."""
        return self.root / "report.html"

    @property
    def scratch(self) -> Path:
        """Temporary files of the judgement, as long as it lasts."""
        return self.root / "scratch"

    def node(self, node: str) -> Path:
        """The folder of one node."""
        return self.nodes / node

    def table(self, name: str) -> Path:
        """The Parquet file of a table."""
        return self.record / f"{name}.parquet"
