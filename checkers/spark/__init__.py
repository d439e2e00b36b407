"""The data pipeline: feeds the kernels and runs them, with Spark or in this process.

* `nodes.py` reads a node's files, through `cluster.files`; the only way from checkers to a cluster.
* `local.py` is the engine without Spark: the same functions, in this process, without Java.
* `session.py` starts and stops Spark; `engine.py` is the engine with it, and has two routes:
  `direct.py`, whose tasks read the record's files themselves, on this machine; and `shuffled.py`,
  where Spark reads them and brings a group's rows together (`mapInArrow`, then `applyInArrow`), on
  a cluster, with `shipping.py` for our code, `elsewhere.py` for records on any path that Spark
  reads, and `pieces.py` for rows on their way.

Only `checkers.run` and `checkers.histories` import this package; pyspark is imported nowhere else.
"""
