"""Settings of brokers that several scenarios share, with the reason for each."""

OLD_FORMAT = {"inter.broker.protocol.version": "0.10.2", "log.message.format.version": "0.10.2"}
"""Followers truncate to their own high watermark, as before KIP-101; Kafka 0.11 to 3.9 obeys."""

SLOW_FETCH = {
    # A follower learns of the leader's high watermark with the response of its next fetch, which
    # waits for new records at the leader: so long is the window of the examples.
    "replica.fetch.wait.max.ms": "20000",
    # Must be longer than the wait, or followers would leave the ISR, or hang up.
    "replica.lag.time.max.ms": "60000",
    "replica.socket.timeout.ms": "60000",
    # The story decides who leads.
    "auto.leader.rebalance.enable": "false",
    # Five seconds by default: stories wait for what is on disk.
    "replica.high.watermark.checkpoint.interval.ms": "500",
}

STEADY_LEADERS = {
    # The story decides who leads: nobody is given a partition back because he was its first leader.
    "auto.leader.rebalance.enable": "false",
    "replica.high.watermark.checkpoint.interval.ms": "500",
}
