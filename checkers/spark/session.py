"""Start and stop Spark, without output to the terminal and without files left behind.

Spark uses loopback only, unless a cluster is named. The JVM writes its output to a file in a
temporary folder. If Spark does not start, the error message contains the message of Java's
exception, or else the last line of that file. Spark does not depend on HOME here. An ordinary user
in a separate namespace can run Spark (tested).
"""

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]  # It has no stubs.
from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]  # It has no stubs.
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway

from checkers.engine import EngineError
from checkers.spark.classes import drop_classes, kept_classes
from checkers.spark.shipping import ELSEWHERE, NEEDED, UNSEEN, archive, missing
from results.record.clock import wait_until

DEFAULT_MASTER = "local[2]"
_SCRATCH = "logquake-spark-"
_REMOTE = "sc://"
_LOCAL = re.compile(r"local(\[(\d+|\*)(,\d+)?\])?")
_TRIES = 3
"""The maximum number of tries for a local task. The kernel may kill a task to free memory."""
_LOOPBACK = "127.0.0.1"
_SHUFFLES_A_CORE = 2
_EXECUTORS_S = 180
_END_S = 120
"""The time limit for Java to end. Java may need ten seconds to write its class archive."""
_DYING_S = 10
_SOME_CORES = 16
"""The assumed minimum number of cores of a cluster."""

ENDED = (
    "Spark's Java process was ended from outside during its work (perhaps by the kernel, to free"
    " memory); nothing was judged: run the same command again"
)
_FAILURES = {
    r"(?:StoreError|EngineError): ([^\n]*)": "{}",
    r"PYTHON_VERSION_MISMATCH\]([^\n]*)": (
        "the tasks use another Python version than this one:{}; set PYSPARK_PYTHON to their Python"
    ),
    r'Cannot run program "([^"]*)"': (
        "its machines have no {}; set PYSPARK_PYTHON to a Python that they have"
    ),
    r"ModuleNotFoundError: No module named '([^']*)'": "its machines lack the Python library {}",
    r"(?:FileNotFoundException: File|FILE_NOT_EXIST\]|PATH_NOT_FOUND\])([^\n]*)": (
        f"{UNSEEN}:{{}}; {ELSEWHERE}"
    ),
}
"""The patterns of Spark's error messages, and the sentences that replace them."""

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
def spark_context(master: str | None) -> Iterator[SparkContext]:
    """Start Spark, keep Spark's files in a temporary folder, and stop Spark at the end.

    Args:
        master: `local[N]`, or a cluster: `spark://...`, `yarn`, `k8s://...`.

    Raises:
        EngineError: Spark did not start, for example because Java or the master is missing. Another
            reason: on the cluster's machines, Python or a needed library is missing.
    """
    chosen = master or DEFAULT_MASTER
    if chosen.startswith(_REMOTE):
        raise EngineError(
            f"{chosen} is a Spark Connect server, which cannot be used yet: name the cluster's"
            " master with --spark-master (spark://..., yarn, k8s://...), or use --engine local"
        )
    with (
        tempfile.TemporaryDirectory(prefix=_SCRATCH, ignore_cleanup_errors=True) as scratch,
        kept_classes(_java(), Path(scratch)) as flags,
    ):
        before, root = list(sys.path), logging.getLogger()
        root.addFilter(_no_ctrl_c)
        context = None
        try:
            context = _started(chosen, Path(scratch), flags)
            if cores(chosen) is None:
                _ship(context, chosen, Path(scratch))
            yield context
        finally:
            if context is not None and not _stop(context):
                drop_classes(Path(scratch))
            sys.path[:] = before  # `addPyFile` added the archive, which is deleted now.
            root.removeFilter(_no_ctrl_c)


def _no_ctrl_c(record: logging.LogRecord) -> bool:
    """Drop py4j's log messages about Ctrl-C, which contain long tracebacks."""
    kind = record.exc_info and record.exc_info[0]
    return not (kind and issubclass(kind, KeyboardInterrupt))


def _started(master: str, scratch: Path, flags: Sequence[str]) -> SparkContext:
    output = scratch / "spark.log"
    settings = SparkConf(loadDefaults=False).setAll(_settings(master, scratch, flags))
    if cores(master) is not None or _loopback(master):
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    gateway = None
    try:
        with output.open("wb") as file, _python(master):
            output_to = {"stdout": file, "stderr": file}
            gateway = launch_gateway(settings, output_to)  # type: ignore[no-untyped-call]  # pyspark
            with _own_ctrl_c():
                context = SparkContext(conf=settings, gateway=gateway)
    except (PySparkException, Py4JError, OSError) as failed:
        why = _why(failed, output)
        if gateway is not None:
            _end(gateway)
        raise EngineError(
            f"Spark did not start with master {master}: {why}; `logquake doctor` shows what is"
            " missing; --engine local needs neither Spark nor Java"
        ) from failed
    # Otherwise pyspark prints its own message about an ended Java process above our error.
    context._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign]  # noqa: SLF001 - it has no other way to be quiet
    context.setLogLevel("ERROR")
    return context


@contextmanager
def _own_ctrl_c() -> Iterator[None]:
    """Restore our Ctrl-C handler after pyspark replaced it. Our handler reacts at once."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def _why(failed: Exception, output: Path) -> str:
    """Return the message of Java's exception. If there is none, return Java's last output line."""
    thrown = re.search(r"^: [\w.]+: (.*)", str(failed), re.MULTILINE)
    if thrown is not None:
        return thrown[1]
    said = output.read_text(errors="replace").strip().splitlines() if output.exists() else []
    return said[-1] if said else str(failed)


@contextmanager
def _python(master: str) -> Iterator[None]:
    """Set PYSPARK_PYTHON for the tasks.

    On this machine, the tasks use the running Python. On a cluster, the user may set the variable.
    The default on a cluster is a Python of the same minor version.
    """
    here, before = cores(master) is not None, os.environ.get("PYSPARK_PYTHON")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    os.environ["PYSPARK_PYTHON"] = sys.executable if here else before or version
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYSPARK_PYTHON"]
        else:
            os.environ["PYSPARK_PYTHON"] = before


def _ship(context: SparkContext, master: str, scratch: Path) -> None:
    """Send our code to the cluster, and check that the cluster can run it.

    Raises:
        EngineError: The cluster cannot run the code.
    """
    context.addPyFile(str(archive(scratch)))
    machines = context._jsc.sc().getExecutorMemoryStatus  # noqa: SLF001 - Python is not told
    try:
        wait_until(
            lambda: machines().size() > 1, timeout_s=_EXECUTORS_S, what="a machine of the cluster"
        )
    except TimeoutError as late:
        raise EngineError(
            f"the cluster {master} provided no machine within {_EXECUTORS_S} s: check that it is"
            " not busy, and that a worker has enough memory for an executor"
            " (spark.executor.memory, 1g)"
        ) from late
    tasks = max(2, context.defaultParallelism)
    try:
        lacks = sorted(
            set(context.parallelize(range(tasks), tasks).mapPartitions(missing).collect())
        )
    except (PySparkException, Py4JError) as failed:
        raise EngineError(
            f"the cluster {master} cannot run our code: {failure(failed)}"
        ) from failed
    if lacks:
        raise EngineError(
            f"the cluster {master} cannot run our code: {'; '.join(lacks)}; its machines need"
            f" Python {sys.version_info.major}.{sys.version_info.minor} with {', '.join(NEEDED)}"
            " (set PYSPARK_PYTHON to it)"
        )


def failure(failed: Exception) -> str:
    """Return one sentence that says why a Spark job failed."""
    if isinstance(failed, Py4JNetworkError):
        return ENDED
    text = str(failed).strip()
    for told, sentence in _FAILURES.items():
        found = re.search(told, text)
        if found is not None:
            return sentence.format(*found.groups())
    lines = text.splitlines() or [type(failed).__name__]
    raised = [line for line in lines if re.match(r"[\w.]+(Error|Exception): ", line)]
    return f"a job of Spark failed: {(raised or lines)[0]}; try --engine local"


def _java() -> Path:
    """Return the Java program that Spark will start.

    Raises:
        EngineError: There is no Java.
    """
    home = os.environ.get("JAVA_HOME")
    of_home = Path(home) / "bin" / "java" if home else None
    program = of_home if of_home and of_home.exists() else shutil.which("java")
    if not program:
        raise EngineError(
            "Spark needs Java 17 or newer, and there is no `java` in PATH nor in JAVA_HOME:"
            " install openjdk-17-jre-headless, or use --engine local"
        )
    return Path(program)


def _settings(master: str, scratch: Path, flags: Sequence[str]) -> list[tuple[str, str]]:
    logging = scratch / "log4j2.properties"
    logging.write_text(_LOG4J, encoding="utf-8")
    options = (
        f"-Dlog4j2.configurationFile={logging} -Djava.io.tmpdir={scratch}"
        f" -Dderby.system.home={scratch} -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss4m"
        f" -XX:-UsePerfData {' '.join(flags)}"
    )
    settings = {
        "spark.master": _with_tries(master),
        "spark.app.name": "logquake",
        "spark.driver.memory": "2g",
        "spark.driver.maxResultSize": "0",
        "spark.driver.extraJavaOptions": options,
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(_SHUFFLES_A_CORE * (cores(master) or _SOME_CORES)),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000000",
        # With any other limit, Spark measures the batch at each row, in quadratic time.
        "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
        "spark.sql.parquet.enableVectorizedReader": "true",
        "spark.python.worker.reuse": "true",
    }
    if cores(master) is not None:
        settings["spark.python.daemon.module"] = "checkers.spark.daemon"
        # The tasks are processes on this machine and import the same modules.
        settings["spark.executorEnv.PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        # Spark creates a secret, so that its loopback ports answer only the driver.
        settings["spark.authenticate"] = "true"
    if cores(master) is not None or _loopback(master):
        settings |= {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK}
    return list(settings.items())


def _with_tries(master: str) -> str:
    """Return the master's name, with the number of tries for each task if the master is local."""
    at_once, local = cores(master), _LOCAL.fullmatch(master)
    return f"local[{at_once},{_TRIES}]" if local and not local[3] else master


def cores(master: str) -> int | None:
    """Return the number of tasks that a local master runs at once, or None for a cluster."""
    local = _LOCAL.fullmatch(master)
    if local is None:
        return None
    return os.cpu_count() or 1 if local[2] == "*" else int(local[2] or 1)


def _loopback(master: str) -> bool:
    return bool(re.match(rf"spark://(localhost|{re.escape(_LOOPBACK)})[:,]", master))


def has_ended(context: SparkContext) -> bool:
    """Return whether Spark's Java process has ended, or ends within `_DYING_S` seconds.

    When a process is killed, the kernel closes the connections first, and then frees the memory.
    """
    gateway = context._gateway  # noqa: SLF001 - as in `_stop`
    if gateway is None:
        return True
    try:
        gateway.proc.wait(timeout=_DYING_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def _stop(context: SparkContext) -> bool:
    """Stop Spark, and return whether the Java process of Spark ended normally."""
    gateway = context._gateway  # noqa: SLF001 - stop() leaves the JVM
    try:
        context.stop()
    except (Py4JError, OSError):  # Java has ended. A second call clears this process's state.
        context.stop()
    return gateway is not None and _end(gateway)


def _end(gateway: JavaGateway) -> bool:
    """End a Java process, by force if necessary. Return whether the process ended normally."""
    gateway.shutdown()
    process = gateway.proc
    process.stdin.close()
    try:
        code = process.wait(timeout=_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - so that the next one starts
    return not code
