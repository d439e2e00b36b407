"""The one Spark session: quiet, on loopback, and gone without a trace.

The JVM writes to a file in a temporary folder rather than to the user's terminal; if it does not
start, the end of that file is what the user is told. Nothing depends on HOME, and an ordinary user
in a namespace of its own can run it (tried).
"""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # It has no stubs.
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from checkers.engine import EngineError

DEFAULT_MASTER = "local[2]"
_REMOTE = "sc://"
_LOOPBACK = "127.0.0.1"
_SHUFFLES_A_CORE = 2

_LOG4J = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c: %m%n
"""


@contextmanager
def spark_session(master: str | None) -> Iterator[SparkSession]:
    """Start Spark, and stop it at the end; its files lie in a temporary folder.

    Args:
        master: `local[N]`, `spark://...`, or `sc://...` for a session of a Spark Connect server.

    Raises:
        EngineError: Spark did not start: no Java, or no such master.
    """
    chosen = master or DEFAULT_MASTER
    with tempfile.TemporaryDirectory(
        prefix="logquake-spark-", ignore_cleanup_errors=True
    ) as scratch:
        session = _remote(chosen) if chosen.startswith(_REMOTE) else _own(chosen, Path(scratch))
        try:
            yield session
        finally:
            _stop(session)


def _remote(master: str) -> SparkSession:
    try:
        return SparkSession.builder.remote(master).getOrCreate()
    except (PySparkException, ImportError, OSError) as failed:
        raise EngineError(
            f"the Spark Connect server {master} does not answer: {failed};"
            " check the address, or use --engine local"
        ) from failed


def _own(master: str, scratch: Path) -> SparkSession:
    _need_java()
    output = scratch / "spark.log"
    settings = SparkConf(loadDefaults=False).setAll(_settings(master, scratch))
    os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        with output.open("wb") as file:
            output_to = {"stdout": file, "stderr": file}
            gateway = launch_gateway(settings, output_to)  # type: ignore[no-untyped-call]  # pyspark
        context = SparkContext(conf=settings, gateway=gateway)
    except (PySparkException, Py4JError, OSError) as failed:
        said = (
            output.read_text(errors="replace").strip().splitlines()[-1:] if output.exists() else []
        )
        raise EngineError(
            f"Spark did not start with master {master}: {' '.join(said) or failed};"
            " `logquake doctor` tells what is missing, --engine local needs neither Spark nor Java"
        ) from failed
    context.setLogLevel("ERROR")
    return SparkSession(context)


def _need_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if not (home and (Path(home) / "bin" / "java").exists()) and not shutil.which("java"):
        raise EngineError(
            "Spark needs Java 17 or newer, and there is no `java` in PATH nor in JAVA_HOME:"
            " install openjdk-17-jre-headless, or use --engine local"
        )


def _settings(master: str, scratch: Path) -> list[tuple[str, str]]:
    logging = scratch / "log4j2.properties"
    logging.write_text(_LOG4J, encoding="utf-8")
    options = (
        f"-Dlog4j2.configurationFile={logging} -Djava.io.tmpdir={scratch}"
        f" -Dderby.system.home={scratch} -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss4m"
        " -XX:-UsePerfData"
    )
    settings = {
        "spark.master": master,
        "spark.app.name": "logquake",
        "spark.driver.memory": "2g",
        "spark.driver.maxResultSize": "0",
        "spark.driver.extraJavaOptions": options,
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(_SHUFFLES_A_CORE * cores(master)),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000000",
        # Any other limit makes Spark measure a batch at each row: quadratic with nested columns.
        "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
        "spark.sql.parquet.enableVectorizedReader": "true",
        "spark.python.worker.reuse": "true",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    if master.startswith("local"):
        settings |= {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK}
    return list(settings.items())


def cores(master: str) -> int:
    """Return how many tasks a local master runs at once; of another one a guess."""
    local = re.fullmatch(r"local\[(\d+|\*)\]", master)
    if local is None:
        return 1 if master == "local" else 16
    return os.cpu_count() or 1 if local[1] == "*" else int(local[1])


def _stop(session: SparkSession) -> None:
    context = (
        None
        if session.__class__.__module__.startswith("pyspark.sql.connect")
        else session.sparkContext
    )
    session.stop()
    gateway = context._gateway if context is not None else None  # noqa: SLF001 - stop() leaves the JVM
    if gateway is not None:
        gateway.shutdown()
        process = gateway.proc
        process.stdin.close()
        process.wait(timeout=30)
        SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - so that the next one starts
