"""Find the transitions of the Kafka protocol that a run reached, from its record alone.

A transition is a protocol event, such as an election with a certain cause. The list is in
`results.record.transitions`. Each module finds the transitions of one area in a group's rows. The
module's docstring names the columns. It says what proves a transition, and what does not prove it.
Transitions measure coverage. They are not checks, and do not blame a broker. `tables.py` counts
transitions, and pairs of consecutive transitions.

Only `checkers/examine.py` and `checkers/statistics.py` import this package. If this package
crashes, the coverage is unknown, and the verdict does not change.
"""
