"""Arguments: ranges, times, tags."""

from __future__ import annotations

import datetime
from typing import Literal, Optional, Sequence, Union

from . import _native

Time = Union[int, datetime.datetime]
Collision = Literal["all", "last", "first", "next"]
TimeSource = Literal["client", "server", "column"]
Durability = Literal["disk", "relaxed"]

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def nanoseconds(time: Optional[Time]) -> Optional[int]:
    """Nanoseconds since 1970, from an aware datetime; a number stays unchanged."""
    if not isinstance(time, datetime.datetime):
        return time
    if time.tzinfo is None:
        raise _native.Invalid(f"{time!r} has no time zone: give it one, as in .replace(tzinfo=datetime.timezone.utc)")
    since = time - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1_000


def start_of(
    gsn: Optional[int], time: Optional[Time], live: bool
) -> tuple[Optional[int], Optional[int], bool]:
    """The start of a subscription: at most one of the arguments; without any, the first event."""
    if (gsn is not None) + (time is not None) + bool(live) > 1:
        raise _native.Invalid("gsn, time and live exclude each other: a subscription begins at one place")
    return gsn, nanoseconds(time), live


class Range:
    """A range of events, by time, by tick or by position in the log. The start is inclusive, the end exclusive; None
    means no limit."""

    def __init__(self, native: _native.Range, text: str) -> None:
        self._native = native
        self._text = text

    def __repr__(self) -> str:
        return f"Range.{self._text}"

    @classmethod
    def all(cls) -> Range:
        """Everything, up to the newest event."""
        return cls(_native.Range.all(), "all()")

    @classmethod
    def times(cls, start: Optional[Time] = None, end: Optional[Time] = None) -> Range:
        """By time: nanoseconds since 1970, or aware datetimes."""
        first, behind = nanoseconds(start), nanoseconds(end)
        return cls(_native.Range.times(first, behind), f"times({first}, {behind})")

    @classmethod
    def ticks(cls, start: Optional[int] = None, end: Optional[int] = None) -> Range:
        """By tick: distance from the chronicle's base, in units of the index at creation."""
        return cls(_native.Range.ticks(start, end), f"ticks({start}, {end})")

    @classmethod
    def gsns(cls, start: Optional[int] = None, end: Optional[int] = None) -> Range:
        """By position in the log, in the order of commits."""
        return cls(_native.Range.gsns(start, end), f"gsns({start}, {end})")


def ranges_of(given: Union[Range, Sequence[Range], None]) -> list[_native.Range]:
    """A range, several ranges, or all events."""
    if given is None:
        return [_native.Range.all()]
    if isinstance(given, Range):
        return [given._native]
    return [one._native for one in given]


def options_of(tags: dict[str, str]) -> list[tuple[str, str]]:
    """Tags as options of CREATE TABLE."""
    return [(name, str(value)) for name, value in tags.items()]


def waits(wait: Union[bool, float]) -> tuple[bool, Optional[float]]:
    """True to wait, and the maximal wait in seconds."""
    if isinstance(wait, bool):
        return wait, None
    return True, float(wait)
