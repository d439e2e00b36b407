"""Which runs are asked for: a query's fields, and their SQL."""

from dataclasses import dataclass

PAGE_RUNS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """Runs to find; an empty field asks for nothing.

    Attributes:
        system, version, workload, hosts, scenario, ending, nemesis, suite, night, entry, signature,
            setting: As in `RunRow`.
        verdict: valid, unknown, invalid, or unjudged; `allowed`: valid with what is allowed.
        state: As in `RunState`.
        fault: A family that the plan asked for, or a kind that took effect.
        anomaly: A name.
        seed: Of the plan.
        repeats: A run's id: those that repeated it.
        text: Words that must all be in the id, the sentence, the entry or the plan's choices.
        limit, offset: A page of what was found, newest first.
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
    """Return the SQL after WHERE, and what its question marks stand for."""
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
        values.append(str(query.seed))  # A seed may be beyond SQLite's integers.
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
