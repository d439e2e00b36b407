"""The parent process of Spark's Python tasks, which imports the tasks' modules before it forks.

Otherwise each task's process would spend two seconds of processor time on these imports.
"""

import gc

import pyarrow as pa
from pyspark.daemon import manager

import checkers.spark.direct
import checkers.spark.nodes  # noqa: F401 - that is what it is for

if __name__ == "__main__":
    pa.array(())  # The first Arrow array imports pandas.
    gc.freeze()
    manager()
