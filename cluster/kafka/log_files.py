"""Makes servers write Kafka's usual log files, whichever logging library their version has. Pure.

All versions write the lines that `cluster.files.logs` reads: a time with milliseconds, the level,
the message, and the logger in parentheses.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cluster.files.properties import escaped
from cluster.kafka.versions import Numbers, logs_by_log4j2
from results.record.terms import Mode

PATTERN = "[%d{yyyy-MM-dd HH:mm:ss,SSS}] %p %m (%c)%n"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFile:
    """A file, and who writes into it.

    Attributes:
        name: `controller.log`.
        loggers: Those whose lines go there, and nowhere else; none: everybody else's.
        level: From this level on.
    """

    name: str
    loggers: tuple[str, ...] = ()
    level: str = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Logging:
    """How a server logs.

    Attributes:
        file: Where its configuration is to be written.
        text: That configuration.
        java_property: What tells the server's Java of it.
    """

    file: Path
    text: str
    java_property: str


ZOOKEEPER_FILES = (LogFile(name="zookeeper.log"),)


def node_files(mode: Mode) -> tuple[LogFile, ...]:
    """Return the log files of a broker, or of a controller of its own.

    In ZooKeeper mode a broker says at trace only, until 2.x, that it becomes leader or follower.
    """
    level = "trace" if mode is Mode.ZOOKEEPER else "info"
    controllers = ("org.apache.kafka.controller", "kafka.controller")
    return (
        LogFile(name="server.log"),
        LogFile(name="controller.log", loggers=controllers),
        LogFile(name="state-change.log", loggers=("state.change.logger",), level=level),
    )


def logging_to(folder: Path, files: Sequence[LogFile], numbers: Numbers) -> Logging:
    """Return how a server logs into `folder/logs`.

    Args:
        folder: The node's.
        files: The first has no loggers of its own.
        numbers: The version.
    """
    logs = folder / "logs"
    if logs_by_log4j2(numbers):
        file = folder / "log4j2.properties"
        told = f"-Dlog4j2.configurationFile={file}"
        return Logging(file=file, text=_log4j2(logs, files), java_property=told)
    file = folder / "log4j.properties"
    told = f"-Dlog4j.configuration={file.absolute().as_uri()}"
    return Logging(file=file, text=_log4j1(logs, files), java_property=told)


def _log4j2(logs: Path, files: Sequence[LogFile]) -> str:
    # Log4j's own hook would end the log at SIGTERM, before the server has said how it stopped.
    lines = ["status = error", "shutdownHook = disable"]
    lines.append("appenders = " + ", ".join(_appender(file) for file in files))
    for file in files:
        prefix = f"appender.{_appender(file)}"
        lines += [
            f"{prefix}.type = File",
            f"{prefix}.name = {_appender(file)}",
            f"{prefix}.fileName = {escaped(str(logs / file.name))}",
            f"{prefix}.layout.type = PatternLayout",
            f"{prefix}.layout.pattern = {PATTERN}",
        ]
    lines += ["rootLogger.level = info", f"rootLogger.appenderRef.own.ref = {_appender(files[0])}"]
    own = [(logger, file) for file in files for logger in file.loggers]
    for number, (logger, file) in enumerate(own):
        prefix = f"logger.l{number}"
        lines += [
            f"{prefix}.name = {logger}",
            f"{prefix}.level = {file.level}",
            f"{prefix}.additivity = false",
            f"{prefix}.appenderRef.own.ref = {_appender(file)}",
        ]
    return "\n".join(lines) + "\n"


def _log4j1(logs: Path, files: Sequence[LogFile]) -> str:
    lines = [f"log4j.rootLogger = INFO, {_appender(files[0])}"]
    for file in files:
        prefix = f"log4j.appender.{_appender(file)}"
        lines += [
            f"{prefix} = org.apache.log4j.FileAppender",
            f"{prefix}.File = {escaped(str(logs / file.name))}",
            f"{prefix}.Encoding = UTF-8",
            f"{prefix}.layout = org.apache.log4j.PatternLayout",
            f"{prefix}.layout.ConversionPattern = {PATTERN}",
        ]
        for logger in file.loggers:
            lines.append(f"log4j.logger.{logger} = {file.level.upper()}, {_appender(file)}")
            lines.append(f"log4j.additivity.{logger} = false")
    return "\n".join(lines) + "\n"


def _appender(file: LogFile) -> str:
    return Path(file.name).stem.replace("-", "")
