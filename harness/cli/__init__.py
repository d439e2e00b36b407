"""The command line: `logquake`.

Each module holds a group of commands. `main` maps the end of a command to its exit code: 0 valid, 1
invalid, 2 unknown, 254 an error that the user can fix, 255 an error of Logquake.

This module imports little, so Tab completion in a shell takes only a tenth of a second.
"""

import os
import signal
import sys

import click

from harness.cli.completing import COMPLETE, complete
from harness.cli.lazy import LazyGroup
from harness.cli.output import output_options
from harness.exit_codes import BISECT_INTERRUPTED, UNKNOWN
from results.trust import closed_to_others


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="logquake")
@output_options
def logquake() -> None:
    """Shake a Kafka cluster until something breaks, and show exactly what broke, where and why.

    logquake help TOPIC explains verdicts, plans, faults, hosts, and every anomaly by its name.
    """


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
    "help": "helping",
    "completion": "helping",
}


def main() -> None:
    """Run the command line and exit. SIGTERM and SIGHUP have the same effect as Ctrl-C."""
    if COMPLETE in os.environ:
        sys.exit(complete(os.environ[COMPLETE]))
    from harness.interrupt import SIGNALS  # noqa: PLC0415 - completion does without

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` makes processes ignore SIGHUP.
            signal.signal(number, signal.default_int_handler)
    code = exit_code(sys.argv[1:])
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # A late signal would replace the exit code.
    sys.exit(code)


def exit_code(arguments: list[str]) -> int:
    """Run one command and return its exit code; print an error as one sentence."""
    try:
        with closed_to_others():
            return logquake.main(arguments, prog_name="logquake", standalone_mode=False) or 0
    except (click.Abort, KeyboardInterrupt) as ended:
        from harness.cli.errors import complain  # noqa: PLC0415 - as in `main`

        # click raises its own Abort from a KeyboardInterrupt.
        complain(str(ended) or str(ended.__cause__ or "") or "interrupted")
        return BISECT_INTERRUPTED if "--bisect" in arguments else UNKNOWN
    except Exception as failed:  # noqa: BLE001 - the interpreter of commands
        from harness.cli.errors import code_of  # noqa: PLC0415 - as in `main`

        return code_of(failed)
