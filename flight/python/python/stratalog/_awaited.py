"""Awaits calls in asyncio."""

from __future__ import annotations

import asyncio
from typing import Optional, TypeVar

from . import _native

T = TypeVar("T")


async def result_of(call: _native.Call[T]) -> T:
    """The result of a call; cancelling the task cancels the call."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(value: T, error: Optional[BaseException]) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def deliver(value: T, error: Optional[BaseException]) -> None:
        try:
            loop.call_soon_threadsafe(settle, value, error)
        except RuntimeError:
            # The loop is closed, so the result is not needed.
            pass

    running = call.start(deliver)
    try:
        return await future
    finally:
        running.cancel()
