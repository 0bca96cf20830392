"""ChronoLog's API for Stratalog with asyncio: the same as `stratalog`, which documents each class and method, with
`await` before each waiting call.

    import asyncio
    import stratalog.aio

    async def main():
        async with await stratalog.aio.connect("chronolog://127.0.0.1:50051") as log:
            async with await log.acquire("events") as events:
                await events.record(b"something happened")
                async for update in await events.subscribe():
                    print(update)

    asyncio.run(main())

A cancelled wait loses no event of a replay or a subscription. After a cancelled recording the outcome is unknown.
"""

from __future__ import annotations

from typing import AsyncIterator, Awaitable, Generator, Iterable, Literal, Optional, Sequence, Union

from . import _native
from ._native import Closed, ClockSync, ConnectionFailed, Error, Event, Gap, Invalid, Receipt, Refused
from ._handles import Handle, Reader
from ._values import Collision, Durability, Range, Time, TimeSource, options_of, ranges_of, start_of, waits

__all__ = [
    "Chronicle", "Chronolog", "Closed", "ClockSync", "ConnectionFailed", "Error", "Event", "Gap", "Invalid",
    "Pending", "Range", "Receipt", "Refused", "Replay", "Subscription", "connect",
]


async def connect(
    url: str,
    *,
    user: Optional[str] = None,
    password: Optional[str] = None,
    database: Optional[str] = None,
    application_name: Optional[str] = None,
    connect_seconds: Optional[float] = None,
    retry_seconds: Optional[float] = None,
) -> Chronolog:
    """As `stratalog.connect`."""
    return Chronolog(await _native.connect(
        url, user=user, password=password, database=database, application_name=application_name,
        connect_seconds=connect_seconds, retry_seconds=retry_seconds,
    ))


class Chronolog:
    """As `stratalog.Chronolog`."""

    def __init__(self, native: _native.Chronolog) -> None:
        self._native = native

    async def __aenter__(self) -> Chronolog:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.disconnect()

    async def disconnect(self) -> None:
        """As `stratalog.Chronolog.disconnect`."""
        await self._native.disconnect()

    async def sync_clock(self) -> ClockSync:
        """As `stratalog.Chronolog.sync_clock`."""
        return await self._native.sync_clock()

    async def time_ns(self) -> int:
        """As `stratalog.Chronolog.time_ns`."""
        told = self._native.time_ns()
        return told[0] if told else (await self.sync_clock()).time_ns

    async def create(
        self,
        name: str,
        index: str = "1ns",
        *,
        collision: Optional[Collision] = None,
        time_source: Optional[TimeSource] = None,
        **tags: str,
    ) -> None:
        """As `stratalog.Chronolog.create`."""
        await self._native.create(name, index, collision, time_source, options_of(tags))

    async def edit(
        self, name: str, *, new_name: Optional[str] = None, index: Optional[str] = None, **tags: str
    ) -> None:
        """As `stratalog.Chronolog.edit`."""
        await self._native.edit(name, new_name, index, options_of(tags))

    async def destroy(self, name: str, how: Literal["sync", "async", "force"] = "sync") -> None:
        """As `stratalog.Chronolog.destroy`."""
        await self._native.destroy(name, how)

    async def acquire(
        self,
        name: str,
        *,
        exclusive: bool = False,
        range: Optional[Range] = None,
        seconds: Optional[float] = None,
        lease: float = 30.0,
        wait: Union[bool, float] = True,
        new_ticks: int = 8,
        retry_collisions: bool = False,
        durability: Optional[Durability] = None,
    ) -> Chronicle:
        """As `stratalog.Chronolog.acquire`."""
        waiting, wait_seconds = waits(wait)
        return Chronicle(await self._native.acquire(
            name, exclusive=exclusive, range=range._native if range else None, time=seconds, lease=lease, wait=waiting,
            wait_seconds=wait_seconds, new_ticks=new_ticks, retry_collisions=retry_collisions, durability=durability,
        ))

    async def execute(self, sql: str) -> int:
        """As `stratalog.Chronolog.execute`."""
        return await self._native.execute(sql)


class Chronicle(Handle):
    """As `stratalog.Chronicle`."""

    async def __aenter__(self) -> Chronicle:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.release()

    async def record(self, payload: bytes) -> Receipt:
        """As `stratalog.Chronicle.record`."""
        return await self._native.record(payload)

    async def record_batch(self, payloads: Iterable[bytes]) -> list[Receipt]:
        """As `stratalog.Chronicle.record_batch`."""
        return await self._native.record_batch(list(payloads))

    async def append(self, payload: bytes) -> Pending:
        """As `stratalog.Chronicle.append`; await the `Pending` for its receipt."""
        return Pending(await self._native.append(payload))

    async def flush(self) -> int:
        """As `stratalog.Chronicle.flush`."""
        return await self._native.flush()

    async def playback(self, count: int = 1) -> list[Event]:
        """As `stratalog.Chronicle.playback`."""
        return await self._native.playback(count)

    async def replay(
        self, ranges: Union[Range, Sequence[Range], None] = None, constraint: Optional[str] = None
    ) -> Replay:
        """As `stratalog.Chronicle.replay`."""
        return Replay(await self._native.replay(ranges_of(ranges), constraint))

    async def read_record(self, gsn: int) -> Optional[Event]:
        """As `stratalog.Chronicle.read_record`."""
        return await self._native.read_record(gsn)

    async def subscribe(
        self,
        *,
        gsn: Optional[int] = None,
        time: Optional[Time] = None,
        live: bool = False,
        constraint: Optional[str] = None,
    ) -> Subscription:
        """As `stratalog.Chronicle.subscribe`."""
        return Subscription(await self._native.subscribe(*start_of(gsn, time, live), constraint))

    async def release(self) -> None:
        """As `stratalog.Chronicle.release`."""
        await self._native.release()

    async def release_in(self, seconds: float) -> None:
        """As `stratalog.Chronicle.release_in`."""
        await self._native.release_in(seconds)

    async def execute(self, sql: str) -> int:
        """As `stratalog.Chronicle.execute`."""
        return await self._native.execute(sql)


class Pending(Awaitable[Receipt]):
    """As `stratalog.Pending`: await the receipt once."""

    def __init__(self, native: _native.Call[Receipt]) -> None:
        self._native = native

    def __await__(self) -> Generator[object, None, Receipt]:
        return self._native.__await__()


class Replay(Reader[Event], AsyncIterator[Event]):
    """As `stratalog.Replay`."""

    async def __anext__(self) -> Event:
        if not self._waiting and not await self._native.more(None):
            raise StopAsyncIteration
        return self._taken()


class Subscription(Reader[Union[Event, Gap]], AsyncIterator[Union[Event, Gap]]):
    """As `stratalog.Subscription`."""

    async def __anext__(self) -> Union[Event, Gap]:
        update = await self.next()
        if update is None:
            raise StopAsyncIteration
        return update

    async def next(self, seconds: Optional[float] = None) -> Union[Event, Gap, None]:
        """As `stratalog.Subscription.next`."""
        if not self._waiting and not await self._native.more(seconds):
            return None
        return self._taken()
