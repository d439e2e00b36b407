"""Settings of brokers that several scenarios share, with the reason for each."""

OLD_FORMAT = {"inter.broker.protocol.version": "0.10.2", "log.message.format.version": "0.10.2"}
"""Followers truncate to their own high watermark, as before KIP-101; Kafka 0.11 to 3.9 obeys."""

STEADY_LEADERS = {
    # The story decides who leads: nobody is given a partition back because he was its first leader.
    "auto.leader.rebalance.enable": "false",
    # Five seconds by default: stories wait for what is on disk.
    "replica.high.watermark.checkpoint.interval.ms": "500",
}
