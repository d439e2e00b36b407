"""A replicated log that does as Kafka does: its history must never be called wrong.

Leaders crash and are elected from the ISR, followers fall out of it and come back, logs are
truncated to the new leader's, sends time out whether or not they were written, readers see what is
below the high watermark. Rows are those of the live streams.
"""

from pathlib import Path
from random import Random

import pyarrow as pa

from checkers.facts import RunFacts
from checkers.group import Group, group_of
from checkers.ingest import Tables, completed
from results.record.milestones import Milestone, append_milestone
from results.record.paths import RunPaths
from results.record.plan import Plan, dump_plan
from results.record.plan_parts import Minimums
from results.record.stream import StreamWriter
from results.record.tables import LIVE, TABLES
from results.record.topics import CreatedTopic, dump_topics
from results.record.values import pack_value
from tests.checkers.faithful_clients import Clients, Partition, Row, Rows
from tests.checkers.faithful_quorum import FaithfulQuorum

STONES = ("started", "ready", "warmup", "main", "main-ended", "healed", "recovered",
          "final-reads", "noted", "stopped", "collected")  # fmt: skip
MS = 1_000_000


class FaithfulRun:
    def __init__(
        self, seed: int, *, steps: int = 60, plan: Plan | None = None, looks: int = 0
    ) -> None:
        self.random = Random(f"{seed}/faithful")
        self.step_isrs: dict[str, frozenset[str]] = {}
        self.plan = plan or Plan(
            topics=1,
            partitions=2,
            workers=1,
            nemesis=("kill",),
            minimums=Minimums(ok_sends=1, ok_polls=1),
        )
        self.rows: Rows = {name: [] for name in LIVE}
        self.now = 0
        self.partitions = [
            Partition(topic, number, n)
            for n, (topic, number) in enumerate(self.plan.topic_partitions, start=1)
        ]
        self.clients = Clients(
            random=self.random,
            partitions=self.partitions,
            add=self.add,
            tick=self.tick,
            replicate=self.replicate,
        )
        for each in self.partitions:
            self.add(
                "reservations",
                worker=0,
                value_from=pack_value(each.number, 0),
                value_to=pack_value(each.number, 1_000_000),
            )
            self.observe(each)
        for number in range(1, looks + 1):
            self.steps(steps // (looks + 1))
            self.look(self.partitions[0], f"step-{number:02}")
        self.steps(steps // (looks + 1))
        self.end()

    def add(self, table: str, **row: object) -> None:
        self.rows[table].append(row)

    def tick(self) -> int:
        self.now += self.random.randrange(1, 9) * MS
        return self.now

    def steps(self, count: int) -> None:
        for step in range(count):
            each = self.random.choice(self.partitions)
            deeds = (
                self.clients.send, self.clients.send, self.clients.send_together,
                self.clients.poll, self.clients.poll, self.elect, self.shrink, self.rejoin,
            )  # fmt: skip
            deed = self.clients.send if step < 4 else self.random.choice(deeds)
            deed(each)

    # Brokers

    def replicate(self, each: Partition) -> None:
        for broker in each.isr:
            each.logs[broker] = list(each.logs[each.leader])
            each.marks[broker] = len(each.logs[each.leader])
        each.high_watermark = len(each.logs[each.leader])
        self.observe(each)

    def elect(self, each: Partition) -> None:
        others = sorted(each.isr - {each.leader})
        if not others:
            return
        fault = len(self.rows["faults"]) + 1
        spec: Row = {
            "fault_id": fault,
            "kind": "kill",
            "spec": "{}",
            "targets": [f"n{each.leader}"],
        }
        spec["requested_ns"] = self.tick()
        self.add("faults", **spec, confirmed_ns=self.tick())
        each.isr.discard(each.leader)
        each.leader = self.random.choice(others)
        each.epoch += 1
        self.observe(each)
        self.replicate(each)
        self.clients.poll(each)
        self.rows["faults"][-1]["healed_ns"] = self.tick()

    def shrink(self, each: Partition) -> None:
        if len(each.isr) > 2:
            each.isr.discard(self.random.choice(sorted(each.isr - {each.leader})))
            self.observe(each)

    def rejoin(self, each: Partition) -> None:
        for broker in sorted({1, 2, 3} - each.isr):
            mine, leaders = each.logs[broker], each.logs[each.leader]
            same = next((at for at, pair in enumerate(zip(mine, leaders, strict=False))
                         if pair[0] != pair[1]), min(len(mine), len(leaders)))  # fmt: skip
            if same < len(mine):
                self.add(
                    "truncations",
                    **each.place,
                    observed_ns=self.tick(),
                    node=f"n{broker}",
                    incarnation=1,
                    from_offset=same,
                    to_offset=len(mine),
                    source="server-log",
                    reason=f"follower of broker {each.leader} in epoch {each.epoch}",
                )
            each.isr.add(broker)
        self.replicate(each)

    def observe(self, each: Partition) -> None:
        row = {**each.place, "incarnation": 1, "leader": each.leader, "leader_epoch": each.epoch}
        asked = self.tick()
        self.add(
            "leadership",
            **row,
            asked_ns=asked,
            observed_ns=self.tick(),
            source="list-offsets",
            observer=f"n{each.leader}",
            high_watermark=each.high_watermark,
        )
        self.add(
            "leadership",
            **row,
            asked_ns=asked,
            observed_ns=self.tick(),
            source="metadata",
            observer=f"n{row['leader']}",
            isr=sorted(each.isr),
        )
        self.add(
            "leadership",
            **row,
            source="metadata-log",
            observer="n1",
            isr=sorted(each.isr),
            log_offset=len(self.rows["leadership"]),
            unclean=False,
        )

    def look(self, each: Partition, name: str) -> None:
        """Ask each broker and copy its files, in any order, while the cluster goes on."""
        looks = [(look, broker) for broker in each.logs for look in ("ask", "copy")]
        self.random.shuffle(looks)
        for look, broker in looks:
            self.steps(3)
            if look == "copy":
                self.snapshot(each, broker, each.logs[broker], name=name)
            else:
                self.ask(each, broker, name)
        self.steps(3)
        self.step_isrs[name] = frozenset(f"n{broker}" for broker in each.isr)

    def ask(self, each: Partition, broker: int, name: str) -> None:
        self.add(
            "replica_states",
            **each.place,
            snapshot=name,
            node=f"n{broker}",
            observed_ns=self.tick(),
            incarnation=1,
            log_start_offset=0,
            log_end_offset=len(each.logs[broker]),
            high_watermark=each.marks[broker],
            high_watermark_source="fetch",
        )

    # The end

    def end(self) -> None:
        for each in self.partitions:
            self.rejoin(each)
        drawn = self.random.getstate()
        for each in self.partitions:
            self.clients.send_acknowledged(each)
        self.random.setstate(drawn)
        for each in self.partitions:
            self.clients.read_to_end(each)
            self.add(
                "final_reads",
                **each.place,
                isolation="read_uncommitted",
                target_end=each.high_watermark,
                reached=each.high_watermark,
                complete=True,
            )
            for broker, log in each.logs.items():
                self.snapshot(each, broker, log)
        quorum = FaithfulQuorum(self.random.randrange(1 << 32), steps=8, begin_ns=self.tick())
        self.of_quorum: Rows = {
            "quorum_states": quorum.states,
            "replica_records": quorum.records,
            "replica_states": quorum.replicas,
        }
        # Of the metadata log: `log_offset` counts rows here, which all are committed.
        told = {"observed_ns": self.tick(), "node": "n9", "role": "observer", "epoch": 1_000}
        self.add("quorum_states", **told, incarnation=1, leader=9, high_watermark=1_000_000)
        self.add("arrivals", worker=0, window_ns=0, phase="main", offered=100, missed=1)

    def snapshot(
        self, each: Partition, broker: int, log: list[tuple[int, int]], *, name: str = "final"
    ) -> None:
        node = {"snapshot": name, "node": f"n{broker}"}
        for offset, (epoch, value) in enumerate(log):
            self.add(
                "replica_records",
                **each.place,
                **node,
                offset=offset,
                leader_epoch=epoch,
                value=value,
                record_hash=value * 31,
                producer_id=7,
                producer_epoch=0,
                sequence=offset,
                control=False,
                damage=0,
            )
        self.add(
            "replica_states",
            **each.place,
            **node,
            observed_ns=self.tick(),
            incarnation=1,
            log_start_offset=0,
            log_end_offset=len(log),
            high_watermark=len(log) if name == "final" else each.marks[broker],
            high_watermark_source="checkpoint",
        )

    # As kernels and folders want it

    def facts(self, **changes: object) -> RunFacts:
        stones = tuple(Milestone(name=name, at_ns=at) for at, name in enumerate(STONES))
        ranges = tuple((row["value_from"], row["value_to"]) for row in self.rows["reservations"])
        values: Row = {
            "run_id": "test/run",
            "recorded_id": "test/run",
            "plan": self.plan,
            "milestones": stones,
            "reservations": ranges,
            "quorum_high_watermark": 1_000_000,
            "contents_known": True,
            **changes,
        }
        return RunFacts(**values)

    def tables(self) -> Tables:
        return tables_of(self.all_rows())

    def all_rows(self) -> Rows:
        """Return the rows with those of the quorum's log, which plants of others leave alone."""
        return {name: [*rows, *self.of_quorum.get(name, ())] for name, rows in self.rows.items()}

    def group(self, number: int = 0, **changes: object) -> Group:
        each = self.partitions[number]
        return partition_group(self.facts(**changes), self.tables(), each.place)

    def write(self, root: Path) -> Path:
        """Write the folder of a run, as a harness would leave it."""
        paths = RunPaths(root)
        paths.live.mkdir(parents=True)
        paths.plan.write_text(dump_plan(self.plan))
        topics = {each.topic: each.place["topic_id"] for each in self.partitions}
        dump_topics([CreatedTopic(topic=topic, topic_id=topic_id, partitions=self.plan.partitions)
                     for topic, topic_id in topics.items()], paths.topics)  # fmt: skip
        for at, name in enumerate(STONES):
            append_milestone(paths.milestones, Milestone(name=name, at_ns=at * 1_000 * MS))
        for name, rows in self.all_rows().items():
            writer = StreamWriter(paths.live, name, "worker-0")
            if rows:
                table = pa.Table.from_pylist(rows, schema=LIVE[name])
                for batch in table.to_batches(max_chunksize=10_000):
                    writer.append_batch(batch)
            writer.close()
            StreamWriter(paths.live, name, "final").close()
        open_tellers(paths.live)
        return root


def open_tellers(live: Path) -> None:
    """Write the streams of the nemesis and of three brokers' observers, without any row."""
    StreamWriter(live, "faults", "nemesis").close()
    for name in ("leadership", "quorum_states", "replica_states"):
        for node in ("n1", "n2", "n3"):
            StreamWriter(live, name, f"observer-{node}").close()


def tables_of(rows: Rows) -> Tables:
    live = {name: pa.Table.from_pylist(each, schema=LIVE[name]) for name, each in rows.items()}
    return {
        name: pa.Table.from_pylist(table.to_pylist(), schema=TABLES[name])
        for name, table in completed(live).items()
    }


def partition_group(facts: RunFacts, tables: Tables, place: Row) -> Group:
    mine = {}
    for name, table in tables.items():
        if "partition" in table.column_names:
            rows = [
                row for row in table.to_pylist()
                if (row["topic"], row["partition"]) == (place["topic"], place["partition"])
            ]  # fmt: skip
            mine[name] = pa.Table.from_pylist(rows, schema=TABLES[name])
    return group_of(facts, mine, **place)


def run_group(facts: RunFacts, tables: Tables) -> Group:
    whole = {name: each for name, each in tables.items() if "partition" not in each.column_names}
    return group_of(facts, whole)
