"""Pages of one table each: what a swarm draws, and what a run can reach."""

from harness.documentation.includes import TABLES

_SWARM = """\
# The swarm's table

With `swarm = true`, these settings are chosen at random from the seed, each for a reason. A row
stays at its default in about half of the runs. [Running Logquake](../running.md#swarm) explains how
to use it.

"""
_TRANSITIONS = """\
# Transitions

Every transition that a run can reach. [What a run reached](../reached.md) explains how they are
counted.

"""


def swarm_page() -> str:
    """Return the page of what a swarm draws."""
    return _SWARM + TABLES["swarm"]()


def transitions_page() -> str:
    """Return the page of transitions, refused requests included."""
    return (
        f"{_TRANSITIONS}{TABLES['reached']()}\n## Refused requests\n\n{TABLES['reached/refused']()}"
    )
