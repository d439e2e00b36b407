"""The data pipeline, which prepares the input of the checks, and runs the checks.

The pipeline uses Spark, or works in this process.

* `nodes.py` reads a node's files through `cluster.files`. No other checker module touches a
  cluster.
* `local.py` is the engine without Spark and Java: the same functions in this process.
* `session.py` starts and stops Spark. `engine.py` is the engine with Spark. The engine with Spark
  has two routes.
* `direct.py` is the route where tasks on this machine read the run's files themselves.
* `shuffled.py` is the route for a cluster. Spark reads the files and groups the rows (`mapInArrow`,
  then `applyInArrow`).
* For the cluster: `shipping.py` sends our code, `elsewhere.py` handles runs at any path that Spark
  can read, and `pieces.py` defines the rows that travel between tasks.

Only `checkers.run` and `checkers.histories` import this package. No other module imports pyspark.
"""
