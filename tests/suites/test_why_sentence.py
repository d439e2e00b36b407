"""Why a failure came to be is told in the same sentence by all that show a run."""

import html
import io
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

from rich.console import Console

from harness.suites.bench import concluded
from harness.suites.conductor import known_verdict
from harness.suites.journal import Judged
from harness.suites.junit import junit_xml
from harness.suites.night import NightState, folded
from results.record.paths import RunPaths
from results.record.terms import Validity
from results.show import show_run
from results.site.application import make_site
from results.store import Store
from results.verdict_json import read_verdict, write_verdict
from results.wording.headline import headline
from results.wording.naming import names_of, said
from tests.results.planted import planted_sample
from tests.suites.made_nights import Run, lines

NIGHT = "20261123T010000Z"


def words_of(page: str) -> str:
    inline = re.sub(r"</?(?:a|abbr)\b[^>]*>", "", page)  # A name is followed by its colon.
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", inline)).split())


def cause_of(paths: RunPaths) -> str:
    verdict = read_verdict(paths.verdict)
    assert verdict is not None
    cause = names_of(paths)(said(headline(verdict).cause))
    assert cause.startswith("Value log-0-0:v131198: only n2 had it"), "a noun before its pronoun"
    assert "acknowledged it (acks=1), was cut off" in cause
    return cause


def night_with(reason: str) -> NightState:
    """A night whose only run was judged invalid, for a reason."""
    told = list(lines(NIGHT, [Run(entry="a", valid=Validity.INVALID, signature="0123456789ab")]))
    return folded(
        each.model_copy(update={"reason": reason}) if isinstance(each, Judged) else each
        for each in told
    )


def test_terminal_page_site_and_junit_give_the_same_why_sentence(tmp_path: Path) -> None:
    paths = planted_sample(tmp_path, "loss-acks-1", "20261122T013000Z")
    cause = cause_of(paths)

    reason = str(concluded(paths)["reason"])
    assert reason == f"Invalid: 980 acknowledged writes were lost. {cause}"
    (failure,) = ET.fromstring(junit_xml(night_with(reason), [])).iter("failure")  # noqa: S314 - our own
    assert failure.text == reason

    console = Console(file=io.StringIO(), soft_wrap=True)
    show_run(paths, console)
    assert isinstance(console.file, io.StringIO)
    assert cause in console.file.getvalue()
    assert cause in words_of(paths.report.read_text(encoding="utf-8"))

    client = make_site(Store(tmp_path)).test_client()
    front, runs, run, failures = (
        words_of(client.get(url).get_data(as_text=True))
        for url in ("/", "/runs", f"/run/{paths.run_id}/", "/failures")
    )
    assert front.count(cause) == 2, "in the card, and in the list"
    assert runs.count(cause) == 1
    assert run.count(cause) == 1
    assert cause not in failures, "a table of kinds"


def test_a_valid_run_has_no_reason(tmp_path: Path) -> None:
    words = concluded(planted_sample(tmp_path, "valid", "20261122T013000Z"))
    assert (words["allowed"], words["reason"]) == (False, "")


def test_a_run_that_is_allowed_says_so_and_why(tmp_path: Path) -> None:
    paths = planted_sample(tmp_path, "loss-acks-1", "20261122T013000Z")
    verdict = read_verdict(paths.verdict)
    assert verdict is not None
    found = {
        name: replace(
            each,
            allowed=each.count,
            examples=tuple(replace(example, allowed=True) for example in each.examples),
        )
        for name, each in verdict.anomalies.items()
    }
    write_verdict(paths, replace(verdict, valid=Validity.VALID, anomalies=found))
    words = concluded(paths)
    assert (words["valid"], words["allowed"]) == ("valid", True)
    assert str(words["reason"]).startswith("Valid, by the judge strict: 980 acknowledged")
    known = known_verdict(paths)
    assert known is not None
    assert known.allowed
