"""Suites: many runs in one night, chosen from a matrix, within a time budget, with reports.

A night is one execution of a suite, usually by a nightly job. It consists of many runs.

- `suite.py` reads `SUITE.toml`, and `expansion.py` expands it to entries with stable names.
- `ordering.py` orders the entries.
- `playing.py` and `player.py` play several runs at once, each in a process of its own.
- `judging.py` and `bench.py` judge all runs in one process with one Spark session.
- `conductor.py` controls the night. The conductor writes each event to the night's journal first
  (`journal.py`), so that a killed night can resume.
- `night.py` computes a night's state from its journal.
- `repeats.py` decides which failures to rerun; `results.repeats` counts the reruns.
- `causes.py` finds failures that are new tonight.
- `estimates.py` estimates how long a run takes, and `preview.py` shows what a night would play.
- `junit.py`, `summary.py`, `status.py` and `webhook.py` report the results.
- `retention.py` deletes old runs.
- `plugin.py` is the plugin for pytest.

The files of a night are in `STORE/.suites/<suite>/<night>/`. The runs of a night are in the store,
like all other runs. Each has a file `night.json`.
"""
