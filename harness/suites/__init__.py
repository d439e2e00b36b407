"""Suites: many runs in a night, from a matrix, within a budget, and what came of them.

`SUITE.toml` (`suite.py`) is expanded to entries with stable names (`expansion.py`), ordered
(`ordering.py`), played several at once by processes of their own (`playing.py`, `player.py`) and
judged by one process with one session of Spark (`judging.py`, `bench.py`). `conductor.py` leads all
of it; what it does is written to the night's journal first (`journal.py`), so that a night that was
killed goes on where it was. `night.py` says what a journal adds up to, `repeats.py` which repeats a
failure is owed (`results.repeats` counts them), `causes.py` what is new tonight. `estimates.py`
says how long a run takes, `preview.py` what a night would play. Results: `junit.py`, `summary.py`,
`status.py`, `webhook.py`; old runs go by `retention.py`. `plugin.py` is pytest's.

A suite's own files lie in `STORE/.suites/<suite>/<night>/`; its runs lie in the store as all others
do, each with a `night.json`.
"""
