"""Made verdicts with the words and the order that the judge gives to a verdict."""

from dataclasses import replace

from checkers.registry import CHECKERS
from checkers.telling import ranked, words_of
from results.record.terms import AnomalyClass
from results.record.verdict import Verdict
from results.wording.headline import decides


def told(verdict: Verdict) -> Verdict:
    """Return a verdict with the words of its anomalies, and with their order."""
    found = verdict.anomalies
    every = [
        (each.name, each.told_as(found[each.name].examples))
        for each in CHECKERS
        if each.name in found
    ]
    other = {name: fitting for name, fitting in every if fitting is not None}
    words = words_of(verdict.checked, found, other)
    deciding = [
        name
        for name, each in verdict.anomalies.items()
        if decides(each) and each.anomaly_class is not AnomalyClass.HARNESS
    ]
    order = ranked(verdict.anomalies, words, weighty=deciding, light=other)
    return replace(verdict, words=words, ranked=order)
