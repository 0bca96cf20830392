"""What the handles of `stratalog` and `stratalog.aio` have in common: all that is not waited for."""

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
        """Its name, as it was acquired."""
        return self._native.name

    @property
    def index(self) -> str:
        """The unit of its ticks: its index as it was created. `edit` may have made a coarser one since."""
        return self._native.index

    @property
    def base_ns(self) -> int:
        """The time of tick 0."""
        return self._native.base_ns

    @property
    def lapses(self) -> int:
        """How often it was not acquired for a while: the server began anew, or could not be reached."""
        return self._native.lapses


class Reader(Generic[T]):
    """Events that are read from the server as they are asked for."""

    def __init__(self, native: _native.Feed[T]) -> None:
        self._native = native
        self._waiting: collections.deque[T] = collections.deque()

    def _taken(self) -> T:
        """The next of those that have come."""
        if not self._waiting:
            self._waiting.extend(self._native.take())
        return self._waiting.popleft()
