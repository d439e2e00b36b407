"""The quorum that keeps `__cluster_metadata-0`: KRaft (KIP-595), with pre-votes (KIP-996).

- `state`: a member's state in an epoch, and the durable part of it.
- `member`: the changes from one state to another.
- `elections`: elections of leaders.
- `leading` and `serving`: a leader's knowledge of the other members, and the leader's responses.
- `following`: copies of the leader's log and snapshots (KIP-630).
- `quorum`: the part of a node that combines these modules.
- `records`: the batches that the quorum itself writes.
"""
