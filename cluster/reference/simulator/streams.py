"""Random streams, one for each part of a simulation, all from one seed.

If one part draws another random number, the numbers of all other parts stay the same. For example,
an additional client does not change the network delays of the existing clients.
"""

from random import Random


class Streams:
    """The random streams of a simulation.

    Args:
        seed: The seed that decides all random numbers.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def of(self, part: str) -> Random:
        """Return a new stream for a part, such as `network` or `n1/timers`.

        The same name gives the same numbers. `Random` seeds itself from the bytes of a text, not
        from its `hash`. So the numbers are equal on every machine and in every process.
        """
        return Random(f"{self._seed}/{part}")
