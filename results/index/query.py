"""Queries for runs: the fields of a query, and their SQL condition."""

from dataclasses import dataclass

PAGE_RUNS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """A query for runs; an empty field does not restrict the result.

    Attributes:
        system, version, workload, hosts, scenario, ending: The field of `RunRow` with this name.
        nemesis, suite, night, entry, signature, setting: The field of `RunRow` with this name.
        verdict: valid, unknown, invalid or unjudged; `allowed` means valid with allowed anomalies.
        state: A `RunState`.
        fault: A fault family that the plan requested, or a fault kind that took effect.
        anomaly: Name of an anomaly.
        seed: The plan's seed.
        repeats: Id of a run. The query finds the reruns of this run.
        text: Words. Each must occur in the id, the sentence, the entry, the system or the fault
            families.
        limit, offset: How many runs to return, newest first, and how many runs to skip before them.
    """

    system: str = ""
    version: str = ""
    workload: str = ""
    hosts: str = ""
    scenario: str = ""
    ending: str = ""
    nemesis: str = ""
    suite: str = ""
    night: str = ""
    entry: str = ""
    signature: str = ""
    setting: str = ""
    verdict: str = ""
    state: str = ""
    fault: str = ""
    anomaly: str = ""
    seed: int | None = None
    repeats: str = ""
    text: str = ""
    limit: int = PAGE_RUNS
    offset: int = 0


_EQUAL = (
    "system", "version", "workload", "hosts", "scenario", "ending", "nemesis", "suite", "night",
    "entry", "signature", "setting", "repeats", "state",
)  # fmt: skip
_SEARCHED = "run_id || ' ' || sentence || ' ' || entry || ' ' || system || ' ' || nemesis"
MAX_WORDS = 12


def condition(query: RunQuery) -> tuple[str, list[str | int]]:
    """Return the SQL condition of a query, and the values of its question marks."""
    parts, values = ["1"], list[str | int]()
    for name in _EQUAL:
        if wanted := getattr(query, name):
            parts.append(f"{name} = ?")
            values.append(wanted)
    if query.verdict:
        parts.append("tone = ?" if query.verdict == "allowed" else "verdict = ?")
        values.append("" if query.verdict == "unjudged" else query.verdict)
    if query.seed is not None:
        parts.append("seed = ?")
        values.append(str(query.seed))  # A seed may be too large for SQLite's integers.
    if query.anomaly:
        parts.append("run_id IN (SELECT run_id FROM anomalies WHERE name = ?)")
        values.append(query.anomaly)
    if query.fault:
        parts.append(
            "(run_id IN (SELECT run_id FROM faults WHERE name = ?)"
            " OR instr('+' || nemesis || '+', '+' || ? || '+'))"
        )
        values += [query.fault, query.fault]
    for word in query.text.split()[:MAX_WORDS]:
        parts.append(f"instr(lower({_SEARCHED}), ?)")
        values.append(word.lower())
    return " AND ".join(parts), values
