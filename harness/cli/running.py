"""`logquake run` and `logquake init`: play and judge a plan, and write a plan to start from."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from harness import examples
from harness.cli.ending import answer_of, conclude
from harness.cli.exits import DONE, INTERRUPTED, OF_A_VERDICT, exits
from harness.cli.options import ENGINE, JAVA, KEEP, SETTING, STORE, settings
from harness.cli.output import console_of, is_quiet, output_options
from harness.escalation import Play, Step, refuse_escalation, table_of, worst_of
from harness.escalation import as_json as steps_as_json
from harness.escalation import escalate as climb
from harness.exit_codes import BY_VALIDITY
from harness.plans import COMMENTED_PLAN, assemble_plan
from harness.session import Session
from harness.timing import process_began_s
from results.record.level import TOP_LEVEL
from results.record.loads import Load
from results.record.paths import RunPaths
from results.record.plan import ALL, NEMESIS_KINDS, Plan
from results.record.systems import MODES
from results.record.terms import Judge
from results.record.verdict import Verdict
from results.verdict_json import verdict_to_json
from workloads.registry import WORKLOADS


@dataclass(frozen=True, slots=True, kw_only=True)
class _Option:
    """An option of `run` that sets one key of the plan."""

    flag: str
    key: str
    kind: Any
    help: str


_OPTIONS = (
    _Option(
        flag="--system",
        key="system",
        kind=str,
        help="kafka:VERSION[+JAR,...][:MODE], kafka:/path/to/a/kafka[:MODE]"
        f" (MODE: {MODES}), reference[:MODE], attached:FILE.toml or command:FILE.toml.",
    ),
    _Option(flag="--bug", key="bug", kind=str, help="Enable this bug of the reference cluster."),
    _Option(flag="--nodes", key="nodes", kind=int, help="Number of brokers."),
    _Option(flag="--replication", key="replication", kind=int, help="Replicas of each partition."),
    _Option(flag="--topics", key="topics", kind=int, help="Number of topics."),
    _Option(flag="--partitions", key="partitions", kind=int, help="Partitions of each topic."),
    _Option(
        flag="--hosts",
        key="hosts",
        kind=str,
        help=(
            "Where brokers run: auto (the best kind that works on this machine), namespace,"
            " docker, ssh:HOSTS.toml, process, or simulated (the reference cluster in virtual"
            " time)."
        ),
    ),
    _Option(
        flag="--image",
        key="image",
        kind=str,
        help="With --hosts docker: an image with Java, or an official image of Kafka.",
    ),
    _Option(
        flag="--workload",
        key="workload",
        kind=click.Choice([*WORKLOADS]),
        help="What clients do (logquake help workloads):"
        f" {'; '.join(each.brief for each in WORKLOADS.values())}.",
    ),
    _Option(
        flag="--nemesis",
        key="nemesis",
        kind=str,
        help=f"Families of faults, separated by commas (logquake help faults). {ALL}: all that"
        f" work on these hosts; empty: none. Families: {', '.join(NEMESIS_KINDS)}.",
    ),
    _Option(
        flag="--nemesis-interval",
        key="nemesis_interval_s",
        kind=float,
        help="Mean time between two faults, in seconds.",
    ),
    _Option(
        flag="--warmup", key="warmup_s", kind=float, help="Time before the faults, in seconds."
    ),
    _Option(
        flag="--time-limit", key="time_limit_s", kind=float, help="Time with faults, in seconds."
    ),
    _Option(
        flag="--load",
        key="load",
        kind=click.Choice([load.value for load in Load]),
        help="The load of clients. heavy: as much as brokers accept, in full batches.",
    ),
    _Option(
        flag="--rate",
        key="rate",
        kind=float,
        help="Operations per second (default: 500; with txn: 100). 0: as many as possible.",
    ),
    _Option(flag="--concurrency", key="concurrency", kind=int, help="Number of logical clients."),
    _Option(
        flag="--workers",
        key="workers",
        kind=int,
        help="Number of processes that run the clients.",
    ),
    _Option(
        flag="--acks",
        key="acks",
        kind=click.Choice(["0", "1", "all"]),
        help="The acks setting of producers.",
    ),
    _Option(
        flag="--min-insync",
        key="min_insync",
        kind=int,
        help="The min.insync.replicas setting of topics.",
    ),
    _Option(flag="--retries", key="retries", kind=int, help="The retries setting of producers."),
    _Option(
        flag="--linger-ms",
        key="linger_ms",
        kind=float,
        help="The linger.ms setting of producers.",
    ),
    _Option(
        flag="--compression",
        key="compression",
        kind=click.Choice(["none", "gzip", "snappy", "lz4", "zstd", "mixed"]),
        help="The compression of producers. mixed: a different one in each worker.",
    ),
    _Option(
        flag="--client-version",
        key="client_version",
        kind=str,
        help="The version of librdkafka for clients, 2.0.2 or newer (default: Logquake's own).",
    ),
    _Option(
        flag="--client-kind",
        key="client_kind",
        kind=str,
        help="The client library: librdkafka (the default), java for Kafka's own, or java:VERSION.",
    ),
    _Option(
        flag="--group-protocol",
        key="group_protocol",
        kind=click.Choice(["mixed", "classic", "consumer"]),
        help=(
            "The protocol of consumer groups (default: mixed, i.e. each group has one of the two)."
        ),
    ),
    _Option(
        flag="--after-timeout",
        key="after_timeout",
        kind=click.Choice(["discard", "go-on"]),
        help=(
            "With txn, after a timeout: discard the producer, or abort the transaction and keep"
            " the producer."
        ),
    ),
    _Option(
        flag="--sends-per-op",
        key="sends_per_op",
        kind=int,
        help="Messages in each send operation.",
    ),
    _Option(
        flag="--judge",
        key="judge",
        kind=click.Choice([judge.value for judge in Judge]),
        help=(
            "contract: allow what the configuration does not promise. strict: allow only what no"
            " system promises to prevent. jepsen: judge as Jepsen does."
        ),
    ),
    _Option(
        flag="--level",
        key="level",
        kind=click.IntRange(0, TOP_LEVEL),
        help=(
            "The level of faults. At higher levels they come more often, in sequence, or several at"
            " once (default: 0)."
        ),
    ),
    _Option(
        flag="--seed",
        key="seed",
        kind=int,
        help="The seed of all random choices (default: a new one).",
    ),
    _Option(
        flag="--name",
        key="name",
        kind=str,
        help="The run's name, which is its folder in the store.",
    ),
    _Option(
        flag="--clients",
        key="clients",
        kind=str,
        help=(
            "Your own client settings, by their name in ~/.config/logquake/clients.toml. Keep"
            " certificates, keys and passwords there."
        ),
    ),
)


def _plan_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        command = click.option(
            option.flag, option.key, type=option.kind, default=None, help=option.help
        )(command)
    return command


@click.command()
@click.argument("plan_file", metavar="[PLAN.toml]", required=False, type=click.Path(path_type=Path))
@_plan_options
@click.option(
    "--idempotence/--no-idempotence",
    "idempotence",
    default=None,
    help="Whether producers are idempotent.",
)
@click.option(
    "--stop-on-violation/--no-stop-on-violation",
    "stop_on_violation",
    default=None,
    help="Judge during the run. At the first violation, end the run and keep the evidence.",
)
@click.option(
    "--swarm/--no-swarm",
    "swarm",
    default=None,
    help=(
        "Choose the settings that you do not set at random from the seed: brokers, clients and"
        " workload."
    ),
)
@click.option(
    "--escalate",
    is_flag=True,
    help="Run one level after another until a run is not valid; then rerun the last valid level.",
)
@JAVA
@click.option(
    "--set",
    "broker",
    multiple=True,
    metavar=SETTING,
    help="A setting of the brokers. You can repeat this option.",
)
@click.option(
    "--client",
    "client",
    multiple=True,
    metavar=SETTING,
    help="A setting of librdkafka. You can repeat this option.",
)
@STORE
@ENGINE
@click.option(
    "--spark-master", default=None, help="Run Spark on this cluster, not on this machine."
)
@click.option(
    "--dry-run", is_flag=True, help="Print the schedule and the guarantees; start nothing."
)
@KEEP
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
@output_options
@exits(*OF_A_VERDICT)
def run(  # noqa: PLR0913 - the options of a command
    *,
    plan_file: Path | None,
    broker: tuple[str, ...],
    client: tuple[str, ...],
    store: Path,
    engine: str | None,
    spark_master: str | None,
    dry_run: bool,
    keep: bool,
    escalate: bool,
    as_json: bool,
    **options: object,
) -> int:
    """Play one run: start a cluster, inject faults, judge the result.

    Without a plan, three Kafka brokers get network partitions, kills and pauses for 60 seconds.
    PLAN.toml is a file, or example:NAME; logquake init --list names the examples. The exit code is
    that of the verdict: 0 valid, 1 invalid, 2 unknown.
    """
    console = console_of(quiet=is_quiet(), stderr=as_json)
    plan = assemble_plan(
        plan_file and examples.plan_file(plan_file),
        options,
        broker=settings("--set", broker),
        client=settings("--client", client),
    )

    def play(each: Plan) -> tuple[Verdict, RunPaths]:
        session = Session(each, store, console, answer=answer_of(console))
        verdict = session.run(engine=engine, spark_master=spark_master)
        return verdict, RunPaths(store / verdict.run_id)

    if escalate:
        if dry_run or keep:
            raise click.UsageError("--escalate starts many runs: remove --dry-run and --keep")
        refuse_escalation(plan)
        return _escalated(plan, play, console, as_json=as_json)
    if dry_run:
        from harness.dry_run import describe  # noqa: PLC0415 - it needs the checks, a run does not

        describe(plan, console_of(stderr=as_json), keep=keep)
        return 0
    session = Session(
        plan, store, console, keep=keep, answer=answer_of(console), began_s=process_began_s()
    )
    verdict = session.run(engine=engine, spark_master=spark_master)
    if as_json:
        click.echo(json.dumps(verdict_to_json(verdict), indent=1, sort_keys=True))
    else:
        conclude(verdict, RunPaths(store / verdict.run_id))
    return BY_VALIDITY[verdict.valid]


def _escalated(plan: Plan, play: Play, console: Console, *, as_json: bool) -> int:
    steps: list[Step] = []
    try:
        climb(plan, play, steps=steps, say=partial(console.print, markup=False, highlight=False))
    finally:  # If a level cannot be played, the results of other levels still count.
        if steps:  # The table is the result, so print it with `--quiet`, too.
            console_of(stderr=as_json).print(table_of(steps))
    if as_json:
        click.echo(json.dumps(steps_as_json(steps), indent=1))
    return BY_VALIDITY[worst_of(steps)]


@click.command()
@click.argument("path", type=click.Path(path_type=Path), default=Path("plan.toml"))
@click.option("--list", "only_list", is_flag=True, help="List the examples; write nothing.")
@exits(DONE, INTERRUPTED)
def init(*, path: Path, only_list: bool) -> int:
    """Write a commented plan, or list the example plans and suites."""
    if only_list:
        _list_examples()
        return 0
    if path.exists():
        raise click.UsageError(
            f"{path} already exists; name another file: logquake init my-plan.toml"
        )
    path.write_text(COMMENTED_PLAN, encoding="utf-8")
    click.echo(f"wrote {path}; run it with: logquake run {path}")
    return 0


def _list_examples() -> None:
    groups = (
        ("run", examples.example_plans()), ("suite run", examples.example_suites()),
    )  # fmt: skip
    for command, found in groups:
        click.echo(f"For logquake {command}:")
        for name, path in found.items():
            click.echo(f"  {name}\n      {examples.about(path)}")
