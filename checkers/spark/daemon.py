"""Spark's parent of Python tasks on this machine: it has imported what they need before it forks.

Each task's process would take two seconds of processor time for that.
"""

import gc

import pyarrow as pa
from pyspark.daemon import manager

import checkers.spark.direct
import checkers.spark.nodes  # noqa: F401 - that is what it is for

if __name__ == "__main__":
    pa.array(())  # Arrow imports pandas with the first one.
    gc.freeze()
    manager()
