"""Replicas under everything that may happen to them: the invariants of replication.

Hypothesis chooses what happens: messages are delivered or lost, leaders moved, brokers killed, the
power of some lost with all that was not flushed, the controller's word late.
"""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, Phase
from hypothesis import settings as limits
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from kio.schema.errors import ErrorCode

from cluster.reference.bugs import Bug
from cluster.reference.log.recovery import recovered
from cluster.reference.partition.partition import Partition
from cluster.reference.settings import Settings
from tests.reference.batch_maker import produced
from tests.reference.replicas_lab import NODES, Lab

ANY = st.integers(min_value=0, max_value=1 << 16)
PARTITIONS = 2


class Replication(RuleBasedStateMachine):
    """Three brokers, two partitions, an idempotent producer for each of these."""

    settings = Settings(replica_lag_time_max_ms=1000)

    def __init__(self) -> None:
        super().__init__()
        self.lab = Lab(settings=self.settings, partitions=PARTITIONS)
        self.committed: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
        self.acked: dict[int, dict[int, int]] = {number: {} for number in range(PARTITIONS)}
        self.sent: dict[int, tuple[int, int]] = {}
        self.sequence = dict.fromkeys(range(PARTITIONS), 0)
        self.marks: dict[tuple[int, int, int], int] = {}

    def taken(self, broker: int) -> int:
        return NODES[broker % len(NODES)]

    # Clients.

    @rule(number=st.integers(min_value=0, max_value=PARTITIONS - 1), zombie=st.booleans(), at=ANY)
    def produce(self, number: int, *, zombie: bool, at: int) -> None:
        """Send the next batch, or the one that was not acknowledged yet once more."""
        node = self.taken(at) if zombie else self.lab.states[number].leader
        if node == -1 or not self.lab.running(node):
            return
        sequence = self.sequence[number]
        batch = produced(b"%d" % sequence, producer=(100 + number, 0, sequence))
        self.sent[self.lab.produce(node, number, batch)] = (number, sequence)

    # Messages.

    @rule(which=ANY, times=st.integers(min_value=1, max_value=6))
    def deliver(self, which: int, times: int) -> None:
        for turn in range(times):
            busy = [each for each in self.lab.connections if each.requests or each.answers]
            if busy:
                self.lab.deliver(busy[(which + turn) % len(busy)])

    @precondition(lambda self: self.lab.connections)
    @rule(which=ANY)
    def lose_a_connection(self, which: int) -> None:
        connections = self.lab.connections
        self.lab.break_connection(connections[which % len(connections)])

    @rule(ms=st.sampled_from((10, 600, 1500)))
    def let_time_pass(self, ms: int) -> None:
        self.lab.advance(ms)

    # The controller.

    @rule(at=ANY)
    def tell(self, at: int) -> None:
        if self.lab.running(self.taken(at)):
            self.lab.tell(self.taken(at))

    @precondition(lambda self: self.lab.wishes)
    @rule()
    def decide(self) -> None:
        self.lab.decide()

    @precondition(lambda self: self.lab.verdicts)
    @rule(lost=st.booleans())
    def hear(self, *, lost: bool) -> None:
        self.lab.hear(lost=lost)

    @rule(number=st.integers(min_value=0, max_value=PARTITIONS - 1), at=ANY)
    def elect(self, number: int, at: int) -> None:
        self.lab.elect(number, self.taken(at))

    @rule(at=ANY)
    def fence(self, at: int) -> None:
        node = self.taken(at)
        if not self.lab.running(node):
            self.lab.fence(node)

    # Crashes.

    @rule(at=ANY)
    def kill(self, at: int) -> None:
        self.lab.kill(self.taken(at))

    @rule(at=ANY)
    def stop(self, at: int) -> None:
        self.lab.stop(self.taken(at))

    @rule(at=ANY, seed=ANY)
    def lose_power(self, at: int, seed: int) -> None:
        """Lose what was not flushed, of a broker that is not the last one in any ISR."""
        node = self.taken(at)
        if all(state.isr != (node,) for state in self.lab.states.values()):
            self.lab.lose_power(node, Random(seed))

    @rule(at=ANY)
    def start(self, at: int) -> None:
        if not self.lab.running(self.taken(at)):
            self.lab.start(self.taken(at))

    # What must hold.

    @invariant()
    def high_watermarks_never_move_back(self) -> None:
        for node, number, replica in self.replicas():
            key = (node, self.lab.brokers[node].epoch, number)
            assert replica.high_watermark >= self.marks.get(key, 0)
            self.marks[key] = replica.high_watermark

    @invariant()
    def committed_records_are_the_same_everywhere(self) -> None:
        for _, number, replica in self.replicas():
            before = self.committed[number]
            mine = [
                each.data
                for each in replica.log.batches()
                if each.end_offset <= replica.high_watermark
            ]
            common = min(len(mine), len(before))
            assert mine[:common] == before[:common]
            if len(mine) > common:
                self.committed[number] = mine

    @invariant()
    def logs_have_neither_gaps_nor_epochs_that_fall(self) -> None:
        for _, _, replica in self.replicas():
            end, epoch = replica.log.start_offset, -1
            for each in replica.log.batches():
                assert each.base_offset == end
                assert each.leader_epoch >= epoch
                assert replica.log.epochs.at(each.base_offset) == each.leader_epoch
                end, epoch = each.end_offset, each.leader_epoch
            assert end == replica.log.end_offset >= replica.high_watermark

    @invariant()
    def producers_hear_the_truth(self) -> None:
        for request, (number, sequence) in list(self.sent.items()):
            answer = self.lab.answers.pop(request, None)
            if answer is None:
                continue
            del self.sent[request]
            (mine,) = answer.partitions
            assert mine.error_code not in _NEVER, mine
            if mine.error_code is ErrorCode.none:
                assert self.acked[number].setdefault(sequence, mine.base_offset) == mine.base_offset
                self.sequence[number] = max(self.sequence[number], sequence + 1)

    def teardown(self) -> None:
        """Let it come to rest: all is acknowledged, all replicas are equal, nothing is lost."""
        self.lab.calm_down()
        self.committed_records_are_the_same_everywhere()
        self.producers_hear_the_truth()
        for number, state in self.lab.states.items():
            assert sorted(state.isr) == list(NODES), "a replica did not come back"
            logs = [self.lab.replicas(node).partitions[f"t-{number}"].log for node in NODES]
            whole = [log.read(0, max_bytes=1 << 30) for log in logs]
            assert len(set(whole)) == 1, "the replicas differ"
            kept = {each.base_sequence: each.base_offset for each in logs[0].batches()}
            assert len(kept) == len(list(logs[0].batches())), "a batch was appended twice"
            assert self.acked[number].items() <= kept.items(), "an acknowledged batch is gone"
            self.files_hold_what_the_memory_does()

    def files_hold_what_the_memory_does(self) -> None:
        for node in NODES:
            found = recovered(self.lab.brokers[node].disk)
            for folder, replica in self.lab.replicas(node).partitions.items():
                log = found.logs[folder].log()
                assert list(log.batches()) == list(replica.log.batches())
                begun = [e for e in replica.log.epochs.lines if e.start_offset < log.end_offset]
                assert list(log.epochs.lines) == begun

    def replicas(self) -> Iterator[tuple[int, int, Partition]]:
        for node in NODES:
            if self.lab.running(node):
                for replica in self.lab.replicas(node).partitions.values():
                    yield node, replica.state.partition, replica


_NEVER = (
    ErrorCode.out_of_order_sequence_number,
    ErrorCode.invalid_producer_epoch,
    ErrorCode.corrupt_message,
    ErrorCode.invalid_record,
    ErrorCode.unknown_server_error,
)


def budget(examples: int, *, phases: tuple[Phase, ...] = tuple(Phase)) -> limits:
    return limits(
        max_examples=examples,
        stateful_step_count=60,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=True,
        print_blob=False,
        report_multiple_bugs=False,
        phases=phases,
    )


def test_replicas_keep_what_is_committed() -> None:
    run_state_machine_as_test(Replication, settings=budget(80))


def test_the_invariants_find_an_acknowledgement_before_the_commit() -> None:
    class Broken(Replication):
        settings = replace(Replication.settings, bugs=(Bug.ACK_BEFORE_COMMIT,))

    with pytest.raises(AssertionError):
        run_state_machine_as_test(Broken, settings=budget(100, phases=(Phase.generate,)))
