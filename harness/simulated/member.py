"""A simulated consumer of a group: its machine, and the client that waits for the machine."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count

from cluster.reference.machine import Answered, Effect, Event, Fired, timer
from harness.simulated.asking import Questions
from harness.simulated.consumer import Consumer
from harness.simulated.leaders import Leaders
from harness.simulated.membership import LEAVE_NS, SERVED_NS, GroupSettings, Membership
from harness.simulated.wishes import Commit, Fetch, Wish
from results.record.clock import NS_PER_S
from results.record.runtime import new_event
from workloads.member import Answer, GroupError, Listener
from workloads.protocol import Batch, Key

_SERVED = timer("group", SERVED_NS)
TIMED_OUT = "_TIMED_OUT: Local: Timed out"


class MemberMachine:
    """The machine of a consumer in a group.

    Args:
        leaders: The known leaders.
        wake: The function that triggers the timer `WORK` at once.
        settings: The group settings.

    Attributes:
        reader: The reader of the assigned partitions.
        membership: The membership in the group, with the assigned partitions.
        news: The event that is set when a poll would return something or call the listener.
    """

    def __init__(
        self, leaders: Leaders, *, wake: Callable[[], None], settings: GroupSettings
    ) -> None:
        numbers = count(1)
        self.settings, self.wake = settings, wake
        self._questions = Questions(numbers)
        self.reader = Consumer(leaders, wake=wake, questions=Questions(numbers), restarts=True)
        self.membership = Membership(settings, leaders, self._questions)
        self.news = new_event()

    def start(self, now: int) -> Sequence[Effect]:
        """Start to fetch and to join the group."""
        return [*self.reader.start(now), *self.reader.refreshed(now), _SERVED]

    def on(self, now: int, event: Event) -> Sequence[Effect]:
        """Handle an event."""
        match event:
            case Answered(request=number, message=message) if self._questions.has(number):
                self._questions.answered(now, number, message)
                out = self.membership.work(now)
            case Fired(timer="group"):
                out = [*self.membership.work(now), _SERVED]
            case Fired(timer="work"):
                out = [*self.membership.work(now), *self.reader.on(now, event)]
            case Answered() | Fired():
                out = [*self.reader.on(now, event)]
            case _:
                out = []
        if self.has_news:
            self.news.set()
        return out

    @property
    def has_news(self) -> bool:
        """Whether a poll would return something or call the listener."""
        membership = self.membership
        return bool(self.reader.has_news or membership.events or membership.error)


class SimulatedGroupClient:
    """An implementation of `workloads.member.GroupClient` whose calls wait in virtual time.

    Args:
        machine: The client's running machine.
        end: The function that ends the machine.
    """

    def __init__(self, machine: MemberMachine, *, end: Callable[[], None]) -> None:
        self._machine, self._end = machine, end
        self._listener: Listener | None = None
        self._heard: deque[tuple[str | None, Sequence[Answer]]] = deque()

    def subscribe(self, topics: Sequence[str], listener: Listener) -> None:
        """Join the group."""
        self._listener = listener
        self._machine.membership.subscribe(topics)
        self._machine.wake()

    def poll(self, limit: int, timeout_s: float) -> Batch:
        """Call the listener, then return fetched records; wait for records up to the timeout."""
        machine = self._machine
        machine.membership.polled = True
        self._serve()
        machine.news.clear()
        if not machine.has_news and machine.news.wait(timeout_s):
            self._serve()
        batch = machine.reader.poll(limit)
        error, machine.membership.error = machine.membership.error, None
        return batch if error is None else replace(batch, error=error)

    def assign(self, starts: Mapping[Key, int | None]) -> None:
        """Read the assigned partitions. None as a start means the group's committed offset."""
        self._machine.reader.add({key: at for key, at in starts.items() if at is not None})
        unknown = tuple(key for key, at in starts.items() if at is None)
        if unknown:
            self._want(Wish(what=Fetch(keys=unknown), ended=self._place))

    def committed(self, keys: Sequence[Key], timeout_s: float) -> Sequence[Answer]:
        """Ask for the group's committed offsets.

        Raises:
            GroupError: No response came in time.
        """
        if not keys:
            return []
        return self._granted(Fetch(keys=tuple(keys)), timeout_s)

    def commit(
        self, positions: Mapping[Key, int], *, metadata: str, wait: bool
    ) -> Sequence[Answer]:
        """Commit offsets; if `wait` is true, wait for the responses and return the results.

        Raises:
            GroupError: The whole commit failed.
        """
        patience_ns = self._machine.settings.session_ns
        what = Commit(positions=dict(positions), metadata=metadata, patience_ns=patience_ns)
        if wait:
            return self._granted(what, None)

        def hear(error: str | None, answers: Sequence[Answer]) -> None:
            alike = [Answer(key=key, metadata=metadata) for key in positions]
            self._heard.append((error, answers or alike))

        self._want(Wish(what=what, ended=hear))
        return []

    def seek(self, starts: Mapping[Key, int]) -> None:
        """Continue at other offsets, and drop the records that were already fetched."""
        self._machine.reader.drop(starts)
        self._machine.reader.add(starts)

    def membership(self) -> object:
        """Raise an error: transactions are not simulated."""
        raise AssertionError("no transaction is simulated")

    def close(self) -> None:
        """Leave the group, and end the machine."""
        left = new_event()
        if self._machine.membership.leave(left.set):
            self._machine.wake()
            left.wait(LEAVE_NS / NS_PER_S)
        self._end()

    def abandon(self) -> None:
        """End the machine without leaving the group."""
        self._end()

    def _serve(self) -> None:
        """Call the listener for each commit result and each change of the assignment."""
        membership, listener = self._machine.membership, self._listener
        if listener is None:
            return
        while self._heard:
            listener.committed(*self._heard.popleft())
        while membership.events:
            event = membership.events.popleft()
            membership.told(event)
            if event.given:
                listener.given(event.keys)
            else:
                self._machine.reader.drop(event.keys)
                listener.taken(event.keys)
            if not membership.events:
                membership.settled()
                self._machine.wake()

    def _place(self, error: str | None, answers: Sequence[Answer]) -> None:
        """Start to read partitions from the group's committed offsets."""
        del error
        machine = self._machine
        good = {each.key: each.offset or 0 for each in answers if each.error is None}
        wanted = [key for key in good if machine.membership.owns(key)]
        machine.reader.add({key: good[key] for key in wanted if not machine.reader.reads(key)})

    def _granted(self, what: Commit | Fetch, timeout_s: float | None) -> Sequence[Answer]:
        came, over = list[tuple[str | None, Sequence[Answer]]](), new_event()

        def ended(error: str | None, answers: Sequence[Answer]) -> None:
            came.append((error, answers))
            over.set()

        wanted = Wish(what=what, ended=ended)
        self._want(wanted)
        if not over.wait(timeout_s):
            self._machine.membership.forget(wanted)
            raise GroupError(TIMED_OUT)
        error, answers = came[0]
        if error is not None:
            raise GroupError(error)
        return answers

    def _want(self, wish: Wish) -> None:
        self._machine.membership.want(wish)
        self._machine.wake()
