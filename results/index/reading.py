"""Read one run's folder into a row of the index; missing or damaged files are left out.

Only the small files of a run are read. The ops table is read only if it is small, to get the names
of ops. Symbolic links count as missing files, so nothing outside the store is read.
"""

import dataclasses
import itertools
import os
import stat
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from results.index.rows import Ending, RunRow, RunState
from results.nights import read_night
from results.reached import Reached, reached
from results.record.atomic import StoreError
from results.record.clock import NS_PER_S
from results.record.milestones import INTERRUPTED, STOPPED_ON, Milestone, load_milestones
from results.record.night import Night
from results.record.paths import RunPaths
from results.record.plan import Plan, PlanError, load_plan, plan_from
from results.record.story import Story, load_story
from results.record.terms import Validity
from results.record.verdict import Verdict
from results.repeats import setting_key, setting_words
from results.signature import class_of, signature_of
from results.store import is_alive
from results.tables import DAMAGES, RunTables
from results.verdict_json import MAX_VERDICT_BYTES, read_verdict
from results.wording.headline import Headline, counting, headline, ranked_anomalies
from results.wording.inert import inert
from results.wording.naming import Names, said
from results.wording.reasons import heaviest_reason

MAX_OPS_BYTES = 20_000_000
_MAX_SENTENCE, _MAX_WITNESS = 2000, 600
_MAX_NAMES, _MAX_NAME = 200, 120
"""Limits for the names of anomalies and faults: how many names, and characters per name. Logquake
has about forty names, but a run from elsewhere may have any number."""
_MAX_FIGURE = 10**15
_STARTED_DIGITS = 16
STORY_S = 60.0
_WITH_CLIENTS = (
    "warmup", "main", "main-ended", "healed", "recovered", "stopping-clients", "final-reads",
)  # fmt: skip
"""Milestones that begin a phase in which clients send operations."""
_TELLING = (
    "plan.toml", "verdict.json", "milestones.jsonl", "night.json", "lock", "report.html",
    "scenario.json",
)  # fmt: skip
"""Files whose time or size changes when the run changes."""


def stamp_of(paths: RunPaths) -> str:
    """Return the times and sizes of a run's files as text, to detect an outdated row."""
    home = os.fspath(paths.root)
    # Plain strings are fast. Each page checks all runs of a store, which may be a thousand.
    return " ".join([_stamp(home), *(_stamp(f"{home}/{name}") for name in _TELLING)])


def read_run(paths: RunPaths) -> RunRow:
    """Return the index row of a run. Its field `trouble` names files that cannot be read."""
    troubles: list[str] = []
    plan = _plan(paths, troubles)
    verdict = _verdict(paths, troubles)
    milestones = load_milestones(paths.milestones) if is_plain(paths.milestones) else []
    row = RunRow(
        run_id=paths.run_id,
        name=paths.root.parent.name,
        started=_started(paths),
        size_bytes=_size(paths.root),
    )
    parts: dict[str, object] = {
        **_of_plan(plan),
        **_of_milestones(milestones),
        **_of_night(_night(paths, troubles)),
        "state": _state(paths, verdict, milestones),
    }
    if verdict is not None:
        parts |= _of_verdict(verdict, plan, _story(paths, troubles), names=stored_names(paths))
    parts["trouble"] = "; ".join(troubles)[:_MAX_SENTENCE]
    return dataclasses.replace(row, **_printable(parts))  # type: ignore[arg-type]  # by field name


def read_reached(paths: RunPaths) -> Reached:
    """Return the transitions that a run reached. Empty if its statistics are damaged or a link."""
    if paths.statistics.is_symlink():
        return Reached()
    try:
        return reached(paths)
    except DAMAGES:
        return Reached()


def state_of(paths: RunPaths, *, judged: bool) -> RunState:
    """Return the current state of a run."""
    if judged:
        return RunState.JUDGED
    milestones = load_milestones(paths.milestones) if is_plain(paths.milestones) else []
    return _state(paths, None, milestones)


def _state(paths: RunPaths, verdict: Verdict | None, milestones: list[Milestone]) -> RunState:
    if verdict is not None:
        return RunState.JUDGED
    try:
        alive = is_plain(paths.lock) and is_alive(paths)
    except StoreError:
        alive = False
    if alive:
        return RunState.RUNNING
    ended = any(each.name in {"stopped", "collected"} for each in milestones)
    return RunState.NOT_JUDGED if ended else RunState.DIED


def _of_plan(plan: Plan | None) -> dict[str, object]:
    if plan is None:
        return {}
    by_hand = plan.faults is not None and plan.scenario is None
    asked = {fault.kind for fault in plan.faults or ()} if by_hand else set(plan.nemesis)
    return {
        "name": plan.name,
        "system": plan.system,
        "version": plan.kafka_version,
        "workload": plan.workload,
        "hosts": plan.hosts.partition(":")[0],
        "scenario": plan.scenario.name if plan.scenario else "",
        "nemesis": "" if plan.scenario else "+".join(sorted(asked)),
        "setting": setting_key(plan),
        "settings": setting_words(plan),
        "lasts_s": lasts_s(plan),
        "seed": plan.seed,
    }


def lasts_s(plan: Plan) -> float:
    """Return the seconds of warm-up plus main phase; for a scripted run, a fixed estimate."""
    return plan.warmup_s + plan.time_limit_s if plan.scenario is None else STORY_S


def _of_milestones(milestones: list[Milestone]) -> dict[str, object]:
    if not milestones:
        return {}
    reached = {each.name: each for each in milestones}
    recover_s = None
    recovered, ended = reached.get("recovered"), reached.get("main-ended")
    troubled = any("failed" in reached[name].detail for name in ("healed", "recovered")
                   if name in reached)  # fmt: skip
    if recovered and ended and not troubled:
        recover_s = (recovered.at_ns - ended.at_ns) / NS_PER_S
    told: dict[str, object] = {
        "duration_s": milestones[-1].at_ns / NS_PER_S, "recover_s": recover_s,
    }  # fmt: skip
    if "stopped" not in reached or reached.keys() & {"failed", INTERRUPTED, STOPPED_ON}:
        told["lasts_s"] = None  # A run that was cut short does not show how long others take.
    return told


def _of_night(night: Night | None) -> dict[str, object]:
    if night is None:
        return {}
    return {
        "suite": night.suite,
        "night": night.night,
        "entry": night.entry,
        "why": night.why.value,
        "repeats": night.repeats,
    }


def stored_names(paths: RunPaths) -> Names:
    """Return the short names of a run's messages and, if the ops table is small, of its ops."""
    ops = paths.table("ops")
    inside = not paths.record.is_symlink() and is_plain(ops)
    small = inside and ops.stat().st_size <= MAX_OPS_BYTES
    plan, scripted = _plan(paths, []), is_plain(paths.steps)
    return Names(RunTables(paths), plan, scripted=scripted, with_ops=small)


def _of_verdict(
    verdict: Verdict, plan: Plan | None, story: Story | None, *, names: Names
) -> dict[str, object]:
    faults = _confirmed(verdict.stats)
    as_told = story.as_expected if story else None
    signature = signature_of(verdict, plan, faults, as_told=as_told)
    operations, throughput = _traffic(verdict.stats)
    head = headline(verdict)
    return {
        "verdict": verdict.valid.value,
        "tone": _tone(head, as_told=as_told),
        "verdict_class": class_of(verdict, as_told=as_told),
        "ending": "" if as_told is None else Ending.AS_TOLD if as_told else Ending.OTHERWISE,
        "judge": verdict.judge,
        "sentence": names(head.sentence)[:_MAX_SENTENCE],
        "cause": names(_cause(verdict, head))[:_MAX_WITNESS],
        "witness": names(_witness(verdict, head, story))[:_MAX_WITNESS],
        "anomalies": _named((name, counting(each)) for name, each in ranked_anomalies(verdict)),
        "faults": _named(sorted(faults.items())),
        "signature": signature.key if signature else "",
        "signature_sentence": signature.sentence if signature else "",
        "operations": operations,
        "throughput": throughput,
    }


def _tone(head: Headline, *, as_told: bool | None) -> str:
    """Return the colour of a run.

    A scripted run that shows its intended anomaly is not a failure. A scripted run that ends in
    another way than expected never gets the colour of a valid run.
    """
    if as_told:
        return "told"
    return "unknown" if as_told is False and head.tone in {"valid", "allowed"} else head.tone


def _named(counts: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    return tuple(
        (inert(name[:_MAX_NAME]), count) for name, count in itertools.islice(counts, _MAX_NAMES)
    )


def _cause(verdict: Verdict, head: Headline) -> str:
    """Return the cause of the main anomaly as a sentence; "" if unknown."""
    return said(head.cause) if head.cause and verdict.valid is not Validity.UNKNOWN else ""


def _witness(verdict: Verdict, head: Headline, story: Story | None) -> str:
    """Return the sentence of the main anomaly. For an unknown verdict, return the reason."""
    if verdict.valid is Validity.VALID and story and story.as_expected is False:
        return said("; ".join(story.differs))
    if verdict.valid is Validity.UNKNOWN:
        return said(heaviest_reason(verdict) or "no reason was recorded")
    return said(head.witness.sentence) if head.witness else ""


def _confirmed(stats: Mapping[str, object]) -> dict[str, int]:
    """Return, for each kind of fault, how many faults took effect."""
    counts = {
        str(kind): _number(_mapping(each).get("confirmed"))
        for kind, each in _mapping(stats.get("faults")).items()
    }
    return {kind: int(count) for kind, count in counts.items() if count}


def _traffic(stats: Mapping[str, object]) -> tuple[int | None, float | None]:
    by_f = [_mapping(each) for each in _mapping(stats.get("ops")).values()]
    if not by_f:
        return None, None
    operations = sum(_number(count) for each in by_f for count in each.values())
    succeeded = sum(_number(each.get("ok")) for each in by_f)
    phases = _mapping(stats.get("phases_s"))
    loaded_s = sum(_number(phases.get(name)) for name in _WITH_CLIENTS)
    return int(operations), succeeded / loaded_s if loaded_s else None


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _number(value: object) -> float:
    """Return a value as a number; 0 if it is not a number or is impossibly large."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return value if abs(value) < _MAX_FIGURE else 0  # The comparison is false for NaN.


def _plan(paths: RunPaths, troubles: list[str]) -> Plan | None:
    if not is_plain(paths.plan):
        return None
    try:
        return plan_from(load_plan(paths.plan))
    except PlanError as trouble:
        troubles.append(str(trouble))
        return None


def _verdict(paths: RunPaths, troubles: list[str]) -> Verdict | None:
    if not is_plain(paths.verdict):
        return None
    try:
        return read_verdict(paths.verdict)
    except StoreError as trouble:
        troubles.append(str(trouble))
        return None
    except RecursionError:
        troubles.append(
            f"the verdict {paths.verdict} cannot be read: its values are nested too deeply"
        )
        return None


def _story(paths: RunPaths, troubles: list[str]) -> Story | None:
    if not is_plain(paths.story):
        return None
    try:
        return load_story(paths.story)
    except (OSError, ValueError, RecursionError) as trouble:
        troubles.append(f"{paths.story} cannot be read: {trouble}")
        return None


def _night(paths: RunPaths, troubles: list[str]) -> Night | None:
    if not is_plain(paths.night):
        return None
    try:
        return read_night(paths.night)
    except StoreError as trouble:
        troubles.append(str(trouble))
        return None


def _printable(parts: dict[str, object]) -> dict[str, object]:
    """Cut long texts. Escape surrogate halves, because SQLite cannot store these."""
    texts = {
        key: inert(each[:_MAX_SENTENCE])
        for key, each in parts.items()
        if isinstance(each, str) and not isinstance(each, RunState)
    }
    return {**parts, **texts}


def _started(paths: RunPaths) -> str:
    """Return the start time from the folder's name, or else the folder's modification time."""
    name = paths.root.name
    if name[8:9] == "T" and name[15:16] == "Z":
        return name[:_STARTED_DIGITS]
    changed = datetime.fromtimestamp(paths.root.stat().st_mtime, UTC)
    return changed.strftime("%Y%m%dT%H%M%SZ")


def is_plain(path: Path) -> bool:
    """Return whether a path is a regular file, not a link or pipe, and not too large."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size <= MAX_VERDICT_BYTES


def _stamp(path: str) -> str:
    try:
        found = os.lstat(path)
    except OSError:
        return "-"
    return f"{found.st_mtime_ns}.{found.st_size}"


def _size(folder: Path) -> int:
    """Return the total size of all files in a folder."""
    total, folders = 0, [os.fspath(folder)]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_size
        except OSError:
            continue
    return total
