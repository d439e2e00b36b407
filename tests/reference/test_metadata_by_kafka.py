"""The metadata log and its snapshots, as Kafka's own DumpLogSegments reads them."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from benchmarks.kafka_dump import dump_argv
from cluster.files.metadata_names import metadata_record_names
from cluster.java import find_java
from cluster.kafka.configuration import JAVA_ENVIRONMENT
from cluster.kafka.fetch import fetch_kafka
from cluster.reference.messages.control import (
    TOPIC_RESOURCE,
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from tests.reference.controlled_cluster import Cluster

_PAYLOAD = re.compile(r"^\| offset: (\d+) .*?(?:payload|LeaderChange|Snapshot\w+): (\{.*\})$")
_SNAPSHOT = re.compile(r"\d{20}-\d{10}\.checkpoint$")
_CONTROL = {"LeaderChange", "SnapshotHeader", "SnapshotFooter"}


def eventful() -> Cluster:
    """Return a cluster whose metadata log has every kind of record that is ever written."""
    cluster = Cluster(brokers=4)
    cluster.create("t", (1, 2), (2, 1), min_insync_replicas="2")
    cluster.create("gone", (1, 2))
    cluster.configure(TOPIC_RESOURCE, "t", "min.insync.replicas", "1")
    cluster.alter((1,))
    cluster.reassign((3, 1))
    cluster.alter((1, 3))
    cluster.heartbeat(2, fence=True)
    cluster.heartbeat(3, leave=True)
    request = DeleteTopicsRequest(topics=(DeleteTopicState(name="gone"),))
    cluster.ask(request, DeleteTopicsResponse)
    ids = AllocateProducerIdsRequest(broker_id=1, broker_epoch=cluster.epochs[1])
    assert cluster.ask(ids, AllocateProducerIdsResponse).error_code is ErrorCode.none
    cluster.ask(UnregisterBrokerRequest(broker_id=4), UnregisterBrokerResponse)
    cluster.alive = [1]
    cluster.live(2)
    return cluster


def told_by_kafka(files: list[Path], version: str) -> str:
    distribution = fetch_kafka(version, progress=print)
    argv = [*dump_argv(find_java(), distribution, files), "--cluster-metadata-decoder"]
    argv.remove("--print-data-log")
    ended = subprocess.run(
        argv, capture_output=True, text=True, env=os.environ | JAVA_ENVIRONMENT, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert "xception" not in ended.stdout + ended.stderr
    assert "rror" not in ended.stdout, ended.stdout
    return ended.stdout


def names_of(text: str) -> list[tuple[int, str]]:
    """Return the offsets and types of the records in one file's part of what the tool prints."""
    found = []
    for line in text.splitlines():
        read = _PAYLOAD.match(line)
        if read is not None:
            kind = json.loads(read[2]).get("type", "")
            found.append((int(read[1]), re.sub(r"_", "", kind.title())))
    return found


@pytest.mark.kafka
def test_kafka_decodes_every_record_of_the_metadata(tmp_path: Path) -> None:
    cluster = eventful()
    world, plane = cluster.world, cluster.world.plane(cluster.active)
    segment = tmp_path / "00000000000000000000.log"
    segment.write_bytes(b"".join(each.data for each in plane.quorum.log.batches()))
    world.apply(world.nodes[cluster.active], plane.take_snapshot())
    path, data = next(
        each for each in world.nodes[cluster.active].files.items() if _SNAPSHOT.search(each[0])
    )
    snapshot = tmp_path / Path(path).name
    snapshot.write_bytes(data)
    text = told_by_kafka([segment, snapshot], "4.3.1")
    _, of_log, of_snapshot = text.split("Dumping ")
    for told, written in ((of_log, segment), (of_snapshot, snapshot)):
        ours = [
            (each.offset, each.name.split()[0].lower())
            for each in metadata_record_names(written.read_bytes())
            if each.name.split()[0] not in _CONTROL
        ]
        theirs = [(offset, name.lower()) for offset, name in names_of(told) if name]
        assert theirs == ours
        assert len(ours) > 5
    kinds = {name for _, name in names_of(of_log)}
    assert len(kinds - {""}) == 11, sorted(kinds)
