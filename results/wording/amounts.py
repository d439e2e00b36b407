"""Format sizes and durations for people. The times of a run's events stay in seconds."""

_KILO = 1000
_MINUTE_S, _HOUR_MIN, _DAY_H = 60, 60, 24
_EXACT_BELOW_S = 10
_SECONDS_BELOW_S = 10 * _MINUTE_S


def size(size_bytes: float) -> str:
    """Return a size: `512 B`, `1.2 MB`, `25.3 GB`."""
    amount, digits = float(size_bytes), 0
    for unit in ("B", "kB", "MB", "GB"):
        if round(amount, digits) < _KILO:
            return f"{amount:.{digits}f} {unit}"
        amount, digits = amount / _KILO, 1
    return f"{amount:.1f} TB"


def duration(seconds: float) -> str:
    """Return a duration: `0.4 s`, `45 s`, `1 min 30 s`, `12 min`, `3 h 05 min`, `2 d 07 h`."""
    whole = round(seconds)
    if seconds != whole and round(seconds, 1) < _EXACT_BELOW_S:
        return f"{seconds:.1f} s"
    if whole < _MINUTE_S:
        return f"{whole} s"
    if whole < _SECONDS_BELOW_S:
        minutes, rest = divmod(whole, _MINUTE_S)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(round(seconds / _MINUTE_S), _HOUR_MIN)
    if hours >= _DAY_H:
        days, hours = divmod(round(seconds / _MINUTE_S / _HOUR_MIN), _DAY_H)
        return f"{days} d {hours:02} h"
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min"
