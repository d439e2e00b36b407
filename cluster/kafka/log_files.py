"""Configures servers to write Kafka's usual log files, with log4j 1 or log4j 2.

All versions write lines in the format that `cluster.files.logs` reads: the time with milliseconds,
the level, the message, and the logger in parentheses.
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
    """A log file, and the loggers that write to it.

    Attributes:
        name: The file name, such as `controller.log`.
        loggers: The loggers that write only to this file. An empty tuple means all other loggers.
        level: The lowest level that is written.
    """

    name: str
    loggers: tuple[str, ...] = ()
    level: str = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Logging:
    """The logging configuration of a server.

    Attributes:
        file: The path of the configuration file to write.
        text: The content of this file.
        java_property: The Java option that makes the server use this file.
    """

    file: Path
    text: str
    java_property: str


ZOOKEEPER_FILES = (LogFile(name="zookeeper.log"),)


def node_files(mode: Mode) -> tuple[LogFile, ...]:
    """Return the log files of a broker, or of a separate controller.

    In ZooKeeper mode the level of `state-change.log` is trace. Brokers up to 2.x log the choice of
    leaders and followers only at this level.
    """
    level = "trace" if mode is Mode.ZOOKEEPER else "info"
    controllers = ("org.apache.kafka.controller", "kafka.controller")
    return (
        LogFile(name="server.log"),
        LogFile(name="controller.log", loggers=controllers),
        LogFile(name="state-change.log", loggers=("state.change.logger",), level=level),
    )


def logging_to(folder: Path, files: Sequence[LogFile], numbers: Numbers) -> Logging:
    """Return the configuration that makes a server log into `folder/logs`.

    Args:
        folder: The node's folder.
        files: The log files; the first one has no loggers of its own.
        numbers: The Kafka version.
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
    # Log4j's own hook would end the log at SIGTERM, before the server logs its stop.
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
