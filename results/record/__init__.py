"""The record of a run: its tables, its plan, its clock and its verdict.

Every other part of Logquake meets here, so this package imports nothing of ours from outside of
itself. The columns are in `tables`, what decided the run in `plan`, what came of it in `verdict`.
"""
