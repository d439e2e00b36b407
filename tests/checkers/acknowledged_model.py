"""A partition with acks=1 whose truth is known: which broker acknowledged what, in which epoch.

Leaders are killed or cut off while clients still reach them, others are elected without all that
was acknowledged, who comes back truncates. Observers are late, some brokers believe what is no
more true, and truncations have no times: a judge sees no more of it than of a real run.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random

from checkers.changes import NEVER_NS
from checkers.facts import Absence, Disturbance
from checkers.group import Group
from results.record.values import pack_value
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import elected, facts, group, log, state

MS = 1_000_000
BROKERS = (1, 2, 3)
ACKS_1 = {"acks": "1", "judge": "strict"}


@dataclass(slots=True)
class Broker:
    """One of them.

    Attributes:
        log: (epoch, value) by offset.
        knows: The last leader epoch that it has heard of, and who leads in it.
        up, cut: Whether it runs; whether it hears nothing of the others.
    """

    number: int
    log: list[tuple[int, int]] = field(default_factory=list)
    knows: tuple[int, int] = (0, 1)
    up: bool = True
    cut: bool = False
    life: int = 1
    down_ns: int = 0

    @property
    def leads(self) -> bool:
        return self.up and self.knows[1] == self.number


class AcknowledgedRun:
    """A random run.

    Attributes:
        truth: By value, who acknowledged it at which offset: (broker, epoch, offset).
        held: By value, who ever had it.
        begun: By epoch, who led, and what was in its log when it was elected.
    """

    def __init__(self, seed: int, steps: int = 120) -> None:
        self.random = Random(f"{seed}/acknowledged")
        self.now, self.epoch, self.leader, self.sequence = 10_000 * MS, 0, 1, 0
        self.looked = 0
        self.brokers = {number: Broker(number) for number in BROKERS}
        self.truth: dict[int, tuple[int, int, int]] = {}
        self.held: defaultdict[int, set[int]] = defaultdict(set)
        self.begun: dict[int, tuple[int, frozenset[int]]] = {}
        self.disturbances: list[Disturbance] = []
        self.sends: list[Row] = []
        self.leadership: list[Row] = [elected(1, 0, 0)]
        self.truncations: list[Row] = []
        self.looks: list[Row] = []
        self.absences: list[Absence] = []
        self.deeds = (self.send, self.send, self.send, self.fetch, self.fetch, self.kill,
                       self.cut, self.heal, self.start)  # fmt: skip
        self.look()
        for _ in range(steps):
            self.passes(self.random.randrange(1, 400))
            self.random.choice(self.deeds)()
        self.end()

    def passes(self, milliseconds: int) -> None:
        """Let time pass, in which observers look about twice a second."""
        until = self.now + milliseconds * MS
        while self.now < until:
            self.now = min(until, self.now + 500 * MS)
            if self.now >= self.looked + 500 * MS:
                self.look()

    # Brokers and clients

    def send(self) -> None:
        leaders = [each for each in self.brokers.values() if each.leads]
        if not leaders:
            return
        broker = self.random.choice(leaders)
        self.sequence += 1
        value, sent_ns = pack_value(1, self.sequence), self.now
        self.now += self.random.randrange(1, 300) * MS
        broker.log.append((broker.knows[0], value))
        offset = len(broker.log) - 1
        self.truth[value] = (broker.number, broker.knows[0], offset)
        self.held[value].add(broker.number)
        self.sends.append({
            "op_id": self.sequence, "mop": 0, "value": value, "offset": offset, "outcome": "ok",
            "acked": True, "acks": "1", "process": 1, "invoke_ns": sent_ns,
            "complete_ns": self.now,
        })  # fmt: skip

    def fetch(self) -> None:
        """Have one follower catch up, truncating what its leader does not have."""
        followers = [each for each in self.brokers.values() if each.up and not each.leads]
        follower = self.random.choice(followers) if followers else None
        if follower is None or follower.cut or self.brokers[self.leader].cut:
            return
        follower.knows = (self.epoch, self.leader)
        self.follow(follower)

    def follow(self, follower: Broker) -> None:
        leader = self.brokers[self.leader]
        if not leader.up or leader is follower:
            return
        pairs = zip(follower.log, leader.log, strict=False)
        short = min(len(follower.log), len(leader.log))
        same = next((at for at, pair in enumerate(pairs) if pair[0] != pair[1]), short)
        if same < len(follower.log):
            self.truncations.append({
                "observed_ns": None, "node": f"n{follower.number}", "incarnation": follower.life,
                "from_offset": same, "to_offset": None, "reason": "", "source": "server-log",
            })  # fmt: skip
        follower.log[:] = leader.log
        for _, value in leader.log:
            self.held[value].add(follower.number)

    def elect(self) -> None:
        others = [each for each in self.brokers.values() if each.up and not each.cut]
        if not others:
            return
        chosen = self.random.choice(others)
        self.epoch, self.leader = self.epoch + 1, chosen.number
        self.leadership.append(elected(self.leader, self.epoch, self.epoch))
        self.begun[self.epoch] = (chosen.number, frozenset(value for _, value in chosen.log))
        for each in others:
            # Who does not lead hears of it at once or at the next fetch.
            if each is chosen or each.leads or self.random.random() < 0.5:
                each.knows = (self.epoch, self.leader)

    def kill(self) -> None:
        running = [each for each in self.brokers.values() if each.up]
        if len(running) < 2:
            return
        broker = self.random.choice(running)
        broker.up, broker.down_ns = False, self.now
        self.disturb("kill", broker)
        if broker.number == self.leader:
            self.elect()

    def start(self) -> None:
        for broker in self.brokers.values():
            if not broker.up:
                self.absences.append(
                    Absence(node=f"n{broker.number}", from_ns=broker.down_ns, until_ns=self.now)
                )
                broker.up, broker.cut, broker.life = True, False, broker.life + 1
                self.calm(broker)
                self.hear(broker)

    def cut(self) -> None:
        broker = self.brokers[self.leader]
        others = [each for each in self.brokers.values() if each.up and each is not broker]
        if others and not any(each.cut for each in self.brokers.values()):
            broker.cut = True
            self.disturb("isolate", broker)
            self.passes(self.random.randrange(1, 3000))
            self.elect()

    def disturb(self, kind: str, broker: Broker) -> None:
        nodes = frozenset({f"n{broker.number}"})
        self.disturbances.append(
            Disturbance(
                kind=kind,
                begun_ns=self.now,
                ended_ns=NEVER_NS,
                confirmed_ns=self.now,
                nodes=nodes,
            )
        )

    def calm(self, broker: Broker) -> None:
        self.disturbances[:] = [
            replace(each, ended_ns=min(each.ended_ns, self.now))
            if f"n{broker.number}" in each.nodes
            else each
            for each in self.disturbances
        ]

    def heal(self) -> None:
        for broker in self.brokers.values():
            if broker.cut:
                broker.cut = False
                self.calm(broker)
                self.hear(broker)

    def hear(self, broker: Broker) -> None:
        if not self.brokers[self.leader].up:
            self.elect()
        broker.knows = (self.epoch, self.leader)
        self.follow(broker)

    # What is seen

    def look(self) -> None:
        """Have each broker that answers say what it believes; leaders also that they lead."""
        self.looked = self.now
        for broker in self.brokers.values():
            if not broker.up or self.random.random() < 0.2:
                continue
            asked_ns = self.now
            self.now += self.random.randrange(1, 50) * MS
            epoch, leader = broker.knows
            self.looks.append({
                "observed_ns": self.now, "node": f"n{broker.number}", "incarnation": broker.life,
                "log_end_offset": len(broker.log),
            })  # fmt: skip
            sources = ["metadata", *(["list-offsets"] if broker.leads else [])]
            self.leadership += [
                {"source": source, "observer": f"n{broker.number}", "incarnation": broker.life,
                 "leader": leader, "leader_epoch": epoch, "asked_ns": asked_ns,
                 "observed_ns": self.now, "isr": None}
                for source in sources
            ]  # fmt: skip

    def end(self) -> None:
        self.heal()
        self.start()
        if not self.brokers[self.leader].up:
            self.elect()
        for broker in self.brokers.values():
            self.hear(broker)
        self.look()
        self.look()

    def judged(self) -> Group:
        nodes = frozenset(f"n{number}" for number in BROKERS)
        about = facts(
            plan=ACKS_1,
            absences=tuple(self.absences),
            collected_nodes=nodes,
            disturbances=tuple(self.disturbances),
        )
        logs = {f"n{each.number}": each.log for each in self.brokers.values()}
        return group(
            about,
            sends=self.sends,
            leadership=self.leadership,
            truncations=self.truncations,
            replica_records=[row for node, held in logs.items() for row in log(node, *held)],
            replica_states=[*self.looks, *(state(node, len(held)) for node, held in logs.items())],
        )

    @property
    def kept(self) -> Mapping[int, bool]:
        """Whether each value is in the last leader's log."""
        held = {value for _, value in self.brokers[self.leader].log}
        return {value: value in held for value in self.truth}
