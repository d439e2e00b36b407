"""What a run reached of the protocol's behaviour, from its record alone.

One module an area finds the transitions of `results.record.transitions` in a group's rows; each
says from which columns, what proves a transition, and what would not. They decide nothing and
accuse nobody: coverage, not checks. `tables.py` counts them, and the pairs in succession.

Only `checkers/examine.py` and `checkers/statistics.py` import this package. If it crashes, nobody
knows what was reached, and the verdict is as it would have been.
"""
