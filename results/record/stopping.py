"""Which runs can be judged while they go on."""

from results.record.terms import Judge


def stop_refusal(*, scripted: bool, simulated: bool, judge: Judge) -> str | None:
    """Return why a run cannot end with its first violation, None if it can.

    Args:
        scripted: Whether a story's steps decide what is done.
        simulated: Whether it takes place in virtual time.
        judge: Who judges it.
    """
    if simulated:
        return (
            "stop_on_violation: a simulated run is over in seconds and judged then; leave it"
            " out, or take other hosts"
        )
    if scripted:
        return "stop_on_violation: a story is judged by its end; leave it out"
    if judge is Judge.JEPSEN:
        return (
            "stop_on_violation: Jepsen's definitions are for whole histories; take the judge"
            " contract or strict"
        )
    return None
