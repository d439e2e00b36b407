"""Scripted runs: each file tells one story on real brokers, step by step.

A scenario is data plus a few functions: a plan, steps, and the end that it expects (`protocol.py`).
A step is a sentence and a sequence of actions (`actions.py`) and conditions (`conditions.py`): each
action is done, each condition is waited for; then every replica is looked at. `director.py` plays
them; its record is a run's like any other. To add one: its file, its test, a line in `registry.py`.
"""
