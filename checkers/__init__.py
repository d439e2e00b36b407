"""What is wrong with a recorded run.

A checker is a pure function from the rows of one group (one topic-partition of one run, or the
whole run) to anomalies: Arrow tables and numpy arrays in, `Anomaly` out. It knows nothing of Spark,
files, clusters or plots, and so it judges a stored run, a live one, and a simulated one alike.

* `protocol.py` says what a checker is, `group.py` what it is given, `registry.py` lists all;
  one module an anomaly family.
* `ingest.py` turns live streams into tables, `statistics.py` tables into figures; pure as well.
* `judge.py` weighs anomalies: what is allowed, what can be trusted, what the verdict is.
* `run.py` is the entry: from folders of runs to verdicts. `spark/` feeds and runs all of it, with
  Spark or (`spark/local.py`) in this process.

Only `harness` imports this package. It imports `results.record`, and `checkers.spark` also
`cluster.files`; pyspark is imported below `checkers/spark` only, and only when it is used.

To add a checker, touch three files: its module (what it means, why finding it proves something,
what would not prove it), its test in `tests/checkers`, and one line in `registry.py`. A new anomaly
also needs its definition in the oracle, `tests/oracle`, written without looking at the kernel.
"""
