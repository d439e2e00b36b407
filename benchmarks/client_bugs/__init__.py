"""Series of librdkafka releases with a known bug, beside fixed releases and Kafka's Java client."""
