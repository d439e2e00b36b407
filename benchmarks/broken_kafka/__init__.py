"""Kafkas that are broken on purpose, each in one place: `python -m benchmarks.broken_kafka`."""
