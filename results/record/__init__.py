"""The record of a run: its tables, its plan, its clock and its verdict.

All other packages use this one, so it imports no other package of Logquake. `tables` defines the
columns of the tables, `plan` defines the plan of a run, and `verdict` defines the result of a run.
"""
