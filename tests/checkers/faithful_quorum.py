"""A quorum of controllers that does as Raft does: its log must never be called wrong.

Voters vote once an epoch, for who has all that they have; leaders are cut off and go on writing
what nobody will ever have; followers drop what their leader has not, and fetch. Rows are those of
the live streams.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Any

from results.record.terms import QUORUM_TOPIC

Row = dict[str, Any]
QUORUM_ID = "00000000-0000-0000-0000-000000000001"
QUORUM_PLACE: Row = {"topic": QUORUM_TOPIC, "topic_id": QUORUM_ID, "partition": 0}
VOTERS = (1, 2, 3)


@dataclass
class Voter:
    number: int
    log: list[tuple[int, int]] = field(default_factory=list)  # (epoch, hash)
    epoch: int = 0
    votes: dict[int, int] = field(default_factory=dict)
    high_watermark: int = 0
    ends: dict[int, int] = field(default_factory=dict)
    """As a leader: how far each has fetched from it in this epoch."""

    @property
    def last(self) -> tuple[int, int]:
        return (self.log[-1][0] if self.log else 0, len(self.log))


class FaithfulQuorum:
    def __init__(self, seed: int, *, steps: int = 40, begin_ns: int = 0) -> None:
        self.random = Random(f"{seed}/quorum")
        self.voters = {number: Voter(number) for number in VOTERS}
        self.leaders: dict[int, int] = {}
        self.now = begin_ns
        self.states: list[Row] = []
        self.records: list[Row] = []
        self.replicas: list[Row] = []
        while not self.leaders:
            self.elect(self.random.choice(VOTERS))
        for _ in range(steps):
            getattr(self, self.random.choice(
                ("append", "append", "append", "stale", "fetch", "fetch", "fetch", "tell", "elect")
            ))(self.random.choice(VOTERS))  # fmt: skip
        for number in (*VOTERS, *VOTERS):
            self.fetch(number)
        self.tell(self.leader.number)
        self.end()

    @property
    def leader(self) -> Voter:
        return self.voters[self.leaders[max(self.leaders)]]

    def record(self) -> int:
        return self.random.randrange(1 << 60)

    # The quorum

    def elect(self, number: int) -> None:
        """Stand for an election; some voters are not reached, and some refuse."""
        candidate = self.voters[number]
        epoch = max(voter.epoch for voter in self.voters.values()) + 1
        asked = [voter for voter in self.voters.values() if self.random.random() < 0.8]
        self.vote(candidate, epoch, number, role="candidate")
        granted = [voter for voter in asked if voter.last <= candidate.last and voter != candidate]
        for voter in granted:
            self.vote(voter, epoch, number, role="voted")
        if len(granted) + 1 <= len(VOTERS) // 2:
            return
        self.leaders[epoch] = number
        candidate.ends = {}
        candidate.log.append((epoch, self.record()))
        self.states.append(self.state(candidate, role="leader", leader=number))

    def vote(self, voter: Voter, epoch: int, candidate: int, *, role: str) -> None:
        voter.epoch, voter.votes[epoch] = epoch, candidate
        directory = f"folder-{candidate}" if self.random.random() < 0.5 else None
        row = self.state(voter, role=role, leader=None)
        self.states.append({**row, "voted_for": candidate, "voted_directory": directory})
        if role == "voted":
            self.states.append({**self.states[-1], "role": None})

    def append(self, _number: int) -> None:
        self.leader.log.append((max(self.leaders), self.record()))

    def stale(self, number: int) -> None:
        """Let a leader that was cut off write on, if it is one that does not know of another."""
        voter = self.voters[number]
        if self.leaders.get(voter.epoch) == number:
            voter.log.append((voter.epoch, self.record()))

    def fetch(self, number: int) -> None:
        voter, leader, epoch = self.voters[number], self.leader, max(self.leaders)
        if voter is leader or voter.epoch > epoch:
            voter = leader
        same = next((at for at, pair in enumerate(zip(voter.log, leader.log, strict=False))
                     if pair[0] != pair[1]), min(len(voter.log), len(leader.log)))  # fmt: skip
        voter.epoch = max(voter.epoch, epoch)
        voter.log = voter.log[:same]
        voter.log += leader.log[same : same + self.random.randrange(1, 20)]
        leader.ends[voter.number] = len(voter.log)
        leader.ends[leader.number] = len(leader.log)
        majority = sorted(leader.ends.get(each, 0) for each in VOTERS)[1]
        if majority and leader.log[majority - 1][0] == epoch:
            leader.high_watermark = max(leader.high_watermark, majority)

    def tell(self, _number: int) -> None:
        """Describe the quorum, as observers are answered."""
        epoch = max(self.leaders)
        for number in VOTERS:
            self.now += 1_000_000
            role = "leader" if number == self.leader.number else "follower"
            self.states.append({
                "observed_ns": self.now, "node": f"n{number}", "incarnation": 1, "role": role,
                "epoch": epoch, "leader": self.leader.number,
                "high_watermark": self.leader.high_watermark,
                "log_end_offset": self.leader.ends.get(number), "voted_for": None,
                "voted_directory": None,
            })  # fmt: skip

    # What is left of it

    def state(self, voter: Voter, *, role: str, leader: int | None) -> Row:
        return {"observed_ns": None, "node": f"n{voter.number}", "incarnation": 0, "role": role,
                "epoch": voter.epoch, "leader": leader, "voted_for": None, "voted_directory": None,
                "high_watermark": None, "log_end_offset": None}  # fmt: skip

    def end(self) -> None:
        for voter in self.voters.values():
            # Behind a snapshot the beginning of a log is deleted.
            start = self.random.randrange(voter.high_watermark // 2 + 1)
            where = {**QUORUM_PLACE, "snapshot": "final", "node": f"n{voter.number}"}
            self.records += [
                {**where, "offset": at, "leader_epoch": epoch, "value": None, "record_hash": mark,
                 "producer_id": -1, "producer_epoch": -1, "sequence": -1,
                 "control": at == 0 or voter.log[at - 1][0] != epoch}
                for at, (epoch, mark) in enumerate(voter.log) if at >= start
            ]  # fmt: skip
            self.replicas.append({
                **where, "incarnation": 0, "log_start_offset": start,
                "log_end_offset": len(voter.log), "epochs": [],
            })  # fmt: skip
