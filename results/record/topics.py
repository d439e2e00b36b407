"""The topics of a run as they were created: names, ids, partitions."""

import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from results.record.reading import read_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    """A topic of the run.

    Attributes:
        topic: Name of the topic.
        topic_id: Id from the cluster, as a UUID of 36 characters. If a topic is created again, it
            gets a new id.
        partitions: Number of partitions.
    """

    topic: str
    topic_id: str
    partitions: int


_TOPICS = TypeAdapter(list[CreatedTopic])


def dump_topics(topics: list[CreatedTopic], path: Path) -> None:
    """Write a run's `topics.json`."""
    rows = [
        {"topic": each.topic, "topic_id": each.topic_id, "partitions": each.partitions}
        for each in topics
    ]
    path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def load_topics(path: Path) -> list[CreatedTopic]:
    """Return the topics in a run's `topics.json`; empty if the run died before it created any.

    Raises:
        ValueError: The file is not a list of topics with name, id and number of partitions.
    """
    try:
        return _TOPICS.validate_json(read_bytes(path), strict=True)
    except FileNotFoundError:
        return []
    except ValidationError as broken:
        first = broken.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place or 'the file'}: {first['msg']}") from broken
