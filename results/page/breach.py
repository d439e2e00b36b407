"""Describe the broken promise, with the ids of the anomaly, and name the verdict's class."""

from dataclasses import dataclass

from results.page.witness import isr_words
from results.record.clock import seconds
from results.record.verdict import Evidence, Verdict
from results.signature import class_of
from results.wording.headline import Headline, broker_name

_TIMES = ("acknowledged_ns", "completed_ns", "complete_ns", "announced_observed_ns", "observed_ns",
          "later_observed_ns", "from_ns", "seen_ns")  # fmt: skip
_VALUES = ("value", "values", "polled_values", "acknowledged_values")
_BROKERS = ("leader_then", "announced_by", "later_by", "leader", "leaders", "broker")
_NODES = ("node", "nodes")
_EPOCHS = ("leader_epoch_then", "announced_epoch", "later_epoch", "leader_epoch", "epoch")
_CLASSES = {
    "": "No promise was broken.",
    "safety": "Safety: something happened that must never happen.",
    "liveness": "Liveness: something did not happen within the plan's time budget.",
    "harness": "Harness: the run itself was insufficient, so it proves nothing about the system.",
    "unknown": "Unknown: the record is not sufficient to decide whether a promise was broken.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """A broken promise of the system under test.

    Attributes:
        how: The label: `Broken promise` or `Broken rule of the strict judge`. If the verdict is not
            invalid: `Promise not kept` or `Promise that may be broken`.
        promise: The guarantee, as a sentence; empty if none is known.
        beside: The judge's remark: why only the strict judge forbids the anomaly, or why the
            anomaly is not trusted; empty if none.
        where: The ids of the anomaly: `log-0-1, offset 121, value 8589935713, broker 1 (n1), leader
            epoch 4`.
    """

    how: str
    promise: str
    beside: str
    where: str


def verdict_class(verdict: Verdict | None) -> tuple[str, str]:
    """Return the class of a verdict and its meaning. The class is "" if the verdict has none."""
    if verdict is None:
        return "", "The run was not judged."
    name = class_of(verdict)
    return name, _CLASSES[name]


def breach_of(head: Headline) -> Breach | None:
    """Return the promise that the main anomaly breaks, or None if no promise is broken."""
    if head.witness is None or head.anomaly is None:
        return None
    witness = head.witness
    ids = [f"{witness.topic}-{witness.partition}"] if witness.topic else []
    if witness.offset >= 0:
        ids.append(f"offset {witness.offset}")
    ids += _ids(witness.evidence)
    doubtful = "Promise not kept" if witness.trusted else "Promise that may be broken"
    beside = "" if witness.allowed else witness.why
    broken = "Broken rule of the strict judge" if beside and witness.trusted else "Broken promise"
    how = broken if head.tone == "invalid" else doubtful
    return Breach(how=how, promise=head.promise, beside=beside, where=", ".join(ids))


def _ids(evidence: Evidence) -> list[str]:
    told = []
    if values := _numbers(evidence, _VALUES):
        told.append(f"value{'s' if len(values) > 1 else ''} {' and '.join(map(str, values[:2]))}")
    if brokers := _numbers(evidence, _BROKERS):
        told.append(" and ".join(broker_name(each) for each in brokers[:3]))
    elif nodes := _first(evidence, _NODES):
        told.append(" and ".join(nodes) if isinstance(nodes, list) else str(nodes))
    if epochs := _numbers(evidence, _EPOCHS):
        told.append(f"leader epoch {epochs[0]}")
    if isinstance(evidence.get("isr"), list):
        told.append(f"ISR {isr_words(evidence['isr'])}")
    if times := _numbers(evidence, _TIMES):
        told.append(f"at {seconds(times[0])}")
    return told


def _numbers(evidence: Evidence, keys: tuple[str, ...]) -> list[int]:
    found = _first(evidence, keys)
    several = found if isinstance(found, list) else [found]
    return [each for each in several if isinstance(each, int) and not isinstance(each, bool)]


def _first(evidence: Evidence, keys: tuple[str, ...]) -> object:
    return next((evidence[key] for key in keys if evidence.get(key) not in (None, [])), None)
