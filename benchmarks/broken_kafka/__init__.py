"""Runs of Kafka builds broken on purpose in one place: `python -m benchmarks.broken_kafka`."""
