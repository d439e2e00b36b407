"""Runs of librdkafka releases with a known bug, of fixed releases, and of Kafka's Java client."""
