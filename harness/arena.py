"""The brokers of a run, and the phases of every run (ordinary run or scenario).

1. Start the brokers, wait until they are ready, and create the topics.
2. Observe each broker with direct requests.
3. Play the run: see `harness.life` and `harness.scenarios.life`.
4. Read every partition to its end (the final reads).
5. Record leaders, high watermarks and log ends.
6. Stop gracefully, and collect the files.

Each cleanup is registered with an `ExitStack` before the change that it undoes. So every cleanup
runs, even if the run fails: first `Healing` heals the faults, then the run's record is closed, then
the hosts are taken down.
"""

import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial

from cluster.protocol import CanFaultDisk, Ended, FullDiskError, HasFiles, Hosts, TellsRoom
from cluster.systems.system import Deployment, Observer
from harness.interrupt import Interrupts
from harness.progress import Progress
from harness.world import World
from results.record.clock import (
    RunClock,
    WaitTimeoutError,
    pause_until,
    stopwatch_s,
    wait_until,
)
from results.record.identities import groups
from results.record.milestones import (
    DRAINED,
    ENDED,
    OPEN,
    STACKS,
    WORKER_ENDED,
    Milestone,
    append_milestone,
)
from results.record.nodes import called
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.runtime import Event, all_of
from results.record.shares import has_shares
from results.record.topics import CreatedTopic, dump_topics
from results.wording.amounts import size
from workloads.crashes import Crash
from workloads.draining import Drain, done_with, drain_recorder, last_member
from workloads.final_reads import read_to_end

DRAIN_LIMIT_S = 90.0
FINAL_READS_LIMIT_S = 60.0
STOP_LIMIT_S = 20.0
NOTE_LIMIT_S = 5.0
WATCH_INTERVAL_S = 0.5
LOOK_FOR_ENDS_S = 2.0
TOLD_AGAIN_S = 5.0
"""Within this time, the observer records a broker's answer again, even if nothing has changed."""
ENOUGH_DISK_BYTES = 4 << 20
"""A run needs this much free disk space. With less, brokers halt, and the run's record is
incomplete."""


@dataclass(slots=True, kw_only=True)
class Arena:
    """The brokers of one run, inside the run's network.

    Attributes:
        plan: The run's plan.
        paths: The run's folder.
        clock: The run's clock.
        world: Real time and machines, or virtual time.
        progress: Prints the run's progress.
        interrupts: The first and the second Ctrl-C.
        undo: Runs each registered cleanup when the run ends.
        hosts: The machines of the nodes; `start` creates them.
        observer: Asks each broker for its view; `watch` creates it.
        troubles: One sentence for each problem, such as an observation that is not in the record.
    """

    plan: Plan
    paths: RunPaths
    clock: RunClock
    world: World
    progress: Progress
    interrupts: Interrupts
    undo: ExitStack
    hosts: Hosts = field(init=False)
    observer: Observer | None = None
    troubles: list[str] = field(default_factory=list)
    _ended: set[tuple[str, int, bool]] = field(default_factory=set)
    _crashed: set[int] = field(default_factory=set)
    _suspects: Sequence[Ended] = ()
    _away: set[str] = field(default_factory=set)
    _looked_s: float = 0.0

    def reach(self, name: str, *, failed: str = "", **detail: str) -> None:
        """Append a milestone to the run's record; its details include the failure, if any."""
        self._note(name, {"failed": failed, **detail} if failed else detail)

    def _note(self, name: str, detail: dict[str, str]) -> None:
        append_milestone(
            self.paths.milestones, Milestone(name=name, at_ns=self.clock.now_ns(), detail=detail)
        )

    def look_for_ends(self, cluster: Deployment) -> None:
        """Record servers that have ended. Call this often; it checks at most every two seconds."""
        if stopwatch_s() - self._looked_s < LOOK_FOR_ENDS_S:
            return
        ended = cluster.ended()
        # Two checks, because Logquake may just be stopping the server.
        self._note_ends(cluster, [each for each in ended if each in self._suspects])
        self._suspects, self._looked_s = ended, stopwatch_s()

    def note_ended(self, cluster: Deployment, *, away: Collection[str] = ()) -> None:
        """Record each server that crashed or stopped by itself. Each end is recorded once.

        Args:
            cluster: The run's cluster.
            away: Nodes that the plan has removed for good.
        """
        self._note_ends(cluster, [each for each in cluster.ended() if each.node not in away])

    def _note_ends(self, cluster: Deployment, ended: Sequence[Ended]) -> None:
        for each in ended:
            end = (each.node, each.incarnation, each.stopped)  # The exit code may follow later.
            if end in self._ended:
                continue
            self._ended.add(end)
            code = "stopped" if each.stopped else "" if each.code is None else str(each.code)
            said = "\n".join(cluster.complaints(each.node, life=each.incarnation))
            detail = {"node": each.node, "incarnation": str(each.incarnation)}
            told = {"told": "stop"} if each.told else {}
            disk = {"disk": "gone"} if self._disk_failed(each.node) else {}
            self._note(ENDED, {**detail, "code": code, "said": said, **told, **disk})
            how = (
                f"ended with code {code}" if each.told else "exited or stopped responding by itself"
            )
            self.progress.say(f"  {called(each.node)} {how}")

    def _disk_failed(self, node: str) -> bool:
        """Return whether Logquake's file system below a node's data failed; report it once."""
        trouble = hosts.disk_trouble(node) if isinstance(hosts := self.hosts, CanFaultDisk) else ""
        sentence = (
            f"Logquake's file system below the data of {node} {trouble}, so the broker's errors"
            " are not errors of a real disk"
        )
        if trouble and sentence not in self.troubles:
            self.troubles.append(sentence)
            self.progress.say(f"  {sentence}")
        return bool(trouble)

    def note_crashes(self, crashes: Sequence[Crash]) -> None:
        """Record each crashed worker process once."""
        for each in crashes:
            if each.worker in self._crashed:
                continue
            self._crashed.add(each.worker)
            detail = {"worker": str(each.worker), "signal": each.signal, "said": each.said}
            self._note(WORKER_ENDED, detail)
            self.progress.say(f"  worker {each.worker} crashed: {each.signal}")

    def note_stacks(self, cluster: Deployment) -> None:
        """Make all servers print their threads' stacks, because the cluster hangs."""
        found = cluster.stacks()
        self._note(STACKS, found)
        for node, deadlock in found.items():
            if deadlock:
                self.progress.say(f"  {called(node)}: {deadlock}")

    def start(self) -> Deployment:
        """Create the hosts, and return the cluster, which the caller starts."""
        self.reach("started")
        plan = self.plan
        whom = f"{plan.nodes} {'brokers' if plan.nodes > 1 else 'broker'}"
        if plan.own_controllers:
            whom += f" and {plan.own_controllers} controllers"
        self.progress.phase(f"starting {whom} of {plan.system} ({plan.hosts})")
        self.hosts = self.world.hosts(plan, self.paths)
        self.undo.callback(self.hosts.down)
        self.hosts.up()
        return self.world.cluster(plan, self.hosts, self.paths, say=self.progress.say)

    def watch(self, cluster: Deployment, topics: Sequence[CreatedTopic]) -> Observer:
        """Record the topics, and start an observer that asks each broker about them."""
        dump_topics(list(topics), self.paths.topics)
        observer = cluster.observer(topics, clock=self.clock, live=self.paths.live)
        self.observer = observer
        self.undo.callback(observer.stop)
        observer.start()
        return observer

    def recover(self, is_whole: Callable[[], bool]) -> bool:
        """Wait until each partition has a leader and full ISR; record a failure after a timeout.

        Returns:
            Whether each partition had them in time.
        """
        what = "a leader and a full ISR for every partition"
        self.progress.phase(f"recovery: {what}")
        try:
            wait_until(
                is_whole,
                timeout_s=self.plan.budgets.isr_s,
                what=what,
                stop=self.interrupts.abandon,
            )
            self.reach("recovered")
        except WaitTimeoutError as late:
            self.reach("recovered", failed=str(late))
            return False
        return True

    def await_isrs(self, is_whole: Callable[[], bool]) -> None:
        """Wait until ISRs that became smaller after the recovery are full again, or time is over.

        The observer then has seen a small ISR for longer than the plan allows.
        """
        if is_whole():
            return
        what = "a full ISR again for every partition"
        self.progress.phase(f"recovery: {what}")
        limit_s = self.plan.budgets.isr_s + TOLD_AGAIN_S
        with suppress(WaitTimeoutError):  # The run's record then shows it.
            wait_until(is_whole, timeout_s=limit_s, what=what, stop=self.interrupts.abandon)

    def await_traffic(
        self,
        served: Callable[[], bool],
        *,
        what: str,
        deadline_s: float,
        stop: Event,
        writers_lost: Callable[[], Sequence[str]],
    ) -> None:
        """Let the clients run until they have had enough messages, or until a deadline.

        Args:
            served: Returns whether the clients have had enough messages.
            what: The text of the progress line: `recovery: a message for ...`.
            deadline_s: The deadline, in seconds of `stopwatch_s`.
            stop: Ends the wait early.
            writers_lost: See `pass_s`.
        """
        left_s = deadline_s - stopwatch_s()
        if left_s <= 0 or served():
            return
        self.progress.phase(what, lasts_s=round(left_s))
        with suppress(WaitTimeoutError):  # The run's record then shows it.
            wait_until(
                lambda: served() or bool(writers_lost()), timeout_s=left_s, what=what, stop=stop
            )

    def read_all(self, cluster: Deployment, topics: Sequence[CreatedTopic]) -> None:
        """Read every partition to its end with fresh consumers."""
        self.progress.phase("final reads")
        self.reach("final-reads")
        # All committed records are below the last stable offset, because the last send has ended.
        targets = self._last_stable_offsets(cluster)
        read_to_end(
            self.plan,
            topics,
            self.world.reader(self.plan, cluster.bootstrap()),
            targets=targets,
            clock=self.clock,
            live=self.paths.live,
            timeout_s=FINAL_READS_LIMIT_S,
        )
        if has_shares(self.plan):
            self._drain(cluster, topics, targets)

    def _drain(
        self,
        cluster: Deployment,
        topics: Sequence[CreatedTopic],
        ends: Mapping[tuple[str, int], int],
    ) -> None:
        """Let a last member of the share group consume until no message is left."""
        self.progress.phase("final deliveries to the share group")
        plan, (group,) = self.plan, groups(self.plan)
        is_done = done_with(plan.topic_partitions, ends, partial(cluster.share_lags, group))
        recorder = drain_recorder(plan, topics, self.paths.live)
        try:
            member = last_member(plan, cluster.bootstrap(), self.clock)
            drain = Drain(member, plan.topic_names, recorder=recorder, clock=self.clock)
            done = drain.drain(is_done, DRAIN_LIMIT_S, self.interrupts.abandon)
        finally:
            recorder.close()
        stopped = self.interrupts.abandon.is_set()
        when = "when the run was interrupted" if stopped else f"within {DRAIN_LIMIT_S:g} s"
        self.reach(
            DRAINED, failed="" if done else f"the group had not processed all records {when}"
        )

    def _last_stable_offsets(self, cluster: Deployment) -> dict[tuple[str, int], int]:
        """Return each partition's last stable offset, after all transactions have ended."""
        places, plan = self.plan.topic_partitions, self.plan
        limit_s = NOTE_LIMIT_S + (plan.hanging_after_s if plan.transactional else 0)
        stable = cluster.leader_ends(places, committed=True, timeout_s=limit_s)
        if plan.transactional:
            ends = cluster.leader_ends(places, committed=False, timeout_s=NOTE_LIMIT_S)
            behind = [place for place, at in stable.items() if ends.get(place, at) > at]
            if behind:
                told = cluster.open_transactions(behind)
                witnesses = {
                    f"{place[0]}-{place[1]}": "; ".join(told.get(place, ())) for place in behind
                }
                self._note(OPEN, witnesses)
                self.note_stacks(cluster)
        return stable

    def note(self, cluster: Deployment, *, away: Collection[str] = ()) -> None:
        """Record each broker's final state, except for the brokers that the plan removed."""
        self._away = set(away)
        if self.observer is not None:
            noted = self.observer.note(NOTE_LIMIT_S)
            silent = sorted(set(cluster.nodes) - noted - self._away)
            self.troubles += [
                f"{node} did not answer the last observation before its stop" for node in silent
            ]
            self.observer.stop()
            self.troubles += self.observer.failures()
        self.note_ended(cluster, away=away)
        for node in (*cluster.nodes, *cluster.controllers):
            self._disk_failed(node)
        self.reach("noted", failed="; ".join(self.troubles), lives=str(cluster.lives()))

    def stop(self, cluster: Deployment) -> None:
        """Stop the brokers, take the hosts down, and collect the nodes' files."""
        self.progress.phase("stopping the brokers")
        view = cluster.view()
        ended = cluster.stop(STOP_LIMIT_S)
        # A server that was not yet up may fail when it is stopped (Kafka with ZooKeeper does). A
        # server may also end while others stop, before its own turn.
        up = {*(view.registered if view else ()), *cluster.controllers} - self._away
        self._note_ends(cluster, [each for each in cluster.ended() if each.node in up])
        detail = {node: "clean" if clean else "killed" for node, clean in ended.items()}
        self._fetch(cluster)
        self.hosts.down()
        self._note("stopped", detail)
        for node in (*cluster.nodes, *cluster.controllers):
            cluster.collect(self.paths.node(node))
        self.reach("collected")

    def _fetch(self, cluster: Deployment) -> None:
        """Copy all nodes' files to this machine.

        If the copy from one node fails, the files of the other nodes are still copied.
        """
        if isinstance(self.hosts, HasFiles):
            nodes = (*cluster.nodes, *cluster.controllers)
            all_of([partial(self.hosts.fetch, node) for node in nodes], "fetch")

    def pass_s(
        self,
        seconds: float,
        *,
        stop: Event | None = None,
        writers_lost: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """Wait; return early if the run is stopped, or if its record can no longer be complete.

        Args:
            seconds: The time to wait.
            stop: The event that ends the wait early. The default is the first Ctrl-C.
            writers_lost: A function that returns which processes ended too early, of those that
                write the run's record.

        Raises:
            FullDiskError: The disk is full.
        """
        stop = stop or self.interrupts.finish
        deadline_s = stopwatch_s() + seconds
        while (now_s := stopwatch_s()) < deadline_s:
            if pause_until(min(deadline_s, now_s + WATCH_INTERVAL_S), stop):
                return
            self.refuse_a_full_disk()
            if writers_lost() or (self.observer and self.observer.failures()):
                return  # The run still ends in order, but is at best unknown.

    def refuse_a_full_disk(self) -> None:
        """Raise an error if a disk that the run uses is nearly full.

        Raises:
            FullDiskError: A disk is nearly full.
        """
        free = shutil.disk_usage(self.paths.root).free
        if free < ENOUGH_DISK_BYTES:
            raise FullDiskError(
                f"the disk of {self.paths.root} is full ({size(free)} left); free some space (a"
                " default run takes about 100 MB), or name another folder with --store"
            )
        elsewhere = self.hosts.room() if isinstance(self.hosts, TellsRoom) else {}
        for node, left in elsewhere.items():
            if left < ENOUGH_DISK_BYTES:
                raise FullDiskError(
                    f"the disk of {node} is full ({size(left)} left); free some space on its"
                    " host, or name another folder in the hosts file"
                )
