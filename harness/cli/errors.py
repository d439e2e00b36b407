"""Print an error sentence for an exception that ends a command, and choose the exit code."""

import errno
import traceback

import click
from rich.console import Console

from checkers.errors import EngineError, HistoryError
from cluster.protocol import ClusterError
from harness.errors import InternalError
from harness.exit_codes import BAD_ARGUMENTS, INTERNAL_ERROR
from results.record.atomic import StoreError
from results.record.plan import PlanError
from results.record.reading import UnsafeFileError
from results.wording.inert import inert


def code_of(failed: Exception) -> int:
    """Print the error that ended a command as one sentence, and return the command's exit code."""
    code = BAD_ARGUMENTS
    match failed:
        case click.exceptions.Exit():
            return failed.exit_code
        case click.exceptions.NoArgsIsHelpError():
            click.echo(failed.format_message(), err=True)
        case click.UsageError(ctx=click.Context() as context):
            complain(f"{failed.format_message().rstrip('.')} (try: {context.command_path} -h)")
        case click.ClickException():
            complain(failed.format_message())
        case (
            PlanError()
            | StoreError()
            | UnsafeFileError()
            | ClusterError()
            | EngineError()
            | HistoryError()
        ):
            complain(str(failed))
        case PermissionError() | OSError(errno=errno.EROFS):
            what = failed.filename or str(failed)  # Not every library sets `filename`.
            complain(
                f"no permission for {what}: name another place, or ask the owner for permission"
            )
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            complain("the disk is full: free some space, or name another disk with --store")
        case InternalError():
            complain(str(failed))
            code = INTERNAL_ERROR
        case _:
            traceback.print_exception(failed)
            complain(f"internal error, a bug of Logquake: {type(failed).__name__}: {failed}")
            code = INTERNAL_ERROR
    return code


def complain(sentence: str) -> None:
    """Print an error message to standard error."""
    told = inert(sentence, keep="\n")  # The sentence may contain file names by other users.
    Console(stderr=True, soft_wrap=True).print(f"logquake: {told}", markup=False, highlight=False)
