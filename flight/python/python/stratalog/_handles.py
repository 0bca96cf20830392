"""The common, non-blocking part of the handles of `stratalog` and `stratalog.aio`."""

from __future__ import annotations

import collections
from typing import Generic, TypeVar

from . import _native

T = TypeVar("T")


class Handle:
    """The handle of an acquired chronicle."""

    def __init__(self, native: _native.Chronicle) -> None:
        self._native = native

    @property
    def name(self) -> str:
        """The name given to `acquire`."""
        return self._native.name

    @property
    def index(self) -> str:
        """The unit of the ticks: the index at creation. `edit` may have set a coarser index since."""
        return self._native.index

    @property
    def base_ns(self) -> int:
        """The time of tick 0."""
        return self._native.base_ns

    @property
    def lapses(self) -> int:
        """The number of interruptions of the acquisition: the server restarted, or was unreachable."""
        return self._native.lapses


class Reader(Generic[T]):
    """Events read from the server on demand."""

    def __init__(self, native: _native.Feed[T]) -> None:
        self._native = native
        self._waiting: collections.deque[T] = collections.deque()

    def _taken(self) -> T:
        """The next event that has arrived."""
        if not self._waiting:
            self._waiting.extend(self._native.take())
        return self._waiting.popleft()
