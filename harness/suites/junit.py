"""Convert a night to JUnit XML for CI systems (schema: Jenkins' xunit plugin, `junit-10.xsd`).

Each entry is a test case. A broken promise is a failure. A run without a verdict is an error, never
a success. An entry that did not fit in the budget is a skipped test. A failure reports how often it
recurred. A rerun that failed is a test case of its own.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

from harness.suites.causes import Cause
from harness.suites.night import Item, NightState, Phase
from harness.suites.repeats import uncounted
from results.record.terms import Validity
from results.wording.headline import ALLOWED
from results.wording.inert import inert


def junit_xml(state: NightState, causes: Sequence[Cause]) -> bytes:
    """Return a night as JUnit XML.

    Args:
        state: The night's state.
        causes: The causes of failures in all nights of the suite up to this one.
    """
    items = [each for each in state.items.values() if not each.repeated or _failed(each)]
    cases = [_case(each, state, causes) for each in items]
    suite = ET.Element("testsuite", _attributes(state, cases))
    properties = ET.SubElement(suite, "properties")
    for name, value in (("night", state.night), ("budget_s", f"{state.budget_s:g}")):
        ET.SubElement(properties, "property", {"name": name, "value": value})
    suite.extend(cases)
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    text: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return text


def _attributes(state: NightState, cases: Sequence[ET.Element]) -> dict[str, str]:
    def holding(tag: str) -> str:
        return str(sum(case.find(tag) is not None for case in cases))

    begun = datetime.fromtimestamp(state.begun_at, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return {
        "name": inert(state.suite),
        "tests": str(len(cases)),
        "failures": holding("failure"),
        "errors": holding("error"),
        "skipped": holding("skipped"),
        "time": f"{state.active_s:.3f}",
        "timestamp": begun,
    }


def _case(item: Item, state: NightState, causes: Sequence[Cause]) -> ET.Element:
    again = f" ({item.planned.why.value} {item.planned.seed})" if item.repeated else ""
    case = ET.Element(
        "testcase",
        {
            "name": inert(item.entry) + again,
            "classname": f"logquake.{inert(state.suite)}",
            "time": f"{item.took_s:.3f}",
        },
    )
    cause = next((each for each in causes
                  if item.judged and each.key == item.judged.signature), None)  # fmt: skip
    match item.outcome:
        case Validity.INVALID:
            _told(case, "failure", item, cause=cause, state=state)
        case Validity.UNKNOWN:
            _told(case, "error", item, cause=cause, state=state)
        case Validity.VALID:
            pass
        case None:
            ET.SubElement(case, "skipped", {"message": _why_not(item, state)})
    if item.run_id:
        out = ET.SubElement(case, "system-out")
        out.text = inert("\n".join(_lines(item)), keep="\n")
    return case


def _told(
    case: ET.Element, tag: str, item: Item, *, cause: Cause | None, state: NightState
) -> None:
    judged = item.judged
    message = (judged.sentence or judged.reason) if judged else item.sentence
    kind = judged.signature if judged and judged.signature else "no-verdict"
    found = ET.SubElement(case, tag, {"message": inert(message), "type": kind})
    told = [judged.reason if judged else item.sentence]
    if cause is not None:
        first, last = cause.nights[0], cause.nights[-1]
        told += [
            "new tonight" if cause.new else f"first seen in the night {first}, last in {last}",
            f"repeats: {cause.repeats.words}",
            *uncounted(state, cause.key),
        ]
    found.text = inert("\n".join(told), keep="\n")


def _lines(item: Item) -> list[str]:
    lines = [f"run {item.run_id}", f"seed {item.planned.seed}"]
    if item.judged is not None and item.tone == ALLOWED:
        lines.append(item.judged.reason or "valid: all anomalies that were found are allowed")
    lines += [f"{each} was interrupted and rerun" for each in item.cut_short]
    lines += [f"not undone: {each}; see: logquake heal" for each in item.left]
    lines += [f"did not reach its end: {item.sentence}"] if item.sentence else []
    return lines


def _why_not(item: Item, state: NightState) -> str:
    if item.phase is Phase.LEFT_OUT:
        return inert(item.sentence)
    return state.stopped or f"the night has not ended: {item.phase.value}"


def _failed(item: Item) -> bool:
    return item.outcome in {Validity.INVALID, Validity.UNKNOWN}
