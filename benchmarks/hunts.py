"""Hunts on released Kafka versions with known bugs: which bugs do random runs find, and how often?

    python -m benchmarks.hunts                     # starts, or resumes, the series
    python -m benchmarks.hunts --only kafka-3.4.0  # --again: another part of this hunt
    python -m benchmarks.hunts --list | --table | --search

A step is one part of a hunt: `logquake hunt docs/hunt/hunt.toml` with a system, a control, a
workload and families of faults. The first failure is rerun five times, and is run five times on the
control. Then the part ends. A killed part resumes.

When a part is over, its journal is copied to `docs/hunt/journals/`. A line is appended to
`docs/hunt/finds.jsonl`, with the commit at the part's start. A find counts only if its runs show
the mechanism that a ticket describes. `benchmarks.mechanisms` has a rule for each ticket. The
program applies the rules to the verdict and to the logs of each failed run. Both files are the
source of `docs/hunt/finds.md`. After you change a rule, `--search` searches the kept runs again.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.guarded import run
from benchmarks.hunt_series import FILE, JOURNALS, LINE, PAGE, RESULTS, STEPS, Line, Step
from benchmarks.hunt_tables import table
from benchmarks.mechanisms import MECHANISMS, RULES, VERDICT, shows
from benchmarks.night import HOUR_S, LOGQUAKE, OURS, ROOT, code
from benchmarks.night_results import append, load_lines, write_between
from harness.suites.night import NightState
from harness.suites.nights import NightFolder, nights_of, state_of
from results.record.atomic import write_atomically
from results.record.paths import RunPaths

NO_CODE = (*OURS, ":!docs")
LIMIT_S = 6 * HOUR_S
NO_LOAD = -1.0
"""The load at the start of a part, if it is not known."""


def is_due(step: Step) -> bool:
    """Return whether a hunt has no part yet, or its parts took less than `least_s` in total."""
    took_s = [each.took_s for each in load_lines(RESULTS, LINE) if each.name == step.name]
    return not took_s or sum(took_s) < step.least_s


def play(step: Step, store: Path) -> Line | None:
    """Start or resume a part of a hunt, run it to its end, and append its result line.

    Returns:
        The line, or None if the part did not end. Its log then has the reason.
    """
    store.mkdir(parents=True, exist_ok=True)
    log = store / f"{step.name}.log"
    goes_on = bool(parts := _parts(store, step)) and not parts[-1].state().ended
    if not goes_on or not _noted(store, step).exists():
        _note_start(store, step)
    mode = "--resume" if goes_on else "--new"
    run([*LOGQUAKE, "hunt", str(FILE), *step.options, "--store", str(store), mode], log,
        limit_s=LIMIT_S)  # fmt: skip
    lines = catch_up(step, store)
    if not lines:
        print(f"{step.name} did not end; see {log}", file=sys.stderr)
    return lines[-1] if lines else None


def catch_up(step: Step, store: Path) -> list[Line]:
    """Append a line for each part that ended and has no line yet.

    A line is missing if this program was killed before it wrote the line.
    """
    known, lines = {each.journal for each in load_lines(RESULTS, LINE)}, []
    parts = _parts(store, step)
    for part in parts:
        state, copy = part.state(), JOURNALS / f"{step.name}-{part.night}.jsonl"
        if not state.ended or copy.name in known:
            continue
        JOURNALS.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(part.journal, copy)
        commit, before = _start(store, step) if part is parts[-1] else ("unknown", NO_LOAD)
        line = Line(
            name=step.name, journal=copy.name, commit=commit, took_s=round(state.active_s, 1),
            load=(before, round(os.getloadavg()[0], 2)), shown=shown(state, store), rules=RULES,
        )  # fmt: skip
        append(RESULTS, line)
        lines.append(line)
    return lines


def _noted(store: Path, step: Step) -> Path:
    """Return the file with the commit and the load at the start of the last part."""
    return store / f"{step.name}.commit"


def _note_start(store: Path, step: Step) -> None:
    commit, changes = code(NO_CODE)
    load = round(os.getloadavg()[0], 2)
    write_atomically(_noted(store, step), f"{commit}{'+' * bool(changes)} {load}")


def _start(store: Path, step: Step) -> tuple[str, float]:
    """Return the commit and the load at the start of the last part, as far as they are known."""
    noted = _noted(store, step)
    words = noted.read_text(encoding="utf-8").split() if noted.exists() else []
    commit, load = [*words, *["unknown", str(NO_LOAD)][len(words) :]]
    return commit, float(load)


def _parts(store: Path, step: Step) -> list[NightFolder]:
    return [each for each in nights_of(store, step.name) if each.state().night]


def _failed(state: NightState) -> list[str]:
    """Return the ids of a part's failed runs."""
    return [each.run_id for each in state.items.values() if each.reached and each.reached.broken]


def shown(state: NightState, store: Path) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return, for each ticket, the failed runs of a part that show the ticket's mechanism.

    The form is that of `Line.shown`.
    """
    failed = _failed(state)
    seen = {
        ticket: {run: broken for run in failed if (broken := shows(each, RunPaths(store / run)))}
        for ticket, each in MECHANISMS.items()
    }
    return {ticket: runs for ticket, runs in seen.items() if runs}


def search_again(store: Path) -> None:
    """Search the kept runs of all parts for all mechanisms, and rewrite the result lines."""
    lines = []
    for line in load_lines(RESULTS, LINE):
        state = state_of(JOURNALS / line.journal)
        failed = _failed(state)
        if gone := [each for each in failed if not (store / each / VERDICT).exists()]:
            print(
                f"{line.name}: {len(gone)} of {len(failed)} failed runs are gone", file=sys.stderr
            )
            lines.append(line)
        else:
            now = {"shown": shown(state, store), "rules": RULES, "withdrawn": {}}
            lines.append(line.model_copy(update=now))
    texts = (each.model_dump_json(exclude_defaults=True) for each in lines)
    write_atomically(RESULTS, "".join(f"{each}\n" for each in texts))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the missing parts, and write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.hunts",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--only", action="append", default=[], metavar="NAME", help="these hunts")
    add("--again", action="store_true", help="another part of hunts that are over, too")
    add("--store", type=Path, default=ROOT / "runs" / "hunts", help="where runs are kept")
    add("--list", action="store_true", help="print the hunts, and play none")
    add("--table", action="store_true", help="write the page, and play none")
    add("--search", action="store_true", help="search kept runs again, and play none")
    options = parser.parse_args(arguments)
    for step in STEPS:
        if options.only and step.name not in options.only:
            continue
        if options.list:
            print(f"{'open' if is_due(step) else 'done':5} {step.command}")
            continue
        if not options.table:
            catch_up(step, options.store.resolve())
        due = not (options.table or options.search) and (options.again or is_due(step))
        while due:
            if (line := play(step, options.store.resolve())) is None:
                return 1
            found = (f"{len(runs)} failed runs show {each}" for each, runs in line.shown.items())
            print(f"{step.name}: {', '.join(found) or 'nothing'}", flush=True)
            due = is_due(step)
    if options.search:
        search_again(options.store.resolve())
    if not options.list:
        write_between(PAGE, table(load_lines(RESULTS, LINE)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
