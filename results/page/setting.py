"""The settings and environment of a run as a short table: versions, configuration, seed, hosts."""

from collections.abc import Iterator, Mapping

from results.record.hidden import without_secrets
from results.record.night import Night
from results.record.plan import SIMULATED
from results.wording.plural import many
from results.wording.swarm import swarm_words

Values = Mapping[str, object]
_GB = 1_000_000_000
_MOST_JARS = 3
"""A page names at most this many of the user's jars."""
_A_PAIR = 2
_DIGITS = 12
"""Number of hash digits shown."""


def setting_rows(
    plan: Values, environment: Values, *, night: Night | None
) -> list[tuple[str, str]]:
    """Return (label, value) rows, the most interesting ones first.

    Args:
        plan: The stored plan; this function hides its secrets.
        environment: The stored `environment.json`.
        night: The nightly run that the run belongs to.
    """
    plan = without_secrets(plan)
    rows = [
        *_system(plan),
        *_build(environment.get("brokers")),
        *_clients(plan),
        *_messages(plan),
        *_faults(plan),
        *_told(plan, "seed", "seed"),
        *_swarm(plan),
        *_host(plan, environment),
    ]
    if night is not None:
        if night.suite:
            rows.append(("night", f"{night.night} of {night.suite}, entry {night.entry}"))
        again = f" of {night.repeats}" if night.repeats else ""
        rows.append(("played as", f"{night.why.words}{again}"))
    return rows


def _many(count: object, one: str, several: str = "") -> str:
    """Return a count with its noun; a value that is not a whole number is shown unchanged."""
    if isinstance(count, float) and count.is_integer():
        count = int(count)
    return (
        many(count, one, several) if isinstance(count, int) else f"{count} {several or one + 's'}"
    )


def _told(values: Values, key: str, what: str) -> Iterator[tuple[str, str]]:
    if values.get(key) not in (None, "", {}):
        yield what, str(values[key])


def _system(plan: Values) -> Iterator[tuple[str, str]]:
    yield from _told(plan, "system", "system")
    parts = [
        f"{_many(plan[key], one)}{each}" for key, one, each in (
            ("nodes", "broker", ""), ("topics", "topic", ""), ("partitions", "partition", " each"),
        ) if key in plan
    ]  # fmt: skip
    parts += [
        f"{word}={plan[key]}" for key, word in (("replication", "replication.factor"),
            ("min_insync", "min.insync.replicas")) if key in plan
    ]  # fmt: skip
    if parts:
        yield "cluster", ", ".join(parts)
    for key in ("broker", "node", "features"):
        if isinstance(settings := plan.get(key), Mapping) and settings:
            told = "; ".join(f"{name} = {value}" for name, value in settings.items())
            yield f"{key} settings", told


def _build(brokers: object) -> Iterator[tuple[str, str]]:
    """Yield rows that identify a broker that the user built. A released broker has none."""
    if not isinstance(brokers, Mapping) or not {"commit", "jars"} & brokers.keys():
        return
    commit = f" (commit {brokers['commit']})" if brokers.get("commit") else ""
    yield "version", f"{brokers.get('version')}{commit}"
    jars = brokers.get("jars")
    if not isinstance(jars, Mapping) or not jars:
        return
    named = [f"{name} {str(digest)[:_DIGITS]}" for name, digest in jars.items()]
    more = f"; {len(jars) - _MOST_JARS} more in environment.json" if len(jars) > _MOST_JARS else ""
    yield "own jars (SHA-256)", "; ".join(named[:_MOST_JARS]) + more


def _clients(plan: Values) -> Iterator[tuple[str, str]]:
    parts = [f"acks={plan['acks']}"] if "acks" in plan else []
    parts += [f"idempotence={plan['idempotence']}"] if "idempotence" in plan else []
    if "workload" in plan:
        parts.insert(0, f"workload {plan['workload']}")
    if plan.get("workload") == "groups" and "group_protocol" in plan:
        parts.append(f"group protocol {plan['group_protocol']}")
    if "rate" in plan and plan.get("workload") != "script":
        parts.append(f"{_many(plan['rate'], 'operation')} a second")
    if "concurrency" in plan and plan.get("workload") != "script":
        parts.append(_many(plan["concurrency"], "process", "processes"))
    if parts:
        yield "clients", ", ".join(parts)
    if isinstance(settings := plan.get("client"), Mapping) and settings:
        yield "client settings", "; ".join(f"{name} = {value}" for name, value in settings.items())


def _messages(plan: Values) -> Iterator[tuple[str, str]]:
    """Yield a row about message contents and batching, if the plan specifies them."""
    contents = plan.get("contents")
    if not isinstance(contents, Mapping) or plan.get("workload") == "script":
        return
    sizes = [f"payloads of {_many(plan.get('payload_bytes'), 'byte')}"]
    longer = contents.get("sizes")
    sizes += [
        f"one in {pair[1]} of {_many(pair[0], 'byte')}"
        for pair in (longer if isinstance(longer, list | tuple) else ())
        if isinstance(pair, list | tuple) and len(pair) == _A_PAIR
    ]
    parts = [", ".join(sizes), *(
        f"{name} {value}" for name, value in (
            ("headers", contents.get("headers")), ("compression", plan.get("compression")),
            ("linger.ms", plan.get("linger_ms")), ("batch.size", contents.get("batch_bytes")),
            ("max.in.flight", contents.get("max_in_flight")),
        ) if value is not None
    )]  # fmt: skip
    yield "messages", "; ".join(parts)


def _faults(plan: Values) -> Iterator[tuple[str, str]]:
    if isinstance(written := plan.get("faults"), list | tuple):
        yield "faults", f"{len(written)} written by hand"
    elif isinstance(story := plan.get("scenario"), Mapping):
        yield "faults", f"the steps of the story {story.get('name')}"
    elif isinstance(families := plan.get("nemesis"), list | tuple):
        level = f", level {plan['level']}" if plan.get("level") else ""
        yield "faults", f"{', '.join(str(each) for each in families) or 'none'}{level}"


def _swarm(plan: Values) -> Iterator[tuple[str, str]]:
    """Yield a row with the settings that the swarm chose at random, and their values."""
    if told := swarm_words(plan):
        yield "chosen at random by the swarm", told


def _host(plan: Values, environment: Values) -> Iterator[tuple[str, str]]:
    yield from _told({**environment, **plan}, "hosts", "hosts")
    parts = [_many(environment["cores"], "core")] if "cores" in environment else []
    if isinstance(memory := environment.get("memory_bytes"), int):
        parts.append(f"{memory / _GB:.1f} GB")
    if kernel := environment.get("kernel"):
        parts.append(f"kernel {kernel}")
    if java := environment.get("java_version"):
        parts.append(f"Java {java}")
    if parts:
        yield "host", ", ".join(parts)
    if logquake := environment.get("logquake"):
        commit = environment.get("git_commit")
        yield "Logquake", f"{logquake} ({commit})" if commit else str(logquake)
    libraries = environment.get("libraries")
    simulated = plan.get("hosts") == SIMULATED  # A simulation uses Logquake's own clients.
    if isinstance(libraries, Mapping) and "confluent-kafka" in libraries and not simulated:
        version = plan.get("client_version") or libraries["confluent-kafka"]
        java = libraries.get("kafka-clients")
        yield "client library", f"kafka-clients {java}" if java else f"confluent-kafka {version}"
    yield from _told(environment, "started_utc", "started (UTC)")
