"""Finds which transitions of the Kafka protocol a run reached, from its record alone.

A transition is a protocol event such as an election by cause, listed in
`results.record.transitions`. Each module of an area finds its transitions in a group's rows. The
module's docstring names the columns, what proves a transition, and what would not. Transitions
measure coverage. They are no checks and accuse no broker. `tables.py` counts transitions, and pairs
of consecutive ones.

Only `checkers/examine.py` and `checkers/statistics.py` import this package. If it crashes, the
coverage is unknown, and the verdict does not change.
"""
