"""Random streams, one for each part of a simulation, all from one seed.

So a random number for one part changes nothing in another part. For example, an additional client
does not change the network delays of the existing clients.
"""

from random import Random


class Streams:
    """The random streams of a simulation.

    Args:
        seed: Decides all random numbers.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def of(self, part: str) -> Random:
        """Return a new stream for a part, such as `network` or `n1/timers`.

        The same name gives the same numbers. `Random` seeds itself from the bytes of a text, not
        from its `hash`. So the numbers are equal on every machine and in every process.
        """
        return Random(f"{self._seed}/{part}")
