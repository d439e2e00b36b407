"""A hash of 64-bit numbers, for one number or for an array.

The function is the final step of SplitMix64 (https://doi.org/10.1145/2714064.2660195). A change of
one bit changes about half of the hash's bits. Two different numbers never have the same hash.
"""

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
ALL = (1 << 64) - 1


def mixed(words: Words) -> Words:
    """Return the hash of each number."""
    hashes = words + np.uint64(0x9E37_79B9_7F4A_7C15)
    hashes = (hashes ^ hashes >> np.uint64(30)) * np.uint64(0xBF58_476D_1CE4_E5B9)
    hashes = (hashes ^ hashes >> np.uint64(27)) * np.uint64(0x94D0_49BB_1331_11EB)
    return hashes ^ hashes >> np.uint64(31)


def mix(word: int) -> int:
    """Return the hash of one number. `mixed` returns the same hash."""
    found = word + 0x9E37_79B9_7F4A_7C15 & ALL
    found = (found ^ found >> 30) * 0xBF58_476D_1CE4_E5B9 & ALL
    found = (found ^ found >> 27) * 0x94D0_49BB_1331_11EB & ALL
    return found ^ found >> 31
