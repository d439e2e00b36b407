"""The steps of a scripted run, `steps.jsonl`: what was told, done, waited for and seen, in order.

What the replicas held at a step is in the tables `replica_records` and `replica_states`, with the
step's name as `snapshot`; copies of their files lie in `snapshots/<step>/<node>/data`. Here is what
no table has: the story.
"""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter

from results.record.reading import read_lines


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NodeAtStep(_Row):
    """How one node was at the end of a step."""

    node: str
    state: str
    """`up`, `paused`, or `down`."""
    incarnation: int
    deaf_to: tuple[str, ...] = ()
    """Machines whose packets do not reach it, because of a cut."""


class Waited(_Row):
    """Something that a step waited for."""

    what: str
    """`the high watermark of n2 on disk is 1`"""
    saw: str
    """What was seen last: when it came, that; when it never came, what was there instead."""
    took_s: float
    came: bool


class Belief(_Row):
    """What one broker said of the partition when it was asked by itself."""

    node: str
    leader: int | None
    """None: it knows of no leader."""
    leader_epoch: int | None
    """None: its version does not tell."""
    isr: tuple[int, ...] = ()


class Answer(_Row):
    """A question that a step asked a broker, and its answer."""

    node: str
    question: str
    answer: str
    accepted: bool
    """Whether it was answered without an error."""


class Line(_Row):
    """A line of a broker's log that belongs to the step."""

    node: str
    file: str
    text: str


class Span(_Row):
    """Records of one epoch that lie side by side in a log that no table has."""

    first: int
    last: int
    """Its offset, inclusive; equal to `first` of a single record."""
    epoch: int
    name: str = ""
    """What it says, short: `topic other-1`, `leader change`; empty: nothing worth a name."""


class LogAtStep(_Row):
    """A log that the tables do not have: a controller's `__cluster_metadata`, for the drawing.

    What is alike on every node may be given as one span; what the step is about, one by one.
    """

    node: str
    spans: tuple[Span, ...] = ()
    """In the order of their offsets, without gaps."""
    end: int
    """Log end offset."""
    high_watermark: int | None = None
    """None: it does not know one."""
    start: int = 0
    """Log start offset."""


class QuorumAtStep(_Row):
    """What one node had in its `quorum-state` file, or said of the quorum when asked."""

    node: str
    source: Literal["file", "asked"]
    role: str = ""
    """`leader`, `follower`, `candidate`, `voted`, `unattached`, ...; empty: not known."""
    epoch: int
    leader: int | None = None
    voted_for: int | None = None


class Step(_Row):
    """One step of a scripted run.

    Attributes:
        number: From 1.
        name: `step-01`: the snapshot of its end.
        tells: A sentence for people: what happens.
        why: What there is to learn from it; may be empty.
        did: What was done, in words, in order.
        waited: What was waited for, in order.
        begun_ns, ended_ns: Nanoseconds since the run's start.
        nodes: Brokers, and controllers of their own.
        leader, leader_epoch, isr: Of the partition that the story is about, as the cluster's
            metadata had them at the step's end; leader None: nobody.
        beliefs: What each broker believed, of those that answered.
        answers: Of questions that the step asked.
        lines: Of brokers' logs.
        logs: Of the quorum's nodes, where the story is about the quorum: then these are drawn.
        quorum: What the quorum's nodes had and said, likewise.
        failed: Why the story ended here; empty if it went on.
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
    """Return the name of a step, and of the snapshot of its end: `step-01`."""
    return f"step-{number:02}"


def append_step(path: Path, step: Step) -> None:
    """Add a line to the run's steps."""
    with path.open("ab") as file:
        file.write(_STEP.dump_json(step) + b"\n")


def load_steps(path: Path) -> list[Step]:
    """Read the steps of a run; none of an ordinary run; a last line that was cut is left out."""
    steps = []
    for line in read_lines(path):
        try:
            steps.append(_STEP.validate_json(line))
        except ValueError:
            break
    return steps
