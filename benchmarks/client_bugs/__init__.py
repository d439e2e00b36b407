"""Releases of librdkafka with a known bug, beside their mended ones and Kafka's Java client."""
