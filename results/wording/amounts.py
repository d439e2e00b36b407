"""Format sizes and durations for people. Times of a run stay in seconds, as in its record."""

_KILO = 1000
_MINUTE_S, _HOUR_S = 60, 3600
_EXACT_BELOW_S = 10
_SECONDS_BELOW_S = 10 * _MINUTE_S


def size(size_bytes: float) -> str:
    """Return a size: `512 B`, `1.2 MB`, `25.3 GB`."""
    amount = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < _KILO:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= _KILO
    return f"{amount:.1f} TB"


def duration(seconds: float) -> str:
    """Return a duration: `0.4 s`, `45 s`, `1 min 30 s`, `12 min`, `3 h 05 min`."""
    if seconds < _EXACT_BELOW_S and seconds != round(seconds):
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < _MINUTE_S:
        return f"{whole} s"
    if whole < _SECONDS_BELOW_S:
        minutes, rest = divmod(whole, _MINUTE_S)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(round(seconds / _MINUTE_S), _HOUR_S // _MINUTE_S)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min"
