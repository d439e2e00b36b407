"""The meanings of terms, for new readers."""

import re

GLOSSARY = {
    "acknowledged": "The broker told the sender that its message is stored. With acks=all that is "
    "said once all in-sync replicas have it, with acks=1 once the leader alone has it.",
    "offset": "A record's place in the log of a partition, counted from 0.",
    "value": "A number that a client of Logquake sends as a message. Each number is sent once in"
    " a run, so that messages can be told apart. Example: log-0-0:v785 is the value with"
    " sequence number 785 that was sent to partition 0 of topic log-0. The v shows that"
    " it is no offset. Each worker counts in a range of its own, so the numbers are no"
    " count of messages.",
    "op": "One call of a client: a send, a poll, a transaction. p22#132 is the 132nd op of "
    "process 22.",
    "process": "A logical client, which does one op at a time. Its number is used once in a run: "
    "after an info it ends, and another process takes its place.",
    "ok": "The op certainly happened.",
    "fail": "The op certainly had no effect.",
    "info": "The client got no certain answer, so the op may have had an effect or not.",
    "held": "The share of the offered operations that began, because a process was free.",
    "missed": "Offered operations that did not begin, because every process was busy.",
    "not applicable": "The plan, hosts, system or record of this run has nothing that the check "
    "looks at: for example, no transactions. The check is no part of the verdict.",
    "replica": "A partition's log is kept on several brokers; each copy is a replica.",
    "leader": "The one replica of a partition that takes writes; the others, its followers, copy "
    "its log.",
    "leader epoch": "A number that grows with each new leader of a partition. Every record "
    "carries the epoch of the leader that took it, so one can tell who wrote it.",
    "high watermark": "The offset up to which a partition's records are committed: all in-sync "
    "replicas have them, and readers may see them.",
    "ISR": "In-sync replicas: those that have all that the leader has, but for the last moment. "
    "The next leader is chosen among them.",
    "unclean election": "A leader chosen from outside of the ISR, when none of it is left. "
    "Whatever it had not copied yet is lost.",
    "truncation": "A replica that follows a new leader cuts off the end of its own log where it "
    "differs from the new leader's.",
    "quorum": "The controllers, which keep the cluster's metadata in a log of their own and elect "
    "their leader by votes. What a majority of them has is committed.",
    "fault": "What Logquake did to the cluster. It is confirmed when a measurement showed it, not "
    "when the command was given.",
}

_FORMS = {
    "leader": r"leader\b(?! epoch| replica)|\bled\b",
    "leader epoch": r"epoch",
    "ISR": r"\bISR\b|in-sync|in sync",
    "unclean election": r"unclean|outside of the in-sync",
    "truncation": r"truncat",
    "op": r"\bops?\b",
    "ok": r"$^", "fail": r"$^", "info": r"$^", "held": r"$^", "missed": r"$^",
}  # fmt: skip
"""Patterns that find a term in a sentence if it has other forms. The pattern `$^` never matches: it
is for terms that only tables use."""


def terms_in(text: str) -> dict[str, str]:
    """Return the glossary terms that occur in a text, with their meanings."""
    return {
        word: meaning
        for word, meaning in GLOSSARY.items()
        if re.search(_FORMS.get(word, rf"\b{word}"), text, re.IGNORECASE)
    }
