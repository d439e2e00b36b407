"""The workload groups in virtual time: the record, what coordinators did, what their log has."""

import hashlib
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from checkers.run import judge_runs
from cluster.files.group_offsets import OFFSETS_TOPIC
from cluster.protocol import Hosts
from cluster.reference.broker.group import Group, GroupState
from cluster.reference.broker.node import Node
from cluster.reference.broker.offsets import committed_offsets
from cluster.reference.bugs import Bug
from cluster.reference.machine import Arrived, Event
from cluster.reference.messages.clients import JoinGroupRequest, SyncGroupRequest
from cluster.reference.simulator.process import Process
from cluster.systems.system import Deployment
from harness.interrupt import Interrupts
from harness.simulated.assignors import ASSIGNORS, COOPERATIVE, assignment
from harness.simulated.world import SimulatedWorld
from harness.stage import live
from results.environment import collect_environment
from results.record.clock import NS_PER_S, RunClock
from results.record.paths import RunPaths
from results.record.plan import Plan, dump_plan, plan_from
from results.record.terms import Validity
from results.record.verdict import Verdict
from workloads.protocol import Key

Row = dict[str, Any]
SETTLED_NS = 3 * NS_PER_S
"""So long after a generation has begun all its members have taken what they were given."""
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A generation as its coordinator had it when it told its members."""

    at_ns: int
    group: str
    given: dict[str, list[Key]]

    def of_process(self, process: int) -> list[Key] | None:
        """What a process was given, None if it is no member."""
        for member, keys in self.given.items():
            if member.startswith(f"process-{process}-"):
                return keys
        return None


class WatchedWorld(SimulatedWorld):
    """Looks at a coordinator whenever it was asked for an assignment."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.generations: dict[tuple[int, int, str, int], Generation] = {}
        self.joined_ns: dict[str, int] = {}
        """When anybody last asked to join a group."""
        self._asked = ""

    def cluster(
        self, plan: Plan, hosts: Hosts, paths: RunPaths, *, say: Callable[[str], object]
    ) -> Deployment:
        for number, host in self.simulation.hosts.items():
            if number > 0:
                host.trace, host.watch = self._note, self._look
        return super().cluster(plan, hosts, paths, say=say)

    def _note(self, now: int, _number: int, event: Event) -> None:
        if not isinstance(event, Arrived):
            return
        if isinstance(event.message, SyncGroupRequest):
            self._asked = event.message.group_id
        elif isinstance(event.message, JoinGroupRequest):
            self.joined_ns[event.message.group_id] = now

    def _look(self, process: Process) -> None:
        name, self._asked = self._asked, ""
        if not name:
            return
        assert isinstance(process.machine, Node)
        group = process.machine._groups._coordinator._group(name)
        if not isinstance(group, Group) or group.state is not GroupState.STABLE:
            return
        incarnation = self.simulation.hosts[process.id].incarnation
        place = (process.id, incarnation, name, group.generation)
        given = {each.member_id: assignment(each.assignment) for each in group.members.values()}
        made = Generation(at_ns=self.simulation.now_ns, group=name, given=given)
        self.generations.setdefault(place, made)


def plan_of(seed: int, **settings: object) -> Plan:
    return plan_from({
        "system": "reference", "hosts": "simulated", "workload": "groups", "seed": seed,
        "rate": 60, "concurrency": 12, "topics": 1, "partitions": 4, "warmup_s": 2,
        "time_limit_s": 15, "nemesis": "kill", **settings,
    })  # fmt: skip


def drawn_plan(seed: int) -> Plan:
    """Return a plan of which all that matters to groups is drawn."""
    random = Random(f"groups/{seed}")
    faults = [
        {
            "kind": random.choice(("kill", "pause", "isolate", "stop")),
            "target": random.choice(("n1", "n2", "n3")),
            "at_s": at_s,
            "hold_s": random.choice((1, 4, 7)),
        }
        for at_s in range(1, random.randint(2, 20), 10)
    ]
    return plan_of(
        seed,
        client={"partition.assignment.strategy": random.choice(ASSIGNORS)},
        faults=faults,
        topics=random.randint(1, 2),
        partitions=random.randint(1, 5),
        concurrency=random.choice((8, 12, 20)),
        rate=random.choice((40, 80)),
        time_limit_s=20,
        minimums={"ok_sends": 50},  # Under faults, a short run has few.
    )


def played(root: Path, plan: Plan) -> tuple[RunPaths, WatchedWorld]:
    paths, world = RunPaths(root), WatchedWorld(plan)
    paths.live.mkdir(parents=True)
    paths.plan.write_text(dump_plan(plan))
    clock = RunClock(start_ns=0)
    collect_environment(paths, clock=clock, started_unix_s=0)
    silent = Console(quiet=True)
    live(plan, paths, clock, world=world, console=silent, interrupts=Interrupts(world.event))
    return paths, world


def judged(paths: RunPaths) -> Verdict:
    return judge_runs([paths.root], engine="local")[0]


def rows(paths: RunPaths, table: str) -> list[Row]:
    found: list[Row] = pq.read_table(paths.root / "record" / f"{table}.parquet").to_pylist()
    return found


def key_of(row: Row) -> Key:
    return row["topic"], row["partition"]


@pytest.mark.parametrize("seed", range(2))
def test_record_coordinators_and_their_log_agree(tmp_path: Path, seed: int) -> None:
    assert agrees(tmp_path / "run", drawn_plan(seed)) > 0, "no answer told of a commit"


@pytest.mark.night
@pytest.mark.timeout(3600)
def test_record_coordinators_and_their_log_agree_whatever_is_drawn(tmp_path: Path) -> None:
    for seed in range(2, 60):
        agrees(tmp_path / f"run-{seed}", drawn_plan(seed))


def agrees(root: Path, plan: Plan) -> int:
    """Hold the record of a run against what happened in its brokers.

    Returns:
        How many answers told of a commit.
    """
    paths, world = played(root, plan)
    verdict = judged(paths)
    assert verdict.valid is Validity.VALID, (plan.seed, verdict.unknown_because, verdict.anomalies)
    generations = list(world.generations.values())
    moves, commits = rows(paths, "assignments"), rows(paths, "commits")
    assert len(generations) > 2
    nobody_has_what_another_has(plan, generations)
    members_were_given_what_is_recorded(generations, moves)
    settled = [each for each in generations if each.at_ns > world.joined_ns[each.group]]
    what_is_recorded_is_what_members_have(settled, moves, rows(paths, "ops"))
    answers_are_those_of_the_log(commits, kept(paths, plan))
    return sum(each["committed_by"] is not None for each in commits)


def nobody_has_what_another_has(plan: Plan, generations: Sequence[Generation]) -> None:
    for each in generations:
        dealt = [key for keys in each.given.values() for key in keys]
        assert len(dealt) == len({*dealt}), each
        if COOPERATIVE not in plan.client.values():
            assert sorted(dealt) == sorted(plan.topic_partitions)


def members_were_given_what_is_recorded(
    generations: Sequence[Generation], moves: Sequence[Row]
) -> None:
    given = [each for each in moves if each["kind"] == "rebalance-assigned"]
    assert given
    for row in given:
        assert any(
            each.at_ns <= row["time_ns"] and key_of(row) in (each.of_process(row["process"]) or ())
            for each in generations
        ), row


def what_is_recorded_is_what_members_have(
    generations: Sequence[Generation], moves: Sequence[Row], ops: Sequence[Row]
) -> None:
    last = {each.group: each for each in sorted(generations, key=lambda it: it.at_ns)}
    crashed = {each["process"] for each in ops if each["outcome"] == "info"}
    end_ns = max(each["invoke_ns"] for each in ops if each["phase"] != "final")
    for generation in last.values():
        if generation.at_ns + SETTLED_NS > end_ns:
            continue
        for member, keys in generation.given.items():
            process = int(member.split("-")[1])
            if process in crashed:
                continue  # It may not have lived to be told.
            owned: set[Key] = set()
            own = [each for each in moves if each["process"] == process]
            for row in sorted(own, key=lambda it: it["time_ns"]):
                if row["kind"] == "rebalance-assigned":
                    owned.add(key_of(row))
                elif row["kind"] == "rebalance-revoked":
                    owned.discard(key_of(row))
            assert owned == {*keys}, (member, generation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A commit as the offsets' log has it."""

    group: str
    key: Key
    offset: int
    op_id: int


def kept(paths: RunPaths, plan: Plan) -> list[Kept]:
    """Return all commits of the logs of `__consumer_offsets`, in the order of each partition's."""
    found: list[Kept] = []
    nodes = [paths.node(f"n{number}") / "data" for number in range(1, plan.nodes + 1)]
    for folder in sorted({each.name for node in nodes for each in node.glob(f"{OFFSETS_TOPIC}-*")}):
        logs = [
            b"".join(path.read_bytes() for path in sorted((node / folder).glob("*.log")))
            for node in nodes
        ]
        longest = max(logs, key=len)
        assert all(longest.startswith(each) for each in logs)
        for place, committed in committed_offsets(longest):
            assert committed is not None
            key = (place.topic, place.partition)
            op_id = int(committed.metadata)
            found.append(Kept(group=place.group, key=key, offset=committed.offset, op_id=op_id))
    return found


def answers_are_those_of_the_log(commits: Sequence[Row], log: Sequence[Kept]) -> None:
    """Each acknowledged commit is there, and each question had the newest that could be."""
    tried = {(each["op_id"], key_of(each)): each for each in commits if each["act"] == "commit"}
    groups = {each.op_id: each.group for each in log}
    stored = {(each.op_id, each.key): each.offset for each in log}
    acknowledged = {at: each for at, each in tried.items() if each["outcome"] == "ok"}
    for at, row in acknowledged.items():
        assert stored[at] == row["offset"]
    for each in log:
        assert tried[each.op_id, each.key]["offset"] == each.offset
    by_process = {each["process"]: groups[op] for (op, _), each in acknowledged.items()}
    asked = [each for each in commits if each["act"] == "fetch" and each["outcome"] == "ok"]
    for row in asked:
        name, by = by_process.get(row["process"]), row["committed_by"]
        if by is None and name is None:
            continue  # Which group it is a member of, the log does not tell.
        ours = [it for it in log if it.key == key_of(row) and it.group == (groups.get(by) or name)]
        behind = ours
        if by is not None:
            last = max(number for number, it in enumerate(ours) if it.op_id == by)
            assert ours[last].offset == row["offset"]
            assert tried[by, key_of(row)]["asked_ns"] < row["told_ns"]
            behind = ours[last + 1 :]
        for later in behind:
            answered = acknowledged.get((later.op_id, later.key))
            assert answered is None or answered["told_ns"] >= row["asked_ns"], (row, later)


@pytest.mark.parametrize("bug", [Bug.COMMIT_NOT_KEPT, Bug.ONE_ASSIGNMENT_FOR_ALL])
def test_a_coordinators_bug_is_found_by_its_anomaly(tmp_path: Path, bug: Bug) -> None:
    paths, _ = played(tmp_path / "run", plan_of(1, bug=bug.value, time_limit_s=8))
    verdict = judged(paths)
    assert verdict.valid is Validity.INVALID
    assert verdict.anomalies[bug.anomaly].trusted


DIGEST = """
import sys
from pathlib import Path
from tests.reference.test_simulated_groups import digest_of
print(digest_of(Path(sys.argv[1]), int(sys.argv[2])))
"""


def digest_of(folder: Path, seed: int) -> str:
    """Play a run, and return what tells its bytes apart from others'."""
    paths, world = played(folder, plan_of(seed, time_limit_s=10, nemesis="pause"))
    told = hashlib.sha256()
    for root in (paths.live, paths.root / "nodes"):
        for path in sorted(each for each in root.rglob("*") if each.is_file()):
            told.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return f"{told.hexdigest()} {world.simulation.agenda.happened}"


def test_the_same_seed_gives_the_same_bytes_whatever_hashes_are(tmp_path: Path) -> None:
    def digest(name: str, seed: int, hashes: str) -> str:
        ended = subprocess.run(
            [sys.executable, "-c", DIGEST, str(tmp_path / name), str(seed)],
            env={"PYTHONHASHSEED": hashes, "PYTHONPATH": str(ROOT), "PATH": ""},
            capture_output=True, text=True, check=True, timeout=300,
        )  # fmt: skip
        return ended.stdout

    first = digest("one", 5, "1")
    assert digest("again", 5, "2") == first
    assert digest("other", 6, "1") != first
