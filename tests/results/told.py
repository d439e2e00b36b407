"""Made verdicts with the words and the order that the judge gives to a verdict."""

from dataclasses import replace

from checkers.telling import ranked, words_of
from results.page.headline import decides
from results.record.terms import AnomalyClass
from results.record.verdict import Verdict


def told(verdict: Verdict) -> Verdict:
    """Return a verdict with the words of its anomalies, and with their order."""
    words = words_of(verdict.checked, verdict.anomalies, {})
    deciding = [
        name
        for name, each in verdict.anomalies.items()
        if decides(each) and each.anomaly_class is not AnomalyClass.HARNESS
    ]
    order = ranked(verdict.anomalies, words, weighty=deciding, light=())
    return replace(verdict, words=words, ranked=order)
