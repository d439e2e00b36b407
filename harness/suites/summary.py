"""Write a summary of a suite's night as Markdown, with new failures first."""

from collections.abc import Iterable, Sequence

from harness.suites.causes import Cause
from harness.suites.night import Item, NightState, Phase
from harness.suites.repeats import uncounted
from results.record.terms import Validity
from results.repeats import RANGE
from results.wording.headline import ALLOWED
from results.wording.inert import inert
from results.wording.plural import many

_SIGNS = str.maketrans(
    {sign: f"\\{sign}" for sign in "\\`*_[]|"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
)


def summary_markdown(state: NightState, causes: Sequence[Cause]) -> str:
    """Return a night as Markdown.

    Args:
        state: The night's state.
        causes: The causes in the suite's nights up to this night, new causes first.
    """
    broken = [each for each in causes if each.tonight and each.valid == Validity.INVALID]
    parts = [
        [f"# {_text(state.suite)}, night {_text(state.night)}", "", _headline(state), ""],
        _section("New tonight", [each for each in broken if each.new], state),
        _known([each for each in broken if not each.new], state),
        _unknown(state, causes),
        _gone(causes),
        _unplayed(state),
        _dropped(state),
        _table(state),
        _figures(state),
    ]
    return "\n".join(line for part in parts for line in part) + "\n"


def counts(state: NightState) -> dict[str, int]:
    """Return how many entries have each outcome. Reruns are not counted.

    A run that is valid only because its anomalies are allowed counts as `allowed`.
    """
    tones = (*Validity, ALLOWED, Phase.LEFT_OUT)
    found = {"valid": 0, ALLOWED: 0, "invalid": 0, "unknown": 0, "left out": 0, "not over": 0}
    for item in state.planned:
        found[item.tone if item.tone in tones else "not over"] += 1
    return found


def beyond_main(state: NightState) -> float | None:
    """Return the share of the night without a run in its main phase; None without main phases.

    The night counts only while a process played it, up to the verdict on the last run. Main phases
    that overlap count once, because the sum of all main phases could be longer than the night. Runs
    that were cut short do not count, because they were played again.
    """
    phases = sorted((each.main_at, each.main_at + each.main_s) for each in _with_main(state))
    if not phases or not state.active_s:
        return None
    covered_s, until = 0.0, 0.0
    for begins, ends in phases:
        covered_s += max(0.0, ends - max(begins, until))
        until = max(until, ends)
    return 1 - covered_s / state.active_s


def _with_main(state: NightState) -> list[Item]:
    return [each for each in state.items.values() if each.main_s]


def _headline(state: NightState) -> str:
    told = [f"{count} {word}" for word, count in counts(state).items() if count]
    repeats = sum(each.repeated and each.judged is not None for each in state.items.values())
    more = f"; {many(repeats, 'repeat')}" if repeats else ""
    over = (
        ""
        if state.ended
        else f" {_text((state.stopped or 'the night has not ended').capitalize())}."
    )
    return f"**{', '.join(told) or 'nothing was planned'}**{more}.{over}"


def _section(title: str, causes: Sequence[Cause], state: NightState) -> list[str]:
    if not causes:
        return [f"## {title}", "", "Nothing.", ""]
    lines = [f"## {title}", ""]
    for cause in causes:
        lines += [f"### {_text(cause.sentence)}", ""]
        lines += [f"- signature `{cause.key}`, {_times(cause)}"]
        lines += [f"- reruns: {cause.repeats.words}. {RANGE}"]
        lines += [f"- {_text(each)}" for each in uncounted(state, cause.key)]
        lines += [_run_line(item) for item in cause.tonight if not item.repeated]
        lines += [_run_line(item) for item in cause.tonight if item.repeated]
        lines += [_run_line(item) for item in _otherwise(state, cause)]
        lines += [""]
    return lines


def _otherwise(state: NightState, cause: Cause) -> list[Item]:
    """Return the reruns of a cause's runs that ended with another verdict or another failure."""
    failed = {each.run_id for each in cause.tonight}
    return [
        each
        for each in state.items.values()
        if each.planned.repeats in failed and each.judged and each.run_id not in failed
    ]


def _known(causes: Sequence[Cause], state: NightState) -> list[str]:
    return _section("Seen before", causes, state) if causes else []


def _times(cause: Cause) -> str:
    times = many(len(cause.runs), "run")
    if len(cause.nights) == 1:
        return f"{times} in the night {_text(cause.nights[0])}"
    return (
        f"{times} in {len(cause.nights)} nights, first {_text(cause.nights[0])}, last"
        f" {_text(cause.nights[-1])}"
    )


def _run_line(item: Item) -> str:
    why = f" ({item.planned.why.words}, {item.planned.seed})" if item.repeated else ""
    told = item.judged.reason if item.judged else ""
    reason = f": {_text(told)}" if told else f": {item.tone}"
    return f"- {_text(item.entry)}{why}, run `{inert(item.run_id)}`{reason}"


def _unknown(state: NightState, causes: Sequence[Cause]) -> list[str]:
    items = [each for each in state.items.values() if each.outcome is Validity.UNKNOWN]
    if not items:
        return []
    fresh = {each.key for each in causes if each.new}
    items.sort(key=lambda each: not (each.judged and each.judged.signature in fresh))
    lines = ["## Without a verdict", ""]
    for item in items:
        why = item.judged.reason if item.judged else item.sentence
        run = f", run `{inert(item.run_id)}`" if item.run_id else ""
        lines.append(f"- {_text(item.entry)}{run}: {_text(why)}")
    return [*lines, ""]


def _gone(causes: Sequence[Cause]) -> list[str]:
    gone = [each for each in causes if not each.tonight and each.valid == Validity.INVALID]
    if not gone:
        return []
    lines = ["## Not seen tonight", ""]
    lines += [f"- {_text(each.sentence)} (`{each.key}`, {_times(each)})" for each in gone]
    return [*lines, ""]


def _unplayed(state: NightState) -> list[str]:
    """Return the section with the reasons why entries were not played, such as a spent budget."""
    items = [each for each in state.planned if each.phase is Phase.LEFT_OUT]
    return _by_reason("Not played", ((each.entry, each.sentence) for each in items))


def _dropped(state: NightState) -> list[str]:
    """Return the section on faults that schedules left out, and why."""
    items = [(each.entry, sentence) for each in state.planned for sentence in each.dropped]
    return _by_reason("Faults that were left out", items)


def _by_reason(title: str, items: Iterable[tuple[str, str]]) -> list[str]:
    """Return a section that lists the entries for each reason.

    Args:
        title: The section's title.
        items: Pairs (entry, reason).
    """
    entries: dict[str, list[str]] = {}
    for entry, reason in items:
        entries.setdefault(reason, []).append(entry)
    lines = [f"- {_text(why)}: {_text(', '.join(those))}" for why, those in entries.items()]
    return [f"## {title}", "", *lines, ""] if lines else []


def _table(state: NightState) -> list[str]:
    lines = ["## Entries", "", "| entry | verdict | run | seed | seconds |"]
    lines += ["| --- | --- | --- | --- | --- |"]
    for item in state.planned:
        run = f"`{inert(item.run_id)}`" if item.run_id else ""
        seed, took = item.planned.seed, f"{item.took_s:.0f}" if item.took_s else ""
        lines.append(f"| {_text(item.entry)} | {item.tone} | {run} | {seed} | {took} |")
    return [*lines, ""]


def _figures(state: NightState) -> list[str]:
    share = beyond_main(state)
    cut = sum(len(each.cut_short) for each in state.items.values())
    main_s = sum(each.main_s for each in _with_main(state))
    lines = ["## Figures", ""]
    lines += [f"- {state.active_s / 60:.1f} of {state.budget_s / 60:.1f} minutes were used"]
    if share is not None:
        at_once = f"{main_s / state.active_s:.2f} at once on average over the night"
        beyond = f"time without a main phase of any run: {share:.0%}"
        lines += [f"- main phases: {main_s:.0f} s in all, {at_once}; {beyond} of the night"]
    if len(state.spans) > 1:
        resumed, were = many(len(state.spans) - 1, "time"), "was" if cut == 1 else "were"
        lines += [f"- resumed {resumed}; {many(cut, 'run')} {were} interrupted by that"]
    for item in state.items.values():
        lines += [f"- not undone: {_text(each)}; see: logquake heal" for each in item.left]
    if state.dropped:
        were = "was" if len(state.dropped) == 1 else "were"
        lines += [f"- {many(len(state.dropped), 'old run')} {were} deleted"]
    return lines


def _text(text: str) -> str:
    """Return a text with all Markdown and HTML escaped."""
    return inert(text).translate(_SIGNS)
