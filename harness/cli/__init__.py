"""The command line: `logquake`.

One file a group of commands; `main` maps everything that can end a command to the exit codes of the
design: 0 valid, 1 invalid, 2 unknown, 254 what the user can mend, 255 what is our fault.
"""

import sys
import traceback

import click
from rich.console import Console

from cluster.protocol import UserError
from harness.cli import judging, looking, running, tending
from harness.exit_codes import BAD_ARGUMENTS, INTERNAL_ERROR, UNKNOWN
from results.record.plan import PlanError
from results.store import StoreError


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="logquake")
def logquake() -> None:
    """Shake a Kafka cluster until something breaks, and show exactly what broke, where and why."""


for command in (
    running.run,
    running.init,
    judging.check,
    judging.report,
    looking.runs,
    looking.show,
    tending.doctor,
    tending.heal,
):
    logquake.add_command(command)


def main() -> None:
    """Run the command line and exit."""
    sys.exit(exit_code(sys.argv[1:]))


def exit_code(arguments: list[str]) -> int:
    """Run one command and return its exit code; print an error as one sentence."""
    try:
        return logquake.main(arguments, prog_name="logquake", standalone_mode=False) or 0
    except click.exceptions.Exit as asked:
        return asked.exit_code
    except click.ClickException as wrong:
        _complain(wrong.format_message())
        return BAD_ARGUMENTS
    except (PlanError, StoreError, UserError) as wrong:
        _complain(str(wrong))
        return BAD_ARGUMENTS
    except (click.Abort, KeyboardInterrupt):
        _complain("interrupted before there was anything to judge")
        return UNKNOWN
    except OSError as refused:
        _complain(f"{refused.strerror or refused}: {refused.filename or 'no file named'}")
        return BAD_ARGUMENTS if isinstance(refused, PermissionError) else INTERNAL_ERROR
    except Exception as bug:  # noqa: BLE001 - the interpreter of commands: the last resort
        traceback.print_exc()
        _complain(f"internal error, which is a bug of Logquake: {type(bug).__name__}: {bug}")
        return INTERNAL_ERROR


def _complain(sentence: str) -> None:
    Console(stderr=True, soft_wrap=True).print(
        f"logquake: {sentence}", markup=False, highlight=False
    )
