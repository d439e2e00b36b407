"""The data pipeline, which prepares the input of the checks, and runs the checks.

The pipeline uses Spark, or works in this process.

* `nodes.py` reads a node's files through `cluster.files`. No other checker module reads the files
  of a cluster.
* `local.py` is the engine without Spark and Java: the same functions in this process.
* `session.py` starts and stops Spark. `classes.py` and `daemon.py` make the start faster.
  `engine.py` is the engine with Spark, which has two routes.
* `direct.py` is the route where tasks read the run's files themselves: on this machine, or at the
  same path on all machines of a cluster.
* `shuffled.py` is the route for files that only Spark can read. Spark reads the files and groups
  the rows (`mapInArrow`, then `applyInArrow`).
* For the cluster: `shipping.py` sends our code, `elsewhere.py` handles runs at any path that Spark
  can read, and `pieces.py` defines the rows that travel between tasks.

In the product, only `checkers.run` and `checkers.histories` import this package, and only this
package imports pyspark.
"""
