"""The checkers, which find anomalies in a recorded run.

A checker is a pure function. Its input is the rows of one group: one partition of one run, or the
whole run. Its output is `Findings`: the anomalies, and the number of comparisons. The inputs are
Arrow tables and numpy arrays. A checker does not depend on Spark, files, clusters or plots. So one
checker can check stored runs, live runs and simulated runs.

* `protocol.py` defines a checker. `group.py` defines the input of a checker. `registry.py` lists
  all checkers.
* Each family of anomalies has its own module.
* `ingest.py` turns live streams into tables, and `statistics.py` turns tables into figures. Both
  are pure.
* `judge.py` decides which anomalies are allowed, which can be trusted, and what the verdict is.
* `run.py` is the entry point: it reads folders of runs and returns verdicts.
* `spark/` runs the checkers with Spark. `spark/local.py` runs them in this process.

Only `harness`, `logquake` and `benchmarks` import this package. The package imports
`results.record`. `checkers.spark` also imports `results.verdict_json` and `cluster` (the readers of
Kafka's files, and the cache). Only `checkers/spark` imports pyspark, at its first use.

To add a checker, edit three files: the checker's module, its test in `tests/checkers`, and one line
in `registry.py`. The module's docstring has three sections: "Definition", "Why it proves something"
and "What would not prove it". A new anomaly also needs a definition in the oracle, `tests/oracle`.
Write that definition without reading the checker's code.
"""
