"""The evidence that a failed run shows the bug of a Kafka ticket.

`MECHANISMS` has a rule for each ticket. A rule looks at one anomaly of the verdict, and at the logs
of the brokers. The rule is met only if both show the ticket's mechanism for this anomaly, i.e. for
its partition, broker and offsets. The ticket counts only on releases that have the bug.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow.parquet as pq

from benchmarks.cleaner_mechanisms import (
    cleans_a_part_of_a_segment,
    cleans_above_the_high_watermark,
    keeps_an_abort,
    removes_a_marker,
)
from benchmarks.node_logs import Logs, logged_s, place_of
from benchmarks.transaction_mechanisms import skips_a_marker
from results.record.paths import RunPaths
from results.record.plan import PlanError, plan_from
from results.record.verdict import Example
from results.verdict_json import read_verdict
from results.wording.headline import decides

VERDICT = "verdict.json"
RULES = 6
"""The version of the rules. In version 1, a text anywhere in a file was enough. Version 2 never
found which brokers were out of sync. Version 4 has new rules for four tickets. Version 5 knows a
second effect of KAFKA-14055. Version 6 has a rule for KAFKA-20734."""


Rule = Callable[[Example, Logs], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism:
    """The evidence that a failed run has the bug of a ticket.

    Attributes:
        breaks: Anomalies. The run must have at least one of these.
        affects: The releases with the bug, as pairs: first release with it, first release without.
            The second one is empty if no release has a fix.
        is_shown: Returns whether an anomaly and the logs show the ticket's mechanism.
        where: The files that the rule reads, in words for the page.
        means: The condition of the rule, in words for the page.
    """

    breaks: tuple[str, ...]
    affects: tuple[tuple[str, str], ...]
    is_shown: Rule
    where: str = "server.log"
    means: str

    def is_in(self, system: str) -> bool:
        """Return whether a system is a release with the bug."""
        try:
            version = plan_from({"system": system}).version_numbers
        except PlanError:
            return False
        pairs = ((_numbers(one), _numbers(other)) for one, other in self.affects)
        return any(first <= version and (not fixed or version < fixed) for first, fixed in pairs)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, filter(None, version.split("."))))


def shows(mechanism: Mechanism, run: RunPaths) -> tuple[str, ...]:
    """Return those anomalies of a run that decide its verdict and show the mechanism.

    An example counts only if it is trusted and not allowed. The release does not matter.
    """
    verdict, logs = read_verdict(run.verdict), Logs(run)
    found = []
    for name in mechanism.breaks:
        summary = verdict.anomalies.get(name) if verdict else None
        if summary is None or not decides(summary):
            continue
        examples = (each for each in summary.examples if each.trusted and not each.allowed)
        if any(mechanism.is_shown(each, logs) for each in examples):
            found.append(name)
    return tuple(found)


def _out_of_sync(example: Example, logs: Logs) -> list[str]:
    """Return the brokers with logs that are not in the ISR of an `isr-not-restored` anomaly."""
    isr = {f"n{each}" for each in _brokers(example, "isr")}
    return [node for node in logs.brokers if isr and node not in isr]


def _brokers(example: Example, name: str) -> list[int]:
    value = example.evidence.get(name)
    return [each for each in value if isinstance(each, int)] if isinstance(value, list) else []


def _names(example: Example, node: str) -> bool:
    """Return whether an anomaly's texts, or its evidence, name a node."""
    told = [example.sentence, example.cause, *map(str, example.evidence.values())]
    broker = node.removeprefix("n")
    return re.search(rf"\b{node}\b|\bbroker {broker}\b", "\n".join(told)) is not None


def _renounces(example: Example, logs: Logs) -> bool:
    pattern = (
        r"exception while renouncing leadership[^\n]*\n(?:[^\n\[]*NullPointerException[^\n]*\n)"
        r"\s+at [^\n]*HashTier\.mergeFrom"
    )
    return any(re.search(pattern, logs.of(node)) for node in _out_of_sync(example, logs))


_TRUNCATES = (
    r"Truncating partition {place} with \w+\(offset=(\d+)[^\n]* due to leader epoch and offset"
    r"|partition={place}, [^\n]*Non-monotonic update of high watermark from \(offset=(\d+)[^\n]*?"
    r"to \(offset=(\d+)"
)


def _truncates_late(example: Example, logs: Logs) -> bool:
    """Return whether a fetcher cut the log below the high watermark, at the anomaly's offsets."""
    mark, end = (example.evidence.get(name) for name in ("high_watermark", "log_end"))
    if not isinstance(mark, int) or not isinstance(end, int):
        return False
    text, cut = logs.of(str(example.evidence.get("node"))), -1
    for each in re.finditer(_TRUNCATES.format(place=re.escape(place_of(example))), text):
        to, high, low = (int(number or -1) for number in each.groups())
        if to >= 0:
            cut = to
        elif low == cut <= end < mark <= high:
            return True
    return False


_KEPT = re.compile(
    r"that (n\d+), leader of epoch \d+, wrote there; (n\d+) kept the older record of epoch \d+,"
    r" recorded no truncation"
)


def _skips_truncation(example: Example, logs: Logs) -> bool:
    """Return whether a follower skipped its truncation, because it saw no change of its leader.

    Its fetcher copied from one leader past the differing offset. The follower logged that it
    skipped the state change, because this leader was elected again. Another broker led in between.
    """
    found, offset = _KEPT.search(example.cause), example.evidence.get("first_offset")
    if not found or not isinstance(offset, int):
        return False
    between, follower = found.groups()
    place = re.escape(place_of(example))
    added = rf"\[{place}, initOffset (\d+) to broker BrokerEndPoint\((\d+),"
    leaders = [
        each[2] for each in re.finditer(added, logs.of(follower)) if int(each[1]) <= offset
    ]  # In order.
    skipped = (
        rf"Skipped the become-follower state change [^\n]* for partition {place} "
        r"[^\n]*since the new leader (\d+) is the same as the old leader"
    )
    again = re.findall(skipped, logs.of(follower, "state-change.log"))
    return bool(leaders) and leaders[-1] in again and f"n{leaders[-1]}" != between


def _is_late(example: Example, _logs: Logs) -> bool:
    return "appended it behind the end of its own transaction (KAFKA-14402)" in example.cause


_LOADED = re.compile(
    r"acknowledged op \S+.* and (n\d+), elected later \(epoch \d+\), answered with the older"
    r" position of op "
)


def _loads_a_part(example: Example, logs: Logs) -> bool:
    """Return whether a coordinator that had loaded its log responded with an older commit.

    The record may lack the leaders of `__consumer_offsets`. Then the logs of the stopped brokers
    must show that the newer commit was never lost.
    """
    found = _LOADED.search(example.cause)
    led = re.search(r"leader of (__consumer_offsets-\d+)", example.cause)
    if found and led and "cut its copy" not in example.cause:
        return _loads(logs.of(found[1]), led[1]) > 0
    if found or led:
        return False
    log = _log_with_both(example, logs)
    # The first coordinator loads an empty log. Only a second load can have missed a commit.
    return bool(log) and sum(_loads(logs.of(node), log) for node in logs.nodes) > 1


def _loads(text: str, partition: str) -> int:
    """Return how often a broker logged that it loaded a partition of `__consumer_offsets`."""
    loaded = rf"Finished loading offsets (?:and group metadata )?from {partition}\b"
    return len(re.findall(loaded, text))


def _log_with_both(example: Example, logs: Logs) -> str:
    """Return the partition whose whole logs have the older commit, and after it the newer commit.

    If the response had no committed offset, there is no older commit. The result is "" if any
    broker's log lacks one of the commits.
    """
    table = logs.run.table("kept_commits")
    newer, older = (example.evidence.get(name) for name in ("last_op_id", "committed_by"))
    if not table.exists() or newer is None:
        return ""
    rows = [each for each in pq.read_table(table).to_pylist() if each["whole"]]
    after, before = (
        {each["node"]: each for each in rows if each["committed_by"] == op} for op in (newer, older)
    )
    if (
        not after
        or after.keys() != {*logs.brokers}
        or (older is not None and before.keys() != after.keys())
    ):
        return ""
    in_order = all(before[each]["log_offset"] < after[each]["log_offset"] for each in before)
    return f"__consumer_offsets-{after[logs.brokers[0]]['log_partition']}" if in_order else ""


def _removes_the_new_replica(example: Example, logs: Logs) -> bool:
    place = re.escape(place_of(example))
    budget_s = example.evidence.get("budget_s")
    return isinstance(budget_s, float) and any(
        _removes(logs, node, place, budget_s=budget_s) for node in _out_of_sync(example, logs)
    )


def _removes(logs: Logs, node: str, place: str, *, budget_s: float) -> bool:
    """Return whether a broker refused a topic's new id, and then removed the replica.

    A broker with the bug creates another replica only after a new election or a restart. So
    replicas that were created after the anomaly's time budget are permitted.
    """
    refused = rf"Unable to start fetching {place} with topic ID \S+ due to InconsistentTopicId"
    text = logs.of(node)
    stray = re.search(rf"Found stray log dir Log\(dir=[^,\n]*/{place}, ", text)
    if not stray or not re.search(refused, logs.of(node, "state-change.log")):
        return False
    behind = text[stray.end() :]
    removed_s = logged_s(rf"Log for partition {place} is renamed to ", behind)
    made_s = logged_s(rf"Created log for partition {place} ", behind)
    return bool(removed_s) and all(each - removed_s[0] > budget_s for each in made_s)


def _exits_at_its_fetch(example: Example, _logs: Logs) -> bool:
    """Return whether a broker exited because its log was longer than its leader's log."""
    return "Exiting because log truncation is not allowed for partition " in example.sentence


def _loads_while_it_writes(example: Example, logs: Logs) -> bool:
    pattern = (
        r"Error applying topics delta[^\n]*\n[^\n]*IllegalStateException: Transaction"
        r"(?:(?!\n\[\d)[\s\S])*?TransactionMetadata\.completeTransitionTo"
    )
    nodes = (node for node in logs.nodes if _names(example, node))
    return any(re.search(pattern, logs.of(node)) for node in nodes)


def _waits_in_a_produce(example: Example, logs: Logs) -> bool:
    """Return whether a deadlock of the anomaly is in the completion of a produce request."""
    told = example.evidence.get("stacks")
    named = [str(each).partition(":")[0] for each in told] if isinstance(told, list) else []
    pattern = r"Java-level deadlock:(?:(?!Found \d+ deadlock)[\s\S])*?DelayedProduce\.safeTryCompl"
    return any(re.search(pattern, logs.of(node, "stdout.log")) for node in named)


def _cannot_load(example: Example, logs: Logs) -> bool:
    pattern = (
        r"Failed to load metadata from __consumer_offsets[^\n]*(?:\n(?!\[)[^\n]*)?"
        r"Received a tombstone record to delete "
    )
    nodes = (node for node in logs.nodes if _names(example, node))
    return any(re.search(pattern, logs.of(node)) for node in nodes)


def _waits_for_its_session(_example: Example, logs: Logs) -> bool:
    """Return whether a controller and the thread of its ended session wait for each other."""
    return any(
        "KafkaController$Expire.waitUntilProcessed" in dump and _is_blocked(dump)
        for node in logs.nodes
        for dump in _dumps(logs.of(node, "stdout.log"))
    )


def _dumps(text: str) -> Iterator[str]:
    yield from text.split("Full thread dump")[1:]


def _is_blocked(dump: str) -> bool:
    thread = re.search(r'"controller-event-thread"(?:(?!\n\n)[\s\S])*', dump)
    return thread is not None and "ZooKeeperClient.handleRequests" in thread[0]


MECHANISMS = {
    "KAFKA-20734": Mechanism(
        breaks=("torn-transaction", "G1a", "hanging-transaction"), affects=(("4.3.0", ""),),
        is_shown=skips_a_marker, where=f"{VERDICT}, server.log, sends.parquet",
        means="the partition has no marker of the transaction. After the send, and before the"
        " client's next acknowledged send to this partition, the coordinator that the cause names"
        " took the partition for deleted, and skipped the marker",
    ),
    "KAFKA-14946": Mechanism(
        breaks=("isr-not-restored",), affects=(("3.3.0", "3.4.1"),), is_shown=_renounces,
        means="the broker that is out of sync failed in `HashTier.mergeFrom` as its controller"
        " reverted its state",
    ),
    "KAFKA-14704": Mechanism(
        breaks=("log-end-regression",), affects=(("2.7.0", "3.4.1"),), is_shown=_truncates_late,
        means="the follower's fetcher truncated this partition by the leader's epochs, below the"
        " high watermark and at the offsets of the anomaly",
    ),
    "KAFKA-14402": Mechanism(
        breaks=("G1a",), affects=(("0.11.0.0", "4.0.0"),), is_shown=_is_late, where=VERDICT,
        means="the logs prove that the record lies behind the end of its own transaction",
    ),
    "KAFKA-5600": Mechanism(
        breaks=("commit-lost",), affects=(("0.11.0.0", "0.11.0.1"),), is_shown=_loads_a_part,
        where=f"{VERDICT}, server.log, kept_commits.parquet",
        means="a coordinator that was elected later, and that loaded the log of positions, answers"
        " with an older one; no log was truncated. Or, if the leaders are unknown: at the end, the"
        " whole log of each broker has the newer position, behind the older one",
    ),
    "KAFKA-14616": Mechanism(
        breaks=("isr-not-restored",), affects=(("3.3.0", "3.7.0"),),
        is_shown=_removes_the_new_replica, where="server.log, state-change.log",
        means="the broker that is out of sync refused this topic's new id, took the replica for a"
        " stray one, removed it, and made no other within the budget",
    ),
    "KAFKA-13727": Mechanism(
        breaks=("G1a",), is_shown=cleans_a_part_of_a_segment,
        affects=(("0.11.0.0", "2.8.2"), ("3.0.0", "3.0.2"), ("3.1.0", "3.1.1")),
        where="server.log, polls.parquet",
        means="before the read, a broker's cleaner had cleaned the segment of the aborted record"
        " only up to an offset below the record, because the offset map was full; and nothing says"
        " that the record came late (KAFKA-14402)",
    ),
    "KAFKA-14055": Mechanism(
        breaks=("lost-write", "torn-transaction"), where=f"{VERDICT}, server.log, sends.parquet",
        is_shown=lambda *shown: removes_a_marker(*shown) or keeps_an_abort(*shown),
        affects=(("2.3.0", "3.0.2"), ("3.1.0", "3.1.2"), ("3.2.0", "3.2.1")),
        means="the record was read as committed, but the log has no marker of its transaction any"
        " more: a cleaner removed the marker, and a later committed record has the marker's key."
        " Or a cleaner's pass over an abort of the same producer could remove the abort's marker"
        " this way, and exactly the logs in which the next pass went beyond the record lack the"
        " record; or this pass was the last one, and the final read skipped the record",
    ),
    "KAFKA-13194": Mechanism(
        breaks=("uncommitted-read",), is_shown=cleans_above_the_high_watermark,
        affects=(("0.11.0.0", "3.1.0"),), where=f"{VERDICT}, server.log",
        means="before the read, the cleaner of the leader that served it cleaned the record's"
        " segment above the high watermark that this leader reports after the read",
    ),
    "KAFKA-15468": Mechanism(
        breaks=("slow-election", "unavailable"), affects=(("3.3.0", "3.8.0"),),
        is_shown=_loads_while_it_writes,
        means="the elected broker fails to apply the election, because a transaction is in a state"
        " of before",
    ),
    "KAFKA-5970": Mechanism(
        breaks=("unavailable", "isr-not-restored"), is_shown=_waits_in_a_produce,
        affects=(("0.11.0.0", "0.11.0.2"),), where="stdout.log",
        means="the anomaly reports a deadlock of a broker, in which a thread completes a produce",
    ),
    "KAFKA-19862": Mechanism(
        breaks=("group-stuck", "commit-lost"), affects=(("4.0.0", "4.1.2"),),
        is_shown=_cannot_load,
        means="the coordinator that the anomaly names cannot load a group, because compaction"
        " removed records before a tombstone",
    ),
    "KAFKA-7164": Mechanism(
        breaks=("log-divergence",), affects=(("0.11.0.0", "2.0.1"),),
        is_shown=_skips_truncation, where=f"{VERDICT}, server.log, state-change.log",
        means="the follower kept an older record, and truncated nothing: it missed the leader that"
        " wrote the newer record, and skipped the state change as the leader before was elected"
        " again",
    ),
    "KAFKA-7414": Mechanism(
        breaks=("broker-ended",), affects=(("0.11.0.0", "2.0.1"),), is_shown=_exits_at_its_fetch,
        where=VERDICT,
        means="the broker exited, because its log was longer than the log of its leader, and"
        " unclean elections are not allowed",
    ),
    "KAFKA-6879": Mechanism(
        breaks=("unavailable", "isr-not-restored"), affects=(("1.1.0", "1.1.1"),),
        is_shown=_waits_for_its_session, where="stdout.log",
        means="in one dump, the controller's thread waits for ZooKeeper's client, and the thread of"
        " the ended session waits for the controller",
    ),
}  # fmt: skip
