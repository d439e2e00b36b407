"""Scripted runs: each file tells one story on real brokers, step by step.

A scenario is data plus a few functions: a plan, steps, and the end that it expects (`protocol.py`).
A step is a sentence and a sequence of actions (`actions.py`) and conditions (`conditions.py`): each
action is done, each condition is waited for; then every replica is looked at. To add one: its file,
its test, a line in `registry.py`.

`choices.py` makes a plan of a scenario, `life.py` is the life of such a run: `director.py` plays
the steps, `deeds.py` carries actions out, `sight.py` and `tails.py` are what conditions look at,
and `witness.py` takes a snapshot at each step's end (`snapshot.py` copies files, `quorum_look.py`
looks at controllers). Its record is a run's like any other; `expectations.py` tells whether it
ended as the scenario expects, and `every.py` plays all of them.
"""
