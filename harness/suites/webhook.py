"""Post the results of a suite's night to the web address in the variable LOGQUAKE_WEBHOOK.

The address is a secret.
"""

import os
from collections.abc import Sequence

import requests

from harness.suites.causes import Cause
from harness.suites.night import NightState
from harness.suites.summary import counts
from results.record.terms import Validity
from results.wording.inert import inert

VARIABLE = "LOGQUAKE_WEBHOOK"
TIMEOUT_S = 10.0
_REFUSED_FROM = 300


def message(state: NightState, causes: Sequence[Cause]) -> dict[str, object]:
    """Return the message to post, as JSON. Chat services show the field `text` of the message."""
    tonight = [each for each in causes if each.tonight and each.valid == Validity.INVALID]
    fresh = [each for each in tonight if each.new]
    told = ", ".join(f"{count} {word}" for word, count in counts(state).items() if count)
    news = "".join(f"\nnew: {inert(each.sentence)}" for each in fresh)
    return {
        "text": f"{inert(state.suite)}, night {state.night}: {told}{news}",
        "suite": inert(state.suite),
        "night": state.night,
        "worst": state.worst.value,
        "counts": counts(state),
        "new": [_cause(each) for each in fresh],
        "known": [_cause(each) for each in tonight if not each.new],
    }


def _cause(cause: Cause) -> dict[str, object]:
    return {
        "signature": cause.key,
        "sentence": inert(cause.sentence),
        "entries": [inert(each) for each in cause.entries],
        "runs": [each.run_id for each in cause.tonight],
        "first_night": cause.nights[0],
        "same_seed": cause.repeats.same_seed.words,
        "fresh_seeds": cause.repeats.fresh_seeds.words,
    }


def post(state: NightState, causes: Sequence[Cause]) -> str:
    """Post a night to the address in LOGQUAKE_WEBHOOK, if this variable is set.

    Returns:
        A sentence that says whether this worked, but not the address. It is empty if the variable
            is not set.
    """
    address = os.environ.get(VARIABLE, "").strip()
    if not address:
        return ""
    try:
        # A redirect would send the message to another address.
        with requests.post(
            address,
            json=message(state, causes),
            timeout=TIMEOUT_S,
            allow_redirects=False,
            stream=True,  # The body is not read, because it might never end.
        ) as answer:
            status = answer.status_code
    except (requests.RequestException, ValueError) as failed:
        # The error's text would show the secret address.
        return f"the webhook could not be called: {type(failed).__name__}"
    if status >= _REFUSED_FROM:
        return f"the webhook refused the message: status {status}"
    return "the webhook was called"
