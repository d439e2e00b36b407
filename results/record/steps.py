"""The steps of a scripted run, `steps.jsonl`: their actions, waits and observations, in order.

The logs of replicas at a step are in the tables `replica_records` and `replica_states`. In these
rows, `snapshot` is the name of the step. Copies of the replicas' files are in
`snapshots/<step>/<node>/data`. `steps.jsonl` contains the data that no table has.
"""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter

from results.record.reading import read_lines


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NodeAtStep(_Row):
    """The state of one node at the end of a step."""

    node: str
    state: str
    """`up`, `paused` or `down`."""
    incarnation: int
    deaf_to: tuple[str, ...] = ()
    """Machines whose packets do not reach this node, because of a network fault."""


class Waited(_Row):
    """A condition that a step waited for."""

    what: str
    """The condition: `the high watermark of n2 on disk is 1`."""
    saw: str
    """The last observation: the condition if it became true, otherwise what was observed
    instead."""
    took_s: float
    came: bool


class Belief(_Row):
    """One broker's own view of the partition, from its response to a request."""

    node: str
    leader: int | None
    """None means that the broker does not know a leader."""
    leader_epoch: int | None
    """None means that this version of the broker does not report it."""
    isr: tuple[int, ...] = ()


class Answer(_Row):
    """A request that a step sent to a broker, and the broker's response."""

    node: str
    question: str
    answer: str
    accepted: bool
    """Whether the response contains no error."""


class Line(_Row):
    """A line in a broker's log file; the line belongs to the step."""

    node: str
    file: str
    text: str


class Span(_Row):
    """Consecutive records of one epoch, in a log that no table of the record contains."""

    first: int
    last: int
    """The offset of the last record; equal to `first` if there is only one record."""
    epoch: int
    name: str = ""
    """The contents in a few words: `topic other-1`, `leader change`; empty if they do not
    matter."""


class LogAtStep(_Row):
    """A controller's `__cluster_metadata` log, for the drawing; no table of the record contains it.

    Records that are equal on every node may form one span. Each record that the step is about has a
    span of its own.
    """

    node: str
    spans: tuple[Span, ...] = ()
    """The spans in the order of their offsets, without gaps."""
    end: int
    """Log end offset."""
    high_watermark: int | None = None
    """None means that the node does not know a high watermark."""
    start: int = 0
    """Log start offset."""


class QuorumAtStep(_Row):
    """One node's view of the quorum, from its `quorum-state` file or its response to a request."""

    node: str
    source: Literal["file", "asked"]
    role: str = ""
    """`leader`, `follower`, `candidate`, `voted`, `unattached`, ...; empty if unknown."""
    epoch: int
    leader: int | None = None
    voted_for: int | None = None


class Step(_Row):
    """One step of a scripted run.

    Attributes:
        number: Number of the step, from 1.
        name: `step-01`, also the name of the snapshot at its end.
        tells: A sentence about the step's events, for people.
        why: The lesson of the step; may be empty.
        did: The actions as phrases, in order.
        waited: The conditions for which the step waited, in order.
        begun_ns, ended_ns: Nanoseconds since the run's start.
        nodes: Brokers, and separate controllers.
        leader, leader_epoch, isr: The partition of the scenario at the end of the step, from the
            cluster's metadata. If `leader` is None, there was no leader.
        beliefs: The view of each broker that responded.
        answers: Responses to the step's requests.
        lines: Lines of brokers' logs.
        logs: In a scenario about the quorum: the logs of the quorum's nodes. The page draws these
            logs.
        quorum: In a scenario about the quorum: how each of its nodes sees the quorum.
        failed: Reason why the scenario ended at this step; empty if it continued.
    """

    number: int
    name: str
    tells: str
    why: str = ""
    did: tuple[str, ...] = ()
    waited: tuple[Waited, ...] = ()
    begun_ns: int
    ended_ns: int
    nodes: tuple[NodeAtStep, ...] = ()
    leader: int | None = None
    leader_epoch: int | None = None
    isr: tuple[int, ...] = ()
    beliefs: tuple[Belief, ...] = ()
    answers: tuple[Answer, ...] = ()
    lines: tuple[Line, ...] = ()
    logs: tuple[LogAtStep, ...] = ()
    quorum: tuple[QuorumAtStep, ...] = ()
    failed: str = ""


_STEP = TypeAdapter(Step)


def step_name(number: int) -> str:
    """Return the name of a step, and of the snapshot at its end: `step-01`."""
    return f"step-{number:02}"


def append_step(path: Path, step: Step) -> None:
    """Append a step to the run's steps file."""
    with path.open("ab") as file:
        file.write(_STEP.dump_json(step) + b"\n")


def load_steps(path: Path) -> list[Step]:
    """Return the steps of a run, without a last line that is cut off; empty for an ordinary run."""
    steps = []
    for line in read_lines(path):
        try:
            steps.append(_STEP.validate_json(line))
        except ValueError:
            break
    return steps
