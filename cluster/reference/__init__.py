"""The reference cluster: a small Kafka made of pure state machines, for tests and for study."""
