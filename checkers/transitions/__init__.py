"""Find the transitions of the Kafka protocol that a run reached, from its record alone.

A transition is a protocol event, such as an election with a certain cause. The list is in
`results.record.transitions`. Each module of an area finds its transitions in a group's rows. The
module's docstring names the columns, what proves a transition, and what would not. Transitions
measure coverage. They are not checks, and do not blame a broker. `tables.py` counts transitions,
and pairs of consecutive ones.

Only `checkers/examine.py` and `checkers/statistics.py` import this package. If it crashes, the
coverage is unknown, and the verdict does not change.
"""
