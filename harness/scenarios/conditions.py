"""Conditions that a step can wait for. A new condition is a function that returns a `Condition`."""

from collections.abc import Callable

from harness.scenarios.protocol import Condition, FilesSight, PartitionSight, Seen, Sight

NO_ANSWER = "no answer"


def leads(node: str, *, epoch: int | None = None) -> Condition:
    """Wait until a node leads the partition, according to the cluster's metadata."""
    in_epoch = f" in epoch {epoch}" if epoch is not None else ""
    return _of_partition(
        f"{node} leads{in_epoch}",
        lambda it: it.leader == node and epoch in {None, it.leader_epoch},
        lambda it: f"leader {it.leader or 'none'}, epoch {it.leader_epoch}",
    )


def nobody_leads() -> Condition:
    """Wait until the partition has no leader."""
    return _of_partition(
        "no broker leads",
        lambda it: it.leader is None,
        lambda it: f"leader {it.leader or 'none'}, epoch {it.leader_epoch}",
    )


def isr_is(*nodes: str) -> Condition:
    """Wait until the partition's in-sync replicas are exactly these nodes."""
    return _of_partition(
        f"the ISR is {', '.join(nodes)}",
        lambda it: set(it.isr) == set(nodes),
        lambda it: f"ISR {', '.join(it.isr) or 'empty'}",
    )


def registered(*nodes: str) -> Condition:
    """Wait until these brokers are registered. Other brokers may be registered, too."""
    return _of_partition(
        f"{', '.join(nodes)} registered",
        lambda it: set(nodes) <= it.registered,
        lambda it: f"registered: {', '.join(sorted(it.registered)) or 'none'}",
    )


def unregistered(*nodes: str) -> Condition:
    """Wait until the sessions of these brokers have ended."""
    return _of_partition(
        f"the session of {', '.join(nodes)} has ended",
        lambda it: not set(nodes) & it.registered,
        lambda it: f"registered: {', '.join(sorted(it.registered)) or 'none'}",
    )


def high_watermark(node: str, offset: int) -> Condition:
    """Wait until a running broker reports this high watermark for its own replica."""

    def look(sight: Sight) -> Seen:
        replica = sight.replica(node)
        mark = replica.high_watermark if replica else None
        return Seen(holds=mark == offset, saw=_number(mark))

    return Condition(what=f"the high watermark of {node} is {offset}", look=look)


def last_stable(node: str, offset: int) -> Condition:
    """Wait until a running broker reports this last stable offset for its own replica."""

    def look(sight: Sight) -> Seen:
        replica = sight.replica(node)
        stable = replica.last_stable_offset if replica else None
        return Seen(holds=stable == offset, saw=_number(stable))

    return Condition(what=f"the last stable offset of {node} is {offset}", look=look)


def log_end(node: str, offset: int) -> Condition:
    """Wait until a running broker reports this log end offset for its own replica."""

    def look(sight: Sight) -> Seen:
        replica = sight.replica(node)
        end = replica.log_end if replica else None
        return Seen(holds=end == offset, saw=_number(end))

    return Condition(what=f"the log of {node} ends at {offset}", look=look)


def high_watermark_on_disk(node: str, offset: int) -> Condition:
    """Wait until a node's file `replication-offset-checkpoint` has this high watermark."""
    return _of_files(
        node,
        f"replication-offset-checkpoint of {node} has {offset}",
        lambda it: (it.high_watermark == offset, _number(it.high_watermark)),
    )


def log_end_on_disk(node: str, offset: int) -> Condition:
    """Wait until a node's segment files end at this offset."""
    return _of_files(
        node,
        f"the segments of {node} end at {offset}",
        lambda it: (it.log_end == offset, str(it.log_end)),
    )


def epochs_on_disk(node: str, *lines: tuple[int, int]) -> Condition:
    """Wait until a node's `leader-epoch-checkpoint` has exactly these (epoch, offset) pairs."""
    wanted = ", ".join(f"{epoch} {start}" for epoch, start in lines) or "nothing"
    return _of_files(
        node,
        f"leader-epoch-checkpoint of {node} has: {wanted}",
        lambda it: ((it.epochs or ()) == lines, _epochs(it.epochs)),
    )


def logged(node: str, pattern: str, *, what: str) -> Condition:
    """Wait until a node logs a line, in this step, that matches a regex."""

    def look(sight: Sight) -> Seen:
        lines = sight.lines(node, pattern)
        return Seen(holds=bool(lines), saw=lines[-1] if lines else "no such line")

    return Condition(what=what, look=look)


def believes(node: str, leader: str | None, *, epoch: int | None = None) -> Condition:
    """Ask one broker who leads, until that broker names the given leader."""
    in_epoch = f" in epoch {epoch}" if epoch is not None else ""

    def look(sight: Sight) -> Seen:
        belief = sight.belief(node)
        if belief is None:
            return Seen(holds=False, saw=NO_ANSWER)
        saw = f"leader {belief[0] or 'none'}, epoch {belief[1]}"
        return Seen(holds=belief[0] == leader and epoch in {None, belief[1]}, saw=saw)

    return Condition(
        what=f"{node} believes that {leader or 'no broker'} leads{in_epoch}", look=look
    )


def ended(node: str) -> Condition:
    """Wait until a node's process has ended."""

    def look(sight: Sight) -> Seen:
        runs = sight.running(node)
        return Seen(holds=not runs, saw="it runs" if runs else "it has ended")

    return Condition(what=f"the process of {node} has ended", look=look)


def _of_partition(
    what: str, holds: Callable[[PartitionSight], bool], saw: Callable[[PartitionSight], str]
) -> Condition:
    def look(sight: Sight) -> Seen:
        it = sight.partition()
        return (
            Seen(holds=False, saw=NO_ANSWER) if it is None else Seen(holds=holds(it), saw=saw(it))
        )

    return Condition(what=what, look=look)


def _of_files(node: str, what: str, look_at: Callable[[FilesSight], tuple[bool, str]]) -> Condition:
    def look(sight: Sight) -> Seen:
        files = sight.files(node)
        if files is None:
            return Seen(holds=False, saw="no files")
        holds, saw = look_at(files)
        return Seen(holds=holds, saw=saw)

    return Condition(what=what, look=look)


def _number(number: int | None) -> str:
    return "nothing" if number is None else str(number)


def _epochs(epochs: tuple[tuple[int, int], ...] | None) -> str:
    if epochs is None:
        return "no file"
    return ", ".join(f"{epoch} {start}" for epoch, start in epochs) or "nothing"
