"""From a run's record alone, find the transitions of the Kafka protocol that the run reached.

A transition is a protocol event, such as an election with a certain cause. The list is in
`results.record.transitions`. Each module finds the transitions of one area in a group's rows. The
module's docstring names the tables. The docstring also says what proves a transition, and what
does not. Transitions measure coverage. Transitions are not checks, and do not blame a broker.
`tables.py` counts transitions, and pairs of consecutive transitions.

Only `checkers/examine.py` and `checkers/statistics.py` import this package. If this package
crashes, the coverage is unknown, and the verdict does not change.
"""
