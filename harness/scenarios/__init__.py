"""Scenarios, i.e. scripted runs: each file plays a fixed script on real brokers, step by step.

A scenario consists of data and a few functions: a plan, the steps, and the expected end
(`protocol.py`). A step is a sentence with actions (`actions.py`) and conditions (`conditions.py`).
A run executes each action and waits for each condition. After each step, the run records the state
of every replica. A new scenario needs its own file, a test, and a line in `registry.py`.

- `choices.py` makes a plan from a scenario.
- `life.py` plays the phases of a scripted run.
- `director.py` plays the steps.
- `deeds.py` executes actions.
- `sight.py` and `tails.py` provide the data that conditions check.
- `witness.py` takes a snapshot at the end of each step.
- `snapshot.py` copies files for the snapshot; `quorum_look.py` asks controllers for their state.
- `expectations.py` decides whether a run ended as expected.
- `every.py` plays all scenarios.

The record of a scripted run has the same form as the record of any other run.
"""
