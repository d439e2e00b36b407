"""Write the pages that consist of tables: the swarm's settings, transitions, keys of evidence."""

from harness.documentation.includes import TABLES
from harness.documentation.markdown_tables import code, table
from results.wording.evidence import EVIDENCE

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
_EVIDENCE = """\
# Evidence

Each example of an anomaly has `evidence` in `verdict.json`: keys and values. The page of a run
shows them, and `logquake help KEY` explains a key. If a key means several things, the check
determines which one applies.

"""


def swarm_page() -> str:
    """Return the page of the settings that a swarm chooses at random."""
    return _SWARM + TABLES["swarm"]()


def transitions_page() -> str:
    """Return the page of transitions, including refused requests."""
    return (
        f"{_TRANSITIONS}{TABLES['reached']()}\n## Refused requests\n\n{TABLES['reached/refused']()}"
    )


def evidence_page() -> str:
    """Return the page of the keys of an anomaly's evidence."""
    rows = ((code(key), means) for key, means in EVIDENCE.items())
    return f"{_EVIDENCE}{table(('Key', 'Meaning'), rows)}"
