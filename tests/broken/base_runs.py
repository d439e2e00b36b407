"""Records the bases of the corpus anew: `python -m tests.broken.base_runs [NAME...]`.

Each base is a run of real Kafka by the plan beside its folder (`bases/log.toml`), shrunk
(`benchmarks.shrink`). Nothing is replaced unless the run came out as all bases must: nothing
counts against the brokers, messages were under way in each of its moments, and the sample is small.
"""

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.shrink import shrink_run
from results.record.terms import Validity
from results.record.verdict import Verdict
from results.verdict_json import read_verdict
from tests.broken.corpus import BASES, CALM, MOMENTS, QUIET
from tests.broken.record import Record
from tests.harness.on_real_brokers import logquake

MOST_BYTES = 1_000_000


def _recorded(name: str, scratch: Path) -> str:
    """Record a base; return why it was not taken, or nothing."""
    plan = BASES / f"{name}.toml"
    _, said, run = logquake("run", str(plan), "--name", f"base-{name}", store=scratch)
    verdict = read_verdict(run.verdict)
    if verdict is None:
        return f"it was not judged: {said}"
    if verdict.valid is not Validity.VALID:
        return f"{verdict.valid.value}: {_why(verdict)}"
    sample = shrink_run(run, scratch / "bases" / name)
    size = sum(path.stat().st_size for path in sample.root.rglob("*") if path.is_file())
    if size > MOST_BYTES:
        return f"{size:,} bytes"
    record = Record(sample.root)
    if barren := [moment for moment in MOMENTS[name] if not _has_sends(record, moment)]:
        return f"nothing was under way in {', '.join(barren)}"
    shutil.rmtree(BASES / name, ignore_errors=True)
    shutil.copytree(sample.root, BASES / name)
    return ""


def _has_sends(record: Record, moment: str) -> bool:
    """Tell whether a message that was acknowledged was under way while a fault was in force."""
    if moment in {CALM, QUIET}:
        return True
    (fault,) = record.rows("faults", kind=moment)
    from_ns, to_ns = int(fault["confirmed_ns"]), int(fault["healed_ns"])
    acked = record.rows("sends", acked=True, outcome="ok")
    return any(row["invoke_ns"] < to_ns and row["complete_ns"] > from_ns for row in acked)


def _why(verdict: Verdict) -> str:
    weighty = [name for name, each in verdict.anomalies.items() if each.count > each.allowed]
    return "; ".join([*verdict.unknown_because, *weighty])


def main(argv: Sequence[str] | None = None) -> int:
    """Print what came of each base; 1 if one was not taken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MOMENTS)}")
    names = parser.parse_args(argv).names or list(MOMENTS)
    refused = 0
    for name in names:
        with TemporaryDirectory() as scratch:
            why = _recorded(name, Path(scratch))
        refused += bool(why)
        sys.stdout.write(f"{name}: {f'not taken, {why}' if why else 'recorded'}\n")
    return int(refused > 0)


if __name__ == "__main__":
    sys.exit(main())
