"""A partition whose truth is known: which broker acknowledged what, in which epoch, and lost it.

Leaders are killed or cut off while clients still reach them, others are elected without all that
was acknowledged, who comes back truncates. Clients send again what they got no answer for. Disks
lose what they held, replicas are made anew, and some followers do not truncate. What an observer
notes of a log was so up to two seconds before, and a broker names a new leader up to half a second
before it heeds it; some brokers believe what is no more true, and truncations have no times but in
brokers' own logs: a judge sees no more of it than of a real run (`modelled_record.py`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from random import Random

from checkers.columns import NEVER
from checkers.facts import Absence, DiskLoss, Disturbance
from results.record.values import pack_value
from tests.checkers.faithful_clients import Row
from tests.checkers.known_truth import Begun, Cut, Deed, Truth
from tests.checkers.partition_rows import elected

MS = 1_000_000
BROKERS = (1, 2, 3)
PLACE = "log-0-0"
_CALM_NS = 4000 * MS
"""After so long all that observers report is of the newest leader."""
_NOTED_LATE_NS, _NAMED_EARLY_NS = 2000 * MS, 450 * MS
"""How old a log's noted end may be, and how long before it heeds a leader a broker names it."""
CONTROL = -1
"""Stands for the marker of a transaction in the model's logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What sort of run it is.

    Attributes:
        acks: 1, or all.
        idempotent: Whether a leader recognizes what is sent again.
        transactions: Whether two sends each are a transaction.
        lazy: Whether followers may leave what their leader does not have, and differ from it.
        disks: Whether disks lose records.
        moves: Whether replicas are made anew.
        skews: By how many seconds each broker's clock is wrong.
        zones: Each broker's time zone, in seconds.
        logs: Whether brokers' logs were collected.
        late: Which broker runs late; 0: none.
        confused: Which broker names wrong leaders of epochs in its answers; 0: none. The
            controllers' log tells better: of an epoch of which only a liar tells nobody knows.
        forgets: Whether leaders may drop what they have just acknowledged.
        elr: Whether replicas outside of the ISR may be eligible leader replicas (KIP-966).
        hasty: Whether leaders answer acks=all without waiting for who is in sync.
        controllers: Whether the controllers' log was collected.
    """

    acks: str
    idempotent: bool
    transactions: bool
    lazy: bool
    disks: bool
    moves: bool
    skews: Mapping[int, float]
    zones: Mapping[int, int]
    logs: bool
    late: int
    confused: int
    forgets: bool
    elr: bool
    hasty: bool
    controllers: bool

    @property
    def plan(self) -> dict[str, object]:
        """The plan of such a run."""
        return {
            "acks": self.acks, "judge": "strict", "min_insync": 1,
            "broker": {"unclean.leader.election.enable": "true"},
            "workload": "txn" if self.transactions else "log",
            "client": {} if self.idempotent else {"enable.idempotence": "false"},
        }  # fmt: skip


def drawn(random: Random) -> Kind:
    """Draw a sort of run; most are of the plainest, in which most is known."""
    acks = random.choice(("1", "1", "all"))
    transactions = acks == "all" and random.random() < 0.4
    odd, controllers = random.random(), random.random() < 0.75
    return Kind(
        acks=acks,
        idempotent=acks == "all" and (transactions or random.random() < 0.6),
        transactions=transactions,
        lazy=0.6 < odd < 0.7,
        disks=0.7 < odd < 0.85,
        moves=0.85 < odd < 0.95,
        skews={each: random.uniform(-40, 40) if random.random() < 0.15 else 0.0
               for each in BROKERS},
        zones={each: random.choice((0, 0, 3600, 20_700, -28_800)) for each in BROKERS},
        logs=random.random() < 0.9,
        late=random.choice((0, 0, 0, 0, 2, 3)),
        confused=random.choice(BROKERS) if controllers and random.random() < 0.1 else 0,
        forgets=acks == "1" and random.random() < 0.1,
        elr=random.random() < 0.6,
        hasty=acks == "all" and not transactions and random.random() < 0.4,
        controllers=controllers,
    )  # fmt: skip


@dataclass(slots=True)
class Broker:
    """One of them.

    Attributes:
        log: (epoch, value) by offset.
        knows: The last leader epoch that it has heard of, and who leads in it.
        up, cut: Whether it runs; whether it hears nothing of the others.
        isr: Whom it takes for in sync while it leads.
        named, named_ns: The epoch and leader that it names already, and since when; None: `knows`.
        noted_ns: When an observer measured its log last, in this life.
    """

    number: int
    log: list[tuple[int, int]] = field(default_factory=list)
    knows: tuple[int, int] = (0, 1)
    up: bool = True
    cut: bool = False
    life: int = 1
    down_ns: int = 0
    isr: set[int] = field(default_factory=lambda: set(BROKERS))
    named: tuple[int, int] | None = None
    named_ns: int = 0
    noted_ns: int = 0

    @property
    def node(self) -> str:
        return f"n{self.number}"

    @property
    def leads(self) -> bool:
        return self.up and self.knows[1] == self.number


class AcknowledgedRun:
    """A random run.

    Attributes:
        kind: What sort of run.
        truth: What happened.
        decided: How many records the controllers' log has; all are committed.
    """

    def __init__(self, seed: int, steps: int = 120) -> None:
        self.random = Random(f"{seed}/acknowledged")
        self.kind = drawn(self.random)
        self.now, self.epoch, self.leader, self.sequence = 10_000 * MS, 0, 1, 0
        self.looked = self.stirred = 0
        self.brokers = {number: Broker(number) for number in BROKERS}
        self.truth = Truth(begun={0: Begun(broker=1, at_ns=0, values=frozenset())})
        self.disturbances: list[Disturbance] = []
        self.sends: list[Row] = []
        self.polls: list[Row] = []
        self.leadership: list[Row] = []
        self.decided = 0
        self.truncations: list[Row] = []
        self.looks: list[Row] = []
        self.absences: list[Absence] = []
        self.disk_losses: list[DiskLoss] = []
        self.said: dict[str, list[tuple[int, str]]] = {f"n{each}": [] for each in BROKERS}
        deeds = [self.send, self.send, self.send, self.fetch, self.fetch, self.kill, self.cut,
                 self.heal, self.start, self.read, self.prefer]  # fmt: skip
        deeds += [self.lose] * self.kind.disks + [self.move] * self.kind.moves
        deeds += [self.send, self.fetch, self.start, self.heal] * (4 * self.kind.forgets)
        self.begin()
        for _ in range(steps):
            self.passes(self.random.randrange(1, 400))
            self.random.choice(deeds)()
        self.end()

    def begin(self) -> None:
        self.log_isr(self.leader, set(BROKERS))
        for broker in self.brokers.values():
            self.say(broker, "started (kafka.server.KafkaRaftServer)")
        if self.kind.late:
            broker = self.brokers[self.kind.late]
            broker.up, broker.down_ns = False, self.now
            self.disturb("kill", broker)
        self.look()

    def passes(self, milliseconds: int) -> None:
        """Let time pass, in which observers look about twice a second."""
        until = self.now + milliseconds * MS
        while self.now < until:
            self.now = min(until, self.now + 500 * MS)
            if self.now >= self.looked + 500 * MS:
                self.look()

    def say(self, broker: Broker, text: str) -> None:
        self.said[broker.node].append((self.now, text))

    # Clients

    def send(self) -> None:
        """Send a value, or a transaction of two."""
        first, sent_ns = len(self.sends), self.now
        for _ in range(1 + self.kind.transactions):
            self.sequence += 1
            self.send_one(pack_value(1, self.sequence))
        mine = self.sends[first:]
        if self.kind.transactions:
            done = all(each["acked"] for each in mine)
            for mop, row in enumerate(mine):
                row |= {"txn_id": first, "op_id": mine[0]["op_id"], "mop": mop,
                        "invoke_ns": sent_ns, "complete_ns": self.now,
                        "outcome": "ok" if done else "info"}  # fmt: skip
            if done:
                self.mark()

    def send_one(self, value: int) -> None:
        sent_ns, told = self.now, None
        for tried in range(1 + (self.random.random() < 0.2)):
            self.now += 100 * MS * tried  # A client waits before it sends again.
            self.heed()
            leaders = [each for each in self.brokers.values() if each.leads]
            if not leaders:
                break
            broker = self.random.choice(leaders)
            self.now += self.random.randrange(1, 300) * MS
            self.heed()
            told = self.produced(broker, value)
            if self.random.random() < 0.3:
                self.fetch()
            if not broker.leads:
                told = None  # It died, or follows another, before its answer went.
        self.now += self.random.randrange(1, 20) * MS
        if told is not None:
            self.truth.acknowledged[value] = told
        self.sends.append({
            "op_id": self.sequence, "mop": 0, "value": value, "offset": told and told[2],
            "outcome": "ok" if told else "info", "acked": told is not None, "acks": self.kind.acks,
            "process": 1, "invoke_ns": sent_ns, "complete_ns": self.now, "phase": "main",
        })  # fmt: skip

    def produced(self, broker: Broker, value: int) -> tuple[int, int, int] | None:
        """Have a leader take a record; return (broker, epoch, offset) if it acknowledges it."""
        if not broker.leads:
            return None
        known = [each for _, each in broker.log]
        if self.kind.idempotent and value in known:
            offset = known.index(value)
        else:
            offset = len(broker.log)
            self.append(broker, broker.knows[0], value)
            self.truth.appended_ns.setdefault(value, self.now)
        others = self.others_in_sync(broker)
        if self.kind.acks == "all" and not self.kind.hasty:
            away = [each for each in others if each.cut or not each.up]
            if away or (others and (broker.cut or broker.knows[0] != self.epoch)):
                return None  # It waits for who is in sync.
            for follower in others:
                self.follow(follower, broker)
        self.truth.in_sync[value] = frozenset(broker.isr)
        if self.forgets() and offset == len(broker.log) - 1:
            self.truth.cuts.append(self.shorten(broker, offset))
            self.truth.forgotten.add(value)
        return broker.number, broker.knows[0], offset

    def forgets(self) -> bool:
        """Tell whether a leader drops what it acknowledged.

        Not where another may have answered: the record cannot show which of two logs lost it
        without a trace.
        """
        calm = self.now - self.stirred > _CALM_NS and all(
            each.up and not each.cut and each.knows == (self.epoch, self.leader)
            for each in self.brokers.values()
        )
        return self.kind.forgets and calm and self.random.random() < 0.5

    def others_in_sync(self, broker: Broker) -> list[Broker]:
        """Return the other members of a leader's ISR; who is seen to be away leaves it first."""
        if not broker.cut and self.random.random() < 0.7:
            broker.isr = {each for each in broker.isr
                          if self.brokers[each].up and not self.brokers[each].cut}  # fmt: skip
        return [self.brokers[each] for each in sorted(broker.isr - {broker.number})]

    def mark(self) -> None:
        """Write the marker of a commit, if the coordinator reaches the leader."""
        broker = self.brokers[self.leader]
        if broker.leads and not broker.cut and self.random.random() < 0.9:
            self.append(broker, broker.knows[0], CONTROL)

    def read(self) -> None:
        """Read the end of a leader's log."""
        leaders = [each for each in self.brokers.values() if each.leads]
        if not leaders:
            return
        broker = self.random.choice(leaders)
        self.sequence += 1
        asked_ns, end = self.now, len(broker.log)
        found = list(enumerate(broker.log))[-self.random.randrange(1, 5) :]
        self.now += self.random.randrange(1, 50) * MS
        self.polls += self.polled(found, asked_ns, process=end % 2 + 7, phase="main")

    def polled(
        self, found: Iterable[tuple[int, tuple[int, int]]], asked_ns: int, *, process: int,
        phase: str,
    ) -> list[Row]:  # fmt: skip
        return [
            {"op_id": self.sequence, "mop": 0, "pos": pos, "offset": offset, "value": value,
             "leader_epoch": epoch, "isolation": "read_uncommitted", "process": process,
             "phase": phase, "invoke_ns": asked_ns, "complete_ns": self.now, "outcome": "ok"}
            for pos, (offset, (epoch, value)) in enumerate(found) if value != CONTROL
        ]  # fmt: skip

    # Brokers

    def append(self, broker: Broker, epoch: int, value: int) -> None:
        broker.log.append((epoch, value))
        self.truth.held[value].add(broker.node)
        self.truth.ends[broker.node].append((self.now, len(broker.log)))

    def shorten(self, broker: Broker, end: int, *, line: str = "") -> Cut:
        """Drop the end of a log."""
        dropped = frozenset(value for _, value in broker.log[end:])
        del broker.log[end:]
        self.truth.ends[broker.node].append((self.now, end))
        return Cut(
            node=broker.node, at_ns=self.now, from_offset=end, dropped=dropped,
            line=line if self.kind.logs else "",
        )  # fmt: skip

    def fetch(self) -> None:
        """Have one follower catch up, truncating what its leader does not have."""
        followers = [each for each in self.brokers.values() if each.up and not each.leads]
        follower = self.random.choice(followers) if followers else None
        if follower is None or follower.cut or self.brokers[self.leader].cut:
            return
        self.inform(follower)
        self.follow(follower, self.brokers[self.leader])

    def inform(self, broker: Broker) -> None:
        """Have a broker heed the newest leader."""
        broker.knows, broker.named = (self.epoch, self.leader), None

    def heed(self) -> None:
        """Have brokers heed the leaders that they have named for long enough."""
        for each in self.brokers.values():
            if each.named and self.now >= each.named_ns + _NAMED_EARLY_NS:
                each.knows, each.named = each.named, None

    def follow(self, follower: Broker, leader: Broker) -> None:
        if not leader.up or leader is follower:
            return
        pairs = zip(follower.log, leader.log, strict=False)
        short = min(len(follower.log), len(leader.log))
        same = next((at for at, pair in enumerate(pairs) if pair[0] != pair[1]), short)
        if same < len(follower.log) and self.kind.lazy and self.random.random() < 0.7:
            same = len(follower.log)  # A broken one: it goes on behind what it has.
        if same < len(follower.log):
            self.truncate(follower, same)
        for epoch, value in leader.log[same:]:
            self.append(follower, epoch, value)
        leader.isr.add(follower.number)

    def truncate(self, follower: Broker, offset: int) -> None:
        line = f"[UnifiedLog partition={PLACE}, dir=/d] Truncating to offset {offset}"
        self.say(follower, line)
        self.truth.cuts.append(self.shorten(follower, offset, line=line))
        self.truncations.append({
            "observed_ns": None, "node": follower.node, "incarnation": follower.life,
            "from_offset": offset, "to_offset": None, "reason": "", "source": "server-log",
        })  # fmt: skip

    def prefer(self) -> None:
        """Elect another leader without a fault."""
        leader = self.brokers[self.leader]
        if leader.up and not leader.cut:
            self.elect()

    def elect(self) -> None:
        if self.kind.forgets:
            self.passes(_CALM_NS // MS)
        others = [each for each in self.brokers.values() if each.up and not each.cut]
        if not others:
            return
        self.stirred = self.now
        chosen, isr = self.random.choice(others), self.brokers[self.leader].isr
        outside = chosen.number not in isr
        unclean = outside and not (self.kind.elr and self.random.random() < 0.5)
        self.log_isr(self.leader, isr)
        self.epoch, self.leader = self.epoch + 1, chosen.number
        self.truth.begun[self.epoch] = Begun(
            broker=chosen.number, at_ns=self.now, unclean=unclean, isr=frozenset(isr),
            values=frozenset(value for _, value in chosen.log),
        )  # fmt: skip
        chosen.isr = {chosen.number} if unclean else isr & {each.number for each in others}
        self.log_isr(self.leader, chosen.isr, unclean=unclean)
        for each in others:
            # Who does not lead hears of it at once or at the next fetch.
            if each is chosen or each.leads or self.random.random() < 0.5:
                self.inform(each)
        self.say(chosen, f"[Broker id={chosen.number}] Leader {PLACE} starts at leader epoch"
                         f" {self.epoch} from offset {len(chosen.log)}")  # fmt: skip

    def log_isr(self, leader: int, isr: set[int], *, unclean: bool = False) -> None:
        """Write a leader and its ISR to the controllers' log, of which each node has a copy."""
        row = {**elected(leader, self.epoch, self.decided, unclean=unclean), "isr": sorted(isr)}
        self.decided += 1
        if self.kind.controllers:
            self.leadership += [{**row, "observer": each.node} for each in self.brokers.values()]

    # Faults

    def kill(self) -> None:
        if broker := self.down("kill"):
            self.react(broker)

    def down(self, kind: str) -> Broker | None:
        running = [each for each in self.brokers.values() if each.up]
        if len(running) < 2:
            return None
        broker = self.random.choice(running)
        broker.up, broker.down_ns = False, self.now
        self.disturb(kind, broker)
        return broker

    def start(self) -> None:
        """Start all that are down; a leader among them leads no more before another election."""
        vacant = not self.brokers[self.leader].up
        for broker in self.brokers.values():
            if not broker.up:
                self.absences.append(
                    Absence(node=broker.node, from_ns=broker.down_ns, until_ns=self.now, gone=True)
                )
                broker.up, broker.cut, broker.life = True, False, broker.life + 1
                broker.noted_ns = self.now
                self.calm(broker)
                self.hear(broker)
        if vacant:
            self.elect()

    def lose(self) -> None:
        """Kill a broker, and have its disk lose the end of its log, or all of it."""
        kind = self.random.choice(("power-loss", "power-loss", "wipe"))
        broker = self.down(kind)
        if broker is None:
            return
        before = len(broker.log)
        after = 0 if kind == "wipe" else self.random.randrange(before + 1)
        self.truth.disk.append(self.shorten(broker, after))
        self.disk_losses.append(
            DiskLoss(
                nodes=frozenset({broker.node}), topic="log-0", partition=0, end_after=after,
                end_before=before, until_ns=self.now, began_ns=self.now, excuse=kind,
            )
        )  # fmt: skip
        self.react(broker)

    def react(self, broker: Broker) -> None:
        """Elect another in the place of a leader that is down, at once or some time later.

        Or never: it is back before its session ends.
        """
        if broker.number == self.leader and self.random.random() < 0.85:
            self.passes(self.random.choice((1, 1, self.random.randrange(1, 1500))))
            self.elect()

    def move(self) -> None:
        """Make a follower's replica anew, from its beginning."""
        followers = [each for each in self.brokers.values() if each.up and not each.leads]
        if followers and not self.brokers[self.leader].cut:
            follower = self.random.choice(followers)
            self.truth.disk.append(self.shorten(follower, 0))
            self.disturb("reassignment", follower)
            self.fetch()

    def cut(self) -> None:
        broker = self.brokers[self.leader]
        others = [each for each in self.brokers.values() if each.up and each is not broker]
        if others and not any(each.cut for each in self.brokers.values()):
            broker.cut = True
            self.disturb("isolate", broker)
            self.passes(self.random.randrange(1, 3000))
            self.elect()

    def disturb(self, kind: str, broker: Broker) -> None:
        """Have a fault hit a broker now: it was asked for before, and is confirmed later."""
        early, late = (self.random.choice((0, self.random.randrange(600) * MS)) for _ in "ab")
        nodes, asked_ns = frozenset({broker.node}), self.now - early
        self.truth.acted.append(
            Deed(kind=kind, nodes=nodes, asked_ns=asked_ns, begun_ns=self.now, ended_ns=NEVER)
        )
        self.disturbances.append(
            Disturbance(
                kind=kind, nodes=nodes, begun_ns=asked_ns, ended_ns=NEVER,
                confirmed_ns=self.now + late,
            )
        )  # fmt: skip

    def calm(self, broker: Broker) -> None:
        """End the faults of a broker now: their heal began before, and is confirmed later."""
        late_ns = self.random.choice((0, self.random.randrange(600) * MS))
        for at, (deed, seen) in enumerate(zip(self.truth.acted, self.disturbances, strict=True)):
            if broker.node in deed.nodes and deed.ended_ns == NEVER:
                self.truth.acted[at] = replace(deed, ended_ns=self.now)
                self.disturbances[at] = replace(
                    seen, ended_ns=self.now + late_ns, healing_ns=self.now,
                    confirmed_ns=min(seen.confirmed_ns, self.now),
                )  # fmt: skip

    def heal(self) -> None:
        for broker in self.brokers.values():
            if broker.cut:
                broker.cut = False
                self.calm(broker)
                self.hear(broker)

    def hear(self, broker: Broker) -> None:
        self.stirred = self.now
        if not self.brokers[self.leader].up:
            self.elect()
        self.inform(broker)
        if not self.brokers[self.leader].cut:
            self.follow(broker, self.brokers[self.leader])

    # What is seen

    def look(self, missed: float = 0.2) -> None:
        """Have each broker that answers say what it believes; leaders also that they lead."""
        self.looked = self.now
        for broker in self.brokers.values():
            if not broker.up or self.random.random() < missed:
                continue
            self.heed()
            asked_ns = self.now
            self.now += self.random.randrange(1, 50) * MS
            self.looks.append({
                "observed_ns": self.now, "node": broker.node, "incarnation": broker.life,
                "log_end_offset": self.noted(broker),
            })  # fmt: skip
            answers = {"metadata": self.names(broker, asked_ns)}
            answers |= {"list-offsets": broker.knows} if broker.leads else {}
            for source, (epoch, leader) in answers.items():
                tells = leader == broker.number and source == "metadata"
                if broker.number == self.kind.confused and not broker.leads:
                    leader = self.random.choice(BROKERS)  # noqa: PLW2901 - it names another
                self.leadership.append({
                    "source": source, "observer": broker.node, "incarnation": broker.life,
                    "leader": leader, "leader_epoch": epoch, "asked_ns": asked_ns,
                    "observed_ns": self.now, "isr": sorted(broker.isr) if tells else None,
                })  # fmt: skip

    def noted(self, broker: Broker) -> int:
        """Return where a log ended when it was measured: now, or up to two seconds before."""
        low = max(broker.noted_ns, self.now - _NOTED_LATE_NS)
        broker.noted_ns = self.random.choice((self.now, self.random.randrange(low, self.now + 1)))
        return self.truth.end_at(broker.node, broker.noted_ns)

    def names(self, broker: Broker, asked_ns: int) -> tuple[int, int]:
        """Return the epoch and leader that a broker names: it may not heed them yet."""
        newest = (self.epoch, self.leader)
        behind = newest > broker.knows and not broker.cut
        if behind and not broker.named and self.random.random() < 0.5:
            broker.named, broker.named_ns = newest, asked_ns
        return broker.named or broker.knows

    def end(self) -> None:
        self.heal()
        self.start()
        self.inform(self.brokers[self.leader])
        for broker in self.brokers.values():
            self.hear(broker)
        self.look()
        self.look(missed=0)  # The last leader is noted.
        self.truth.sent_ns = {row["value"]: row["invoke_ns"] for row in self.sends}
        self.truth.final = {
            each.node: {at: (epoch, None if value == CONTROL else value)
                        for at, (epoch, value) in enumerate(each.log)}
            for each in self.brokers.values()
        }  # fmt: skip

    @property
    def kept(self) -> Mapping[int, bool]:
        """Whether each acknowledged value is in the last leader's log."""
        held = {value for _, value in self.brokers[self.leader].log}
        return {value: value in held for value in self.truth.acknowledged}
