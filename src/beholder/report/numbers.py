"""Numbers as people read them: as many digits as the confidence interval supports."""

from __future__ import annotations

import math

DASH = "—"
"""What stands where there is no value; the reason is listed below the table."""

_MOST_DECIMALS = 8


def decimals_for(value: float, low: float | None = None, high: float | None = None) -> int:
    """How many decimals to print: two significant digits of the interval's half-width, else four of the value.

    >>> decimals_for(0.27527, 0.2701, 0.2804)
    4
    >>> decimals_for(27.527, 27.01, 28.04)
    2
    """
    # An interval as wide as rounding errors says nothing of digits.
    if low is not None and high is not None and high - low > 1e-10 * max(abs(low), abs(high)):
        return _clip(1 - _magnitude((high - low) / 2))
    return 4 if value == 0 else _clip(3 - _magnitude(value))


def format_number(value: float, decimals: int) -> str:
    """A number with so many decimals; never "-0.00"; what would print as zero but is not gets an exponent.

    >>> format_number(-0.00001, 2)
    '-1.0e-05'
    """
    text = f"{value:.{decimals}f}"
    if float(text) != 0:
        return text
    return f"{0:.{decimals}f}" if value == 0 else f"{value:.1e}"


def format_value(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """The value alone, rounded as its interval supports; a dash when there is none."""
    return DASH if value is None else format_number(value, decimals_for(value, low, high))


def format_interval(value: float | None, low: float | None, high: float | None) -> str:
    """The interval alone, like "[0.2701, 0.2804]"; a dash when there is none."""
    if value is None or low is None or high is None:
        return DASH
    decimals = decimals_for(value, low, high)
    ends = [_end(low, decimals), _end(high, decimals)]
    if high > low and not any(float(end) for end in ends):
        ends = [f"{low:.1e}", f"{high:.1e}"]
    return f"[{ends[0]}, {ends[1]}]"


def format_estimate(value: float | None, low: float | None, high: float | None) -> str:
    """Value and interval in one cell.

    >>> format_estimate(0.27527, 0.2701, 0.2804)
    '0.2753 [0.2701, 0.2804]'
    >>> format_estimate(None, None, None)
    '—'
    """
    text = format_value(value, low, high)
    if value is None or low is None or high is None:
        return text
    return f"{text} {format_interval(value, low, high)}"


def format_spread(value: float | None, sd: float | None) -> tuple[str, str]:
    """A value and its standard deviation, rounded to two significant digits of the latter.

    >>> format_spread(0.27527, 0.0031)
    ('0.2753', '± 0.0031')
    """
    if value is None or sd is None:
        return format_value(value), DASH
    decimals = decimals_for(value, value - sd, value + sd)
    return format_number(value, decimals), f"± {sd:.{decimals}f}"


def _end(value: float, decimals: int) -> str:
    """An end of an interval; one that rounds to zero is printed as zero, since the interval says how exact it is."""
    text = f"{value:.{decimals}f}"
    return f"{0:.{decimals}f}" if float(text) == 0 else text


def _magnitude(value: float) -> int:
    return math.floor(math.log10(abs(value)))


def _clip(decimals: int) -> int:
    return max(0, min(_MOST_DECIMALS, decimals))
