"""Broker settings that several scenarios share. Each has a comment with the reason."""

OLD_FORMAT = {"inter.broker.protocol.version": "0.10.2", "log.message.format.version": "0.10.2"}
"""With these settings, followers truncate to their own high watermark, as before KIP-101. Kafka
0.11 to 3.9 accepts these settings."""

STEADY_LEADERS = {
    # The story decides who leads. No broker gets its leadership back as the preferred leader.
    "auto.leader.rebalance.enable": "false",
    # The default is five seconds, but stories wait for this file.
    "replica.high.watermark.checkpoint.interval.ms": "500",
}
