"""Chance: a stream of its own for each part, all from the one seed.

So what one part draws moves nothing in another: with one more client the network's delays of the
others stay what they were.
"""

from random import Random


class Streams:
    """The random streams of a simulation.

    Args:
        seed: Decides everything.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def of(self, part: str) -> Random:
        """Return a new stream for a part, `network` or `n1/timers`; the same name, the same draws.

        `Random` seeds itself by a text's bytes, which is the same on every machine and in every
        process (unlike `hash`).
        """
        return Random(f"{self._seed}/{part}")
