"""Write the pages that consist of tables: the swarm's settings, and the transitions of a run."""

from harness.documentation.includes import TABLES

_SWARM = """\
# The swarm's table

With `swarm = true`, these settings are chosen at random from the seed, each for a reason. A row
stays at its default in about half of the runs. [Running Logquake](../running.md#swarm) explains how
to use it.

"""
_TRANSITIONS = """\
# Transitions

Every transition that a run can reach. To learn how they are counted, read
[What a run reached](../reached.md).

"""


def swarm_page() -> str:
    """Return the page of the settings that a swarm chooses at random."""
    return _SWARM + TABLES["swarm"]()


def transitions_page() -> str:
    """Return the page of transitions, including refused requests."""
    return (
        f"{_TRANSITIONS}{TABLES['reached']()}\n## Refused requests\n\n{TABLES['reached/refused']()}"
    )
