"""The meanings of terms, for new readers."""

import re

GLOSSARY = {
    "acknowledged": "The broker confirmed to the sender that the message is stored. With acks=all "
    "all in-sync replicas have the message then; with acks=1 only the leader has it.",
    "offset": "A record's place in the log of a partition, counted from 0.",
    "value": "The number that identifies one message of a run. Each number is sent once. "
    "log-0-0:v785 is the value with sequence number 785 in partition 0 of topic log-0. The v "
    "distinguishes a value from an offset. Each worker counts in its own range, so the numbers do "
    "not count messages.",
    "op": "One call of a client: a send, a poll, a transaction. p22#132 is the 132nd op of "
    "process 22.",
    "process": "A logical client, which does one op at a time. Its number is used once in a run: "
    "an info ends the process, and a process with another number takes its place.",
    "ok": "The op certainly happened.",
    "fail": "The op certainly had no effect.",
    "info": "The client does not know whether the op had an effect.",
    "assign": "The op with which a consumer chooses the partitions that it reads, without a group.",
    "crash": "The op with which a process leaves its client without closing it, as if its program "
    "had crashed. Another process takes its place. Its outcome is always info.",
    "began": "The share of the offered operations that began, because a process was free.",
    "missed": "Operations that were due but did not begin, because every process was busy.",
    "not applicable": "The plan, hosts, system or record of this run has no input for the check:"
    " for example, no transactions. The check has no influence on the verdict.",
    "replica": "A partition's log is kept on several brokers; each copy is a replica.",
    "leader": "The one replica of a partition that accepts writes; the other replicas, its"
    " followers, copy its log.",
    "leader epoch": "A number that grows with each new leader of a partition. Every record"
    " carries the epoch of the leader that appended it, so the epoch shows which"
    " leader wrote the record.",
    "high watermark": "The offset up to which a partition's records are committed: all in-sync "
    "replicas have them, and readers may see them.",
    "ISR": "In-sync replicas: replicas that have all records of the leader, except perhaps the"
    " newest ones. The next leader is one of these replicas.",
    "unclean election": "The election of a leader from outside of the ISR, when no ISR member is"
    " available. Records that this leader had not yet copied are lost.",
    "truncation": "A replica that follows a new leader removes the end of its own log, from the"
    " offset where it differs from the new leader's log.",
    "quorum": "The controllers, which keep the cluster's metadata in their own log and elect"
    " their leader by votes. A record is committed when a majority of the"
    " controllers has it.",
    "fault": "A disturbance that Logquake causes in the cluster. A fault is confirmed when a"
    " measurement shows its effect, not when its command is given.",
}
TERMS = {
    **GLOSSARY,
    "allowed": "An allowed anomaly does not make a run invalid: the configuration does not "
    "promise to prevent it, or a fault explains it.",
    "anomaly": "One kind of broken promise, such as `lost-write`. A run lists all anomalies that "
    "it found.",
    "arrival": "A moment at which an operation is due. If no process is free, the operation is "
    "missed.",
    "attached": "A cluster that already runs, and that Logquake did not start.",
    "budget": "A limit of time: for a recovery, a night or a hunt.",
    "bundle": "A file with a whole run, for another person or machine.",
    "checker": "A checker searches a run's record for one anomaly, or for a few related "
    "anomalies. A check is one use of a checker.",
    "confirm": "A fault is confirmed when Logquake has measured its effect.",
    "contract": "The judge that demands only what the configuration promises. It is the default.",
    "control": "A system without the bug. Logquake runs the same plans on it for comparison.",
    "coordinator": "The broker that manages a consumer group or a transactional id.",
    "fault family": (
        "A group of related kinds of faults, such as `partition`. `--nemesis` takes families."
    ),
    "final read": "The read of every partition from start to end, after all faults are healed.",
    "harness": "Logquake itself, without brokers and clients. An anomaly of the harness, such as "
    "`fault-without-effect`, makes a verdict unknown, and never invalid.",
    "heal": "To undo a fault.",
    "history": "The list of operations of a run, in the order in which they happened.",
    "hosts": "Where brokers run: network namespaces, processes, containers, or ssh machines.",
    "hunt": "A series of random runs that searches for failures.",
    "judge": "The part of Logquake that checks a run's record and gives the verdict. Also the set "
    "of rules that the judge uses: `contract`, `strict` or `jepsen`.",
    "main phase": "The part of a run in which faults are injected.",
    "nemesis": "The part of Logquake that injects faults.",
    "night": "One execution of a suite. Usually a night is a nightly run, but you can start one "
    "at any time.",
    "node": "A host for one broker, or for one controller.",
    "plan": "The description of a run, as a TOML file.",
    "record": "All data that a run stored: operations, faults, observations, the replicas' logs. "
    "Also called the run's record. Kafka's own records are called messages or records of a log.",
    "run": "One execution of a plan, with one verdict. Also the folder of this execution in the "
    "store.",
    "sample": "A stored run that comes with Logquake, such as `sample:loss-acks-1`.",
    "scenario": "A scripted run that reproduces a known bug step by step.",
    "seed": "A number from which all random choices of a run follow.",
    "signature": "A short description of a failure. Two failures with equal signatures count as "
    "the same failure.",
    "store": "The folder that contains all runs. The default is `runs`.",
    "suite": "A file that names many combinations to run.",
    "swarm": "Random settings for brokers, topics and clients, chosen from the seed.",
    "transition": "A step of Kafka's protocol that a record can show, such as an election after a "
    "crash.",
    "trusted": "An anomaly is trusted if the record is complete enough to prove it. Anomalies that "
    "are not trusted make a verdict unknown.",
    "verdict": "The result of a run: `valid`, `invalid` or `unknown`.",
    "witness": "The message or operation that a failure report explains in detail.",
    "workload": "The operations of the clients, such as `log`, `txn` or `groups`.",
}
"""All terms, including terms that only the documentation uses. Reports print only `GLOSSARY`."""

_FORMS = {
    "leader": r"leader\b(?! epoch| replica)|\bled\b",
    "leader epoch": r"epoch",
    "ISR": r"\bISR\b|in-sync|in sync",
    "unclean election": r"unclean|outside of the in-sync",
    "truncation": r"truncat",
    "op": r"\bops?\b",
    "ok": r"$^", "fail": r"$^", "info": r"$^", "began": r"$^", "missed": r"$^",
    "assign": r"$^", "crash": r"$^",
}  # fmt: skip
"""Patterns for terms that occur in several forms in a sentence. The pattern `$^` never matches: it
is for terms that occur only in tables."""


def terms_in(text: str) -> dict[str, str]:
    """Return the glossary terms that occur in a text, with their meanings."""
    return {
        word: meaning
        for word, meaning in GLOSSARY.items()
        if re.search(_FORMS.get(word, rf"\b{word}"), text, re.IGNORECASE)
    }
