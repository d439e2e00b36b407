"""The reference cluster: a small Kafka of pure state machines, to test with and to learn from."""
