"""Play a scenario: for each step, execute actions, wait for conditions, record every replica."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cluster.protocol import ClusterError
from harness.scenarios.actions import Action
from harness.scenarios.deeds import Deed, ScenarioError
from harness.scenarios.protocol import Condition, Seen, Sight, Step
from results.record import steps as record
from results.record.clock import RunClock, WaitTimeoutError, stopwatch_s, wait_until
from results.record.runtime import Event

LOOK_INTERVAL_S = 0.1


@dataclass(slots=True)
class Scene:
    """The progress of a step.

    Attributes:
        step: The step.
        number: The step's number, from 1.
        begun_ns: When the step began, in nanoseconds since the start of the run.
        did: Descriptions of the actions that were executed so far.
        waited: The conditions that were waited for so far.
        answers: The responses of brokers so far.
        failed: Why the scenario ended in this step; empty if it continues.
    """

    step: Step
    number: int
    begun_ns: int
    did: list[str] = field(default_factory=list)
    waited: list[record.Waited] = field(default_factory=list)
    answers: list[record.Answer] = field(default_factory=list)
    failed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Director:
    """The director, which plays the steps of a scenario.

    Attributes:
        sight: The object that reads the state which conditions check.
        do: The function that executes an action.
        begin: The function that is called at the start of each step.
        look: The function that is called at the end of each step, even if the step failed. It
            records the step and the state of every replica.
        clock: The run's clock.
        say: The function that prints a sentence for each step, and for each wait that takes time.
        stop: The event that ends the scenario early.
    """

    sight: Sight
    do: Callable[[Action], Deed]
    begin: Callable[[], None]
    look: Callable[[Scene], None]
    clock: RunClock
    say: Callable[[str], object]
    stop: Event

    def play(self, steps: Sequence[Step]) -> None:
        """Play a scenario to its end.

        Raises:
            ScenarioError: A condition was not met, or an action failed; the message names the step.
        """
        for number, step in enumerate(steps, 1):
            self.say(f"step {number} of {len(steps)}: {step.tells}")
            self.begin()
            scene = Scene(step, number, self.clock.now_ns())
            self._play(scene)
            self.look(scene)
            if scene.failed:
                self.say(f"  the story ends at this step: {scene.failed}")
                raise ScenarioError(
                    f'step {number} of {len(steps)}, "{step.tells}": {scene.failed}'
                )

    def _play(self, scene: Scene) -> None:
        try:
            for move in scene.step.moves:
                if isinstance(move, Condition):
                    self._wait(move, scene)
                else:
                    self._act(move, scene)
        except (ClusterError, WaitTimeoutError) as failed:
            scene.failed = str(failed)

    def _act(self, action: Action, scene: Scene) -> None:
        if self.stop.is_set():
            raise ScenarioError("the scenario was ended by Ctrl-C")
        deed = self.do(action)
        scene.did.append(deed.did)
        scene.answers += deed.answers

    def _wait(self, condition: Condition, scene: Scene) -> None:
        begun_s = stopwatch_s()
        seen = condition.look(self.sight)
        if not seen.holds:
            self.say(f"  waiting for: {condition.what}")

        def look() -> bool:
            nonlocal seen
            seen = condition.look(self.sight)
            return seen.holds

        late: WaitTimeoutError | None = None
        try:
            wait_until(
                lambda: seen.holds or look(),
                timeout_s=condition.within_s,
                what=condition.what,
                interval_s=LOOK_INTERVAL_S,
                stop=self.stop,
            )
        except WaitTimeoutError as over:
            late = over
        scene.waited.append(_waited(condition, seen, stopwatch_s() - begun_s))
        if late is not None and self.stop.is_set():
            raise ScenarioError(
                f"the scenario was ended by Ctrl-C while waiting for {condition.what}"
            )
        if late is not None:
            raise ScenarioError(f"{late}; observed instead: {seen.saw}") from late


def _waited(condition: Condition, seen: Seen, took_s: float) -> record.Waited:
    return record.Waited(
        what=condition.what, saw=seen.saw, took_s=round(took_s, 3), came=seen.holds
    )
