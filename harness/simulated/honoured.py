"""The settings of librdkafka that simulated clients know: those of members of groups."""

SESSION = "session.timeout.ms"
HEARTBEAT = "heartbeat.interval.ms"
POLL = "max.poll.interval.ms"
STRATEGY = "partition.assignment.strategy"

HONOURED = (SESSION, HEARTBEAT, POLL, STRATEGY)
