"""The librdkafka settings that simulated clients support: only the settings of group members."""

SESSION = "session.timeout.ms"
HEARTBEAT = "heartbeat.interval.ms"
POLL = "max.poll.interval.ms"
STRATEGY = "partition.assignment.strategy"

HONOURED = (SESSION, HEARTBEAT, POLL, STRATEGY)
