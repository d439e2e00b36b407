"""The HTML page of a run: one file without scripts or outside resources.

The page is made from stored files, so it can be written again at any time. This also works for a
run that died. If data is missing, the page says so or is shorter. All text that Logquake did not
write itself is made harmless by `inert`, and the template escapes it.
"""

import itertools
import shlex
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from results.engine import template_engine
from results.environment import read_environment
from results.page.bundles import bundle_link
from results.page.facts import facts_of
from results.page.fault_kinds import kind_lines
from results.page.figures import figures
from results.page.files import file_links, link_to
from results.page.final_files import final_files
from results.page.investigation import Investigation, investigate
from results.page.outages import outages
from results.page.replicas import ReplicaWindow, replica_window
from results.page.setting import setting_rows
from results.page.story import StoryPage, story_page
from results.page.timeline import timeline
from results.page.twins import twin_of
from results.phases import counted_from
from results.plots.canvas import load as load_plots
from results.plots.canvas import standalone
from results.plots.latency import lag_plot, latency_plot
from results.plots.outages import outages_plot
from results.plots.rates import rates_plot
from results.record.atomic import StoreError, write_atomically
from results.record.hidden import plan_without_secrets
from results.record.paths import RunPaths
from results.record.plan import SIMULATED
from results.record.reading import read_bytes
from results.record.terms import F, Judge
from results.record.verdict import AnomalySummary, Example
from results.samples import SAMPLE_PREFIX, is_sample
from results.signature import reason_for
from results.tables import RunTables
from results.trust import is_own
from results.wording.amounts import size
from results.wording.faults import FaultLine, fault_lines
from results.wording.glossary import GLOSSARY, terms_in
from results.wording.headline import Headline, clauses, ranked_anomalies
from results.wording.inert import inert, shortened
from results.wording.resting import resting

MAX_FAULTS = 200
"""Maximum number of faults in the fault table. Time lines and the table of kinds show all faults.
"""
MAX_PLAN = 200_000
MAX_ANOMALIES = 60
"""Maximum number of anomaly names. Logquake has about forty."""
MAX_WINDOWS = 400
"""Maximum number of drawings of replicas' logs. Each drawing reads the tables."""
TIME_LINE = "timeline.html"
TEMPLATE = "report.html"


def load() -> None:
    """Load templates and plots in advance, because loading takes a second."""
    template_engine().get_template(TEMPLATE)
    load_plots()


def write_report(paths: RunPaths, *, output: Path | None = None) -> Path:
    """Write the page of a run, and its plots as files next to it.

    The page of a scripted run also shows a run with another rule, if the store has one. The page of
    the other run is then written again too, because it shows this run. A page that belongs to
    another user stays unchanged.

    Args:
        paths: The run.
        output: The file to write instead of the run's `report.html`. No separate plot files are
            then written. By default, a sample's page goes to the current folder.

    Returns:
        The page file.

    Raises:
        StoreError: The page cannot be written.
    """
    if output is None and is_sample(paths):
        output = Path(f"{paths.root.name}.html")
    page = output or paths.report
    _write(paths, page=page)
    if output is None and (other := twin_of(paths)) and is_own(other):
        _write(other, page=other.report)
    return page


def _write(paths: RunPaths, *, page: Path) -> None:
    plots = _plots(paths, RunTables(paths))
    if page == paths.report:
        for name, svg in plots.items():
            write_atomically(paths.root / "plots" / f"{name}.svg", standalone(svg))
    write_atomically(page, render_report(paths, page=page, plots=plots))


def render_report(
    paths: RunPaths, *, page: Path | None = None, plots: Mapping[str, str] | None = None
) -> str:
    """Return the page of a run as HTML text.

    Args:
        paths: The run.
        page: Path of the page to write; links to the run's files are relative to this path.
        plots: Plots as SVG, by name; None to make them here.
    """
    tables = RunTables(paths)
    found = investigate(paths, tables)
    where = (page or paths.report).absolute()
    story = story_page(paths, page=page or paths.report)
    names = found.names
    context = {
        "paths": paths,
        "found": found,
        "head": found.head,
        "facts": facts_of(found.head.witness, found.case.reigns if found.case else (), found.told),
        "verdict": found.verdict,
        "rests": resting(found.verdict) if found.verdict else (),
        "story": story,
        "in_words": names.linked,
        "names": names,
        "quoted": shlex.quote,
        "id": id,
        "glossary": GLOSSARY,
        "clauses": clauses,
        "terms": terms_in(f"{found.head.sentence} {found.head.cause} {found.witness_says}"),
        **_evidence(paths, tables, found),
        **_statistics(paths, tables, found, plots=plots),
        "coverage": found.coverage,
        "timeline": timeline(
            tables,
            milestones=found.milestones,
            faults=found.faults,
            verdict=found.verdict,
            named=names.titled,
        ),
        **_setting(paths, found),
        "files": file_links(paths, where.parent),
        "bundle": bundle_link(paths, run_name(paths), base=where.parent),
        "whole_time_line": _whole_time_line(paths, where.parent),
        "command": run_name(paths),
        "plan_command": f"logquake run {_plan_name(paths)}",
        "other_judge": _other_judge(found),
        "simulated": found.plan is not None and found.plan.hosts == SIMULATED,
        "troubles": _troubles(tables, found, story),
    }
    return template_engine().get_template(TEMPLATE).render(context)


def _other_judge(found: Investigation) -> Judge:
    """Return a judge other than the verdict's judge: `strict` if possible."""
    is_strict = found.verdict is not None and found.verdict.judge == Judge.STRICT
    return Judge.CONTRACT if is_strict else Judge.STRICT


def _evidence(paths: RunPaths, tables: RunTables, found: Investigation) -> dict[str, object]:
    verdict, head = found.verdict, found.head
    ranked = ranked_anomalies(verdict) if verdict else []
    return {
        "window": _witness_window(tables, head),
        "anomalies": ranked[:MAX_ANOMALIES],
        "follows": _followers(ranked[:MAX_ANOMALIES], found),
        "places": {name: _places(each) for name, each in ranked[:MAX_ANOMALIES]},
        "more_anomalies": max(0, len(ranked) - MAX_ANOMALIES),
        "windows": _windows(tables, ranked[:MAX_ANOMALIES], head),
        "final_files": final_files(paths, head.witness),
        "truncations": found.truncations,
    }


def _places(summary: AnomalySummary) -> str:
    """Return the number of examples in each partition, if there are several partitions: `a 2, b 1`.

    The text is empty if the verdict does not have an example of each anomaly.
    """
    if len(summary.examples) < summary.count:
        return ""
    found = Counter(f"{each.topic}-{each.partition}" for each in summary.examples if each.topic)
    counts = sorted(found.items(), key=lambda each: (-each[1], each[0]))
    return ", ".join(f"{place} {count}" for place, count in counts) if len(counts) > 1 else ""


def _followers(
    ranked: Sequence[tuple[str, AnomalySummary]], found: Investigation
) -> dict[str, tuple[str, str]]:
    """Return (cause, reason) for each anomaly that another anomaly causes."""
    signature = found.recurrence.signature
    roots = signature.anomalies if signature else ()
    words = found.verdict.words if found.verdict else {}
    told = {name: reason_for(name, roots, words) for name, _ in ranked if name not in roots}
    return {name: reason for name, reason in told.items() if reason}


def _statistics(
    paths: RunPaths, tables: RunTables, found: Investigation, *, plots: Mapping[str, str] | None
) -> dict[str, object]:
    faults, milestones = found.faults, found.milestones
    drawn = _plots(paths, tables) if plots is None else plots
    broken, whole = outages(tables, faults)
    return {
        "milestones": milestones,
        "troubled": [each for each in milestones if "failed" in each.detail],
        "faults": faults,
        "shown_faults": _shown_faults(faults, found),
        "fault_kinds": kind_lines(faults),
        "counted_from": counted_from(milestones),
        "plots": {name: Markup(svg) for name, svg in drawn.items()},  # noqa: S704 - our own SVG
        "figures": figures(tables),
        "outages": broken,
        "never_out": whole,
    }


def _shown_faults(faults: list[FaultLine], found: Investigation) -> list[FaultLine]:
    """Return the faults for the table; of too many faults, the ones nearest to the main anomaly."""
    if len(faults) <= MAX_FAULTS:
        return faults
    middle = sum(found.told.window) / 2 if found.told else 0.0
    nearest = sorted(faults, key=lambda each: abs(each.requested_s - middle))[:MAX_FAULTS]
    return sorted(nearest, key=lambda each: (each.requested_s, each.fault_id))


def _setting(paths: RunPaths, found: Investigation) -> dict[str, object]:
    values, rows = _environment(paths)
    text = plan_without_secrets(_text(paths.plan))
    plan = _plan(text)
    return {
        "plan": plan,
        "plan_text": escape(inert(shortened(text, MAX_PLAN), keep="\n")),
        "environment": rows,
        "setting": setting_rows(plan, values, night=found.recurrence.night),
    }


def _troubles(tables: RunTables, found: Investigation, story: StoryPage | None) -> list[str]:
    told = [found.trouble] if found.trouble else []
    told += [f"{each} is damaged" for each in tables.unreadable]
    return list(dict.fromkeys([*told, *(story.troubles if story else ())]))


def _whole_time_line(paths: RunPaths, base: Path) -> str | None:
    """Return the link to the page with the whole time line, or None if there is no such page."""
    if not (paths.root / TIME_LINE).is_file():
        return None
    return link_to(TIME_LINE, inside=base == paths.root.absolute())


def run_name(paths: RunPaths) -> str:
    """Return a run's name for the command line, quoted for a shell."""
    if is_sample(paths):
        return SAMPLE_PREFIX + paths.root.name
    return shlex.quote(inert(f"{paths.root.parent.parent.name}/{paths.run_id}"))


def _plan_name(paths: RunPaths) -> str:
    if is_sample(paths):
        return "plan.toml  # with the plan below, saved as plan.toml"
    return shlex.quote(inert(f"{paths.root.parent.parent.name}/{paths.run_id}/plan.toml"))


def _plots(paths: RunPaths, tables: RunTables) -> dict[str, str]:
    if paths.steps.exists():
        return {}  # A scripted run sends too few messages for a rate.
    faults = fault_lines(tables)
    drawn = {"rates": rates_plot(tables, faults=faults)}
    for f in (F.SEND, F.POLL, F.TXN):
        drawn[f"latency-{f}"] = latency_plot(tables, f=f, faults=faults)
    drawn["lag"] = lag_plot(tables, faults=faults)
    last = max((row["second"] or 0 for row in tables.statistics("rates").to_pylist()), default=0)
    drawn["outages"] = outages_plot(outages(tables, faults)[0], faults=faults, end_s=last + 1.0)
    return {name: svg for name, svg in drawn.items() if svg}


def _witness_window(tables: RunTables, head: Headline) -> ReplicaWindow | None:
    return replica_window(tables, head.witness) if head.witness else None


def _windows(
    tables: RunTables, ranked: Sequence[tuple[str, AnomalySummary]], head: Headline
) -> dict[int, ReplicaWindow]:
    """Return a drawing of replicas' logs for each place, by the `id()` of an example there."""
    drawn = {_where(head.witness)} if head.witness else set()
    windows: dict[int, ReplicaWindow] = {}
    for example in itertools.chain(*(summary.examples for _, summary in ranked)):
        if len(windows) >= MAX_WINDOWS:
            break
        window = None if _where(example) in drawn else replica_window(tables, example)
        drawn.add(_where(example))
        if window is not None:
            windows[id(example)] = window
    return windows


def _where(example: Example) -> tuple[str, str, int, int]:
    return example.topic, example.topic_id, example.partition, example.offset


def _text(path: Path) -> str:
    try:
        return read_bytes(path).decode("utf-8", errors="surrogateescape")
    except OSError:
        return ""


def _plan(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return {}


def _environment(paths: RunPaths) -> tuple[dict[str, object], list[tuple[str, str]]]:
    """Return the values of the run's `environment.json`, and the same values as rows of a table."""
    try:
        values = read_environment(paths.environment)
    except StoreError as trouble:
        return {}, [("environment.json", str(trouble))]
    rows = []
    for key, value in values.items():
        if key == "memory_bytes" and isinstance(value, int):
            rows.append(("memory", size(value)))
        elif isinstance(value, dict):
            rows.append((key, "; ".join(f"{name} {each}" for name, each in value.items())))
        elif value is not None and key != "schema_version":
            rows.append((key.replace("_", " "), str(value)))
    return values, rows
