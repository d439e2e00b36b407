"""A standalone cluster of Spark on loopback, whose workers have one core each."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from results.record.clock import wait_until

HOME = Path(pyspark.__file__).parent
CORES, MEMORY = "1", "700m"
SWIFT = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"
"""Flags of Java processes that live for seconds."""


@contextmanager
def standalone(folder: Path, *, workers: int) -> Iterator[str]:
    """Start a master and workers; gives the master's address."""
    one = "org.apache.spark.deploy.{0}.{1} --host 127.0.0.1 --port 0 --webui-port 0"
    with ExitStack() as stack:
        arguments = one.format("master", "Master").split()
        said = stack.enter_context(_service(folder / "master", *arguments))
        master = _line_of(said, r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
        for number in range(1, workers + 1):
            arguments = one.format("worker", "Worker").split()
            worker = stack.enter_context(
                _service(
                    folder / f"worker-{number}",
                    *arguments,
                    *("--cores", CORES, "--memory", MEMORY, master),
                )
            )
            _line_of(worker, r"(Successfully registered with master)")
        yield master


@contextmanager
def _service(folder: Path, *arguments: str) -> Iterator[Path]:
    """Run one of Spark's own services; gives the file that it writes to."""
    home = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment = {**home, "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1",
                   "SPARK_DAEMON_MEMORY": "256m",
                   "SPARK_DAEMON_JAVA_OPTS": f"{SWIFT} -Dspark.master.rest.enabled=false",
                   "SPARK_WORKER_DIR": str(folder / "work"),
                   "SPARK_LOCAL_DIRS": str(folder / "work")}  # fmt: skip
    folder.mkdir()
    said = folder / "said.txt"
    with said.open("wb") as file:
        process = subprocess.Popen([HOME / "bin" / "spark-class", *arguments], cwd=folder,
                                   env=environment, stdout=file, stderr=file)  # fmt: skip
        try:
            yield said
        finally:
            process.terminate()
            process.wait(30)


def _line_of(said: Path, pattern: str) -> str:
    told = wait_until(
        lambda: re.search(pattern, said.read_text(errors="replace")), timeout_s=240, what=pattern
    )
    return told[1]


def executors(folder: Path, *, count: int) -> None:
    """Write the settings of a program that has so many executors, one a worker.

    They count if `SPARK_CONF_DIR` is the folder's `conf`.
    """
    (folder / "conf").mkdir(exist_ok=True)
    lines = ["spark.executor.memory 512m", f"spark.executor.extraJavaOptions {SWIFT}",
             f"spark.cores.max {count}"]  # fmt: skip
    (folder / "conf" / "spark-defaults.conf").write_text("\n".join([*lines, ""]))
