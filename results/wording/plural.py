"""Format a count and a noun; the noun is in the singular or in the plural."""


def many(count: int, one: str, several: str = "") -> str:
    """Return a count with its noun: `1 fault`, `1,234 faults`.

    Args:
        count: The number.
        one: The noun in the singular.
        several: The noun in the plural; by default, the singular with an s.
    """
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"
