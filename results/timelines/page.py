"""Write `timeline.html`, a separate page with the whole time line of a run."""

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from markupsafe import Markup

from results.engine import template_engine
from results.record.atomic import write_atomically
from results.record.clock import NS_PER_S
from results.record.milestones import load_milestones
from results.record.paths import RunPaths
from results.record.plan import Plan, PlanError, load_plan, plan_from
from results.samples import is_sample
from results.tables import RunTables
from results.timelines.blocks import COLUMNS, DIFFERENCES, Block, blocks, packed_counts
from results.timelines.chart import bokeh_script, chart
from results.timelines.levels import CLOSE_OPS, Level, levels
from results.timelines.operations import (
    KINDS,
    OUTCOMES,
    PHASES,
    Operations,
    load_operations,
)
from results.timelines.spans import Spans, fault_spans, leader_spans
from results.wording.glossary import GLOSSARY
from results.wording.naming import names_of

NAME = "timeline.html"
_TEMPLATES = Path(__file__).resolve().parent.parent / "templates"
_SHORTEST_RUN_S = 0.001


def write_timeline(paths: RunPaths, *, output: Path | None = None) -> Path:
    """Write the page with the whole time line of a run.

    Args:
        paths: The run.
        output: The file to write instead of `timeline.html` in the run's folder. By default, a
            sample's page goes to the current folder.

    Returns:
        The page file.

    Raises:
        StoreError: A table is damaged, or the page cannot be written.
    """
    if output is None:
        sample = is_sample(paths)
        output = Path(f"{paths.root.name}-{NAME}") if sample else paths.root / NAME
    write_atomically(output, render_timeline(paths, page=output))
    return output


def render_timeline(paths: RunPaths, *, page: Path | None = None) -> str:
    """Return the page with the whole time line of a run as HTML text.

    Args:
        paths: The run.
        page: Path of the page to write. If the run's report is in the same folder, the page has a
            link to the report.

    Raises:
        StoreError: A table is damaged.
    """
    tables = RunTables(paths)
    operations = load_operations(paths, concurrency=_plan(paths).concurrency)
    end_ns = _end_ns(paths, operations)
    faults = fault_spans(tables, end_ns / NS_PER_S)
    leaders = leader_spans(tables)
    counted = levels(operations, end_ns)
    packed = list(blocks(operations))
    above = (*faults.lanes, *leaders.lanes)
    scripts = [
        bokeh_script(),
        (_TEMPLATES / "timelines.js").read_text(encoding="utf-8"),
    ]
    values = _values(operations, counted, packed, end_s=end_ns / NS_PER_S)
    values["prefixes"] = names_of(paths).prefixes
    values |= {"faults": _spans(faults), "leaders": _spans(leaders), "above": above}
    values["chart"] = chart(end_s=end_ns / NS_PER_S, above=above, below=operations.lanes)
    beside = page is None or page.absolute().parent == paths.root.absolute()
    context = {
        "paths": paths,
        "operations": operations.count,
        "left_out": sum(block.count for block in packed if not block.data),
        "faults": len({span.lines[0] for span in faults.spans}),
        "leaders_left_out": leaders.left_out,
        "troubles": [f"{each} is damaged" for each in tables.unreadable],
        "report": paths.report.name if beside else None,
        "glossary": GLOSSARY,
        "policy": " ".join(_hash(script) for script in scripts),
        "scripts": [Markup(script) for script in scripts],  # noqa: S704 - Bokeh's, and ours
        "values": _json(values),
        # Base64 contains no HTML characters, and must not be shortened.
        "levels": [Markup(packed_counts(level.counts)) for level in counted],  # noqa: S704 - it is base64
        "blocks": [Markup(block.data) for block in packed],  # noqa: S704 - it is base64
    }
    return template_engine().get_template("timelines.html").render(context)


def _plan(paths: RunPaths) -> Plan:
    try:
        return plan_from(load_plan(paths.plan))
    except PlanError:
        return Plan()


def _end_ns(paths: RunPaths, operations: Operations) -> int:
    milestones = max((each.at_ns for each in load_milestones(paths.milestones)), default=0)
    ops = (int(column.max(initial=0)) for column in (operations.invoke_ns, operations.complete_ns))
    return max(milestones, *ops, int(_SHORTEST_RUN_S * NS_PER_S))


def _values(
    operations: Operations, counted: Iterable[Level], packed: Iterable[Block], *, end_s: float
) -> dict[str, Any]:
    """Return the values that the page's script needs besides the packed data."""
    return {
        "end": end_s,
        "close": CLOSE_OPS,
        "lanes": operations.lanes,
        "kinds": KINDS,
        "outcomes": OUTCOMES,
        "phases": PHASES,
        "places": operations.places,
        "errors": operations.errors,
        "terms": {outcome: GLOSSARY[outcome] for outcome in OUTCOMES},
        "columns": COLUMNS,
        "differences": DIFFERENCES,
        "spans": [level.spans for level in counted],
        "blocks": [
            {"start": each.start_us, "end": each.end_us, "count": each.count,
             "longest": each.longest_us, "rows": each.rows, "there": bool(each.data)}
            for each in packed
        ],
    }  # fmt: skip


def _spans(spans: Spans) -> Mapping[str, Any]:
    return {"lanes": len(spans.lanes), "spans": [asdict(span) for span in spans.spans]}


def _json(values: Mapping[str, Any]) -> Markup:
    """Return JSON for a script element; it is escaped, so that it cannot end the element."""
    text = json.dumps(values, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))  # noqa: S704 - escaped here


def _hash(script: str) -> str:
    """Return a script's hash for the page's security policy, which allows only this script."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
