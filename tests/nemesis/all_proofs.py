"""How each kind of fault is proven: those of `proofs`, and those that a fault's own test holds.

A test module of a fault brings its proof along as `PROOF_OF = [("kind", Proof(...))]`, and seeds by
which it is to be played as `SEEDS_OF = [("kind", (1, 5))]`.
"""

from nemesis.registry import KINDS
from tests.held import collected
from tests.nemesis import proofs
from tests.nemesis.proofs import LATE, Proof

KAFKA, KAFKA_WITH_ZOOKEEPER = "4.3.1", "3.9.1"
"""The releases on which faults of brokers are played."""
PROOFS: dict[str, Proof] = {
    **proofs.PROOFS,
    **dict(collected("PROOF_OF", folder="tests/nemesis")),
}
SEEDS_OF: dict[str, tuple[int, ...]] = dict(collected("SEEDS_OF", folder="tests/nemesis"))
"""Where a kind is to be played more than once: seeds whose draws differ in kind."""
_OF_LINKS = {"links", "traffic", LATE}
OF_LINKS = tuple(kind for kind, proof in PROOFS.items() if proof.witness in _OF_LINKS)
"""These need no broker to be proven, but machines only."""
OF_BROKERS = tuple(kind for kind in KINDS if kind not in OF_LINKS)
