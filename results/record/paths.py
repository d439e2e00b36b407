"""The paths of the files in a run's folder."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RunPaths:
    """The files of one run, in `STORE/<name>/<UTC time>-<seed>/`."""

    root: Path

    @property
    def run_id(self) -> str:
        """The run's id, `<name>/<UTC time>-<seed>`, as used in tables and on the command line."""
        return f"{self.root.parent.name}/{self.root.name}"

    @property
    def plan(self) -> Path:
        """The plan: all inputs that decide the run."""
        return self.root / "plan.toml"

    @property
    def environment(self) -> Path:
        """Versions of software, host, kernel and Java."""
        return self.root / "environment.json"

    @property
    def system(self) -> Path:
        """The system's possible observations and faults; missing if all are possible."""
        return self.root / "system.json"

    @property
    def ledger(self) -> Path:
        """The undo action of each fault, written before the fault begins."""
        return self.root / "ledger.jsonl"

    @property
    def processes(self) -> Path:
        """All processes that the run started on the hosts; a line of JSON for each process."""
        return self.root / "processes.jsonl"

    @property
    def attached(self) -> Path:
        """List of what the run created on an attached cluster; deleted after the cleanup."""
        return self.root / "attached.json"

    @property
    def lock(self) -> Path:
        """Lock file, locked with flock during the run; it contains the pid of the main process."""
        return self.root / "lock"

    @property
    def topics(self) -> Path:
        """The created topics, with their ids."""
        return self.root / "topics.json"

    @property
    def milestones(self) -> Path:
        """The phases that the run reached, with their times."""
        return self.root / "milestones.jsonl"

    @property
    def live(self) -> Path:
        """Folder of the streams that are written during the run."""
        return self.root / "record" / "live"

    @property
    def record(self) -> Path:
        """Folder of the tables: `<table>.parquet`."""
        return self.root / "record"

    @property
    def statistics(self) -> Path:
        """Folder of the statistics that pages and trends show: `<name>.parquet`."""
        return self.root / "statistics"

    @property
    def nodes(self) -> Path:
        """Folder with one folder for each node: configuration, logs, data."""
        return self.root / "nodes"

    @property
    def steps(self) -> Path:
        """The steps of a scripted run; missing for an ordinary run."""
        return self.root / "steps.jsonl"

    @property
    def story(self) -> Path:
        """The purpose of a scripted run, and whether it succeeded; missing for an ordinary run."""
        return self.root / "scenario.json"

    @property
    def night(self) -> Path:
        """The suite, night and entry of the run; missing for an ordinary run."""
        return self.root / "night.json"

    @property
    def snapshots(self) -> Path:
        """Copies of the replicas' files at each step: `<step>/<node>/data`."""
        return self.root / "snapshots"

    @property
    def kept(self) -> Path:
        """The files of a kept cluster that is still running. The run has copies of them."""
        return self.root / "kept"

    @property
    def keeper(self) -> Path:
        """The addresses of a kept cluster that is still running."""
        return self.root / "kept.json"

    @property
    def verdict(self) -> Path:
        """The verdict as JSON."""
        return self.root / "verdict.json"

    @property
    def timings(self) -> Path:
        """Times at which the command began, judged the run, and wrote the page; may be missing."""
        return self.root / "timings.json"

    @property
    def report(self) -> Path:
        """The run's HTML page."""
        return self.root / "report.html"

    @property
    def scratch(self) -> Path:
        """Temporary files of the judge, while it works."""
        return self.root / "scratch"

    def node(self, node: str) -> Path:
        """Return the folder of one node."""
        return self.nodes / node

    def table(self, name: str) -> Path:
        """Return the Parquet file of a table."""
        return self.record / f"{name}.parquet"
