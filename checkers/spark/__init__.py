"""The data pipeline: feeds the kernels and runs them, with Spark or in this process.

* `nodes.py` reads a node's files, through `cluster.files`; the only way from checkers to a cluster.
* `local.py` is the engine without Spark: the same functions, in this process, without Java.
* `session.py`, `engine.py` are the engine with it: a job for ingest (`mapInArrow` over writers and
  nodes), one for checks and statistics (`applyInArrow` over the groups of all runs at once).

Only `checkers.run` imports this package; only `session.py` and `engine.py` import pyspark.
"""
