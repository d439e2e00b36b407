"""The command line: `logquake`.

One file a group of commands; `main` maps everything that can end a command to the exit codes of the
design: 0 valid, 1 invalid, 2 unknown, 254 what the user can mend, 255 what is our fault.
"""

import errno
import signal
import sys
import traceback

import click
from rich.console import Console

from checkers.errors import EngineError, HistoryError
from cluster.protocol import ClusterError
from harness.cli.lazy import LazyGroup
from harness.errors import InternalError
from harness.exit_codes import BAD_ARGUMENTS, BISECT_INTERRUPTED, INTERNAL_ERROR, UNKNOWN
from harness.interrupt import SIGNALS
from results.record.atomic import StoreError
from results.record.plan import PlanError
from results.record.reading import UnsafeFileError
from results.trust import closed_to_others
from results.wording.inert import inert


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="logquake")
def logquake() -> None:
    """Shake a Kafka cluster until something breaks, and show exactly what broke, where and why."""


assert isinstance(logquake, LazyGroup)
logquake.modules = {
    "run": "running",
    "init": "running",
    "scenario": "scenarios",
    "repro": "repro",
    "suite": "suite",
    "hunt": "hunting",
    "node": "nodes",
    "check": "judging",
    "report": "reporting",
    "timeline": "exporting",
    "export": "exporting",
    "import": "exporting",
    "serve": "serving",
    "docs": "serving",
    "reindex": "serving",
    "runs": "looking",
    "show": "looking",
    "doctor": "tending",
    "heal": "tending",
}


def main() -> None:
    """Run the command line and exit; SIGTERM ends it as Ctrl-C does, and so does SIGHUP."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` ignores the latter.
            signal.signal(number, signal.default_int_handler)
    code = exit_code(sys.argv[1:])
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # While Python ends, it would take the code's place.
    sys.exit(code)


def exit_code(arguments: list[str]) -> int:
    """Run one command and return its exit code; print an error as one sentence."""
    try:
        with closed_to_others():
            return logquake.main(arguments, prog_name="logquake", standalone_mode=False) or 0
    except (click.Abort, KeyboardInterrupt) as ended:
        # click raises its own Abort from a KeyboardInterrupt.
        _complain(str(ended) or str(ended.__cause__ or "") or "interrupted")
        return BISECT_INTERRUPTED if "--bisect" in arguments else UNKNOWN
    except Exception as failed:  # noqa: BLE001 - the interpreter of commands
        return _code_of(failed)


def _code_of(failed: Exception) -> int:
    code = BAD_ARGUMENTS
    match failed:
        case click.exceptions.Exit():
            return failed.exit_code
        case click.exceptions.NoArgsIsHelpError():
            click.echo(failed.format_message(), err=True)
        case click.UsageError(ctx=click.Context() as context):
            _complain(f"{failed.format_message().rstrip('.')} (try: {context.command_path} -h)")
        case click.ClickException():
            _complain(failed.format_message())
        case (
            PlanError()
            | StoreError()
            | UnsafeFileError()
            | ClusterError()
            | EngineError()
            | HistoryError()
        ):
            _complain(str(failed))
        case PermissionError() | OSError(errno=errno.EROFS):
            what = failed.filename or str(failed)  # Not every library tells the file apart.
            _complain(f"no permission for {what}: name another place, or ask its owner")
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            _complain("the disk is full: free some room, or name another with --store")
        case InternalError():
            _complain(str(failed))
            code = INTERNAL_ERROR
        case _:
            traceback.print_exception(failed)
            _complain(f"internal error, a bug of Logquake: {type(failed).__name__}: {failed}")
            code = INTERNAL_ERROR
    return code


def _complain(sentence: str) -> None:
    told = inert(sentence, keep="\n")  # It may name files of others.
    Console(stderr=True, soft_wrap=True).print(f"logquake: {told}", markup=False, highlight=False)
