"""Read and collect the parts of a hunt, including parts that other machines played."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from harness.reaching import from_a_file, reaching
from harness.suites.hunting.failures import FAILURES
from harness.suites.hunting.plans import plan_of
from harness.suites.night import NightState
from harness.suites.nights import NightFolder, state_of
from harness.suites.suite import Suite, SuiteError
from results.record.atomic import store_error, write_atomically
from results.record.plan import PlanError
from results.trust import is_own_file

Identity = tuple[str, str, float]


def part_of(journal: Path) -> NightState:
    """Return the part of a hunt that a journal records.

    Raises:
        SuiteError: The journal is not the journal of a hunt. Or one of its plans names a system
            whose file determines commands and addresses. Or other users can write the journal, and
            a plan affects more than its run. Such plans are rejected, because reruns would play
            them.
    """
    state = state_of(journal)
    if not state.night or not all(item.planned.plan for item in state.items.values()):
        raise SuiteError(f"{journal} is not the journal of a hunt")
    own = is_own_file(journal)
    for item in state.items.values():
        try:
            plan = plan_of(item.planned)
        except PlanError:  # The plan cannot be played.
            continue
        if refusal := from_a_file(plan.named, f"the journal {journal}"):
            raise SuiteError(refusal)
        if not own and (beyond := reaching(plan)):
            key, value = next(iter(beyond.items()))
            raise SuiteError(
                f"another user may have written the journal {journal}, and the {key} {value} of"
                f" its run {item.entry} reaches beyond the run. To allow this, make the file"
                " yours (chown), and writable only by you (chmod go-w)"
            )
    return state


def distinct(parts: Iterable[NightState]) -> list[NightState]:
    """Return each part once, the oldest first. If a part has two copies, keep the longer one."""
    found: dict[Identity, NightState] = {}
    for part in parts:
        key = identity(part)
        if key not in found or _last_at(found[key]) <= _last_at(part):
            found[key] = part
    return sorted(found.values(), key=lambda part: (part.begun_at, part.night))


def identity(part: NightState) -> Identity:
    """Return what identifies a part. A night id is not enough: two machines may use the same."""
    return part.suite, part.night, part.begun_at


def _last_at(part: NightState) -> float:
    return max((end for _, end in part.spans), default=0.0)


def keep(journals: Sequence[Path], folder: NightFolder) -> None:
    """Copy parts from other stores, and the files of the failures, into a part's folder.

    Raises:
        SuiteError: A journal is not a hunt's.
        StoreError: A file cannot be written.
    """
    try:
        _keep(journals, folder)
    except OSError as refused:
        raise store_error(folder.before, refused) from refused


def _keep(journals: Sequence[Path], folder: NightFolder) -> None:
    known, own = [state_of(each) for each in folder.kept], identity(folder.state())
    for journal in journals:
        part = part_of(journal)
        if part in known or identity(part) == own:
            continue
        known.append(part)
        # The journal comes last, because with it the part counts as kept.
        for file in sorted((journal.parent / FAILURES).glob("[!.]*")):
            write_atomically(folder.before / FAILURES / file.name, file.read_bytes())
        copy = folder.before / f"{len(folder.kept) + 1}.jsonl"
        write_atomically(copy, journal.read_bytes())


def differences(begun: Suite, asked: Suite) -> list[str]:
    """Return one sentence for each difference between the suite of a part and the current suite."""
    then, now = _values(begun), _values(asked)
    return [
        f"{key} was {_text(then.get(key))}, but is now {_text(now.get(key))}"
        for key in {**then, **now}
        if then.get(key) != now.get(key)
    ]


def _values(suite: Suite) -> dict[str, object]:
    values = suite.model_dump(mode="json")
    hunt = values.pop("hunt") or {}
    return {**values, **{f"hunt.{key}": value for key, value in hunt.items()}}


def _text(value: object) -> str:
    if isinstance(value, dict):
        value = [f"{key} = {each}" for key, each in value.items()]
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)
