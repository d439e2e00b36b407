"""Counts with their noun in the right number."""


def many(count: int, one: str, several: str = "") -> str:
    """Return a count with its noun: `1 fault`, `1,234 faults`.

    Args:
        count: How many.
        one: What they are, in the singular.
        several: The plural, where it is not the singular with an s.
    """
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"
