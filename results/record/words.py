"""Hashes of 64-bit words: one bit more or less turns over about half of the bits.

The end of SplitMix64 (https://doi.org/10.1145/2714064.2660195). No two words have the same hash.
"""

import numpy as np
import numpy.typing as npt

_ALL = (1 << 64) - 1

Words = npt.NDArray[np.uint64]


def mixed(words: Words) -> Words:
    """Return a hash of each word."""
    found = words + np.uint64(0x9E37_79B9_7F4A_7C15)
    found = (found ^ found >> np.uint64(30)) * np.uint64(0xBF58_476D_1CE4_E5B9)
    found = (found ^ found >> np.uint64(27)) * np.uint64(0x94D0_49BB_1331_11EB)
    return found ^ found >> np.uint64(31)


def mix(word: int) -> int:
    """Return the hash of one word, as `mixed` has it."""
    found = word + 0x9E37_79B9_7F4A_7C15 & _ALL
    found = (found ^ found >> 30) * 0xBF58_476D_1CE4_E5B9 & _ALL
    found = (found ^ found >> 27) * 0x94D0_49BB_1331_11EB & _ALL
    return found ^ found >> 31
